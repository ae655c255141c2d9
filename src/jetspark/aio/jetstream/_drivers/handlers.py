"""The handlers of a consume: tasks that run its callback, each with one message at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from jetspark.aio.callbacks import CALLBACK_ERRORS, check_own_cancellation
from jetspark.aio.jetstream._drivers.error_reports import ErrorReports
from jetspark.aio.message import Msg
from jetspark.jetstream.errors import ConfigError, Error

__all__ = ["MAX_CONCURRENCY", "Callback", "Handlers", "check_concurrency", "check_one_by_one"]

MAX_CONCURRENCY: Final = 1000
"""Most calls of a callback at a time: the blocking front has a thread for each."""


Callback = Callable[[Msg], Awaitable[None] | None]
"""Called with each message; a coroutine function or a plain function."""


class Handlers:
    """The tasks of one consume.

    Parameters
    ----------
    callback
        Called with each message.
    errors
        Gets the exceptions of the callback, and after its last call the error that ended the consume.

    Attributes
    ----------
    running
        How many have not ended.
    """

    def __init__(self, callback: Callback, errors: ErrorReports) -> None:
        self._callback = callback
        self._errors = errors
        self._tasks: list[asyncio.Task[None]] = []
        self.running = 0

    def start(self, reader: AsyncIterator[Msg], on_end: Callable[[], None], name: str) -> asyncio.Task[None]:
        """Start a handler with a reader of its own; `on_end` is called at its end."""
        task = asyncio.get_running_loop().create_task(self._run(reader, on_end), name=name)
        self._tasks.append(task)
        self.running += 1
        task.add_done_callback(self._on_done)  # it is called also if the task is cancelled before it begins
        return task

    def _on_done(self, _: asyncio.Task[None]) -> None:
        self.running -= 1
        if not self.running:
            self._errors.report_end()

    async def wait(self) -> None:
        """Wait for the end of all handlers. In one of them it returns at once, as two could wait for each other."""
        if asyncio.current_task() not in self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, reader: AsyncIterator[Msg], on_end: Callable[[], None]) -> None:
        try:
            await self._call_for_each(reader)
        finally:  # also when the task is cancelled
            on_end()

    async def _call_for_each(self, reader: AsyncIterator[Msg]) -> None:
        while True:
            try:
                message = await anext(reader)
            except (StopAsyncIteration, Error):
                return
            try:
                result = self._callback(message)
                if result is not None:
                    await result
            except CALLBACK_ERRORS as error:  # continue with the next message
                check_own_cancellation(error)
                self._errors.callback_failed(self._callback, error, message)


def check_concurrency(concurrency: object, callback: object) -> None:
    """Check the number of handlers.

    Raises
    ------
    ConfigError
        It is not a number from 1 to `MAX_CONCURRENCY`, or there is no callback to run.
    """
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or not 1 <= concurrency <= MAX_CONCURRENCY:
        hint = "; share the work among several processes" if isinstance(concurrency, int) and concurrency > 1 else ""
        raise ConfigError(f"concurrency must be a whole number from 1 to {MAX_CONCURRENCY}, not {concurrency!r}{hint}")
    if concurrency > 1 and callback is None:
        raise ConfigError(f"concurrency={concurrency} needs a callback; without one, iterate in several tasks")


def check_one_by_one(concurrency: int) -> None:
    """Raise ConfigError if an ordered consumer is to have several handlers."""
    if concurrency != 1:
        raise ConfigError(f"concurrency of an ordered consumer must be 1, because it keeps order, not {concurrency!r}")
