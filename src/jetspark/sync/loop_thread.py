"""An event loop in a thread of its own, for one blocking connection."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from jetspark.wire.errors import ConnectionClosedError, WrongEventLoopError

__all__ = ["EventLoopThread"]

T = TypeVar("T")


class EventLoopThread:
    """Runs an event loop in a thread, until `stop`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._stop_lock = threading.Lock()  # so that nothing is given to the loop after its stop: nobody would run it
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(_settle_callbacks())  # calls that have ended by now still return their results
            left = asyncio.all_tasks(self.loop)
            for task in left:  # calls of other threads that came too late
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()

    def check_caller(self) -> None:
        """Raise if the caller must not wait for the loop: the caller runs on the loop, or in another process."""
        if self._pid != os.getpid():
            raise WrongEventLoopError("the connection was opened in another process; open one in each")
        if self._thread is threading.current_thread():
            raise WrongEventLoopError("a blocking call inside the connection's own event loop would wait for itself")
        if self._stopping:
            raise ConnectionClosedError("the connection is closed")

    def run_coroutine(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for the result. An interrupt of the wait cancels the coroutine."""
        try:
            with self._stop_lock:
                self.check_caller()
                future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException as error:
            future.cancel()
            if isinstance(error, CancelledError) and self._stopping:
                raise ConnectionClosedError("the connection was closed meanwhile") from None
            raise

    def call_soon(self, function: Callable[[], object]) -> bool:
        """Run a function on the loop without waiting, in the order of the calls. After `stop`, return False."""
        with self._stop_lock:
            if not self._stopping:
                self.loop.call_soon_threadsafe(function)
            return not self._stopping

    def stop(self) -> None:
        """End the thread."""
        with self._stop_lock:
            if not self._stopping:
                self._stopping = True
                self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not threading.current_thread():
            self._thread.join()


async def _settle_callbacks() -> None:
    """Wait the turns between the end of an awaited future and the end of the call that awaits it."""
    for _ in range(4):
        await asyncio.sleep(0)
