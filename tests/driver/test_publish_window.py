"""The limit of publishes in flight, the wait for all of them, and their end with the connection."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import StreamScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.core import ConnectionCore
from jetspark.errors import (
    ConnectionClosedError,
    DrainTimeoutError,
    PublishTimeoutError,
    TooManyStalledError,
)


@pytest.mark.conformance("PUB-11")
async def test_a_full_window_waits_until_a_quarter_is_free(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream(max_pending=8, stall_wait=60)
    stream.answers = "hold"
    for _ in range(8):
        await js.publish_async("orders.new")
    ninth = asyncio.create_task(js.publish_async("orders.new"))
    await clock.until(1)
    stream.ack(0)
    await clock.settle()
    assert not ninth.done()
    stream.ack(1)
    await clock.settle()
    assert ninth.done()
    assert js.publish_async_pending == 7


@pytest.mark.conformance("PUB-11")
async def test_a_window_that_stays_full_is_an_error_after_the_stall_wait(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream(max_pending=2, stall_wait=0.75)
    stream.answers = "hold"
    for _ in range(2):
        await js.publish_async("orders.new")
    with pytest.raises(TooManyStalledError):
        await js.publish_async("orders.new")
    assert clock.now == 0.75
    await clock.settle()
    assert len(stream.published) == 2


@pytest.mark.conformance("PUB-11")
async def test_many_that_wait_for_a_slow_stream_are_not_stalled(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream(max_pending=2, stall_wait=0.75)
    stream.answers = "hold"
    publishing = [asyncio.create_task(js.publish_async("orders.new")) for _ in range(8)]
    await clock.settle()
    for number in range(6):
        await clock.until(clock.now + 0.5)  # so the last one waits longer than `stall_wait`, but not for nothing
        stream.ack(number)
        await clock.settle()
    assert [task.done() for task in publishing] == [True] * 8
    for task in publishing:
        await task


async def test_completed_waits_for_the_last_answer(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    for _ in range(2):
        await js.publish_async("orders.new")
    waiting = asyncio.create_task(js.publish_async_completed())
    await clock.until(1)
    stream.ack(0)
    await clock.until(2)
    assert not waiting.done()
    stream.ack(1)
    await waiting
    assert clock.now == 2.0


async def test_completed_times_out_and_leaves_the_publishes_in_flight(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    future = await js.publish_async("orders.new")
    with pytest.raises(PublishTimeoutError, match="1 publishes are not acknowledged after 3 s"):
        await js.publish_async_completed(3)
    assert clock.now == 3.0
    stream.ack()
    assert (await future).sequence == 1


async def test_completed_waits_until_the_error_handler_has_run(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    handled: list[str] = []

    async def handle(future: Any) -> None:
        await asyncio.sleep(5)
        handled.append(future.subject)

    js = await world.jetstream(on_error=handle)
    stream.answers = "hold"
    for name in "ab":
        await js.publish_async(f"orders.{name}")
    await clock.settle()
    stream.refuse(0)
    stream.refuse(1)
    await js.publish_async_completed(6)
    assert (sorted(handled), clock.now) == (["orders.a", "orders.b"], 5.0)
    await js.publish_async_completed(6)
    assert clock.now == 5.0


async def test_completed_names_an_error_handler_that_does_not_end_in_time(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    stop = asyncio.Event()
    js = await world.jetstream(on_error=lambda _: stop.wait())
    stream.answers = "404 What"
    await js.publish_async("orders.new")
    with pytest.raises(PublishTimeoutError, match="on_error still handles 1 failed publishes after 3 s"):
        await js.publish_async_completed(3)
    assert clock.now == 3.0
    stop.set()
    await js.publish_async_completed(3)


async def test_completed_waits_for_what_an_error_handler_publishes(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    async def again(future: Any) -> None:
        await asyncio.sleep(1)
        stream.answers = "ack"
        acks.append(await js.publish_async(future.subject))

    acks: list[Any] = []
    js = await world.jetstream(on_error=again)
    stream.answers = "404 What"
    await js.publish_async("orders.new")
    await js.publish_async_completed(3)
    assert [ack.result().sequence for ack in acks] == [1]


async def test_error_handlers_may_wait_for_the_other_publishes(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    handled: list[str] = []

    async def handle(future: Any) -> None:
        await asyncio.create_task(js.publish_async_completed(3))
        handled.append(future.subject)

    js = await world.jetstream(on_error=handle)
    stream.answers = "404 What"
    for name in "ab":
        await js.publish_async(f"orders.{name}")
    await js.publish_async_completed(3)
    assert (sorted(handled), clock.now) == (["orders.a", "orders.b"], 0.0)


async def test_cancelling_the_wait_does_not_cancel_the_publish(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    future = await js.publish_async("orders.new")

    async def wait() -> None:
        await future

    waiting = asyncio.create_task(wait())
    await clock.settle()
    waiting.cancel()
    await clock.settle()
    stream.ack()
    assert (await future).sequence == 1


async def test_reading_a_result_too_early_is_an_error(world: World, stream: StreamScript) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    future = await js.publish_async("orders.new")
    with pytest.raises(asyncio.InvalidStateError):
        future.result()
    with pytest.raises(asyncio.InvalidStateError):
        future.exception()
    done: list[Any] = []
    future.add_done_callback(done.append)
    await asyncio.sleep(0.1)
    stream.ack()
    await future
    await asyncio.sleep(0)
    assert done == [future]


async def test_close_fails_publishes_in_flight(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    future = await js.publish_async("orders.new")
    await js._core.connection.close()
    assert isinstance(future.exception(), ConnectionClosedError)


async def test_drain_waits_for_acknowledgements(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    future = await js.publish_async("orders.new")
    draining = asyncio.create_task(js._core.connection.drain(None))
    await clock.until(2)
    assert not draining.done()
    stream.ack()
    await draining
    assert future.result().sequence == 1
    assert clock.now == 2.0


async def test_drain_without_acknowledgements_times_out_and_counts_them(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    futures = [await js.publish_async("orders.new") for _ in range(2)]
    with pytest.raises(DrainTimeoutError, match="2 publishes not acknowledged"):
        await js._core.connection.drain(4)
    assert clock.now == 4.0
    assert all(isinstance(future.exception(), ConnectionClosedError) for future in futures)


async def test_a_garbage_collected_context_ends_its_subscription(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    await (await js.publish_async("orders.new"))
    await clock.settle()
    assert len(server.session.subjects) == 1
    connection = js._core.connection
    del js
    gc.collect()
    await connection.flush(None)
    await connection.flush(None)
    assert server.session.subjects == []


async def test_a_publish_of_a_garbage_collected_context_is_still_acknowledged(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    stream.answers = "hold"
    future = await (await world.jetstream()).publish_async("orders.new")
    gc.collect()
    await clock.settle()
    stream.ack()
    assert (await future).sequence == 1


async def test_a_publish_that_waits_for_the_transport_continues_when_writing_resumes(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    server.session.transport.stop_taking()

    async def much() -> list[int]:
        futures = [await js.publish_async("orders.new", bytes(50_000)) for _ in range(6)]
        return [(await future).sequence for future in futures]

    publishing = asyncio.create_task(much())
    await clock.until(3)
    assert not stream.published
    server.session.transport.take_again()
    assert await publishing == [1, 2, 3, 4, 5, 6]
    assert clock.now == 3.0


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize("operation", ["publish", "stalled", "await", "completed"])
async def test_an_operation_can_be_cancelled_anywhere(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock, operation: str, moment: Moment
) -> None:
    js = await world.jetstream(max_pending=4, stall_wait=1)
    context: list[ConnectionCore] = [js._core.connection]

    async def run() -> None:
        if operation == "stalled":
            for _ in range(9):
                await js.publish_async("orders.new")
            return
        future = await js.publish_async("orders.new")
        if operation == "await":
            await future
        elif operation == "completed":
            await js.publish_async_completed()

    async def usable() -> None:
        await js.publish_async_completed(1)
        assert js.publish_async_pending == 0
        assert (await (await js.publish_async("orders.new"))).sequence == len(stream.published)
        stats = js.publish_async_stats
        assert (stats.failed, stats.unmatched_acks) == (0, 0)
        assert stats.published == len(stream.published)

    await cancel_everywhere(run, usable, moment)
    assert context[0].connected
