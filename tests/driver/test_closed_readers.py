"""Readers when the connection closes for good: an ordered reader raises, and a handler of errors gets the error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.driver.consuming import consuming
from tests.driver.jetstream import SILENCE, ConsumerScript, JetStreamScript
from tests.driver.reading import Reading, handle, reading
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark import aio
from jetspark.aio.core import ConnectionCore
from jetspark.errors import ConnectionClosedError
from jetspark.wire.events import Closed, ErrorOccurred

pytestmark = pytest.mark.usefixtures("stream")

Close = Callable[[World, ConnectionCore], Awaitable[None]]

OPTIONS: dict[str, Any] = {"reconnect_wait": 1, "max_reconnects": 2}


async def close(world: World, connection: ConnectionCore) -> None:
    """The program closes the connection."""
    await connection.close()


async def lose(world: World, connection: ConnectionCore) -> None:
    """The server is gone, and the connection gives up."""
    fix_jitter(connection, 0)
    world.server.down()
    await world.clock.advance(60)
    assert connection.closed


ends = pytest.mark.parametrize("end", [close, lose])


def core(read: Reading) -> ConnectionCore:
    return read.consumer._js.connection


@ends
@pytest.mark.parametrize("until_caught_up", [False, True])
async def test_an_ordered_consume_raises_after_the_received_messages(
    world: World, script: JetStreamScript, clock: Clock, end: Close, until_caught_up: bool
) -> None:
    script.answer("STREAM.MSG.GET.>", SILENCE)
    read = await reading(world, OPTIONS, until_caught_up=until_caught_up)
    script.created[0].pull.fill(2)
    await clock.settle()
    await end(world, core(read))
    assert await read.take(2) == [b"1", b"2"]
    for _ in range(2):
        with pytest.raises(ConnectionClosedError):
            await read.take(1)
    with pytest.raises(ConnectionClosedError):
        await read.context.wait_closed()
    assert isinstance(read.context.error, ConnectionClosedError)
    assert read.kinds == [ConnectionClosedError]


@ends
async def test_an_ordered_consume_between_two_consumers_raises(
    world: World, script: JetStreamScript, clock: Clock, end: Close
) -> None:
    read = await reading(world, OPTIONS)
    script.created[0].pull.fill(1)
    assert await read.take(1) == [b"1"]
    script.answer("CONSUMER.CREATE.>", SILENCE)
    script.created[0].pull.status("409 Consumer Deleted")
    await clock.settle()
    assert read.consumer.cached_info is None
    waiting = asyncio.create_task(read.take(1))
    await clock.settle()
    await end(world, core(read))
    with pytest.raises(ConnectionClosedError):
        await waiting


@ends
async def test_a_drained_ordered_consume_raises_if_its_drain_was_not_confirmed(
    world: World, server: MemoryServer, clock: Clock, end: Close
) -> None:
    read = await reading(world, {**OPTIONS, "reconnect": False})
    server.answers_pings = False
    await read.context.drain()
    await clock.settle()
    await end(world, core(read))
    if end is close:
        with pytest.raises(ConnectionClosedError):
            await read.take(1)


@ends
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("busy", [False, True])
async def test_a_callback_calls_the_error_handler_after_the_last_message(
    world: World, script: JetStreamScript, worker: ConsumerScript, clock: Clock, end: Close, ordered: bool, busy: bool
) -> None:
    seen: list[object] = []

    async def work(message: aio.Msg) -> None:
        await asyncio.sleep(100 if busy else 0)
        seen.append(message.payload)

    async def on_error(error: Exception) -> None:
        await asyncio.sleep(1)
        seen.append(type(error))

    connection = await world.connect(**OPTIONS)
    js = connection.jetstream()
    source = js.ordered_consumer("ORDERS") if ordered else await js.consumer("ORDERS", "worker")
    context = source.consume(work, on_error=on_error)
    await clock.settle()
    (script.created[-1] if ordered else worker).pull.fill(2)
    await clock.settle()
    await end(world, connection._core)
    await clock.advance(300)
    if ordered:
        with pytest.raises(ConnectionClosedError):
            await context.wait_closed()
    else:
        assert context.closed or busy
    cut = busy and end is close  # a close cancels the callback
    assert seen == [*([] if cut else [b"1", b"2"]), ConnectionClosedError]


async def test_a_callback_that_has_not_begun_calls_the_error_handler(world: World) -> None:
    read = Reading(await handle(world), callback=lambda message: None)
    await core(read).close()
    assert read.kinds == [ConnectionClosedError]


@ends
async def test_a_plain_consume_without_a_callback_calls_the_error_handler(
    world: World, worker: ConsumerScript, clock: Clock, end: Close
) -> None:
    plain = await consuming(world, OPTIONS)
    await clock.settle()
    worker.pull.fill(1)
    await clock.settle()
    await end(world, plain.context._core.connection)
    assert await plain.take(1) == [b"1"]
    with pytest.raises(StopAsyncIteration if end is close else ConnectionClosedError):
        await plain.take(1)
    assert [type(each) for each in plain.warnings] == [ConnectionClosedError]


async def test_a_stopped_consume_does_not_report_the_close(world: World, clock: Clock) -> None:
    read = await reading(world)
    await read.context.stop()
    await core(read).close()
    assert read.warnings == []
    assert read.context.error is None


async def test_without_an_error_handler_a_close_is_one_event(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    connection = await world.connect()
    js = connection.jetstream()
    context = js.ordered_consumer("ORDERS").consume(lambda message: None)
    other = (await js.consumer("ORDERS", "worker")).consume(lambda message: None)
    await clock.settle()
    await connection.close()
    assert world.events.of(ErrorOccurred) == []
    assert len(world.events.of(Closed)) == 1
    assert context.closed
    assert other.closed


async def test_a_close_waits_two_seconds_for_an_error_handler(world: World, clock: Clock) -> None:
    cancelled: list[float] = []

    async def on_error(error: Exception) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.append(clock.now)

    consumer = await handle(world)
    context = consumer.consume(lambda message: None, on_error=on_error)
    await clock.settle()
    await consumer._js.connection.close()
    await clock.settle()
    assert cancelled == [2.0]
    assert context.closed


async def test_error_handlers_that_close_the_connection_do_not_wait_for_each_other(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    connection = await world.connect()
    closed: list[float] = []

    async def on_error(error: Exception) -> None:
        await connection.close()
        closed.append(clock.now)

    context = connection.jetstream().ordered_consumer("ORDERS").consume(lambda message: None, on_error=on_error)
    await clock.settle()
    script.created[0].pull.status("409 Leadership Change")
    await clock.settle()
    assert closed == [0.0, 0.0]
    assert context.closed


@ends
@pytest.mark.parametrize("between", [False, True])
async def test_an_ordered_subscription_raises(
    world: World, script: JetStreamScript, clock: Clock, end: Close, between: bool
) -> None:
    connection = await world.connect(**OPTIONS)
    subscription = await connection.jetstream().subscribe("orders.a", ordered_consumer=True)
    await clock.settle()
    if between:
        script.answer("CONSUMER.CREATE.>", SILENCE)
        script.created[0].lose()
        script.created[0].push(b"2")
        await clock.settle()
        assert subscription._core.driver.resetting

    async def read() -> list[bytes]:
        return [message.payload async for message in subscription]

    iterating = asyncio.create_task(read())
    await clock.settle()
    await end(world, connection._core)
    with pytest.raises(ConnectionClosedError):
        await iterating
    with pytest.raises(ConnectionClosedError):
        await subscription.next_msg(1)
    assert isinstance(subscription.error, ConnectionClosedError)


@ends
@pytest.mark.parametrize("creating", [False, True])
@pytest.mark.parametrize("call", ["fetch", "next"])
async def test_an_ordered_fetch_and_next_raise(
    world: World, script: JetStreamScript, clock: Clock, end: Close, call: str, creating: bool
) -> None:
    consumer = await handle(world, OPTIONS)
    if creating:
        script.answer("CONSUMER.CREATE.>", SILENCE)
    waiting = asyncio.create_task(consumer.fetch(1) if call == "fetch" else consumer.next())
    await clock.settle()
    await end(world, consumer._js.connection)
    with pytest.raises(ConnectionError):
        await waiting
