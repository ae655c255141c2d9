"""Looks, on the event loop's clock, whether a push consumer has been silent for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jetspark.flow.push import HeartbeatMonitor

__all__ = ["SilenceWatch"]


class SilenceWatch:
    """A `HeartbeatMonitor` with its timer.

    What arrives only moves the monitor's time. The timer finds that out when it fires, so a message costs no timer.

    Parameters
    ----------
    monitor
        None watches nothing: the consumer sends no heartbeats.
    excused
        Whether we could not have seen anything, because nothing is read at the moment.
    on_alarm
        Told of each period of silence, with its seconds.
    """

    def __init__(
        self, monitor: HeartbeatMonitor | None, excused: Callable[[], bool], on_alarm: Callable[[float], None]
    ) -> None:
        self._monitor = monitor
        self._excused = excused
        self._on_alarm = on_alarm
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def seen(self) -> None:
        """Something came."""
        if self._monitor is not None:
            self._monitor.seen(self._loop.time())

    def resume(self) -> None:
        """Count from now on."""
        if self._monitor is not None:
            self._monitor.resume(self._loop.time())
            self._set_timer()

    def pause(self) -> None:
        """Count no longer: there is no session, or no consumer."""
        if self._monitor is not None:
            self._monitor.pause()
            self._set_timer()

    def stop(self) -> None:
        """Count never again."""
        self.pause()
        self._monitor = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._monitor is not None and (due := self._monitor.due) is not None:
            self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        monitor = self._monitor
        if monitor is None:
            return
        now = self._loop.time()
        if self._excused():
            monitor.seen(now)
        elif monitor.check(now):
            self._on_alarm(monitor.period)
        self._set_timer()
