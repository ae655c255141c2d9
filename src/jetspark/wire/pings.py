"""PING bookkeeping: which PONG answers which PING, and when the connection counts as dead.

The server answers PINGs in order. Keep-alive PINGs check whether the server is alive; other PINGs belong to a flush,
whose caller waits. Any received bytes also show that the server is alive: in a long backlog the PONG comes last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from jetspark.wire.errors import Error

__all__ = ["PingCallback", "PingTracker"]

PingCallback = Callable[[Error | None], None]
"""Called with None when the PONG came, or with the error why it cannot come any more."""


class PingTracker:
    """The unanswered PINGs of one session.

    Attributes
    ----------
    limit
        Number of unanswered keep-alive PINGs at which the connection counts as dead.
    received
        Number of reads of the socket that brought bytes; the reader counts it.
    confirmed_publishes
        Mark of the latest answered PING. A mark is the number of publishes sent before the PING.
    """

    __slots__ = ("_received_at_tick", "_unanswered", "_waiting", "confirmed_publishes", "limit", "received")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.received = 0
        self.confirmed_publishes = 0
        self._received_at_tick = 0
        self._unanswered = 0
        self._waiting: deque[tuple[int, PingCallback | None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def tick(self, mark: int) -> bool:
        """Handle the end of an interval. Return True to send a PING, False if the connection is dead."""
        if self.received != self._received_at_tick:
            self._received_at_tick = self.received
            self._unanswered = 0
        if self._unanswered >= self.limit:
            return False
        self._unanswered += 1
        self._waiting.append((mark, None))
        return True

    def add_ping(self, mark: int, on_answer: PingCallback | None = None) -> None:
        """Register a sent PING, and the callback for its answer if there is one."""
        self._waiting.append((mark, on_answer))

    def on_pong(self) -> None:
        """Handle a PONG. A PONG without a PING is ignored."""
        self._unanswered = 0
        if self._waiting:
            self.confirmed_publishes, answered = self._waiting.popleft()
            if answered is not None:
                answered(None)

    def on_session_lost(self, error: Error) -> None:
        """Handle the end of the session: pass the error to all callbacks."""
        waiting, self._waiting = self._waiting, deque()
        self._unanswered = 0
        self._received_at_tick = self.received
        _fail_callbacks(waiting, error)

    def close(self, error: Error) -> None:
        """Pass the error to all callbacks, as the connection closes. Keep the PINGs, as their PONGs still come."""
        waiting, self._waiting = self._waiting, deque((mark, None) for mark, _ in self._waiting)
        _fail_callbacks(waiting, error)


def _fail_callbacks(waiting: Iterable[tuple[int, PingCallback | None]], error: Error) -> None:
    for _, answered in waiting:
        if answered is not None:
            answered(error)
