"""Whether the server has been silent for too long (ADR-15, Heartbeats). Time is passed in, in seconds."""

from __future__ import annotations

from typing import Final

from jetspark.jetstream.errors import ConfigError

__all__ = ["ALARM_FACTOR", "HeartbeatMonitor"]

ALARM_FACTOR: Final = 3.0
"""Heartbeat intervals without a sign of life before an alarm, unless the user says otherwise."""


class HeartbeatMonitor:
    """Raises an alarm when neither a message nor a status came for `factor` intervals, and again each such period.

    Nothing is counted while it is paused: without a session silence is no news, and the loss is told by itself.

    Parameters
    ----------
    interval
        Seconds between the heartbeats of the consumer.
    factor
        How many of them may be missed.
    """

    def __init__(self, interval: float, factor: float = ALARM_FACTOR) -> None:
        if factor < 1:
            raise ConfigError(f"the alarm factor of heartbeats is at least 1, not {factor:g}")
        self.period = interval * factor
        self._since: float | None = None

    @property
    def due(self) -> float | None:
        """When to look next; None while it is paused."""
        return None if self._since is None else self._since + self.period

    def resume(self, now: float) -> None:
        """Count from now on."""
        self._since = now

    def pause(self) -> None:
        """Count no longer."""
        self._since = None

    def seen(self, now: float) -> None:
        """Something came."""
        if self._since is not None:
            self._since = now

    def check(self, now: float) -> bool:
        """Whether to raise an alarm now; the next one is a period away."""
        if self._since is None or now < self._since + self.period:
            return False
        self._since = now
        return True
