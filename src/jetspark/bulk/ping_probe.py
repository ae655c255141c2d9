"""A PING shortly before the timeout of a publish: does the server answer although the stream does not?"""

from __future__ import annotations

import time

from jetspark.bulk.connection import Connection
from jetspark.jetstream.publish import PING_AT

__all__ = ["PingProbe"]


class PingProbe:
    """Sends a PING when most of the timeout has passed.

    Attributes
    ----------
    deadline
        Monotonic time at which the timeout is over.
    """

    def __init__(self, connection: Connection, timeout: float) -> None:
        now = time.monotonic()
        self.deadline = now + timeout
        self._ping_at = now + timeout * PING_AT
        self._connection = connection
        self._pongs: int | None = None  # before the PING was sent

    def next_wait(self) -> float:
        """Return the time until which to read; sends the PING when it is due."""
        if self._pongs is not None:
            return self.deadline
        if time.monotonic() < self._ping_at:
            return self._ping_at
        self._pongs = self._connection.pongs
        self._connection.ping()
        return self.deadline

    @property
    def answered(self) -> bool:
        """Whether the server has answered the PING."""
        return self._pongs is not None and self._connection.pongs > self._pongs
