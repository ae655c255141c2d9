"""Pull subscriptions (ADR-13): the pulls of a fetch, its end, and messages that are kept for the next fetch."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest
from tests.api.consuming.support import payloads
from tests.api.subscribing.support import open_pulls, side
from tests.fronts import FrontName, Ground, Profile, Spy, eventually, open_ground

from jetspark.aio.jetstream import PullSubscription
from jetspark.engine import pull_subscribe
from jetspark.errors import (
    BadPullRequestError,
    ConfigError,
    ConsumerDeletedError,
    ConsumerUnavailableError,
    DisconnectedError,
    LeadershipChangeError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NoMessageError,
    PullLimitExceededError,
    StatusError,
)
from jetspark.events import Disconnected
from jetspark.jetstream import ConsumerConfig
from jetspark.server import NatsServer

PULLS = "$JS.API.CONSUMER.MSG.NEXT.>"


async def bodies(spy: Spy) -> list[dict[str, Any]]:
    return [json.loads(message.payload) for message in await spy.settled()]


Make = Callable[..., Coroutine[Any, Any, PullSubscription]]


@pytest.fixture
def make(ground: Ground) -> Make:
    """Creates a stream with messages, and a pull subscription to it."""

    async def make(*stored: bytes, **config: Any) -> PullSubscription:
        stream = await ground.stream()
        await ground.fill(f"{stream.name}.a", *stored)
        return await ground.js.pull_subscribe(f"{stream.name}.a", "d", config=ConsumerConfig().replace(**config))

    return make


@pytest.fixture
def long_idle_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a fetch open if the server is slow between two messages."""
    monkeypatch.setattr(pull_subscribe, "_IDLE_TIMEOUT", 20.0)


@pytest.mark.conformance("PUL-01", "PUL-02", "PUL-03")
@pytest.mark.blocking
async def test_a_batch_is_requested_without_waiting_first_and_then_with_waiting(ground: Ground, make: Make) -> None:
    subscription = await make()
    spy = await ground.spy(PULLS)
    fetching = asyncio.create_task(subscription.fetch(5, 10))
    await spy.wait(2)
    await ground.fill(f"{subscription.stream}.a", b"1")
    assert payloads(await fetching) == [b"1"]
    first, second = await bodies(spy)
    assert first == {"batch": 5, "no_wait": True}
    assert (second["batch"], "no_wait" in second) == (5, False)
    assert 9.5e9 <= second["expires"] < 10e9


@pytest.mark.usefixtures("long_idle_timeout")
@pytest.mark.conformance("PUL-02")
async def test_r17_a_fetch_returns_available_messages_without_waiting_for_more(ground: Ground, make: Make) -> None:
    subscription = await make(*(b"%d" % number for number in range(7)))
    begin = time.monotonic()
    assert len(await subscription.fetch(10, 30)) == 7
    assert time.monotonic() - begin < 15


@pytest.mark.usefixtures("long_idle_timeout")
@pytest.mark.conformance("PUL-04")
@pytest.mark.profiles
async def test_pulls_use_an_inbox_of_the_subscription_with_their_own_token(ground: Ground, make: Make) -> None:
    subscription = await make(b"1", b"2", b"3")
    spy = await ground.spy(PULLS)
    assert payloads(await subscription.fetch(1)) == [b"1"]
    assert payloads(await subscription.fetch(5)) == [b"2", b"3"]
    fetching = asyncio.create_task(subscription.fetch(2, 10))
    await spy.wait(4)
    await ground.fill(f"{subscription.stream}.a", b"4")
    assert payloads(await fetching) == [b"4"]
    replies = [message.reply for message in await spy.settled()]
    assert len(replies) == len(set(replies)) == 4
    assert len({reply.rpartition(".")[0] for reply in replies}) == 1
    assert [body.get("no_wait", False) for body in await bodies(spy)] == [False, True, True, False]


