"""The warnings of a consume and the exceptions of its callback: to `on_error`, else to the events of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jetspark.aio.callbacks import CALLBACK_ERRORS, check_own_cancellation, log_event
from jetspark.aio.core import ConnectionCore
from jetspark.jetstream.errors import ConnectionClosedError, Error
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
        self._end_noted = False
        self._end_error: Error | None = None

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
            self._connection.tasks.track_handler(asyncio.ensure_future(self._await_handler(result)))

    # -- the end -------------------------------------------------------------------------------------------------

    def note_end(self, error: Error | None, *, has_callback: bool) -> None:
        """Note why the consume has ended: by this error, or because the connection is closed.

        The end is reported after the last message of the callback (`report_end`). Without a callback, the iteration
        raises the error. Then the handler gets a closed connection at once.
        """
        if not self._end_noted:
            self._end_noted = True
            self._end_error = error or self._connection.outbound.closed_error
            if not has_callback and isinstance(self._end_error, ConnectionClosedError):
                self.report_end()

    def replace_end(self, error: Error) -> None:
        """Note an error of a consume that had ended without one: its last messages were dropped."""
        self._end_noted = True
        self._end_error = error

    def report_end(self) -> None:
        """Report why the consume has ended, if it was neither stopped nor drained. A second call does nothing."""
        error = self.take_end_error()
        closed = isinstance(error, ConnectionClosedError) and self._connection.closed
        if error is not None and (self._on_error is not None or not closed):
            self.report(error)  # without a handler, the event `Closed` reports a closed connection

    def take_end_error(self) -> Error | None:
        """Return the error that `report_end` would report. The caller reports it."""
        error, self._end_error = self._end_error, None
        return error

    # -- the handler ---------------------------------------------------------------------------------------------

    async def _await_handler(self, result: Awaitable[None]) -> None:
        try:
            await result
        except CALLBACK_ERRORS as fault:  # the handler is the user's
            check_own_cancellation(fault)
            self._handler_failed(fault)

    def _handler_failed(self, fault: BaseException) -> None:
        self._connection.emit(callback_failed(self._on_error, fault, subscription=f"consume of {self._where}"))
