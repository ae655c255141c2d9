"""The warnings of a consume and the exceptions of its callback: to `on_error`, else to the events of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jetspark.aio.callbacks import CALLBACK_ERRORS, check_own_cancellation, log_event
from jetspark.aio.core import ConnectionCore
from jetspark.wire.events import ErrorOccurred, callback_failed
from jetspark.wire.messages import Message

__all__ = ["ErrorHandler", "ErrorReports"]

ErrorHandler = Callable[[Exception], Awaitable[None] | None]
"""Called with each warning and each exception of a callback; a coroutine function or a plain function."""


class ErrorReports:
    """The reports of one consume.

    Parameters
    ----------
    where
        Name of the consume.
    on_error
        The program's handler, if there is one.
    """

    def __init__(self, connection: ConnectionCore, where: str, on_error: ErrorHandler | None) -> None:
        self._connection = connection
        self._where = where
        self._on_error = on_error
        self._tasks: set[asyncio.Task[None]] = set()

    def callback_failed(self, callback: object, error: BaseException, message: Message) -> None:
        """Report that the callback raised at this message. It is logged in any case, with its traceback."""
        event = callback_failed(callback, error, subject=message.subject, subscription=f"consume of {self._where}")
        if self._on_error is None:
            self._connection.emit(event)
        else:
            log_event(event)
            self.report(event.error)

    def report(self, error: Exception) -> None:
        """Report a warning."""
        if self._on_error is None:
            self._connection.emit(ErrorOccurred(error))
            return
        try:
            result = self._on_error(error)
        except CALLBACK_ERRORS as fault:  # the handler is the user's
            self._handler_failed(fault)
            return
        if result is not None:
            task = asyncio.ensure_future(self._await_handler(result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _await_handler(self, result: Awaitable[None]) -> None:
        try:
            await result
        except CALLBACK_ERRORS as fault:  # the handler is the user's
            check_own_cancellation(fault)
            self._handler_failed(fault)

    def _handler_failed(self, fault: BaseException) -> None:
        self._connection.emit(callback_failed(self._on_error, fault, subscription=f"consume of {self._where}"))
