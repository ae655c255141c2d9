"""Delay before a pull that would probably get the same answer as the one before (ALG-06)."""

from __future__ import annotations

from typing import Final

__all__ = ["PullBackoff"]

FIRST_DELAY: Final = 0.25
MAX_DELAY: Final = 2.0


class PullBackoff:
    """A delay that doubles from 0.25 s to 2 s while no message comes."""

    __slots__ = ("_delay",)

    def __init__(self) -> None:
        self._delay = 0.0

    def next_delay(self) -> float:
        """Return the seconds to wait before this pull."""
        self._delay = min(max(2 * self._delay, FIRST_DELAY), MAX_DELAY)
        return self._delay

    def reset(self) -> None:
        """Start with the shortest delay again."""
        self._delay = 0.0
