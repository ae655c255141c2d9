"""The end of a consume: stop, drain, garbage collection, cancellation; and its callback."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import ConsumerScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark import aio
from jetspark.aio.jetstream import Consumer
from jetspark.errors import DrainTimeoutError
from jetspark.wire.events import ErrorOccurred


async def handle(world: World) -> Consumer:
    """Connect, and get the handle of the worker."""
    return await (await world.connect()).jetstream().consumer("ORDERS", "worker")


@pytest.mark.conformance("CNS-05")
async def test_stop_ends_at_once_and_drops_buffered_messages(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    context = (await handle(world)).consume(max_messages=10)
    await clock.settle()
    worker.pull.fill(3)
    await clock.settle()
    assert context.pending[0] == 3
    await context.stop()
    assert context.closed
    with pytest.raises(StopAsyncIteration):
        await context.__anext__()
    await clock.settle()
    assert not worker.pull.heard
    assert clock.now == 0.0


async def test_stop_wakes_a_reader(world: World, worker: ConsumerScript, clock: Clock) -> None:
    context = (await handle(world)).consume()

    async def read() -> list[bytes]:
        return [message.payload async for message in context]

    reading = asyncio.create_task(read())
    await clock.settle()
    worker.pull.fill(2)
    await clock.settle()
    await context.stop()
    assert await reading == [b"1", b"2"]


@pytest.mark.conformance("CNS-05")
async def test_drain_delivers_received_messages_and_messages_in_flight(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    context = (await handle(world)).consume(max_messages=10)
    await clock.advance(1)
    worker.pull.fill(1)
    await clock.advance(1)
    await context.drain()
    worker.pull.fill(1)  # the server has not read the UNSUB yet
    assert [message.payload async for message in context] == [b"1", b"2"]
    assert context.closed
    await clock.advance(1)
    assert len(worker.pulls) == 1
    assert not worker.pull.heard


@pytest.mark.parametrize("seconds", [None, 3.0])
async def test_drain_of_a_silent_server_ends_at_its_timeout_after_the_messages(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock, seconds: float | None
) -> None:
    consumer = await (await world.connect(drain_timeout=7)).jetstream().consumer("ORDERS", "worker")
    context = consumer.consume(max_messages=10)
    await clock.settle()
    worker.pull.fill(1)
    await clock.settle()
    server.answers_pings = False
    await context.drain(seconds)
    with pytest.raises(DrainTimeoutError):
        await context.wait_closed(20)
    assert clock.now == 20.0  # the message waits for its reader
    assert (await context.__anext__()).payload == b"1"
    with pytest.raises(DrainTimeoutError, match=f"within {seconds or 7:g} s"):
        await context.__anext__()


async def test_a_lost_session_ends_a_drain(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    context = (await handle(world)).consume()
    await clock.settle()
    server.answers_pings = False
    await context.drain()
    await clock.until(1)
    server.session.reset()
    await context.wait_closed()
    assert clock.now == 1.0
    assert len(worker.pulls) == 1


async def test_drain_without_a_session_ends_at_once(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    context = (await handle(world)).consume()
    await clock.settle()
    worker.pull.fill(1)
    await clock.until(1)
    server.down()
    await clock.settle()
    await context.drain()
    assert [message.payload async for message in context] == [b"1"]
    assert clock.now == 1.0


async def test_stop_ends_a_drain(world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock) -> None:
    context = (await handle(world)).consume()
    await clock.settle()
    server.answers_pings = False
    await context.drain()
    await clock.until(1)
    await context.stop()
    assert context.closed
    assert context.error is None
    server.answers_pings = True
    server.session.send(b"PONG\r\n")


async def test_a_second_drain_joins_the_first(world: World, worker: ConsumerScript, clock: Clock) -> None:
    context = (await handle(world)).consume()
    await clock.settle()
    await context.drain()
    await context.drain()
    await context.wait_closed()
    await context.drain()
    assert clock.now == 0.0


async def test_drain_of_the_connection_drains_the_consume(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    got: list[bytes] = []

    async def work(message: aio.Msg) -> None:
        await asyncio.sleep(1)
        got.append(message.payload)
        await message.ack()

    context = consumer.consume(work, max_messages=10)
    await clock.settle()
    worker.pull.fill(3)
    await clock.settle()
    await consumer._core.connection.drain(None)
    assert got == [b"1", b"2", b"3"]
    assert clock.now == 3.0
    assert len(worker.js.acks) == 3
    assert context.closed


async def test_close_of_the_connection_ends_the_consume(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    context = consumer.consume()

    async def read() -> list[bytes]:
        return [message.payload async for message in context]

    reading = asyncio.create_task(read())
    await clock.settle()
    worker.pull.fill(1)
    await clock.settle()
    await consumer._core.connection.close()
    assert await reading == [b"1"]
    assert context.closed


async def test_a_garbage_collected_consume_stops(world: World, worker: ConsumerScript, clock: Clock) -> None:
    context = (await handle(world)).consume()
    await clock.settle()
    assert worker.pull.heard
    del context
    gc.collect()
    await clock.settle()
    assert not worker.pull.heard


async def test_an_exception_of_a_callback_goes_to_the_error_handler_and_the_next_message_comes(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    errors: list[Exception] = []
    got: list[bytes] = []

    def work(message: aio.Msg) -> None:
        got.append(message.payload)
        if len(got) == 1:
            raise ValueError("not that one")

    context = (await handle(world)).consume(work, on_error=errors.append)
    await clock.settle()
    worker.pull.fill(2)
    await clock.settle()
    assert got == [b"1", b"2"]
    assert [str(error) for error in errors] == ["not that one"]
    await context.stop()


async def test_an_exception_of_the_error_handler_is_an_event(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    async def fail(_: Exception) -> None:
        raise ValueError("in the handler")

    context = (await handle(world)).consume(on_error=fail)
    await clock.settle()
    worker.pull.status("409 Leadership Change")
    await clock.settle()
    assert [str(event.error) for event in world.events.of(ErrorOccurred)] == ["in the handler"]
    await context.stop()


async def test_stop_waits_for_the_running_callback(world: World, worker: ConsumerScript, clock: Clock) -> None:
    done: list[float] = []

    async def work(_: aio.Msg) -> None:
        await asyncio.sleep(5)
        done.append(clock.now)

    context = (await handle(world)).consume(work)
    await clock.settle()
    worker.pull.fill(2)
    await clock.until(1)
    await context.stop()
    assert done == [5.0]
    assert clock.now == 5.0


async def test_a_callback_can_stop_the_consume(world: World, worker: ConsumerScript, clock: Clock) -> None:
    got: list[bytes] = []

    async def work(message: aio.Msg) -> None:
        got.append(message.payload)
        await context.stop()

    context = (await handle(world)).consume(work)
    await clock.settle()
    worker.pull.fill(3)
    await context.wait_closed()
    assert got == [b"1"]


# -- progress --------------------------------------------------------------------------------------------------------


async def test_buffered_and_current_messages_are_reported_three_times_in_the_ack_wait(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    context = (await handle(world)).consume(max_messages=10, auto_in_progress=True)
    await clock.settle()
    worker.pull.fill(2)
    messages = context.__aiter__()
    first = await messages.__anext__()
    await clock.until(10)
    assert [(pub.at, pub.payload) for pub in worker.js.acks] == [(at, b"+WPI") for at in (3, 3, 6, 6, 9, 9)]
    await first.ack()
    await clock.until(12)
    assert [(pub.at, pub.payload) for pub in worker.js.acks[6:]] == [(10.0, b"+ACK"), (12.0, b"+WPI")]
    await context.stop()
    await clock.until(30)
    assert len(worker.js.acks) == 8


async def test_nothing_is_reported_without_a_session(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=7, reconnect_wait_max=7)
    fix_jitter(connection._core, 0)
    consumer = await connection.jetstream().consumer("ORDERS", "worker")
    context = consumer.consume(max_messages=10, auto_in_progress=True)
    await clock.settle()
    worker.pull.fill(1)
    await clock.until(1)
    server.down()
    await clock.until(2)
    server.up()
    await clock.until(8.5)
    assert connection.connected
    await clock.until(9)
    assert [pub.at for pub in worker.js.acks] == [9.0]
    await context.stop()


# -- cancellation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_reader_that_is_cancelled_anywhere_loses_no_message(
    world: World, worker: ConsumerScript, clock: Clock, moment: Moment
) -> None:
    context = (await handle(world)).consume(max_messages=10)
    await clock.settle()
    got: list[bytes] = []

    async def deliver() -> None:
        asyncio.get_running_loop().call_later(1, worker.pull.fill, 1)

    async def take() -> None:
        got.append((await context.__anext__()).payload)

    async def check() -> None:
        await clock.advance(2)
        if not got:
            await take()
        assert got == [b"%d" % worker.stream_sequence]
        got.clear()

    assert await cancel_everywhere(take, check, moment, before=deliver) == 1
    await context.stop()


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize("end", ["stop", "drain", "wait"])
async def test_a_stop_or_drain_that_is_cancelled_anywhere_still_ends(
    world: World, worker: ConsumerScript, clock: Clock, end: str, moment: Moment
) -> None:
    consumer = await handle(world)
    context = consumer.consume()

    async def work(_: aio.Msg) -> None:
        await asyncio.sleep(1)

    async def begin() -> None:
        nonlocal context
        context = consumer.consume(work)
        await clock.settle()
        worker.pull.fill(1)
        await clock.settle()

    async def finish() -> None:
        if end == "stop":
            await context.stop()
        else:
            await context.drain()
        if end == "wait":
            await context.wait_closed()

    async def check() -> None:
        await context.drain()
        await clock.advance(2)
        assert context.closed
        assert not worker.pull.heard

    await cancel_everywhere(finish, check, moment, before=begin)


async def test_a_callback_that_hangs_ends_with_the_connection(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer, ended = await handle(world), list[str]()

    async def hang(_: aio.Msg) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("callback")

    context = consumer.consume(hang)
    await clock.settle()
    worker.pull.fill(1)
    await clock.settle()
    await world.close()
    assert ended == ["callback"]
    assert context.closed
