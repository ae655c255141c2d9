"""The leak check: nothing that a test opened is left after it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

__all__ = ["no_leaks"]


def _sockets() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """Check that nothing that the test opened is left: no task, no thread, no socket."""
    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
    pool = asyncio.get_running_loop()
    await pool.run_in_executor(None, time.monotonic)  # the helper threads of the loop are not ours
    sockets = _sockets()
    yield
    deadline = time.monotonic() + 5
    while True:
        gc.collect()
        left_tasks = {task for task in asyncio.all_tasks() - tasks if task is not asyncio.current_task()}
        left_threads = {thread for thread in set(threading.enumerate()) - threads if "jetspark" in thread.name}
        left_sockets = _sockets() - sockets
        if not (left_tasks or left_threads or left_sockets):
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"left behind: {left_tasks} {left_threads} {left_sockets}")
        await asyncio.sleep(0.01)
