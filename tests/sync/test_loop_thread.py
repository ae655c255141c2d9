"""The thread that runs the event loop of a blocking connection."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from jetspark.errors import ConnectionClosedError
from jetspark.sync.loop_thread import EventLoopThread


def test_a_call_that_ends_at_the_moment_of_the_stop_still_has_its_result() -> None:
    runner = EventLoopThread("jetspark test")
    waited_for: asyncio.Future[int] = runner.loop.create_future()
    begun, go = threading.Event(), threading.Event()

    async def wait() -> int:
        begun.set()
        return await waited_for

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(lambda: runner.run_coroutine(wait()))
        assert begun.wait(10)
        runner.call_soon(lambda: go.wait(10))  # so that the next callbacks run in one iteration of the loop
        runner.call_soon(lambda: waited_for.set_result(7))
        stopping = threading.Thread(target=runner.stop)
        stopping.start()
        while not runner._stopping:
            pass
        go.set()
        assert result.result(10) == 7
        stopping.join(10)


def test_a_call_that_has_not_ended_at_the_stop_gets_an_error() -> None:
    runner = EventLoopThread("jetspark test")
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(lambda: runner.run_coroutine(wait()))
        assert begun.wait(10)
        runner.stop()
        with pytest.raises(ConnectionClosedError, match="closed meanwhile"):
            result.result(10)
