"""The handle of a stream of counters (ADR-49)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.direct_get import direct_get_batches
from jetspark.aio.jetstream._drivers.publish_request import publish
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.engine.direct_read import DIRECT_BATCH, DIRECT_BATCH_BYTES
from jetspark.jetstream.api import MessageGetRequest, StreamInfoRequest, StreamPurgeRequest
from jetspark.jetstream.counter import CounterValue, counter_value, read_number
from jetspark.jetstream.direct_get import DirectBatchRequest, DirectLastRequest, DirectMultiLastRequest
from jetspark.jetstream.errors import BadSubjectError, CounterNotFoundError, Error, MessageNotFoundError
from jetspark.jetstream.info import PubAck, StreamInfo
from jetspark.jetstream.names import check_filter_subject, check_publish_subject, subject_matches
from jetspark.jetstream.publish import publish_headers
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import HeadersLike

__all__ = ["Counter"]


@checks_arguments()
class Counter(HasCore[JetStreamCore]):
    """The counters of a stream, one for each subject. Created by `JetStream.counter`.

        await js.create_stream(name="VISITS", subjects=["visits.*"], allow_msg_counter=True, allow_direct=True)
        visits = await js.counter("VISITS")
        total = await visits.add("visits.home", 1)

    Values are whole numbers of any size. In all calls, `timeout` is in seconds, and None takes `timeout` of the
    context.
    """

    def __init__(self, core: JetStreamCore, info: StreamInfo) -> None:
        super().__init__(core)
        self._stream = info.config.name
        self._subjects = info.config.subjects or []

    def __repr__(self) -> str:
        return f"<Counter of stream {self._stream!r}>"

    @property
    def stream_name(self) -> str:
        """Name of the stream."""
        return self._stream

    async def add(self, subject: str, increment: int, *, timeout: float | None = None) -> int:  # noqa: ASYNC109
        """Add to a counter, or begin one; return the new value.

        If the session is lost, or no answer comes in half of the time, the addition is repeated once, with the same
        message id, so that it counts once.

        Parameters
        ----------
        increment
            The number to add; it may be negative.

        Raises
        ------
        BadSubjectError
            The subject is not literal, or not one of the stream. Nothing was added.
        CounterError
            The server refuses (10168 to 10172).
        PublishTimeoutError, DisconnectedError
            No answer came, twice. Whether it counts is not known.
        """
        await self._check_subject(subject, timeout)
        ack = await self._add(subject, increment, timeout)
        if ack.val:
            return read_number(ack.val, subject)
        try:  # the answer to a repeat has no value
            return (await self._stored(subject, ack.sequence, timeout)).value
        except CounterNotFoundError:
            return (await self._stored(subject, None, timeout)).value

    async def _check_subject(self, subject: str, timeout: float | None) -> None:  # noqa: ASYNC109
        """Check that the subject belongs to the stream: the addition itself may carry no such condition."""
        check_publish_subject(subject)
        if not any(subject_matches(each, subject) for each in self._subjects):
            info = await self._core.request(StreamInfoRequest(self._stream), timeout)
            self._subjects = info.config.subjects or []
            if not any(subject_matches(each, subject) for each in self._subjects):
                raise BadSubjectError(f"stream {self._stream!r} does not store {subject!r}; nothing was added")

    async def _add(self, subject: str, increment: int, timeout: float | None) -> PubAck:  # noqa: ASYNC109
        loop = asyncio.get_running_loop()
        seconds = self._core.timeout if timeout is None else timeout
        deadline = loop.time() + seconds
        headers = publish_headers(None, {"increment": increment, "msg_id": secrets.token_hex(16)})
        try:
            return await self._publish(subject, headers, seconds / 2)
        except Error as error:
            if not error.outcome_unknown:
                raise
        return await self._publish(subject, headers, max(deadline - loop.time(), 0))

    async def _publish(self, subject: str, headers: HeadersLike | None, timeout: float) -> PubAck:  # noqa: ASYNC109
        return await publish(self._core.connection, subject, b"", headers, timeout, expected_stream=self._stream)

    async def get(self, subject: str, *, default: int | None = None, timeout: float | None = None) -> CounterValue:  # noqa: ASYNC109
        """Return the value of a counter. Any replica may answer, and the last additions may be missing there.

        Parameters
        ----------
        default
            Value of a counter to which nothing was added; its `sequence` is 0. None raises CounterNotFoundError.

        Raises
        ------
        CounterNotFoundError
            Nothing was added to it.
        BadCounterError
            The message is no value of a counter.
        """
        try:
            return counter_value(await self._core.direct_get(DirectLastRequest(self._stream, subject), timeout))
        except MessageNotFoundError:
            if default is not None:
                return CounterValue(subject, default, None, {}, 0, 0)
            raise self._not_found(subject) from None

    async def get_many(
        self,
        subjects: str | Sequence[str] = ">",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> dict[str, CounterValue]:
        """Return the values of many counters, as they are at one moment; missing ones are left out.

        Parameters
        ----------
        subjects
            Subjects; wildcards are allowed.

        Raises
        ------
        TooManyResultsError
            More than 1,024 counters match.
        """
        wanted = (subjects,) if isinstance(subjects, str) else tuple(subjects)
        request = DirectMultiLastRequest(self._stream, wanted, DIRECT_BATCH, None, None, None, DIRECT_BATCH_BYTES)
        return {value.subject: value for value in await self._read(request, timeout)}

    async def history(self, subject: str, *, timeout: float | None = None) -> list[CounterValue]:  # noqa: ASYNC109
        """Return all values of a counter that are kept, oldest first; empty if there is none."""
        request = DirectBatchRequest(
            self._stream, DIRECT_BATCH, None, None, check_filter_subject(subject), DIRECT_BATCH_BYTES
        )
        return await self._read(request, timeout)

    async def reset(self, subject: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Set a counter to zero by an addition, so that streams that aggregate it follow; then delete its history.

        An addition at the same time counts from zero.

        Raises
        ------
        CounterNotFoundError
            Nothing was added to it.
        """
        value = await self._stored(subject, None, timeout)
        ack = await self._add(subject, -value.value, timeout)
        await self._core.request(StreamPurgeRequest(self._stream, subject, ack.sequence), timeout)

    async def _stored(self, subject: str, sequence: int | None, timeout: float | None) -> CounterValue:  # noqa: ASYNC109
        """Ask the leader for the message of a counter with this sequence, or for its last one."""
        last = subject if sequence is None else None
        try:
            return counter_value(await self._core.request(MessageGetRequest(self._stream, sequence, last), timeout))
        except MessageNotFoundError:
            raise self._not_found(subject) from None

    def _not_found(self, subject: str) -> CounterNotFoundError:
        text = f"stream {self._stream!r} has no counter {subject!r}"
        return CounterNotFoundError(text, stream=self._stream, subject=subject)

    async def _read(
        self,
        request: DirectBatchRequest | DirectMultiLastRequest,
        timeout: float | None,  # noqa: ASYNC109
    ) -> list[CounterValue]:
        seconds = self._core.timeout if timeout is None else timeout
        pages = direct_get_batches(self._core, request, None, seconds)
        return [counter_value(message) async for page in pages for message in page]
