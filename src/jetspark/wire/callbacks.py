"""Callbacks of the program: their names, and what they raise."""

from __future__ import annotations

from functools import partial

__all__ = ["as_exception", "callback_name"]


def callback_name(callback: object) -> str:
    """Return the qualified name of a function, or of the class of another callable."""
    while isinstance(callback, partial):
        callback = callback.func
    name = getattr(callback, "__qualname__", None)
    return name if isinstance(name, str) else type(callback).__qualname__


def as_exception(error: BaseException) -> Exception:
    """Return the error if every handler of exceptions may get it, else a RuntimeError with the error as its cause.

    `SystemExit` and `CancelledError` would end the thread or the task in which they are raised, and a future does not
    take `StopIteration`.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    failure = RuntimeError(f"a callback raised {error!r}")
    failure.__cause__ = error
    return failure
