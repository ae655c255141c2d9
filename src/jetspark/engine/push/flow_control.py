"""Flow control: which requests to answer, and when (ADR-15, Flow Control).

The server sends a flow control request and, when too many bytes are in flight, waits for the answer. So the answer is
due when all messages before the request have been handed to the user, not when the request arrives.
"""

from __future__ import annotations

from collections import deque

__all__ = ["FlowControl"]


class FlowControl:
    """The requests that wait for an answer.

    Subjects are opaque. Each request is answered once, although heartbeats repeat it while the server waits (FLC-05).
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._last = b""

    @property
    def next_due(self) -> int | None:
        """Number of messages that must be handed out before the next answer; None if no request waits."""
        return self._waiting[0][0] if self._waiting else None

    def request(self, subject: bytes, received: int) -> None:
        """Add a request, sent directly or in the header of a heartbeat, that came after `received` messages."""
        if subject != self._last:
            self._last = subject
            self._waiting.append((received, subject))

    def due(self, consumed: int) -> list[bytes]:
        """Return the subjects to publish an empty message to, after `consumed` messages were handed out."""
        subjects = []
        while self._waiting and self._waiting[0][0] <= consumed:
            subjects.append(self._waiting.popleft()[1])
        return subjects

    def disconnected(self) -> None:
        """Answer a repeated request again, as the first answer may have been lost with the session."""
        self._last = self._waiting[-1][1] if self._waiting else b""

    def clear(self) -> None:
        """Drop all requests, as the consumer was replaced."""
        self._waiting.clear()
        self._last = b""
