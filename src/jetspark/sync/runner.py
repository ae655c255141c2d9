"""An event loop on a thread of its own, for one blocking connection."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from jetspark.wire.errors import ConnectionClosedError, WrongEventLoopError

__all__ = ["Runner"]

T = TypeVar("T")


class Runner:
    """Starts the thread; `stop` ends it."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()

    def check(self) -> None:
        """Raise when the caller must not wait for the loop: it runs there, or in another process."""
        if self._pid != os.getpid():
            raise WrongEventLoopError("the connection was opened in another process; open one in each")
        if self._thread is threading.current_thread():
            raise WrongEventLoopError("a blocking call inside the connection's own event loop would wait for itself")
        if not self._thread.is_alive():
            raise ConnectionClosedError("the connection is closed")

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the loop and wait for the result. Whatever interrupts the wait cancels what runs."""
        try:
            self.check()
            future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def soon(self, function: Callable[[], object]) -> None:
        """Run on the loop without waiting; in the order of the calls. Nothing happens once it is stopped."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """End the thread."""
        if self._thread.is_alive() and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not threading.current_thread():
            self._thread.join()
