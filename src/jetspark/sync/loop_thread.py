"""An event loop in a thread of its own, for one blocking connection."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from jetspark.wire.errors import ConnectionClosedError, WrongEventLoopError

__all__ = ["EventLoopThread"]

T = TypeVar("T")


class EventLoopThread:
    """Runs an event loop in a thread, until `stop`."""

    def __init__(self, name: str) -> None:
        self._stopping = self._stop_sent = True  # until there is a loop
        self._pid = os.getpid()
        self._stop_lock = threading.Lock()  # so that nothing is given to the loop after its stop: nobody would run it
        self._closing: asyncio.Task[None] | None = None  # a reference, because the loop has none
        started: Future[asyncio.AbstractEventLoop] = Future()
        # The thread does not refer to this object, so that it ends with the last reference to it.
        self._thread = threading.Thread(target=_run_loop, args=(started,), name=name, daemon=True)
        try:
            self._thread.start()
            self.loop = started.result()
            self._stopping = self._stop_sent = False
        except BaseException:  # an interrupt
            started.add_done_callback(_stop_loop)
            raise

    def __del__(self) -> None:
        if not self._stop_sent and self._pid == os.getpid():
            with suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self.loop.stop)

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
        call = _Call(coroutine, self.loop)
        try:  # an interrupt may come between any two steps
            with self._stop_lock:
                self.check_caller()
                call.scheduled = True
                self.loop.call_soon_threadsafe(call.start)
            return call.result.result()
        except BaseException as error:
            call.abandon()
            if isinstance(error, CancelledError) and self._stopping:
                raise ConnectionClosedError("the connection was closed meanwhile") from None
            raise

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def call_soon(self, function: Callable[[], object]) -> bool:
        """Run a function on the loop without waiting, in the order of the calls. After `stop`, return False."""
        with self._stop_lock:
            if not self._stopping:
                self.loop.call_soon_threadsafe(function)
            return not self._stopping

    def stop_after(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine on the loop, and end the thread after it. Does not wait; for any thread of this process."""

        async def run() -> None:
            try:
                await work()
            finally:
                self.stop()

        if self._pid == os.getpid():
            self.call_soon(lambda: self._keep(self.loop.create_task(run(), name="jetspark close")))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._closing = task

    def stop(self) -> None:
        """End the thread."""
        with self._stop_lock:
            if not self._stopping:
                self._stopping = True
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._stop_sent = True
        if self._thread is not threading.current_thread():
            self._thread.join()


def _run_loop(started: Future[asyncio.AbstractEventLoop]) -> None:
    """Create a loop, in this thread because no interrupt can come here, and run it until it is stopped."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.call_soon(started.set_result, loop)
        loop.run_forever()
        loop.run_until_complete(_settle_callbacks())  # calls that have ended by now still return their results
        left = asyncio.all_tasks(loop)
        for task in left:  # calls of other threads that came too late
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _stop_loop(started: Future[asyncio.AbstractEventLoop]) -> None:
    loop = started.result()
    loop.call_soon_threadsafe(loop.stop)


async def _settle_callbacks() -> None:
    """Wait the turns between the end of an awaited future and the end of the call that awaits it."""
    for _ in range(4):
        await asyncio.sleep(0)


class _Call(Generic[T]):
    """A call of another thread: a coroutine that runs on the loop, and its result."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self.result: Future[T] = Future()
        self.scheduled = False
        self._coroutine = coroutine
        self._loop = loop
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        """On the loop: begin, unless the caller is gone."""
        if self.result.set_running_or_notify_cancel():
            self._task = self._loop.create_task(self._coroutine)
            self._task.add_done_callback(self._on_done)
        else:
            self._coroutine.close()

    def _on_done(self, task: asyncio.Task[T]) -> None:
        self._task = None
        if task.cancelled():
            self.result.set_exception(CancelledError())
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())

    def abandon(self) -> None:
        """In the caller's thread: cancel the coroutine. Once it may have begun, only the loop's thread may touch it."""
        if self.scheduled:
            self.result.cancel()
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._cancel)
        else:
            self._coroutine.close()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif self.result.cancelled():  # perhaps `start` was never scheduled
            self._coroutine.close()
