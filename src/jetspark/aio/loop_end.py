"""The end of an event loop: `asyncio.run` cancels all tasks, and then closes all asynchronous generators."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

__all__ = ["call_unless_loop_ends", "run_at_loop_end"]

_TURNS: Final = 10
"""Turns of the event loop from the end of the last task to the end of the generators, and some more."""
_CHECK_INTERVAL: Final = 0.05
"""Seconds between two looks at tasks that were cancelled and have not ended."""


async def run_at_loop_end(close: weakref.WeakMethod[Callable[[], Awaitable[None]]]) -> AsyncGenerator[None]:
    """Call `close` when `asyncio.run` closes the generators. The generator must have begun.

    The event loop calls nothing else after the cancellation of the tasks.
    """
    try:
        yield
    finally:
        if (found := close()) is not None:
            await found()


def call_unless_loop_ends(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Call a function after a task was cancelled, but not if all tasks were cancelled because the event loop ends."""
    # Tasks of ours may have begun after the cancellation of all others.
    if any(not task.cancelling() for task in asyncio.all_tasks(loop) if not task.get_name().startswith("jetspark")):
        function()
    else:
        _call_after(loop, function, _TURNS)


def _call_after(loop: asyncio.AbstractEventLoop, function: Callable[[], object], turns: int) -> None:
    tasks = asyncio.all_tasks(loop)
    if tasks and all(task.cancelling() for task in tasks):
        loop.call_later(_CHECK_INTERVAL, _call_after, loop, function, _TURNS)
    elif turns:
        loop.call_soon(_call_after, loop, function, turns - 1)
    else:
        function()
