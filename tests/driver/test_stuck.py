"""A test that waits for ever fails at once, and its error names the waiting tasks."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.virtual_time import StuckError, VirtualTimeLoop


@pytest.fixture
def world() -> None:
    """These tests create their own loops."""


def test_tasks_that_nothing_can_wake_end_the_run() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    loop = VirtualTimeLoop()
    task = loop.create_task(wait_for_nothing(), name="the waiting one")
    with pytest.raises(StuckError, match="the waiting one"):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_timers_that_continue_for_ever_end_the_run() -> None:
    async def tick() -> None:
        while True:  # noqa: ASYNC110 - this is what is tested
            await asyncio.sleep(60)

    loop = VirtualTimeLoop()
    task = loop.create_task(tick())
    with pytest.raises(StuckError, match="waited for 14400 s"):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
