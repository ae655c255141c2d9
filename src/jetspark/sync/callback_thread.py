"""Runs a user's callback in a thread of its own, for an object on the event loop that awaits it.

A callback may block and may call the connection, so it must not run on the loop. Its caller waits for its end before
the next call, so calls come one after the other and in order.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Final, Generic, ParamSpec

from jetspark.wire.callbacks import as_exception, callback_name

__all__ = ["CALLBACK_THREAD_PREFIX", "CallbackThread"]

P = ParamSpec("P")

CALLBACK_THREAD_PREFIX: Final = "jetspark callback"
"""Prefix of the threads' names."""

_Job = tuple[Callable[[], object], "asyncio.Future[None]", asyncio.AbstractEventLoop]


class CallbackThread(Generic[P]):
    """A callback as a coroutine function. Its thread starts with the first call and ends with the last reference."""

    def __init__(self, callback: Callable[P, object]) -> None:
        self._callback = callback
        self.__qualname__ = callback_name(callback)  # for the event of an exception
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._jobs.put, None)

    @property
    def thread_callback(self) -> Callable[P, object]:
        """The callback itself, for callers that run it in a thread of their own."""
        return self._callback

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Run the callback in its thread and wait for its end; its exception is raised here."""
        loop = asyncio.get_running_loop()
        if self._thread is None:
            name = f"{CALLBACK_THREAD_PREFIX} {self.__qualname__}"
            self._thread = threading.Thread(target=_run_jobs, args=(self._jobs,), name=name, daemon=True)
            self._thread.start()
        done: asyncio.Future[None] = loop.create_future()
        callback, context = self._callback, copy_context()
        self._jobs.put((lambda: context.run(callback, *args, **kwargs), done, loop))
        await done

    def stop(self, timeout: float) -> None:
        """End the thread after the queued calls, and wait for that, unless called in that thread."""
        self._jobs.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)


def _run_jobs(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        function, done, loop = job
        problem: BaseException | None = None
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised in the caller, on the loop
            problem = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the result
            loop.call_soon_threadsafe(_set_outcome, done, problem)
        del job, function, done, problem


def _set_outcome(done: asyncio.Future[None], problem: BaseException | None) -> None:
    if done.done():  # its waiter was cancelled
        return
    if problem is None:
        done.set_result(None)
    else:
        done.set_exception(as_exception(problem))
