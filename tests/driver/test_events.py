"""Events are reported in order in their own task, whatever the handler does."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.wire.events import Disconnected, ErrorOccurred, Event


async def test_a_slow_handler_gets_each_event_in_order(world: World, server: MemoryServer, clock: Clock) -> None:
    seen: list[tuple[str, float]] = []

    async def handle(event: Event) -> None:
        await asyncio.sleep(1)
        seen.append((type(event).__name__, clock.now))

    await world.connect(on_event=handle)
    server.session.reset()
    await clock.until(10)
    assert seen == [("Connected", 1.0), ("Disconnected", 2.0), ("Reconnected", 3.0)]


async def test_a_slow_handler_does_not_block_the_connection(world: World, server: MemoryServer, clock: Clock) -> None:
    async def handle(_: Event) -> None:
        await asyncio.sleep(60)

    connection = await world.connect(on_event=handle)
    server.session.reset()
    await clock.settle()
    await connection.flush()
    assert clock.now == 0.0


async def test_an_exception_of_the_handler_is_logged_and_the_next_event_comes(
    world: World, server: MemoryServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def handle(event: Event) -> None:
        seen.append(type(event).__name__)
        if len(seen) == 1:
            raise ValueError("in the handler")

    await world.connect(on_event=handle)
    server.session.reset()
    await clock.settle()
    assert seen == ["Connected", "Disconnected", "Reconnected"]
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "the handler of the connection's events raised" in record.getMessage()


async def test_unhandled_errors_are_dropped_and_states_are_not(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    seen: list[Event] = []

    async def handle(event: Event) -> None:
        if not seen:
            await asyncio.sleep(10)
        seen.append(event)

    await world.connect(on_event=handle)
    server.session.send(*(b"-ERR 'number %d'\r\n" % number for number in range(1500)))
    await clock.settle()
    server.session.reset()
    await clock.until(20)
    errors = [event for event in seen if isinstance(event, ErrorOccurred)]
    assert len(errors) == 1000
    assert "number 1499" in str(errors[-1].error)
    assert len([event for event in seen if isinstance(event, Disconnected)]) == 1


async def test_a_close_gives_a_slow_handler_two_seconds(world: World, server: MemoryServer, clock: Clock) -> None:
    cancelled: list[float] = []

    async def handle(_: Event) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(clock.now)
            raise

    connection = await world.connect(on_event=handle)
    await clock.until(1)
    await connection.close()
    await clock.settle()
    assert cancelled == [3.0]
    assert clock.now == 3.0


async def test_without_a_handler_events_are_logged(
    world: World, server: MemoryServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="jetspark"):
        await world.connect(on_event=None)
        server.session.reset()
        await clock.settle()
    assert [record.getMessage().partition("(")[0] for record in caplog.records] == [
        "Connected",
        "Disconnected",
        "Reconnected",
    ]
