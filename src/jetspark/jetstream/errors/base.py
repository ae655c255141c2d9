"""Root of the error tree.

One class catches everything the library raises on purpose: `Error`. Each class below it is also the builtin it
resembles (TimeoutError, ConnectionError, ValueError, LookupError, PermissionError), so that code that knows nothing of
NATS can handle it. Errors travel between processes (Spark sends a task's failure to its driver): all of them keep every
attribute when they are pickled.
"""

from __future__ import annotations

__all__ = ["Error"]


class Error(Exception):
    """Base of all errors of this library. `str()` tells what happened, where, and how to mend it if that is known."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the class with `args`, which a constructor with other parameters would not take.
        return _restore, (type(self), self.args), self.__dict__


def _restore(cls: type[Error], args: tuple[object, ...]) -> Error:
    error = cls.__new__(cls)
    error.args = args
    return error
