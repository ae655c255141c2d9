"""Errors of schedules that are looked for. `ScheduleError` is the server's refusal of one."""

from __future__ import annotations

from jetspark.wire.errors import Error

__all__ = ["ScheduleNotFoundError"]


class ScheduleNotFoundError(Error, LookupError):
    """There is no such schedule.

    Attributes
    ----------
    stream, subject
        Name of the stream, and the subject of the schedule.
    """

    def __init__(self, message: str = "", *, stream: str = "", subject: str = "") -> None:
        super().__init__(message)
        self.stream = stream
        self.subject = subject
