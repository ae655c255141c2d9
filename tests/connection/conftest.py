"""Servers, both fronts, and the leak check that every test here is under."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.connection.support import Front

from jetspark.server import NatsServer


@pytest.fixture(scope="session")
def shared_server() -> Iterator[NatsServer]:
    """A server that no test stops."""
    with NatsServer(jetstream=False) as server:
        yield server


@pytest.fixture
def url(shared_server: NatsServer) -> str:
    return shared_server.url


@pytest.fixture
def server() -> Iterator[NatsServer]:
    """A server of the test's own, to kill."""
    with NatsServer(jetstream=False) as server:
        yield server


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
    """Nothing that the test opened is there after it: no task, no thread, no socket."""
    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
    pool = asyncio.get_running_loop()
    await pool.run_in_executor(None, time.monotonic)  # the loop's own helper threads are not ours
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


@pytest.fixture(params=["aio", "sync"])
async def front(request: pytest.FixtureRequest, no_leaks: None) -> AsyncIterator[Front]:
    """Each front in turn."""
    front = Front(request.param)
    yield front
    await front.close()
