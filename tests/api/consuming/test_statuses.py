"""Every status of a pull on a real server: its effect on a fetch and on consume (STA-01 to STA-21)."""

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
    consumer_of,
    max_refused_pulls,
    numbered,
    payloads,
    pull_bodies,
    spy_on_pulls,
    take,
    wait_for_deliveries,
    wait_for_open_pulls,
)
from tests.connection.support import TEST_TIMEOUT, Proxy
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
async def test_heartbeats_only_reset_the_timer(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    reported = Warnings()
    async with consumer.consume(timeout=30, idle_heartbeat=0.6, on_error=reported.add) as messages:
        fetching = asyncio.create_task(consumer.fetch(1, timeout=1.5, idle_heartbeat=0.6))
        with pytest.raises(TimeoutError):
            await take(messages, 1, timeout=1.5)
        assert await fetching == []  # two of them arrived, and no error in twice the time
        assert messages.pending == (0, 0)
    assert reported.errors == []


@pytest.mark.conformance("STA-02")
async def test_a_pull_ignores_a_flow_control_request(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    async with injected(ground, consumer, b"100 FlowControl Request") as (fetching, reported):
        await ground.fill(f"{consumer.stream_name}.a", b"0", b"1")
        assert payloads(await fetching) == [b"0"]
        assert reported.errors == []


@pytest.mark.conformance("STA-03", "FET-05")
async def test_a_bad_request_ends_a_fetch_with_its_error(ground: Ground) -> None:
    consumer = await consumer_of(ground, priority_groups=["g"], priority_policy="overflow")
    consumer.cached_info.config.priority_groups = ["g", "unknown"]  # otherwise it would not be sent
    with pytest.raises(BadPullRequestError, match="Invalid Priority Group"):
        await consumer.fetch(1, group="unknown")


@pytest.mark.conformance("STA-04", "FET-05")
async def test_no_messages_ends_a_fetch_without_error_and_consume_continues(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    assert await consumer.fetch_no_wait(1) == []
    await check_consume_continues(ground, consumer, b"404 No Messages", quiet=True)


@pytest.mark.conformance("STA-05", "FET-05")
async def test_a_timeout_status_ends_a_fetch_without_error(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    batch = await consumer.fetch(2, timeout=0.3)
    assert (payloads(batch), batch.error) == ([b"0"], None)
    with pytest.raises(NoMessageError):
        await consumer.next(0.1)


@pytest.mark.conformance("STA-06", "FET-05")
async def test_requests_pending_ends_a_fetch_without_error_and_consume_continues(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=5, max_ack_pending=1)
    stalled = asyncio.create_task(consumer.fetch(10, timeout=30))
    await wait_for_deliveries(ground, consumer, 1)
    assert await consumer.fetch_no_wait(5) == []
    await check_consume_continues(ground, await consumer_of(ground), b"408 Requests Pending", quiet=True)
    await ground.admin_js.delete_consumer(consumer.stream_name, consumer.name)
    assert (await stalled).error is not None


@pytest.mark.conformance("STA-07", "FET-05")
async def test_expired_interest_ends_a_fetch_without_error_and_consume_continues(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    await check_fetch_ends_without_error(ground, consumer, b"408 Interest Expired")
    await check_consume_continues(ground, await consumer_of(ground), b"408 Interest Expired", quiet=True)


@pytest.mark.conformance("STA-08", "FET-05")
async def test_a_message_that_does_not_fit_ends_a_fetch_without_error(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, size=500)
    batch = await consumer.fetch_bytes(100, timeout=5)
    assert (batch, batch.error) == ([], None)


@pytest.mark.conformance("STA-09", "FET-05")
async def test_batch_completed_ends_a_fetch_without_error_and_consume_continues(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    assert payloads(await consumer.fetch(1, max_bytes=1000, timeout=5)) == [b"0"]
    await check_consume_continues(ground, consumer, b"409 Batch Completed", quiet=True)


LIMITS = [
    pytest.param(
        {"max_batch": 10}, {"max_messages": 11}, "MaxRequestBatch of 10", marks=pytest.mark.conformance("STA-10")
    ),
    pytest.param(
        {"max_expires": timedelta(seconds=1)},
        {"max_messages": 1, "timeout": 2},
        "MaxRequestExpires of 1s",
        marks=pytest.mark.conformance("STA-11"),
    ),
    pytest.param(
        {"max_bytes": 1000}, {"max_bytes": 1001}, "MaxRequestMaxBytes of 1000", marks=pytest.mark.conformance("STA-12")
    ),
]


@pytest.mark.conformance("FET-05")
@pytest.mark.parametrize(("config", "options", "text"), LIMITS)
async def test_r22_an_exceeded_limit_of_the_consumer_is_named(
    ground: Ground, config: dict[str, Any], options: dict[str, Any], text: str
) -> None:
    """STA-10 to STA-12: an error of the fetch and a warning of consume, without a busy loop (R22)."""
    consumer = await consumer_of(ground, messages=1, **config)
    with pytest.raises(PullLimitExceededError, match=text):
        await consumer.fetch(**options)
    spy = await spy_on_pulls(ground)
    reported = Warnings()
    begin = time.monotonic()
    async with consumer.consume(on_error=reported.add, **options):
        await reported.wait(PullLimitExceededError, 2)
    assert text in str(reported.errors[0])
    assert len(await spy.settled()) <= max_refused_pulls(begin)


@pytest.mark.conformance("STA-12")
async def test_too_many_pulls_are_refused(ground: Ground) -> None:
    consumer = await consumer_of(ground, max_waiting=1)
    other = asyncio.create_task(consumer.fetch(1))
    await wait_for_open_pulls(ground, consumer, 1)
    with pytest.raises(PullLimitExceededError, match="MaxWaiting"):
        await consumer.next(5)
    await ground.fill(f"{consumer.stream_name}.a", b"0")
    assert payloads(await other) == [b"0"]


@pytest.mark.conformance("STA-17", "FET-05")
@pytest.mark.blocking
async def test_a_wrong_pin_id_ends_a_fetch_without_error(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, **PINNED)
    assert len(await consumer.fetch(1, group="g")) == 1
    fetching = asyncio.create_task(consumer.fetch(1, group="g", timeout=LONG))
    await wait_for_open_pulls(ground, consumer, 1)
    await consumer.unpin("g")
    await ground.fill(f"{consumer.stream_name}.a", b"1")
    async with asyncio.timeout(TEST_TIMEOUT):
        batch = await fetching
    assert (batch, batch.error) == ([], None)
    assert payloads(await consumer.fetch(1, group="g", timeout=5)) == [b"1"]


@pytest.mark.conformance("STA-18", "FET-05")
async def test_an_invalid_pin_id_ends_a_fetch_without_error_and_is_dropped(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2, **PINNED)
    assert len(await consumer.fetch(1, group="g")) == 1
    await consumer.unpin("g")
    other = await ground.js.consumer(consumer.stream_name, consumer.name)
    assert len(await other.fetch(1, group="g", timeout=5)) == 1  # this client is pinned now
    async with asyncio.timeout(TEST_TIMEOUT):
        batch = await consumer.fetch(1, group="g", timeout=LONG)
    assert (batch, batch.error) == ([], None)
    spy = await spy_on_pulls(ground)
    assert await consumer.fetch(1, group="g", timeout=0.1) == []
    await spy.settled()
    assert "id" not in pull_bodies(spy)[0]


@pytest.mark.conformance("STA-20", "FET-05", "ALG-06")
async def test_no_responders_is_an_error_of_a_fetch_and_a_delayed_warning_of_consume(ground: Ground) -> None:
    consumer = await consumer_of(ground, durable_name="d")
    async with Proxy(ground.server.port) as proxy:
        connection = await connect(ground.front, proxy.url, **ground.profile.options)
        handle = await connection.jetstream(domain=ground.profile.domain).consumer(consumer.stream_name, "d")
        await ground.admin_js.delete_consumer(consumer.stream_name, "d")
        with pytest.raises(NoConsumerResponseError):
            await handle.next(5)
        reported = Warnings()
        before = proxy.said.count(b".MSG.NEXT.")
        begin = time.monotonic()
        async with handle.consume(on_error=reported.add) as messages:
            await reported.wait(NoConsumerResponseError, 2)
            assert proxy.said.count(b".MSG.NEXT.") - before <= max_refused_pulls(begin)
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
async def test_errors_that_end_a_fetch_are_warnings_of_consume(
    ground: Ground, status: bytes, kind: type[Error]
) -> None:
    consumer = await consumer_of(ground)
    async with injected(ground, consumer, status) as (fetching, reported):
        with pytest.raises(kind, match=status[4:].decode()):
            await fetching
        await reported.wait(kind)
    unknown = status in {b"499 Foo", b"409 Something New"}
    await check_consume_continues(ground, await consumer_of(ground), status, quiet=False, again=not unknown)


@pytest.mark.conformance("STA-16")
@pytest.mark.parametrize("front", ["aio", "sync"])
async def test_a_server_that_shuts_down_ends_a_fetch_with_its_error(front: FrontName) -> None:
    with NatsServer() as server:
        async with open_ground(front, PROFILES["default"], server) as ground:
            consumer = await consumer_of(ground)
            fetching = asyncio.create_task(consumer.fetch(1))
            await wait_for_open_pulls(ground, consumer, 1)
            server.stop()
            with pytest.raises(ConnectionError):  # the status or the end of the socket, whichever comes first
                await fetching


@pytest.mark.conformance("STA-13")
@pytest.mark.slow
@pytest.mark.matrix
async def test_r2_consume_continues_soon_after_a_change_of_the_leader(cluster: NatsCluster, front: FrontName) -> None:
    """Consume pulls again at once, three times, so that the next message arrives soon (R2)."""
    async with open_ground(front, PROFILES["default"], cluster[0]) as ground:
        stream = await ground.stream(num_replicas=3, storage="file")
        # A message that a leader has counted and not sent when it steps down is delivered again.
        consumer = await stream.create_consumer(durable_name="d", ack_wait=timedelta(seconds=4), timeout=30)
        reported = Warnings()
        loop = asyncio.get_running_loop()
        async with consumer.consume(on_error=reported.add) as messages:
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
                assert loop.time() - begin < 10.0  # not two heartbeats of 15 s
                await message.ack_sync()


@pytest.fixture(scope="module")
def cluster() -> Any:
    with NatsCluster(3) as cluster:
        yield cluster


class injected:  # noqa: N801 - reads as a function
    """Start a fetch and a consume that get a status (K-inject)."""

    def __init__(self, ground: Ground, consumer: Consumer, status: bytes) -> None:
        self._ground, self._consumer, self._status = ground, consumer, status

    async def __aenter__(self) -> tuple[asyncio.Task[Any], Warnings]:
        reported = Warnings()
        spy = await spy_on_pulls(self._ground)
        self._fetching = asyncio.create_task(self._consumer.fetch(1, timeout=LONG))
        await spy.wait(1)
        self._context = self._consumer.consume(on_error=reported.add)
        for pull in list(await spy.wait(2)):
            await self._ground.inject(pull.reply, b"NATS/1.0 %b\r\n\r\n" % self._status)
        return self._fetching, reported

    async def __aexit__(self, *exception: object) -> None:
        await self._context.stop()
        self._fetching.cancel()


async def check_fetch_ends_without_error(ground: Ground, consumer: Consumer, status: bytes) -> None:
    """Check that a fetch with the status returns no message and no error."""
    async with injected(ground, consumer, status) as (fetching, reported):
        async with asyncio.timeout(TEST_TIMEOUT):
            batch = await fetching
        assert (batch, batch.error) == ([], None)
        assert reported.errors == []


async def check_consume_continues(
    ground: Ground, consumer: Consumer, status: bytes, *, quiet: bool, again: bool = True
) -> None:
    """Check that a consume with the status pulls again or keeps its pull, and that every message arrives."""
    spy = await spy_on_pulls(ground, consumer)
    reported = Warnings()
    async with consumer.consume(timeout=LONG, on_error=reported.add) as messages:
        [pull] = await spy.wait(1)
        await ground.inject(pull.reply, b"NATS/1.0 %b\r\nNats-Pending-Messages: 500\r\n\r\n" % status)
        if again:
            await spy.wait(2)
        else:
            await reported.wait(StatusError)
            await spy.settled()
        assert [body["batch"] for body in pull_bodies(spy)] == [500] * (1 + again)
        await ground.fill(f"{consumer.stream_name}.a", *numbered(0, 20))
        assert payloads(await take(messages, 20)) == numbered(0, 20)
    if quiet:
        assert reported.errors == []
    else:
        await reported.wait(Error)
    await spy.close()
