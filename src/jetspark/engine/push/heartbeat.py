"""Detection of missing heartbeats (ADR-15, Heartbeats). The caller passes the time, in seconds."""

from __future__ import annotations

from typing import Final

from jetspark.jetstream.errors import ConfigError

__all__ = ["ALARM_FACTOR", "HeartbeatMonitor"]

ALARM_FACTOR: Final = 3.0
"""Default number of heartbeat intervals without a message or status before an alarm."""


class HeartbeatMonitor:
    """Monitor that reports an alarm if neither a message nor a status came for `factor` intervals, and then repeats it.

    It does not count while it is paused: without a session nothing can arrive, and the loss is reported separately.

    Parameters
    ----------
    interval
        Seconds between the heartbeats of the consumer.
    factor
        Number of intervals without a message or status before an alarm, at least 1.
    """

    def __init__(self, interval: float, factor: float = ALARM_FACTOR) -> None:
        if factor < 1:
            raise ConfigError(f"the alarm factor of heartbeats must be at least 1, not {factor:g}")
        self.period = interval * factor
        self._since: float | None = None

    @property
    def due(self) -> float | None:
        """Time of the next check; None while it is paused."""
        return None if self._since is None else self._since + self.period

    def resume(self, now: float) -> None:
        """Start to count at `now`."""
        self._since = now

    def pause(self) -> None:
        """Stop counting."""
        self._since = None

    def record_activity(self, now: float) -> None:
        """Handle a message or a status: count from `now` again."""
        if self._since is not None:
            self._since = now

    def check(self, now: float) -> bool:
        """Return whether to report an alarm now; the next one can follow after a period."""
        if self._since is None or now < self._since + self.period:
            return False
        self._since = now
        return True
