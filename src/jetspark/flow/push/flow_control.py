"""Which flow-control requests to answer, and when (ADR-15, Flow Control).

The server asks "have you got this far?" and waits for the answer when too much is under way. So the answer is due when
everything that came before the question has been handed to the user, not when the question arrived.
"""

from __future__ import annotations

from collections import deque

__all__ = ["FlowControl"]


class FlowControl:
    """The requests that wait for their answer.

    The subjects are the server's affair and are not looked into. Each is answered once, although heartbeats repeat it
    as long as the server waits (FLC-05).
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._last = b""

    @property
    def mark(self) -> int | None:
        """How many messages have to be handed out before the next answer; None when none is waited for."""
        return self._waiting[0][0] if self._waiting else None

    def request(self, subject: bytes, received: int) -> None:
        """The server asks, directly or by the header of a heartbeat, behind so many messages."""
        if subject != self._last:
            self._last = subject
            self._waiting.append((received, subject))

    def due(self, handed_out: int) -> list[bytes]:
        """The subjects to publish an empty message to, now that so many messages have been handed out."""
        subjects = []
        while self._waiting and self._waiting[0][0] <= handed_out:
            subjects.append(self._waiting.popleft()[1])
        return subjects

    def session_lost(self) -> None:
        """Answers may have been lost with the session: a question that comes again is answered again."""
        self._last = self._waiting[-1][1] if self._waiting else b""

    def forget(self) -> None:
        """The consumer is another one: nobody waits for these answers."""
        self._waiting.clear()
        self._last = b""
