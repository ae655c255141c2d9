"""Retry policy: how long to retry, and how long to wait before the next try. The caller passes the time."""

from __future__ import annotations

from typing import Final

__all__ = ["ExponentialBackoff"]

FIRST_DELAY: Final = 0.05
MAX_DELAY: Final = 2.0


class ExponentialBackoff:
    """Delays of retries: none before the first retry, then a delay that doubles from 50 ms to 2 s.

    Parameters
    ----------
    timeout
        Seconds from the first failure to the last try; 0 never retries.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._since: float | None = None
        self._delay = 0.0
        self.retries = 0
        """Total number of retries, over all series of failures."""

    def reset(self) -> None:
        """End the series of failures, after a success."""
        self._since = None
        self._delay = 0.0

    def next_delay(self, now: float) -> float | None:
        """Return the seconds to wait before the next try; None after the timeout."""
        if self._since is None:
            self._since = now
        delay = self._delay
        if now + delay - self._since >= self._timeout:
            return None
        self._delay = min(max(2 * delay, FIRST_DELAY), MAX_DELAY)
        self.retries += 1
        return delay
