"""Handlers side by side: `consume(callback, concurrency=...)`."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.jetstream import ConsumerScript
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream.consume_context import ConsumeContext
from jetspark.aio.message import Msg
from jetspark.errors import ConfigError, SubscriptionClosedError


class Work:
    """A callback that works for some seconds on each message, which its payload says, and then acknowledges it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.log: list[tuple[float, str]] = []
        self.context: ConsumeContext

    async def handle(self, message: Msg) -> None:
        self._note("begin", message)
        await asyncio.sleep(int(message.payload))
        self._note("end", message)
        await message.ack()

    def _note(self, what: str, message: Msg) -> None:
        self.log.append((self._clock.now, f"{what} {message.payload.decode()}"))


async def working(world: World, callback: object, concurrency: int) -> tuple[ConsumeContext, list[Exception]]:
    """Start a consume with the callback, and return it with its errors."""
    consumer = await (await world.connect()).jetstream().consumer("ORDERS", "worker")
    errors: list[Exception] = []
    options = {"max_messages": 10, "auto_in_progress": True}
    context = consumer.consume(callback, on_error=errors.append, concurrency=concurrency, **options)  # type: ignore[arg-type]
    return context, errors


async def test_as_many_messages_are_handled_at_once_as_were_asked_for(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    work = Work(clock)
    await working(world, work.handle, 2)
    await clock.settle()
    worker.pull.deliver(b"4", b"1", b"2", b"5")
    await clock.until(10)
    assert work.log == [
        (0.0, "begin 4"),
        (0.0, "begin 1"),
        (1.0, "end 1"),
        (1.0, "begin 2"),
        (3.0, "end 2"),
        (3.0, "begin 5"),
        (4.0, "end 4"),
        (8.0, "end 5"),
    ]


async def test_the_messages_of_all_handlers_are_reported_as_in_progress(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    work = Work(clock)
    context, _ = await working(world, work.handle, 3)
    await clock.settle()
    worker.pull.deliver(b"4", b"7", b"8")
    await clock.until(5)
    stopping = asyncio.create_task(context.stop())  # the handlers keep their messages
    await clock.until(20)
    await stopping
    sent = [(pub.at, pub.payload) for pub in worker.js.acks]
    assert sent == [
        *[(3.0, b"+WPI")] * 3,
        (4.0, b"+ACK"),
        *[(6.0, b"+WPI")] * 2,
        (7.0, b"+ACK"),
        (8.0, b"+ACK"),
    ]


async def test_an_error_of_one_handler_does_not_stop_the_others(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    done: list[bytes] = []

    async def handle(message: Msg) -> None:
        await asyncio.sleep(1)
        if message.payload.startswith(b"bad"):
            raise KeyError(message.payload)
        done.append(message.payload)

    _, errors = await working(world, handle, 2)
    await clock.settle()
    worker.pull.deliver(b"bad 1", b"a", b"bad 2", b"b", b"c")
    await clock.until(5)
    assert done == [b"a", b"b", b"c"]
    assert [type(error) for error in errors] == [KeyError, KeyError]


@pytest.mark.parametrize("how", ["stop", "drain"])
async def test_the_end_waits_for_all_running_handlers(
    world: World, worker: ConsumerScript, clock: Clock, how: str
) -> None:
    work = Work(clock)
    context, errors = await working(world, work.handle, 2)
    await clock.settle()
    worker.pull.deliver(b"5", b"3", b"1")
    await clock.settle()

    async def end() -> float:
        if how == "stop":
            await context.stop()
        else:
            await context.drain(2)
            await context.wait_closed()
        return clock.now

    assert await end() == 5.0
    ended = [entry for _, entry in work.log if entry.startswith("end")]
    assert ended == (["end 3", "end 5"] if how == "stop" else ["end 3", "end 1", "end 5"])
    assert not errors


async def test_handlers_that_stop_their_consume_do_not_wait_for_each_other(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    ended: list[bytes] = []

    async def handle(message: Msg) -> None:
        await asyncio.sleep(1)
        await context.stop()
        ended.append(message.payload)

    context, _ = await working(world, handle, 2)
    await clock.settle()
    worker.pull.deliver(b"1", b"2", b"3")
    await clock.until(5)
    assert ended == [b"1", b"2"]
    assert context.closed


async def test_a_handler_that_is_cancelled_ends_the_consume_after_the_others_have_finished(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    work = Work(clock)
    context, errors = await working(world, work.handle, 3)
    await clock.settle()
    worker.pull.deliver(b"5", b"6")
    await clock.until(1)
    tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("jetspark consume")]
    assert len(tasks) == 3
    tasks[0].cancel()
    with pytest.raises(SubscriptionClosedError, match="was cancelled"):
        await context.wait_closed()
    assert not [task for task in tasks if not task.done()]
    assert [type(error) for error in errors] == [SubscriptionClosedError]


async def test_a_cancelled_wait_for_the_end_leaves_the_handlers_alone(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    work = Work(clock)
    context, _ = await working(world, work.handle, 2)
    await clock.settle()
    worker.pull.deliver(b"5", b"6")
    await clock.settle()
    for wait in (context.stop, context.wait_closed):
        waiting = asyncio.create_task(wait())
        await clock.settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await clock.until(7)
    assert [entry for _, entry in work.log] == ["begin 5", "begin 6", "end 5", "end 6"]


async def test_a_close_of_the_connection_ends_all_handlers(world: World, worker: ConsumerScript, clock: Clock) -> None:
    connection = await world.connect()
    errors: list[Exception] = []
    consumer = await connection.jetstream().consumer("ORDERS", "worker")
    context = consumer.consume(Work(clock).handle, on_error=errors.append, concurrency=4)
    await clock.settle()
    await connection.close()
    await clock.settle()
    assert context.closed
    assert len(errors) == 1  # it is reported once, not by each handler


@pytest.mark.parametrize("concurrency", [0, -1, 1001, 2.5, "4", None, True])
async def test_a_wrong_number_of_handlers_is_refused(
    world: World, worker: ConsumerScript, clock: Clock, concurrency: int
) -> None:
    with pytest.raises(ConfigError, match=r"concurrency (must be|takes)"):
        await working(world, Work(clock).handle, concurrency)


async def test_handlers_without_a_callback_are_refused(world: World, worker: ConsumerScript) -> None:
    with pytest.raises(ConfigError, match="needs a callback"):
        await working(world, None, 2)


async def test_an_ordered_consumer_refuses_several_handlers(world: World, worker: ConsumerScript, clock: Clock) -> None:
    stream = (await world.connect()).jetstream().ordered_consumer("ORDERS")
    with pytest.raises(ConfigError, match="keeps order"):
        stream.consume(Work(clock).handle, concurrency=10)