@pytest.mark.usefixtures("long_idle_timeout")
@pytest.mark.conformance("PUL-04", "WIR-07")
async def test_concurrent_fetches_do_not_mix(ground: Ground, make: Make) -> None:
    subscription = await make(*(b"%d" % number for number in range(40)))
    results = await asyncio.gather(*(subscription.fetch(10, 5) for _ in range(4)))
    assert [len(each) for each in results] == [10, 10, 10, 10]
    assert sorted(int(payload) for each in results for payload in payloads(each)) == list(range(40))


@pytest.mark.conformance("PUL-05")
@pytest.mark.blocking
async def test_r16_a_fetch_without_messages_raises_and_never_returns_a_status(ground: Ground, make: Make) -> None:
    subscription = await make()
    for batch in (1, 10):
        begin = time.monotonic()
        with pytest.raises(NoMessageError) as caught:
            await subscription.fetch(batch, 0.3)
        assert isinstance(caught.value, TimeoutError)
        assert 0.2 < time.monotonic() - begin < 4
    assert subscription.delivered == 0


async def test_r27_each_fetch_has_its_own_timeout(make: Make) -> None:
    subscription = await make()
    for _ in range(2):
        begin = time.monotonic()
        with pytest.raises(NoMessageError):
            await subscription.fetch(1, 0.3)
        assert time.monotonic() - begin > 0.25


@pytest.mark.conformance("PUL-06")
async def test_a_fetch_waits_for_messages_that_another_pull_holds(ground: Ground, make: Make) -> None:
    subscription = await make(b"1", b"2", max_ack_pending=1)
    [first] = await subscription.fetch(1)
    inbox = ground.admin.new_inbox()
    other = await ground.admin.subscribe(inbox)
    holding = b'{"batch": 10, "expires": 60000000000}'
    await ground.admin.publish(f"$JS.API.CONSUMER.MSG.NEXT.{subscription.stream}.d", holding, reply=inbox)
    await open_pulls(subscription, 1)
    spy = await ground.spy(PULLS)
    fetching = asyncio.create_task(subscription.fetch(5, 10))
    await spy.wait(2)
    assert [body.get("no_wait", False) for body in await bodies(spy)] == [True, False]
    await other.unsubscribe()
    await ground.admin.flush()
    await first.ack()
    assert payloads(await fetching) == [b"2"]


@pytest.mark.conformance("PUL-07")
@pytest.mark.profiles
@pytest.mark.blocking
async def test_r18_late_messages_are_kept_and_returned_first(ground: Ground, make: Make) -> None:
    """R24, R25: a cancelled fetch loses nothing and raises CancelledError."""
    subscription = await make()
    if ground.front == "sync":
        pytest.skip("a blocking call is not cancelled from outside")
    got: list[bytes] = []
    cancelled = 0
    for number in range(10):
        fetching = asyncio.create_task(subscription.fetch(1, 10))
        await asyncio.sleep(0)
        await ground.admin.publish(f"{subscription.stream}.a", b"%d" % number)
        if number % 2:
            await ground.admin.flush()  # the message is in flight or has arrived
        fetching.cancel()
        try:
            got += payloads(await fetching)
        except asyncio.CancelledError:
            cancelled += 1
    assert cancelled
    while len(got) < 10:
        got += payloads(await subscription.fetch(10, 5))
    info = await subscription.consumer_info()
    assert sorted(got) == [b"%d" % number for number in range(10)]
    assert info.num_ack_pending == 10
    assert info.num_redelivered <= info.delivered.consumer_sequence - 10  # messages that the server could not deliver


@pytest.mark.conformance("PUL-07")
async def test_r20_a_late_status_of_another_pull_is_ignored(ground: Ground, make: Make) -> None:
    subscription = await make(b"1")
    spy = await ground.spy(PULLS)
    assert payloads(await subscription.fetch(1)) == [b"1"]
    fetching = asyncio.create_task(subscription.fetch(1, 10))
    await spy.wait(2)
    for line in (b"NATS/1.0 408 Request Timeout\r\n\r\n", b"NATS/1.0 409 Consumer Deleted\r\n\r\n"):
        await ground.inject(spy.messages[0].reply, line)
    await ground.fill(f"{subscription.stream}.a", b"2")
    assert payloads(await fetching) == [b"2"]


