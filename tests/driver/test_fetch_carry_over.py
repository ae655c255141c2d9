"""Messages that a cancelled or late fetch leaves for the next one."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.fetching import handle, payloads
from tests.driver.jetstream import ConsumerScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World


async def test_messages_of_a_cancelled_fetch_go_to_the_next_one(
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


async def test_messages_in_flight_to_a_cancelled_fetch_go_to_the_next_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(2))
    await clock.advance(1)
    first.cancel()
    await clock.settle()
    worker.pull.fill(2)  # the server has not read the UNSUB yet
    began = clock.now
    assert payloads(await consumer.fetch(2)) == [b"1", b"2"]
    assert round(clock.now - began, 3) == 0.2  # the way there and back
    assert len(worker.pulls) == 1


async def test_a_fetch_with_enough_carried_over_messages_sends_no_pull(
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


async def test_a_waiting_fetch_takes_messages_of_a_cancelled_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    first, second = asyncio.create_task(consumer.fetch(3)), asyncio.create_task(consumer.fetch(2))
    await clock.settle()
    worker.pulls[0].fill(2)
    await clock.until(1)
    first.cancel()
    assert payloads(await second) == [b"1", b"2"]
    assert clock.now == 1.0


async def test_a_late_message_of_a_timed_out_fetch_is_returned_by_the_next_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(2, timeout=5))
    await clock.until(6.55)
    assert worker.pull.fill(1) == 1
    assert await fetching == []
    assert payloads(await consumer.fetch(1)) == [b"1"]
    assert len(worker.pulls) == 1


async def test_a_waiting_fetch_takes_a_late_message_before_the_server_confirms_the_end(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(2, timeout=5))
    second = asyncio.create_task(consumer.fetch(1, timeout=60))
    await clock.until(6.55)
    server.answers_pings = False
    assert worker.pulls[0].fill(1) == 1
    assert await first == []
    assert payloads(await second) == [b"1"]
    assert round(clock.now, 3) == 6.65


async def test_a_fetch_with_carried_over_messages_leaves_those_beyond_its_batch(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    first, second = asyncio.create_task(consumer.fetch(5)), asyncio.create_task(consumer.fetch(3))
    await clock.settle()
    worker.pulls[0].fill(2)
    await clock.settle()
    first.cancel()
    await clock.settle()
    assert not second.done()
    worker.pulls[1].fill(3)
    assert payloads(await second) == [b"1", b"2", b"3"]
    assert payloads(await consumer.fetch(2)) == [b"4", b"5"]
    assert len(worker.pulls) == 2


async def test_messages_of_a_cancelled_fetch_go_to_a_consume(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
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


async def test_carried_over_messages_are_put_back_when_their_fetch_is_cancelled_too(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    for count in (2, 1):
        fetching = asyncio.create_task(consumer.fetch(5))
        await clock.settle()
        worker.pull.fill(count)
        await clock.settle()
        fetching.cancel()
        await clock.settle()
    assert payloads(await consumer.fetch(3)) == [b"1", b"2", b"3"]
    assert len(worker.pulls) == 2


async def test_the_timeout_of_a_fetch_includes_its_wait_for_a_cancelled_fetch(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(2))
    await clock.settle()
    server.answers_pings = False
    first.cancel()
    await clock.settle()
    second = asyncio.create_task(consumer.fetch(2, timeout=5))
    await clock.until(2)
    server.answers_pings = True
    server.session.send(b"PONG\r\n")
    await clock.settle()
    assert worker.pull.fields["expires"] == 3_000_000_000
    assert await second == []
    assert clock.now == 6.0


async def test_messages_in_flight_to_a_cancelled_fetch_go_to_a_consume_that_starts_meanwhile(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(2))
    await clock.advance(1)
    first.cancel()
    await clock.settle()
    async with consumer.consume(max_messages=10) as messages:
        worker.pull.fill(2)  # the server has read neither UNSUB
        assert [(await messages.__anext__()).payload for _ in range(2)] == [b"1", b"2"]


async def test_a_lost_session_ends_the_wait_for_a_cancelled_fetch(
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
        got.extend(payloads(await consumer.fetch(2, timeout=10)))

    async def check() -> None:
        await clock.advance(2)
        while len(got) < worker.stream_sequence:
            await fetch()
        assert got == [b"%d" % number for number in range(1, worker.stream_sequence + 1)]
        await clock.advance(1)
        assert len(consumer._core.connection.client.pings) == 0

    assert await cancel_everywhere(fetch, check, moment, before=serve) >= 1


async def test_a_fetch_by_bytes_takes_the_carried_over_messages_that_fit(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    first = asyncio.create_task(consumer.fetch(5))
    await clock.settle()
    worker.pull.deliver(b"1" * 1000, b"2" * 1000, b"3" * 1000)
    await clock.settle()
    first.cancel()
    await clock.settle()
    assert [payload[:1] for payload in payloads(await consumer.fetch_bytes(2500))] == [b"1", b"2"]
    assert [payload[:1] for payload in payloads(await consumer.fetch(1))] == [b"3"]
    assert len(worker.pulls) == 1
