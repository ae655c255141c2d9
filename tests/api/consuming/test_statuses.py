"""Every status of a pull on a real server: what it does to a fetch, and what to consume (STA-01 to STA-21)."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from tests.api.consuming.support import (
    LONG,
    PINNED,
    Warnings,
    arrived,
    consumer_of,
    numbered,
    paced,
    payloads,
    pull_bodies,
    spy_on_pulls,
    take,
    waiting,
)
from tests.connection.support import PATIENCE, Proxy
from tests.fronts import PROFILES, FrontName, Ground, connect, open_ground

from jetspark.aio.jetstream import Consumer
from jetspark.errors import (
    BadPullRequestError,
    Error,
    LeadershipChangeError,
    NoConsumerResponseError,
    NoMessageError,
    PullLimitExceededError,
    ServerShutdownError,
    StatusError,
)
from jetspark.server import NatsCluster, NatsServer


@pytest.mark.conformance("STA-01")
async def test_heartbeats_only_keep_the_timer_from_firing(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    told = Warnings()
    async with consumer.consume(expires=30, idle_heartbeat=2, on_error=told.tell) as messages:
        fetching = asyncio.create_task(consumer.fetch(1, expires=4.5, idle_heartbeat=2))
        with pytest.raises(TimeoutError):
            await take(messages, 1, timeout=4.5)
        assert await fetching == []  # two of them came, and no error for the silence of twice that time
        assert messages.pending == (0, 0)
    assert told.errors == []


@pytest.mark.conformance("STA-02")
async def test_a_flow_control_request_is_nothing_to_a_pull(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    async with injected(ground, consumer, b"100 FlowControl Request") as (fetching, told):
        await ground.fill(f"{consumer.stream_name}.a", b"0", b"1")
        assert payloads(await fetching) == [b"0"]
        assert told.errors == []


@pytest.mark.conformance("STA-03", "FET-05")
async def test_a_bad_request_ends_a_fetch_with_its_error(ground: Ground) -> None:
    consumer = await consumer_of(ground, priority_groups=["g"], priority_policy="overflow")
    consumer.cached_info.config.priority_groups = ["g", "unknown"]  # else it would not be sent
    with pytest.raises(BadPullRequestError, match="Invalid Priority Group"):
        await consumer.fetch(1, group="unknown")


@pytest.mark.conformance("STA-04", "FET-05")
async def test_no_messages_end_a_fetch_quietly_and_consume_pulls_on(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    assert await consumer.fetch_no_wait(1) == []
    await goes_on(ground, consumer, b"404 No Messages", quiet=True)


@pytest.mark.conformance("STA-05", "FET-05")
async def test_a_time_out_ends_a_fetch_quietly(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    batch = await consumer.fetch(2, expires=1)
    assert (payloads(batch), batch.error) == ([b"0"], None)
    with pytest.raises(NoMessageError):
        await consumer.next(0.1)


@pytest.mark.conformance("STA-06", "FET-05")
async def test_requests_pending_end_a_fetch_quietly_and_consume_pulls_on(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=5, max_ack_pending=1)
    stalled = asyncio.create_task(consumer.fetch(10, expires=30))
    await arrived(ground, consumer, 1)
    assert await consumer.fetch_no_wait(5) == []
    await goes_on(ground, await consumer_of(ground), b"408 Requests Pending", quiet=True)
    await ground.admin_js.delete_consumer(consumer.stream_name, consumer.name)
    assert (await stalled).error is not None


@pytest.mark.conformance("STA-07", "FET-05")
async def test_expired_interest_ends_a_fetch_quietly_and_consume_pulls_on(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    await ends_quietly(ground, consumer, b"408 Interest Expired")
    await goes_on(ground, await consumer_of(ground), b"408 Interest Expired", quiet=True)


@pytest.mark.conformance("STA-08", "FET-05")
async def test_a_message_that_does_not_fit_ends_a_fetch_quietly(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, size=500)
    batch = await consumer.fetch_bytes(100, expires=5)
    assert (batch, batch.error) == ([], None)


@pytest.mark.conformance("STA-09", "FET-05")
async def test_a_completed_batch_ends_a_fetch_quietly_and_consume_pulls_on(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    assert payloads(await consumer.fetch(1, max_bytes=1000, expires=5)) == [b"0"]
    await goes_on(ground, consumer, b"409 Batch Completed", quiet=True)


LIMITS = [
    pytest.param(
        {"max_batch": 10}, {"max_messages": 11}, "MaxRequestBatch of 10", marks=pytest.mark.conformance("STA-10")
    ),
    pytest.param(
        {"max_expires": timedelta(seconds=1)},
        {"max_messages": 1, "expires": 2},
        "MaxRequestExpires of 1s",
        marks=pytest.mark.conformance("STA-11"),
    ),
    pytest.param(
        {"max_bytes": 1000}, {"max_bytes": 1001}, "MaxRequestMaxBytes of 1000", marks=pytest.mark.conformance("STA-12")
    ),
]


@pytest.mark.conformance("FET-05")
@pytest.mark.parametrize(("config", "options", "text"), LIMITS)
async def test_r22_a_limit_of_the_consumer_is_named(
    ground: Ground, config: dict[str, Any], options: dict[str, Any], text: str
) -> None:
    """STA-10 to STA-12: an error of the fetch, a warning of consume, which does not spin (R22)."""
    consumer = await consumer_of(ground, messages=1, **config)
    with pytest.raises(PullLimitExceededError, match=text):
        await consumer.fetch(**options)
    spy = await spy_on_pulls(ground)
    told = Warnings()
    begin = time.monotonic()
    async with consumer.consume(on_error=told.tell, **options):
        await told.wait(PullLimitExceededError, 2)
    assert text in str(told.errors[0])
    assert len(await spy.settled()) <= paced(begin)


@pytest.mark.conformance("STA-12")
async def test_too_many_pulls_are_refused(ground: Ground) -> None:
    consumer = await consumer_of(ground, max_waiting=1)
    other = asyncio.create_task(consumer.fetch(1))
    await waiting(ground, consumer, 1)
    with pytest.raises(PullLimitExceededError, match="MaxWaiting"):
        await consumer.next(5)
    await ground.fill(f"{consumer.stream_name}.a", b"0")
    assert payloads(await other) == [b"0"]


@pytest.mark.conformance("STA-17", "FET-05")
@pytest.mark.blocking
async def test_a_wrong_pin_id_ends_a_fetch_quietly(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, **PINNED)
    assert len(await consumer.fetch(1, group="g")) == 1
    fetching = asyncio.create_task(consumer.fetch(1, group="g", expires=LONG))
    await waiting(ground, consumer, 1)
    await consumer.unpin("g")
    await ground.fill(f"{consumer.stream_name}.a", b"1")
    async with asyncio.timeout(PATIENCE):
        batch = await fetching
    assert (batch, batch.error) == ([], None)
    assert payloads(await consumer.fetch(1, group="g", expires=5)) == [b"1"]


@pytest.mark.conformance("STA-18", "FET-05")
async def test_a_pin_id_that_is_not_valid_any_more_ends_a_fetch_quietly_and_is_forgotten(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2, **PINNED)
    assert len(await consumer.fetch(1, group="g")) == 1
    await consumer.unpin("g")
    other = await ground.js.consumer(consumer.stream_name, consumer.name)
    assert len(await other.fetch(1, group="g", expires=5)) == 1  # is pinned now
    async with asyncio.timeout(PATIENCE):
        batch = await consumer.fetch(1, group="g", expires=LONG)
    assert (batch, batch.error) == ([], None)
    spy = await spy_on_pulls(ground)
    assert await consumer.fetch(1, group="g", expires=0.1) == []
    await spy.settled()
    assert "id" not in pull_bodies(spy)[0]


@pytest.mark.conformance("STA-20", "FET-05", "ALG-06")
@pytest.mark.profiles
async def test_nobody_there_is_an_error_of_a_fetch_and_a_paced_warning_of_consume(ground: Ground) -> None:
    consumer = await consumer_of(ground, durable_name="d")
    async with Proxy(ground.server.port) as proxy:
        connection = await connect(ground.front, proxy.url, **ground.profile.options)
        handle = await connection.jetstream(domain=ground.profile.domain).consumer(consumer.stream_name, "d")
        await ground.admin_js.delete_consumer(consumer.stream_name, "d")
        with pytest.raises(NoConsumerResponseError):
            await handle.next(5)
        told = Warnings()
        before = proxy.said.count(b".MSG.NEXT.")
        begin = time.monotonic()
        async with handle.consume(on_error=told.tell) as messages:
            await told.wait(NoConsumerResponseError, 3)
            assert proxy.said.count(b".MSG.NEXT.") - before <= paced(begin)
            await ground.admin_js.create_consumer(consumer.stream_name, durable_name="d")
            await ground.fill(f"{consumer.stream_name}.a", b"0")
            assert payloads(await take(messages, 1)) == [b"0"]
        await connection.close()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        pytest.param(b"409 Leadership Change", LeadershipChangeError, marks=pytest.mark.conformance("STA-13")),
        pytest.param(b"409 Server Shutdown", ServerShutdownError, marks=pytest.mark.conformance("STA-16")),
        pytest.param(b"412 Required Api Level", StatusError, marks=pytest.mark.conformance("STA-19")),
        pytest.param(b"499 Foo", StatusError, marks=pytest.mark.conformance("STA-21")),
        pytest.param(b"409 Something New", StatusError, marks=pytest.mark.conformance("STA-21")),
    ],
)
@pytest.mark.conformance("FET-05")
async def test_what_ends_a_fetch_with_an_error_is_a_warning_of_consume(
    ground: Ground, status: bytes, kind: type[Error]
) -> None:
    consumer = await consumer_of(ground)
    async with injected(ground, consumer, status) as (fetching, told):
        with pytest.raises(kind, match=status[4:].decode()):
            await fetching
        await told.wait(kind)
    unknown = status in {b"499 Foo", b"409 Something New"}
    await goes_on(ground, await consumer_of(ground), status, quiet=False, again=not unknown)


@pytest.mark.conformance("STA-16")
@pytest.mark.parametrize("front", ["aio", "sync"])
async def test_a_server_that_shuts_down_ends_a_fetch_with_its_error(front: FrontName) -> None:
    with NatsServer() as server:
        async with open_ground(front, PROFILES["default"], server) as ground:
            consumer = await consumer_of(ground)
            fetching = asyncio.create_task(consumer.fetch(1))
            await waiting(ground, consumer, 1)
            server.stop()
            with pytest.raises(ConnectionError):  # its word, or the end of the socket, whatever comes first
                await fetching


@pytest.mark.conformance("STA-13")
@pytest.mark.slow
@pytest.mark.matrix
async def test_r2_a_change_of_the_leader_is_survived_soon(cluster: NatsCluster, front: FrontName) -> None:
    """Consume pulls again at once, so that the next message comes within a moment, three times (R2)."""
    async with open_ground(front, PROFILES["default"], cluster[0]) as ground:
        stream = await ground.stream(num_replicas=3, storage="file")
        # What a leader has counted and not sent when it steps down is delivered again then.
        consumer = await stream.create_consumer(durable_name="d", ack_wait=timedelta(seconds=4), timeout=30)
        told = Warnings()
        loop = asyncio.get_running_loop()
        async with consumer.consume(on_error=told.tell) as messages:
            for number in range(3):
                await ground.fill(f"{stream.name}.a", b"%d" % number)
                [message] = await take(messages, 1)
                assert message.payload == b"%d" % number
                await message.ack_sync()
                await ground.admin.request(f"$JS.API.CONSUMER.LEADER.STEPDOWN.{stream.name}.d")
                begin = loop.time()
                await ground.fill(f"{stream.name}.a", b"after %d" % number)
                [message] = await take(messages, 1)
                assert message.payload == b"after %d" % number
                assert loop.time() - begin < 10.0  # not two heartbeats, of 15 s
                await message.ack_sync()


@pytest.fixture(scope="module")
def cluster() -> Any:
    with NatsCluster(3) as cluster:
        yield cluster


class injected:  # noqa: N801 - reads as a function
    """A fetch and a consume that got a status (K-inject)."""

    def __init__(self, ground: Ground, consumer: Consumer, status: bytes) -> None:
        self._ground, self._consumer, self._status = ground, consumer, status

    async def __aenter__(self) -> tuple[asyncio.Task[Any], Warnings]:
        told = Warnings()
        spy = await spy_on_pulls(self._ground)
        self._fetching = asyncio.create_task(self._consumer.fetch(1, expires=LONG))
        await spy.wait(1)
        self._context = self._consumer.consume(on_error=told.tell)
        for pull in list(await spy.wait(2)):
            await self._ground.inject(pull.reply, b"NATS/1.0 %b\r\n\r\n" % self._status)
        return self._fetching, told

    async def __aexit__(self, *exception: object) -> None:
        await self._context.stop()
        self._fetching.cancel()


async def ends_quietly(ground: Ground, consumer: Consumer, status: bytes) -> None:
    """A fetch that gets the status has nothing to say."""
    async with injected(ground, consumer, status) as (fetching, told):
        async with asyncio.timeout(PATIENCE):
            batch = await fetching
        assert (batch, batch.error) == ([], None)
        assert told.errors == []


async def goes_on(ground: Ground, consumer: Consumer, status: bytes, *, quiet: bool, again: bool = True) -> None:
    """A consume that gets the status pulls again, or goes on with the pull it has, and everything comes."""
    spy = await spy_on_pulls(ground, consumer)
    told = Warnings()
    async with consumer.consume(expires=LONG, on_error=told.tell) as messages:
        [pull] = await spy.wait(1)
        await ground.inject(pull.reply, b"NATS/1.0 %b\r\nNats-Pending-Messages: 500\r\n\r\n" % status)
        if again:
            await spy.wait(2)
        else:
            await told.wait(StatusError)
            await spy.settled()
        assert [body["batch"] for body in pull_bodies(spy)] == [500] * (1 + again)
        await ground.fill(f"{consumer.stream_name}.a", *numbered(0, 20))
        assert payloads(await take(messages, 20)) == numbered(0, 20)
    if quiet:
        assert told.errors == []
    else:
        await told.wait(Error)
    await spy.close()
