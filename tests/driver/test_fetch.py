"""Fetches of a consumer handle: one pull each, and its end."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.fetching import handle, payloads
from tests.driver.jetstream import SILENCE, Answer, ConsumerScript, JetStreamScript, refusal
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark.errors import (
    ConnectionClosedError,
    ConsumerDeletedError,
    ConsumerUnavailableError,
    DisconnectedError,
    Error,
    LeadershipChangeError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NoMessageError,
    PullLimitExceededError,
    RequestTimeoutError,
)


@pytest.mark.conformance("FET-01")
async def test_a_fetch_ends_when_it_is_full(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(3))
    await clock.until(1)
    worker.pull.fill(2)
    await clock.until(2)
    assert not fetching.done()
    worker.pull.fill(1)
    assert payloads(await fetching) == [b"1", b"2", b"3"]
    assert clock.now == 2.0
    await clock.settle()
    assert not worker.pull.heard
    assert worker.pull.fields == {"batch": 3, "expires": 30_000_000_000}


@pytest.mark.conformance("FET-09")
async def test_next_returns_the_message_of_its_pull(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    waiting = asyncio.create_task(consumer.next(3))
    await clock.until(1)
    worker.pull.fill(1)
    assert (await waiting).payload == b"1"
    assert clock.now == 1.0
    assert worker.pull.fields == {"batch": 1, "expires": 3_000_000_000}


@pytest.mark.parametrize("status", ["408 Request Timeout", "404 No Messages", "409 Batch Completed"])
async def test_a_fetch_returns_its_messages_when_its_pull_ends(
    world: World, worker: ConsumerScript, clock: Clock, status: str
) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(10, timeout=5))
    await clock.until(1)
    worker.pull.fill(2)
    worker.pull.status(status)
    batch = await fetching
    assert payloads(batch) == [b"1", b"2"]
    assert batch.error is None
    assert clock.now == 1.0


@pytest.mark.conformance("FET-04")
async def test_a_fetch_from_a_silent_server_ends_a_second_after_its_expiry(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    assert await consumer.fetch(10, timeout=5) == []
    assert clock.now == 6.0


async def test_a_fetch_without_wait_gives_the_server_five_seconds_to_answer(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    with pytest.raises(RequestTimeoutError, match="no answer within 5 s"):
        await consumer.fetch_no_wait(10)
    assert clock.now == 5.0
    assert worker.pull.fields == {"batch": 10, "no_wait": True}


@pytest.mark.conformance("FET-08")
async def test_a_fetch_without_wait_returns_available_messages(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch_no_wait(10))
    await clock.settle()
    worker.pull.fill(2)
    worker.pull.status("404 No Messages")
    assert payloads(await fetching) == [b"1", b"2"]
    assert clock.now == 0.0


@pytest.mark.conformance("FET-09")
async def test_next_without_a_message_times_out(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    waiting = asyncio.create_task(consumer.next(3))
    await clock.until(3)
    worker.pull.status("408 Request Timeout")
    with pytest.raises(NoMessageError, match="within 3 s"):
        await waiting
    assert clock.now == 3.0


@pytest.mark.conformance("FET-05")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("409 Consumer Deleted", ConsumerDeletedError),
        ("409 Leadership Change", LeadershipChangeError),
        ("409 Exceeded MaxRequestBatch of 2", PullLimitExceededError),
        ("503", NoConsumerResponseError),
    ],
)
async def test_an_error_is_raised_after_the_messages(
    world: World, worker: ConsumerScript, clock: Clock, status: str, kind: type[Error]
) -> None:
    consumer = await handle(world)
    empty = asyncio.create_task(consumer.fetch(10))
    await clock.settle()
    worker.pull.status(status)
    with pytest.raises(kind):
        await empty
    some = asyncio.create_task(consumer.fetch(10))
    await clock.settle()
    worker.pull.fill(1)
    worker.pull.status(status)
    batch = await some
    assert payloads(batch) == [b"1"]
    assert isinstance(batch.error, kind)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal(404, 10014, "consumer not found"), NoConsumerResponseError),
        (refusal(503, 10008, "JetStream system temporarily unavailable"), ConsumerUnavailableError),
        (SILENCE, ConsumerUnavailableError),
    ],
)
async def test_a_pull_that_nobody_answers_says_whether_the_consumer_is_missing(
    world: World, worker: ConsumerScript, script: JetStreamScript, clock: Clock, answer: Answer, kind: type[Error]
) -> None:
    consumer = await handle(world)
    script.answer("CONSUMER.INFO.>", answer)
    fetching = asyncio.create_task(consumer.fetch(10, timeout=3))
    await clock.settle()
    worker.pull.status("503")
    with pytest.raises(NoConsumerResponseError) as caught:
        await fetching
    assert type(caught.value) is kind
    assert clock.now <= 4


@pytest.mark.conformance("FET-06")
async def test_two_missed_heartbeats_end_a_fetch(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(10, timeout=30, idle_heartbeat=2))
    await clock.until(3)
    worker.pull.heartbeat()
    with pytest.raises(MissedHeartbeatError):
        await fetching
    assert clock.now == 7.0


async def test_a_fetch_without_a_timeout_pulls_repeatedly(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(1, timeout=None, idle_heartbeat=15))
    for number in range(1, 5):
        await clock.until(30 * number - 15)
        worker.pull.heartbeat()
        await clock.until(30 * number)
        worker.pull.status("408 Request Timeout")
    await clock.until(125)
    assert [pull.at for pull in worker.pulls] == [0.0, 30.0, 60.0, 90.0, 120.0]
    worker.pull.fill(1)
    assert payloads(await fetching) == [b"1"]


@pytest.mark.conformance("REC-08")
async def test_a_lost_session_ends_a_fetch_with_its_messages(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(10))
    await clock.until(1)
    worker.pull.fill(2)
    await clock.settle()
    server.session.reset()
    batch = await fetching
    assert payloads(batch) == [b"1", b"2"]
    assert isinstance(batch.error, DisconnectedError)
    empty = asyncio.create_task(consumer.fetch(10))
    await clock.until(2)
    server.session.reset()
    with pytest.raises(DisconnectedError):
        await empty
    assert clock.now == 2.0


async def test_a_fetch_without_a_session_pulls_for_the_rest_of_its_time(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world, reconnect_wait=4, reconnect_wait_max=4)
    fix_jitter(consumer._core.connection, 0)
    server.down()
    await clock.settle()
    fetching = asyncio.create_task(consumer.fetch(2, timeout=10))
    await clock.until(1)
    server.up()
    await clock.until(5)
    assert worker.pull.at == 4.0
    assert worker.pull.fields["expires"] == 6_000_000_000
    worker.pull.fill(2)
    assert payloads(await fetching) == [b"1", b"2"]


async def test_a_fetch_that_never_gets_a_session_times_out(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    server.down()
    await clock.settle()
    with pytest.raises(DisconnectedError, match="no connection in time"):
        await consumer.fetch(2, timeout=10)
    assert clock.now == 11.0
    server.up()
    await clock.until(20)
    assert not worker.pulls


async def test_close_of_the_connection_ends_a_fetch(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(2))
    await clock.settle()
    await consumer._core.connection.close()
    with pytest.raises(ConnectionClosedError):
        await fetching