async def test_r18_a_pull_that_timed_out_takes_no_message(ground: Ground, make: Make) -> None:
    subscription = await make()
    for number in range(5):
        with pytest.raises(NoMessageError):
            await subscription.fetch(5, 0.05)
        await ground.fill(f"{subscription.stream}.a", b"%d" % number)
        assert payloads(await subscription.fetch(5, 5)) == [b"%d" % number]
    assert (await subscription.consumer_info()).num_redelivered == 0


@pytest.mark.conformance("PUL-08")
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("400 Bad Request", BadPullRequestError),
        ("409 Consumer Deleted", ConsumerDeletedError),
        ("503", ConsumerUnavailableError),  # the consumer exists
        ("499 Something", StatusError),
    ],
)
async def test_an_error_status_is_raised_at_once_or_after_the_messages(
    ground: Ground, make: Make, line: str, kind: type[StatusError]
) -> None:
    subscription = await make()
    spy = await ground.spy(PULLS)
    header = f"NATS/1.0 {line}\r\n\r\n".encode()
    fetching = asyncio.create_task(subscription.fetch(1, 10))
    await spy.wait(1)
    await ground.inject(spy.messages[0].reply, header)
    with pytest.raises(kind) as caught:
        await fetching
    assert type(caught.value) is kind


@pytest.mark.conformance("PUL-08")
async def test_r21_a_deleted_consumer_ends_an_open_fetch_and_the_next_one(ground: Ground, make: Make) -> None:
    subscription = await make()
    fetching = asyncio.create_task(subscription.fetch(5, 10))
    await open_pulls(subscription, 1)
    begin = time.monotonic()
    await ground.js.delete_consumer(subscription.stream, "d")
    with pytest.raises(ConsumerDeletedError):
        await fetching
    for batch in (1, 5):
        with pytest.raises(NoConsumerResponseError, match="removed after inactive_threshold") as caught:
            await subscription.fetch(batch, 5)
        assert type(caught.value) is NoConsumerResponseError
    assert time.monotonic() - begin < 8


@pytest.mark.conformance("PUL-08")
@pytest.mark.parametrize(
    ("config", "batch", "word"),
    [
        ({"max_batch": 2}, 10, "MaxRequestBatch"),
        ({"max_expires": timedelta(seconds=1)}, 1, "MaxRequestExpires"),
    ],
)
async def test_r22_an_exceeded_limit_of_the_consumer_is_named(
    make: Make, config: dict[str, Any], batch: int, word: str
) -> None:
    subscription = await make(**config)
    with pytest.raises(PullLimitExceededError, match=word):
        await subscription.fetch(batch, 5)


@pytest.mark.conformance("PUL-08")
async def test_an_error_after_messages_is_raised_by_the_next_fetch(
    ground: Ground, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_subscribe, "_IDLE_TIMEOUT", 30.0)  # so that the status comes before the end
    subscription = await make(b"1", b"2", max_ack_pending=1)
    spy, inboxes = await ground.spy(PULLS), await ground.spy(f"{ground.nc.new_inbox().split('.')[0]}.>")
    fetching = asyncio.create_task(subscription.fetch(5, 10))
    [pull] = await spy.wait(1)
    await eventually(lambda: f"{subscription.stream}.a" in inboxes.subjects, what="the first message")
    await ground.inject(pull.reply, b"NATS/1.0 409 Leadership Change\r\n\r\n")
    [first] = await fetching
    assert first.payload == b"1"
    with pytest.raises(LeadershipChangeError):
        await subscription.fetch(5, 10)


async def test_a_fetch_returns_without_messages_above_the_ack_limit(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_subscribe, "_IDLE_TIMEOUT", 0.8)  # a server may be slow between the two messages
    subscription = await make(b"1", b"2", b"3", max_ack_pending=2)
    begin = time.monotonic()
    assert payloads(await subscription.fetch(5, 10)) == [b"1", b"2"]
    assert time.monotonic() - begin < 8


