"""Checks, on the event loop's clock, whether a push consumer has been silent for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jetspark.engine.push import HeartbeatMonitor

__all__ = ["HeartbeatTimer"]


class HeartbeatTimer:
    """A `HeartbeatMonitor` with its timer.

    A message only moves the monitor's time. The timer checks that time when it fires, so a message needs no new timer.

    Parameters
    ----------
    monitor
        The monitor; None if the consumer sends no heartbeats.
    is_paused
        Returns whether the silence has a local reason: nothing is read from the socket now.
    on_alarm
        Called for each period of silence, with its length in seconds.
    """

    def __init__(
        self, monitor: HeartbeatMonitor | None, is_paused: Callable[[], bool], on_alarm: Callable[[float], None]
    ) -> None:
        self._monitor = monitor
        self._is_paused = is_paused
        self._on_alarm = on_alarm
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def seen(self) -> None:
        """Note that a message or a heartbeat came."""
        if self._monitor is not None:
            self._monitor.record_activity(self._loop.time())

    def resume(self) -> None:
        """Start watching, from now on."""
        if self._monitor is not None:
            self._monitor.resume(self._loop.time())
            self._set_timer()

    def pause(self) -> None:
        """Stop watching for now: there is no session, or no consumer."""
        if self._monitor is not None:
            self._monitor.pause()
            self._set_timer()

    def stop(self) -> None:
        """Stop watching for good."""
        self.pause()
        self._monitor = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._monitor is not None and (due := self._monitor.due) is not None:
            self._timer = self._loop.call_at(due, self._check)

    def _check(self) -> None:
        monitor = self._monitor
        if monitor is None:
            return
        now = self._loop.time()
        if self._is_paused():
            monitor.record_activity(now)
        elif monitor.check(now):
            self._on_alarm(monitor.period)
        self._set_timer()
