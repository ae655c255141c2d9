"""The handle of a stream with schedules (ADR-51).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.schedules`: change that, then `make sync`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from jetspark.aio.jetstream import schedules as aio
from jetspark.jetstream.schedule import Schedule
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["Schedules"]


@checks_arguments()
class Schedules(LoopProxy):
    """The schedules of a stream, which must set `allow_msg_schedules`. Created by `JetStream.schedules`.

        js.create_stream(name="JOBS", subjects=["jobs.>"], allow_msg_schedules=True)
        jobs = js.schedules("JOBS")
        jobs.schedule("jobs.plan.report", b"daily", cron="@daily", target="jobs.report")

    A subject has one schedule; another one for the same subject replaces it. In all calls, `timeout` is in seconds, and
    None takes `timeout` of the context.
    """

    _inner: aio.Schedules

    @property
    def stream_name(self) -> str:
        """Name of the stream."""
        return self._inner.stream_name

    def schedule(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        target: str,
        at: datetime | None = None,
        every: timedelta | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
        source: str | None = None,
        ttl: timedelta | Literal["never"] | None = None,
        rollup: Literal["sub"] | None = None,
        headers: HeadersLike | None = None,
        revision: int | None = None,
        timeout: float | None = None,
    ) -> int:
        """Let the server publish a message later; return the sequence of the schedule.

        Parameters
        ----------
        subject
            Subject of the schedule itself.
        target
            Subject to publish to; the stream must store it, too.
        at, every, cron
            Exactly one: a time with a time zone (a past one publishes at once), an interval of a second or more, or
            six cron fields (with seconds) or `@hourly` and the like.
        time_zone
            Zone of the cron fields, such as `Europe/Berlin`; UTC by default.
        source
            Publish the last message of this subject instead of `payload`.
        ttl, rollup
            Time to live of the published messages; whether each replaces the earlier ones of the target (`sub`).
        headers
            Headers of the published messages.
        revision
            Store it only if this is the sequence of the present schedule; 0 if there must be none.

        Raises
        ------
        ConfigError
            The schedule is not valid. Nothing was sent.
        ScheduleError
            The stream has no schedules, or the target, source, time zone or time to live is not allowed.
        WrongLastSequenceError
            The present schedule has another sequence than `revision`.
        """
        return self._call(
            self._inner.schedule(
                subject,
                payload,
                target=target,
                at=at,
                every=every,
                cron=cron,
                time_zone=time_zone,
                source=source,
                ttl=ttl,
                rollup=rollup,
                headers=headers,
                revision=revision,
                timeout=timeout,
            )
        )

    def list(self, subject: str = ">") -> list[Schedule]:
        """Return the schedules whose subjects match a filter, in the order of their sequences."""
        return self._call(self._inner.list(subject))

    def get(self, subject: str, *, timeout: float | None = None) -> Schedule:
        """Return the schedule of a subject, from the leader.

        Raises
        ------
        ScheduleNotFoundError
            There is none: it was never there, was cancelled, or has published its only message.
        """
        return self._call(self._inner.get(subject, timeout=timeout))

    def cancel(self, subject: str, *, timeout: float | None = None) -> bool:
        """Delete the schedule of a subject; return whether there was one. It publishes nothing more."""
        return self._call(self._inner.cancel(subject, timeout=timeout))

    def replace_by(
        self,
        schedule: str,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: float | None = None,
    ) -> int:
        """Publish a message and delete a schedule, in one step; return the sequence of the message.

        Parameters
        ----------
        schedule
            Subject of the schedule.
        subject
            Subject of the message.

        Raises
        ------
        ScheduleNotFoundError
            There is no such schedule. Nothing was published.
        WrongLastSequenceError
            It was changed or has published meanwhile. Nothing was published.
        """
        return self._call(self._inner.replace_by(schedule, subject, payload, headers=headers, timeout=timeout))
