"""The event loop of these tests itself."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.virtual_time import Clock


async def test_an_hour_passes_at_once_and_exactly(clock: Clock) -> None:
    await asyncio.sleep(3600)
    assert clock.now == 3600.0


async def test_time_stops_while_something_is_ready(clock: Clock) -> None:
    sleeper = asyncio.create_task(asyncio.sleep(0.001))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert clock.now == 0.0
    assert not sleeper.done()
    await sleeper
    assert clock.now == 0.001


async def test_timers_fire_in_the_order_of_their_times(clock: Clock) -> None:
    fired: list[tuple[str, float]] = []

    async def note(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        fired.append((name, clock.now))

    await asyncio.gather(note("late", 0.3), note("early", 0.1), note("middle", 0.2))
    assert fired == [("early", 0.1), ("middle", 0.2), ("late", 0.3)]


async def test_a_timeout_ends_at_its_time(clock: Clock) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.5):
            await asyncio.sleep(60)
    assert clock.now == 2.5
