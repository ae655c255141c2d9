"""The open pulls of a fetch or consume: what was requested and has not arrived.

The server does not say how many messages a pull still has, so both sides count. A status names its pull by a token.
"""

from __future__ import annotations

from typing import Final

from jetspark.jetstream.status import StatusRule

__all__ = ["OpenPulls"]

REMEMBERED: Final = 64
"""Number of open pulls whose size is kept, for the case that one is refused. A refusal comes at once."""


class OpenPulls:
    """The counters.

    Attributes
    ----------
    messages, size
        Messages and bytes that were requested and have not arrived.
    latest
        Token of the latest pull, 0 before the first.
    """

    def __init__(self) -> None:
        self.messages = self.size = 0
        self.latest = 0
        self._sizes: dict[int, tuple[int, int]] = {}  # token -> batch and bytes
        self._first = 1  # token of the first pull since the last reset

    def __bool__(self) -> bool:
        """Return whether a pull may be open."""
        return bool(self._sizes)

    def is_current(self, token: int) -> bool:
        """Return whether a status with this token is about a pull since the last reset."""
        return self._first <= token <= self.latest

    def add(self, batch: int, size: int) -> int:
        """Count a pull; return its token."""
        self.latest += 1
        self.messages += batch
        self.size += size
        self._sizes[self.latest] = (batch, size)
        if len(self._sizes) > REMEMBERED:
            del self._sizes[next(iter(self._sizes))]
        return self.latest

    def arrived(self, count: int, size: int) -> None:
        """Count messages that have arrived."""
        self.messages = max(self.messages - count, 0)
        self.size = max(self.size - size, 0)

    def close(self, token: int, rule: StatusRule, pending: tuple[int, int] | None) -> bool:
        """Handle the end of a pull: what it did not deliver is not outstanding any more (ALG-04, ALG-05).

        Returns whether no pull is open.
        """
        messages, size = self._sizes.pop(token, (self.messages, self.size))
        if rule.has_pending and pending is not None:
            messages, size = max(pending[0], 0), max(pending[1], 0)  # -1 has been seen
        self.arrived(messages, size)
        return rule.ends_all_pulls or not self._sizes

    def clear(self) -> None:
        """Handle that all messages came."""
        self._sizes.clear()

    def reset(self) -> None:
        """Forget all pulls; their later statuses are ignored."""
        self.messages = self.size = 0
        self._sizes.clear()
        self._first = self.latest + 1
