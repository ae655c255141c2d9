"""The handle of a stream with schedules (ADR-51)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.publish_request import publish
from jetspark.aio.jetstream.consumer_manager import ConsumerManager
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.jetstream import header_names as names
from jetspark.jetstream.api import MessageGetRequest, StreamPurgeRequest
from jetspark.jetstream.errors import MessageNotFoundError, ScheduleNotFoundError
from jetspark.jetstream.names import check_publish_subject
from jetspark.jetstream.publish import PublishFields, publish_headers
from jetspark.jetstream.schedule import Schedule, schedule_text, stored_schedule
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import Headers, HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["Schedules"]


@checks_arguments()
class Schedules(HasCore[JetStreamCore]):
    """The schedules of a stream, which must set `allow_msg_schedules`. Created by `JetStream.schedules`.

        await js.create_stream(name="JOBS", subjects=["jobs.>"], allow_msg_schedules=True)
        jobs = await js.schedules("JOBS")
        await jobs.schedule("jobs.plan.report", b"daily", cron="@daily", target="jobs.report")

    A subject has one schedule; another one for the same subject replaces it. In all calls, `timeout` is in seconds, and
    None takes `timeout` of the context.
    """

    def __init__(self, core: JetStreamCore, stream: str) -> None:
        super().__init__(core)
        self._stream = stream

    def __repr__(self) -> str:
        return f"<Schedules of stream {self._stream!r}>"

    @property
    def stream_name(self) -> str:
        """Name of the stream."""
        return self._stream

    async def schedule(
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
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
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
        fields: PublishFields = {
            "schedule": schedule_text(at, every, cron, time_zone),
            "schedule_target": target,
            "schedule_source": source,
            "schedule_ttl": ttl,
            "schedule_time_zone": time_zone,
            "schedule_rollup": rollup,
            "expected_last_subject_sequence": revision,
            "expected_stream": self._stream,
        }
        return await self._publish(subject, payload, publish_headers(headers, fields), timeout)

    async def list(self, subject: str = ">") -> list[Schedule]:
        """Return the schedules whose subjects match a filter, in the order of their sequences."""
        reader = ConsumerManager(self._core).ordered_consumer(
            self._stream, deliver_policy="last_per_subject", filter_subject=subject
        )
        found: list[Schedule] = []
        async with reader.consume(until_caught_up=True) as messages:
            async for message in messages:
                stored = StoredMessage(
                    self._stream,
                    message.subject,
                    message.metadata.stream_sequence,
                    message.metadata.timestamp_ns,
                    message.headers,
                    message.payload,
                )
                if (schedule := stored_schedule(stored)) is not None:
                    found.append(schedule)
        return found

    async def get(self, subject: str, *, timeout: float | None = None) -> Schedule:  # noqa: ASYNC109
        """Return the schedule of a subject, from the leader.

        Raises
        ------
        ScheduleNotFoundError
            There is none: it was never there, was cancelled, or has published its only message.
        """
        check_publish_subject(subject)
        try:
            message = await self._core.request(MessageGetRequest(self._stream, last_by_subject=subject), timeout)
        except MessageNotFoundError:
            message = None
        schedule = None if message is None else stored_schedule(message)
        if schedule is None:
            text = f"stream {self._stream!r} has no schedule {subject!r}"
            raise ScheduleNotFoundError(text, stream=self._stream, subject=subject)
        return schedule

    async def cancel(self, subject: str, *, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Delete the schedule of a subject; return whether there was one. It publishes nothing more."""
        try:
            schedule = await self.get(subject, timeout=timeout)
        except ScheduleNotFoundError:
            return False
        request = StreamPurgeRequest(self._stream, subject, schedule.revision + 1)
        return await self._core.request(request, timeout) > 0

    async def replace_by(
        self,
        schedule: str,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
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
        found = await self.get(schedule, timeout=timeout)
        together = Headers(headers or ())
        together[names.SCHEDULER] = schedule
        together[names.SCHEDULE_NEXT] = "purge"
        fields: PublishFields = {
            "expected_last_subject_sequence": found.revision,
            "expected_last_subject_sequence_subject": schedule,
            "expected_stream": self._stream,
        }
        return await self._publish(subject, payload, publish_headers(together, fields), timeout)

    async def _publish(self, subject: str, payload: Payload, headers: HeadersLike | None, timeout: float | None) -> int:  # noqa: ASYNC109
        seconds = self._core.timeout if timeout is None else timeout
        connection = self._core.connection
        ack = await publish(connection, subject, payload, headers, seconds, expected_stream=self._stream)
        return ack.sequence
