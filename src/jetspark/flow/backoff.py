"""How long to go on trying, and how long to wait before the next try. Time is passed in."""

from __future__ import annotations

from typing import Final

__all__ = ["Backoff"]

FIRST_DELAY: Final = 0.05
MOST_DELAY: Final = 2.0


class Backoff:
    """The first try comes at once, the next ones after a delay that doubles from 50 ms to 2 s.

    Parameters
    ----------
    timeout
        Seconds from the first failure to the last try; 0 never tries again.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._since: float | None = None
        self._delay = 0.0
        self.tries = 0
        """Tries in all, over every run of failures."""

    def reset(self) -> None:
        """Something worked."""
        self._since = None
        self._delay = 0.0

    def next_delay(self, now: float) -> float | None:
        """Seconds to wait before the next try; None when the time is up."""
        if self._since is None:
            self._since = now
        delay = self._delay
        if now + delay - self._since >= self._timeout:
            return None
        self._delay = min(max(2 * delay, FIRST_DELAY), MOST_DELAY)
        self.tries += 1
        return delay
