"""Fetches of a consumer's handle: one pull each, its end, and what is left by one for the next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import ConsumerScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark import aio
from jetspark.aio.jetstream import Consumer
from jetspark.errors import (
    ConnectionClosedError,
    ConsumerDeletedError,
    DisconnectedError,
    Error,
    LeadershipChangeError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NoMessageError,
    PullLimitExceededError,
    RequestTimeoutError,
)


async def handle(world: World, **options: Any) -> Consumer:
    """Connect, and get the handle of the worker."""
    return await (await world.connect(**options)).jetstream().consumer("ORDERS", "worker")


def payloads(batch: list[aio.Msg]) -> list[bytes]:
    """The payloads of a batch, which may raise its error behind the last one."""
    return [batch[place].payload for place in range(len(batch))]


async def test_a_fetch_ends_when_it_has_all(world: World, worker: ConsumerScript, clock: Clock) -> None:
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


@pytest.mark.parametrize("status", ["408 Request Timeout", "404 No Messages", "409 Batch Completed"])
async def test_a_fetch_returns_what_it_has_when_its_pull_ends(
    world: World, worker: ConsumerScript, clock: Clock, status: str
) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(10, expires=5))
    await clock.until(1)
    worker.pull.fill(2)
    worker.pull.status(status)
    batch = await fetching
    assert payloads(batch) == [b"1", b"2"]
    assert batch.error is None
    assert clock.now == 1.0


async def test_a_fetch_whose_server_says_nothing_ends_a_second_after_its_expiry(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    assert await consumer.fetch(10, expires=5) == []
    assert clock.now == 6.0


async def test_a_fetch_that_does_not_wait_gives_the_server_five_seconds_to_answer(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    with pytest.raises(RequestTimeoutError, match="no answer within 5 s"):
        await consumer.fetch_no_wait(10)
    assert clock.now == 5.0
    assert worker.pull.fields == {"batch": 10, "no_wait": True}


async def test_a_fetch_that_does_not_wait_takes_what_is_there(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch_no_wait(10))
    await clock.settle()
    worker.pull.fill(2)
    worker.pull.status("404 No Messages")
    assert payloads(await fetching) == [b"1", b"2"]
    assert clock.now == 0.0


async def test_next_without_a_message_says_so_in_time(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    waiting = asyncio.create_task(consumer.next(3))
    await clock.until(3)
    worker.pull.status("408 Request Timeout")
    with pytest.raises(NoMessageError, match="within 3 s"):
        await waiting
    assert clock.now == 3.0


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("409 Consumer Deleted", ConsumerDeletedError),
        ("409 Leadership Change", LeadershipChangeError),
        ("409 Exceeded MaxRequestBatch of 2", PullLimitExceededError),
        ("503", NoConsumerResponseError),
    ],
)
async def test_an_error_is_raised_behind_the_messages(
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


async def test_two_heartbeats_of_silence_end_a_fetch(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(10, expires=30, idle_heartbeat=2))
    await clock.until(3)
    worker.pull.heartbeat()
    with pytest.raises(MissedHeartbeatError):
        await fetching
    assert clock.now == 7.0


async def test_a_fetch_without_an_end_pulls_again_and_again(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(1, expires=None, idle_heartbeat=15))
    for number in range(1, 5):
        await clock.until(30 * number - 15)
        worker.pull.heartbeat()
        await clock.until(30 * number)
        worker.pull.status("408 Request Timeout")
    await clock.until(125)
    assert [pull.at for pull in worker.pulls] == [0.0, 30.0, 60.0, 90.0, 120.0]
    worker.pull.fill(1)
    assert payloads(await fetching) == [b"1"]


async def test_a_lost_session_ends_a_fetch_with_what_it_has(
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
    fix_jitter(consumer._js.connection, 0)
    server.down()
    await clock.settle()
    fetching = asyncio.create_task(consumer.fetch(2, expires=10))
    await clock.until(1)
    server.up()
    await clock.until(5)
    assert worker.pull.at == 4.0
    assert worker.pull.fields["expires"] == 6_000_000_000
    worker.pull.fill(2)
    assert payloads(await fetching) == [b"1", b"2"]


async def test_a_fetch_that_never_gets_a_session_says_so_in_time(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    server.down()
    await clock.settle()
    with pytest.raises(DisconnectedError, match="no connection in time"):
        await consumer.fetch(2, expires=10)
    assert clock.now == 11.0
    server.up()
    await clock.until(20)
    assert not worker.pulls


async def test_close_of_the_connection_ends_a_fetch(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(2))
    await clock.settle()
    await consumer._js.connection.close()
    with pytest.raises(ConnectionClosedError):
        await fetching


# -- what is left for the next one -----------------------------------------------------------------------------------


async def test_what_a_cancelled_fetch_had_goes_to_the_next_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(5))
    await clock.settle()
    worker.pull.fill(2)
    await clock.settle()
    first.cancel()
    await clock.settle()
    second = asyncio.create_task(consumer.fetch(5))
    await clock.settle()
    assert [pull.batch for pull in worker.pulls] == [5, 3]
    worker.pull.fill(3)
    assert payloads(await second) == [b"1", b"2", b"3", b"4", b"5"]


async def test_what_was_on_its_way_to_a_cancelled_fetch_goes_to_the_next_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(2))
    await clock.advance(1)
    first.cancel()
    await clock.settle()
    worker.pull.fill(2)  # the server has not heard of it yet
    began = clock.now
    assert payloads(await consumer.fetch(2)) == [b"1", b"2"]
    assert round(clock.now - began, 3) == 0.2  # the way there and back
    assert len(worker.pulls) == 1


async def test_a_fetch_with_enough_left_by_others_sends_no_pull(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(5))
    await clock.settle()
    worker.pull.fill(4)
    await clock.settle()
    first.cancel()
    await clock.settle()
    assert payloads(await consumer.fetch(2)) == [b"1", b"2"]
    assert payloads(await consumer.fetch(2)) == [b"3", b"4"]
    assert len(worker.pulls) == 1


async def test_a_fetch_that_waits_takes_what_another_leaves(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    first, second = asyncio.create_task(consumer.fetch(3)), asyncio.create_task(consumer.fetch(2))
    await clock.settle()
    worker.pulls[0].fill(2)
    await clock.until(1)
    first.cancel()
    assert payloads(await second) == [b"1", b"2"]
    assert clock.now == 1.0


async def test_a_late_answer_to_a_fetch_whose_time_ended_goes_to_the_next_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(2, expires=5))
    await clock.until(6.55)
    assert worker.pull.fill(1) == 1
    assert await fetching == []
    assert payloads(await consumer.fetch(1)) == [b"1"]
    assert len(worker.pulls) == 1


async def test_what_a_cancelled_fetch_had_goes_to_a_consume(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(5))
    await clock.settle()
    worker.pull.fill(2)
    await clock.settle()
    first.cancel()
    await clock.settle()
    async with consumer.consume(max_messages=10) as messages:
        assert [(await messages.__anext__()).payload for _ in range(2)] == [b"1", b"2"]
        await clock.settle()
        assert worker.pull.batch == 8


async def test_a_session_that_is_lost_with_a_cancelled_fetch_ends_the_wait_for_it(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(2))
    await clock.settle()
    server.answers_pings = False
    first.cancel()
    second = asyncio.create_task(consumer.fetch(2))
    await clock.until(1)
    assert len(worker.pulls) == 1
    server.session.reset()
    server.answers_pings = True
    await clock.until(2)
    worker.pull.fill(2)
    assert payloads(await second) == [b"1", b"2"]
    assert worker.pull.at == 1.0


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize("latency", [0.0, 0.1])
async def test_a_fetch_that_is_cancelled_anywhere_loses_no_message(
    world: World, worker: ConsumerScript, clock: Clock, moment: Moment, latency: float
) -> None:
    world.net.latency = latency
    consumer = await handle(world)
    got: list[bytes] = []

    async def serve() -> None:
        asyncio.get_running_loop().call_later(1, lambda: worker.pull.heard and worker.pull.fill(2))

    async def fetch() -> None:
        got.extend(payloads(await consumer.fetch(2, expires=10)))

    async def check() -> None:
        await clock.advance(2)
        while len(got) < worker.stream_seq:
            await fetch()
        assert got == [b"%d" % number for number in range(1, worker.stream_seq + 1)]
        await clock.advance(1)
        assert len(consumer._js.connection._client.pings) == 0

    assert await cancel_everywhere(fetch, check, moment, before=serve) >= 1
