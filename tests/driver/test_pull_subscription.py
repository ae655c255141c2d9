"""Fetches of a pull subscription: available messages, or else the first message; and messages for the next fetch."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.frames import Ping
from tests.driver.jetstream import SILENCE, Answer, ConsumerScript, JetStreamScript, refusal
from tests.driver.pulling import bound, payloads
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    ConsumerDeletedError,
    ConsumerUnavailableError,
    DisconnectedError,
    Error,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NoMessageError,
    SubscriptionClosedError,
)


@pytest.mark.conformance("PUL-02")
async def test_a_batch_is_requested_without_waiting_first_and_then_with_waiting(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(10, timeout=5))
    await clock.settle()
    assert worker.pull.fields == {"batch": 10, "no_wait": True}
    worker.pull.status("404 No Messages")
    await clock.settle()
    assert worker.pull.fields == {"batch": 10, "expires": 4_900_000_000}
    await clock.until(2)
    worker.pull.fill(1)
    assert payloads(await fetching) == [b"1"]
    assert clock.now == 2.0


@pytest.mark.conformance("PUL-02")
async def test_available_messages_are_returned_at_once(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(10))
    await clock.settle()
    worker.pull.fill(3)
    worker.pull.status("404 No Messages")
    assert payloads(await fetching) == [b"1", b"2", b"3"]
    assert clock.now == 0.0
    assert len(worker.pulls) == 1
    await clock.settle()
    assert len(server.session.of(Ping)) == 1  # that pull is over: the fetch waits for no more messages


async def test_a_partly_served_pull_is_over_after_a_quarter_of_a_second(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(10))
    await clock.until(1)
    worker.pull.fill(3)  # without a status: max_ack_pending is reached
    assert payloads(await fetching) == [b"1", b"2", b"3"]
    assert clock.now == 1.25


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("seconds", [0.5, 5.0])
@pytest.mark.conformance("PUL-05")
async def test_a_fetch_without_messages_times_out(
    world: World, worker: ConsumerScript, clock: Clock, batch: int, seconds: float
) -> None:
    subscription = await bound(world)
    with pytest.raises(NoMessageError, match=f"within {seconds:g} s"):
        await subscription.fetch(batch, timeout=seconds)
    assert clock.now == seconds


async def test_without_a_timeout_one_pull_follows_the_other(world: World, worker: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(1, timeout=None))
    for number in range(1, 4):
        await clock.until(30 * number)
        worker.pull.status("408 Request Timeout")
    await clock.until(100)
    assert [pull.at for pull in worker.pulls] == [0.0, 30.0, 60.0, 90.0]
    worker.pull.fill(1)
    assert payloads(await fetching) == [b"1"]


@pytest.mark.conformance("PUL-10")
async def test_two_missed_heartbeats_end_a_fetch(world: World, worker: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(1, timeout=30, idle_heartbeat=2))
    await clock.until(3)
    worker.pull.heartbeat()
    with pytest.raises(MissedHeartbeatError):
        await fetching
    assert clock.now == 7.0


@pytest.mark.conformance("PUL-08")
async def test_an_error_after_messages_is_raised_by_the_next_fetch(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(10))
    await clock.settle()
    worker.pull.fill(1)
    worker.pull.status("409 Consumer Deleted")
    assert payloads(await fetching) == [b"1"]
    with pytest.raises(ConsumerDeletedError):
        await subscription.fetch(10)
    with pytest.raises(NoMessageError):
        await subscription.fetch(10, timeout=1)


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize(
    ("answer", "kind", "seconds"),
    [
        (None, ConsumerUnavailableError, 0.0),
        (refusal(404, 10014, "consumer not found"), NoConsumerResponseError, 0.0),
        (refusal(404, 10059, "stream not found"), NoConsumerResponseError, 0.0),
        (refusal(503, 10008, "JetStream system temporarily unavailable"), ConsumerUnavailableError, 3.0),
        (SILENCE, ConsumerUnavailableError, 3.0),
    ],
    ids=["consumer", "no consumer", "no stream", "unavailable", "silence"],
)
async def test_a_pull_that_nobody_answers_says_whether_the_consumer_is_missing(
    world: World,
    worker: ConsumerScript,
    script: JetStreamScript,
    clock: Clock,
    batch: int,
    answer: Answer | None,
    kind: type[Error],
    seconds: float,
) -> None:
    subscription = await bound(world)
    if answer is not None:
        script.answer("CONSUMER.INFO.>", answer)
    fetching = asyncio.create_task(subscription.fetch(batch, timeout=3))
    await clock.settle()
    worker.pull.status("503")
    with pytest.raises(NoConsumerResponseError) as caught:
        await fetching
    assert type(caught.value) is kind
    assert clock.now == seconds


async def test_a_look_up_of_the_consumer_ends_with_the_subscription_and_with_the_session(
    world: World, server: MemoryServer, worker: ConsumerScript, script: JetStreamScript, clock: Clock
) -> None:
    for end in ("unsubscribe", "session"):
        subscription = await bound(world)
        script.answer("CONSUMER.INFO.>", SILENCE)
        fetching = asyncio.create_task(subscription.fetch(5, timeout=60))
        await clock.settle()
        worker.pull.status("503")
        await clock.settle()
        begin = clock.now
        if end == "unsubscribe":
            await subscription.unsubscribe()
        else:
            server.session.reset()
        with pytest.raises(SubscriptionClosedError if end == "unsubscribe" else DisconnectedError):
            await fetching
        assert clock.now == begin


@pytest.mark.conformance("PUL-06")
async def test_a_pull_refused_for_max_waiting_counts_as_one_without_messages(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(10))
    await clock.settle()
    worker.pull.status("408 Requests Pending")
    await clock.settle()
    assert len(worker.pulls) == 2
    worker.pull.fill(1)
    assert payloads(await fetching) == [b"1"]


@pytest.mark.conformance("PUL-12")
async def test_a_lost_session_fails_a_fetch_without_messages(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(10))
    await clock.until(1)
    server.session.reset()
    with pytest.raises(DisconnectedError):
        await fetching
    assert clock.now == 1.0


async def test_a_lost_session_ends_a_fetch_with_its_messages(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(10))
    await clock.settle()
    worker.pull.fill(2)
    await clock.settle()
    server.session.reset()
    assert payloads(await fetching) == [b"1", b"2"]


@pytest.mark.conformance("PUL-07")
async def test_a_late_status_of_an_earlier_pull_does_not_affect_the_next(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    subscription = await bound(world)
    with pytest.raises(NoMessageError):
        await subscription.fetch(1, timeout=1)
    worker.pull.status("409 Consumer Deleted")
    second = asyncio.create_task(subscription.fetch(1))
    await clock.advance(1)
    assert not second.done()
    worker.pull.fill(1)
    assert payloads(await second) == [b"1"]


@pytest.mark.conformance("PUL-09")
async def test_interest_ends_with_the_fetch(world: World, worker: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    with pytest.raises(NoMessageError):
        await subscription.fetch(1, timeout=1)
    await clock.settle()
    assert not worker.pull.heard


async def test_late_messages_go_to_the_next_fetch(world: World, worker: ConsumerScript, clock: Clock) -> None:
    world.net.latency = 0.1
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(2, timeout=1))
    await clock.advance(0.95)
    worker.pulls[-1].fill(1)
    with pytest.raises(NoMessageError):
        await fetching
    await clock.advance(0.2)
    assert subscription.pending_msgs == 1
    pulls = len(worker.pulls)
    assert payloads(await subscription.fetch(1)) == [b"1"]
    assert len(worker.pulls) == pulls


async def test_a_waiting_fetch_takes_messages_of_a_cancelled_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    first, second = (asyncio.create_task(subscription.fetch(5, timeout=60)) for _ in range(2))
    await clock.settle()
    first_pull, second_pull = worker.pulls
    first_pull.fill(2)
    second_pull.status("404 No Messages")
    await clock.settle()
    first.cancel()
    assert payloads(await second) == [b"1", b"2"]
    assert clock.now == 0.0


async def test_a_fetch_that_expires_without_a_session_is_never_sent(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    server.down()
    await clock.settle()
    with pytest.raises(NoMessageError):
        await subscription.fetch(1, timeout=2)
    assert clock.now == 2.0
    server.up()
    await clock.until(20)
    assert len(server.sessions) == 2
    assert not worker.pulls


async def test_messages_beyond_the_batch_of_a_fetch_go_to_the_next_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    subscription = await bound(world)
    first = asyncio.create_task(subscription.fetch(1, timeout=60))
    await clock.advance(1)
    second = asyncio.create_task(subscription.fetch(2, timeout=60))
    await clock.advance(1)
    worker.pull.status("404 No Messages")
    await clock.advance(1)
    worker.pulls[0].fill(1)
    await clock.advance(0.05)
    first.cancel()
    await clock.advance(0.06)  # its message was left, the second fetch took it, and its own pull ends
    worker.pull.fill(2)  # the server has not read that UNSUB
    assert payloads(await second) == [b"1", b"2"]
    assert payloads(await subscription.fetch(1)) == [b"3"]
    assert len(worker.pulls) == 3


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize("batch", [1, 3])
async def test_a_fetch_that_is_cancelled_anywhere_loses_no_message(
    world: World, worker: ConsumerScript, clock: Clock, batch: int, moment: Moment
) -> None:
    subscription = await bound(world)
    got: list[bytes] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1, lambda: worker.pull.fields.get("no_wait") and worker.pull.status("404 No Messages"))
        loop.call_later(2, lambda: worker.pull.heard and worker.pull.fill(1))

    async def fetch() -> None:
        got.extend(payloads(await subscription.fetch(batch, timeout=10)))

    async def check() -> None:
        await clock.advance(3)
        while len(got) < worker.stream_sequence:
            await fetch()
        assert got == [b"%d" % number for number in range(1, worker.stream_sequence + 1)]
        await clock.advance(1)
        assert len(subscription._core.connection.client.pings) == 0
        assert len(subscription._core.connection.client.subscriptions) <= 1  # the inbox of the requests

    assert await cancel_everywhere(fetch, check, moment, before=serve) >= 1


async def test_a_subscription_has_its_names_counters_and_consumer_info(
    world: World, script: JetStreamScript, worker: ConsumerScript, clock: Clock
) -> None:
    script.answer("CONSUMER.INFO.>", {**worker.info, "num_pending": 4})
    async with await bound(world) as subscription:
        names = (subscription.stream, subscription.consumer)
        assert (*names, subscription.created, subscription.initial_pending) == ("ORDERS", "worker", False, 4)
        fetching = asyncio.create_task(subscription.fetch(2))
        await clock.settle()
        worker.pull.fill(2)
        await fetching
        waiting = (subscription.pending_msgs, subscription.pending_bytes, subscription.pending)
        assert (*waiting, subscription.delivered, subscription.closed) == (0, 0, (0, 0), 2, False)
        assert (await subscription.consumer_info()).num_pending == 4
    assert subscription.closed
    async with subscription:  # it has ended; a second end is not an event
        pass
