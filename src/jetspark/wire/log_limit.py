"""Limits the lines of one kind in the log: a server that sends errors without an end must not fill a disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["LogLimit"]

BURST: Final = 10
"""Lines of one kind that are logged within `PERIOD`."""
PERIOD: Final = 10.0
"""Seconds."""


@dataclass(slots=True)
class _Lines:
    begin: float
    logged: int = 0
    left_out: int = 0


class LogLimit:
    """The lines of each kind. There are few kinds, such as classes of errors. The caller passes the time."""

    def __init__(self) -> None:
        self._kinds: dict[object, _Lines] = {}

    def allow(self, kind: object, now: float) -> int | None:
        """Return how many lines of the kind were left out before this one; None if this one is left out, too."""
        lines = self._kinds.setdefault(kind, _Lines(now))
        left_out = 0
        if now >= lines.begin + PERIOD:
            left_out = lines.left_out
            lines.begin, lines.logged, lines.left_out = now, 0, 0
        if lines.logged >= BURST:
            lines.left_out += 1
            return None
        lines.logged += 1
        return left_out
