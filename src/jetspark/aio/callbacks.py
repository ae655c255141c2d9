"""The log of events, with the traceback of a callback that raised; and which exceptions end the task of a callback."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from jetspark.wire.callbacks import callback_name
from jetspark.wire.errors import SubscriptionClosedError
from jetspark.wire.events import Closed, Connected, Disconnected, ErrorOccurred, Event, Reconnected

__all__ = ["CALLBACK_ERRORS", "callback_task_ended", "check_own_cancellation", "log_event", "log_event_handler_failed"]

_log: Final = logging.getLogger("jetspark")

CALLBACK_ERRORS: Final = (Exception, asyncio.CancelledError)
"""Errors that a callback may raise without ending the task that calls it; see `check_own_cancellation`."""


def check_own_cancellation(error: BaseException) -> None:
    """Raise a CancelledError if the present task is to end; ignore it if the callback has raised it by itself.

    A callback raises one if it awaits something else that was cancelled.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise error


def callback_task_ended(what: str, task: asyncio.Task[None]) -> SubscriptionClosedError:
    """Return the error of a subscription or a consume whose callback's task has ended before it."""
    cause = None if task.cancelled() else task.exception()
    how = "was cancelled" if task.cancelled() else f"ended with {cause!r}"
    error = SubscriptionClosedError(f"the callback's task of {what} {how}")
    error.__cause__ = cause
    return error


def log_event(event: Event, left_out: int = 0) -> None:
    """Log an event; the exception of a callback with its traceback. `left_out` errors like it were not logged."""
    if isinstance(event, ErrorOccurred) and event.callback is None:
        more = f" ({left_out} more of this class were not logged)" if left_out else ""
        _log.warning("ErrorOccurred(error=%r)%s", event.error, more)
        return
    if isinstance(event, ErrorOccurred):
        what = f"the callback {event.callback} raised {type(event.error).__name__}"
        if event.subject is not None:
            what += f" at a message on {event.subject!r}"
        if event.subscription is not None:
            what += f" from {event.subscription}"
        _log.error("%s", what, exc_info=event.error)
        return
    normal = isinstance(event, Connected | Reconnected) or (
        isinstance(event, Disconnected | Closed) and event.error is None
    )
    _log.log(logging.INFO if normal else logging.WARNING, "%s", event)


def log_event_handler_failed(handler: object, event: Event, error: BaseException) -> None:
    """Log that the handler of events raised."""
    text = "the handler of the connection's events raised at %s; the handler is %s"
    _log.error(text, event, callback_name(handler), exc_info=error)
