"""Errors of counters that are read. `CounterError` is the server's refusal of a write."""

from __future__ import annotations

from jetspark.wire.errors import Error

__all__ = ["BadCounterError", "CounterNotFoundError"]


class CounterNotFoundError(Error, LookupError):
    """There is no such counter: nothing was added to its subject.

    Attributes
    ----------
    stream, subject
        Name of the stream, and the subject of the counter.
    """

    def __init__(self, message: str = "", *, stream: str = "", subject: str = "") -> None:
        super().__init__(message)
        self.stream = stream
        self.subject = subject


class BadCounterError(Error, ValueError):
    """A message is no value of a counter."""
