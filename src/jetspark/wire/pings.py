"""PING bookkeeping: which PONG answers which PING, and when silence means that the connection is dead.

The server answers PINGs in their order. Some are ours, to see whether it lives; others are a flush, whose caller waits.
Anything that arrives is a sign of life too: while a long backlog comes in, the PONG stands at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from jetspark.wire.errors import Error

__all__ = ["Answered", "Pings"]

Answered = Callable[[Error | None], None]
"""Told None when the PONG came, or why it cannot come any more."""


class Pings:
    """The PINGs under way in one session.

    Attributes
    ----------
    limit
        Unanswered PINGs of ours at which the connection is taken for dead.
    alive
        Something arrived since the last `tick`; set by who reads.
    confirmed
        The mark of the latest PING that was answered. A mark is the number of publishes sent before the PING.
    """

    __slots__ = ("_silent", "_waiting", "alive", "confirmed", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.alive = False
        self.confirmed = 0
        self._silent = 0
        self._waiting: deque[tuple[int, Answered | None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def tick(self, mark: int) -> bool:
        """An interval passed. True: send a PING; False: the connection is dead."""
        if self.alive:
            self.alive = False
            self._silent = 0
        if self._silent >= self.limit:
            return False
        self._silent += 1
        self._waiting.append((mark, None))
        return True

    def sent(self, mark: int, answered: Answered | None = None) -> None:
        """A PING was sent; perhaps for somebody who waits for its answer."""
        self._waiting.append((mark, answered))

    def pong(self) -> None:
        """A PONG came. One too many is let pass: it harms nobody."""
        self._silent = 0
        if self._waiting:
            self.confirmed, answered = self._waiting.popleft()
            if answered is not None:
                answered(None)

    def lost(self, error: Error) -> None:
        """The session is over: who waits is told."""
        waiting, self._waiting = self._waiting, deque()
        self._silent = 0
        self.alive = False
        _tell(waiting, error)

    def close(self, error: Error) -> None:
        """The connection closes: who waits is told now. The places are kept, as the session's PONGs still come."""
        waiting, self._waiting = self._waiting, deque((mark, None) for mark, _ in self._waiting)
        _tell(waiting, error)


def _tell(waiting: Iterable[tuple[int, Answered | None]], error: Error) -> None:
    for _, answered in waiting:
        if answered is not None:
            answered(error)