@pytest.mark.conformance("PUL-09")
async def test_the_server_drops_a_pull_without_interest(ground: Ground, make: Make) -> None:
    subscription = await make(max_waiting=2)
    if ground.front == "sync":
        with pytest.raises(NoMessageError):
            await subscription.fetch(1, 0.2)
    else:
        for _ in range(4):
            fetching = asyncio.create_task(subscription.fetch(1, 300))  # open for longer than this test waits
            await open_pulls(subscription, 1)
            fetching.cancel()
            await asyncio.wait([fetching])
            await open_pulls(subscription, 0)
    await open_pulls(subscription, 0)
    await ground.fill(f"{subscription.stream}.a", b"1")
    assert payloads(await subscription.fetch(1)) == [b"1"]


@pytest.mark.conformance("PUL-10")
async def test_a_pull_above_max_waiting_is_refused_or_noticed_by_missed_heartbeats(make: Make) -> None:
    subscription = await make(max_waiting=1)
    first = asyncio.create_task(subscription.fetch(1, 30))
    await open_pulls(subscription, 1)
    with pytest.raises(PullLimitExceededError, match="MaxWaiting"):
        await subscription.fetch(1, 5)
    begin = time.monotonic()
    with pytest.raises(MissedHeartbeatError):
        await subscription.fetch(1, 30, 0.2)
    assert time.monotonic() - begin < 15
    await subscription.unsubscribe()
    await asyncio.wait([first])
    assert first.exception() is not None


@pytest.mark.conformance("PUL-01", "PUL-11")
@pytest.mark.parametrize("arguments", [(0,), (-1,), (1, 0), (1, -1.0), (1, 1.0, 0.5), (5, 1.0, 0.6)], ids=str)
async def test_an_invalid_fetch_is_refused_before_any_request(
    ground: Ground, make: Make, arguments: tuple[Any, ...]
) -> None:
    subscription = await make()
    spy = await ground.spy(PULLS)
    with pytest.raises(ConfigError):
        await subscription.fetch(*arguments)
    assert await spy.settled() == []


@pytest.mark.conformance("PUL-11")
async def test_heartbeats_keep_a_waiting_fetch_alive(ground: Ground, make: Make) -> None:
    subscription = await make()
    spy = await ground.spy(PULLS)
    fetching = asyncio.create_task(subscription.fetch(1, 10, 0.5))
    await spy.wait(1)
    await asyncio.sleep(1.3)  # longer than the heartbeat timeout
    await ground.fill(f"{subscription.stream}.a", b"1")
    assert payloads(await fetching) == [b"1"]
    assert (await bodies(spy))[0]["idle_heartbeat"] == 500_000_000


async def test_r19_the_first_message_ends_a_fetch_without_a_timeout(ground: Ground, make: Make) -> None:
    subscription = await make()
    spy = await ground.spy(PULLS)
    fetching = asyncio.create_task(subscription.fetch(10, None))
    await spy.wait(2)
    assert (await bodies(spy))[1]["expires"] == 30_000_000_000
    await ground.fill(f"{subscription.stream}.a", b"1")
    assert payloads(await fetching) == [b"1"]


@pytest.mark.conformance("PUL-12")
async def test_a_lost_session_ends_a_fetch_without_messages_at_once(
    front: FrontName, profile: Profile, no_leaks: None
) -> None:
    """R1: a pull ends with its connection."""
    with NatsServer(config=profile.config) as server:
        async with open_ground(front, profile, server) as ground, side(ground, reconnect_wait=0.05) as own:
            stream = await ground.stream(storage="file")
            subscription = await own.js.pull_subscribe(f"{stream.name}.a", "d")
            fetching = asyncio.create_task(subscription.fetch(5, 30))
            await open_pulls(subscription, 1)
            begin = time.monotonic()
            server.kill()
            await own.events.wait(Disconnected)
            with pytest.raises(DisconnectedError):
                await fetching
            assert time.monotonic() - begin < 15
            again = asyncio.create_task(subscription.fetch(5, 30))
            server.start()
            async with side(ground) as other:
                await other.nc.request(f"{stream.name}.a", b"1")
            assert payloads(await again) == [b"1"]
