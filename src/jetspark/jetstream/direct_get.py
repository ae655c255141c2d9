"""Direct get: read messages from a stream's store without a consumer (ADR-31).

The reply is the message itself; headers say where it comes from. Errors are statuses. A batch sends many replies to one
inbox and ends with `204 EOB`, which also says where to continue: `following` creates the next request. A batch that
ends without EOB is incomplete and must not count as a complete result.

The server appends its headers to those of the message. A message that was copied from another stream may already have
such headers. So the last value counts, and only that value is removed. The reply to a request for one message has fewer
headers of the server than that of a batch; the others are the message's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Self

from jetspark.jetstream import header_names as names
from jetspark.jetstream.api.base import encode_fields
from jetspark.jetstream.api.messages import check_selected, check_selector
from jetspark.jetstream.errors import (
    ConfigError,
    DirectGetRequestError,
    Error,
    InvalidReplyError,
    MessageNotFoundError,
    NoDirectGetError,
    StatusError,
    TooManyResultsError,
)
from jetspark.jetstream.names import API_PREFIX, check_filter_subject, check_publish_subject, check_stream_name
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.jetstream.times import parse_rfc3339
from jetspark.wire.headers import Headers, Status
from jetspark.wire.untrusted import MAX_INT64, parse_number, quote

__all__ = [
    "DirectBatchEnd",
    "DirectBatchRequest",
    "DirectGetRequest",
    "DirectLastRequest",
    "DirectMultiLastRequest",
    "read_batch_reply",
    "read_direct_message",
]

_END_OF_BATCH: Final = 204
_NOT_FOUND: Final = 404
_ADDED: Final = (names.STREAM, names.SUBJECT, names.SEQUENCE, names.TIME_STAMP)
_STATUS_ERRORS: Final[dict[int, type[StatusError]]] = {
    408: DirectGetRequestError,
    413: TooManyResultsError,
    503: NoDirectGetError,
}


@dataclass(frozen=True, slots=True)
class DirectBatchEnd:
    """End of a batch."""

    num_pending: int = 0
    """Number of messages that match and were not sent."""
    last_sequence: int = 0
    """Sequence of the last message that was sent."""
    up_to_sequence: int | None = None
    """For `multi_last`: the server read the stream up to this sequence."""
    found: bool = True
    """False if nothing matched. Valid only as the first and only reply; later it means that the batch is incomplete."""


@dataclass(frozen=True, slots=True)
class DirectGetRequest:
    """Get one message, chosen as in `MessageGetRequest`, from any replica, which may not have the last writes yet."""

    stream: str
    """Name of the stream."""
    sequence: int | None = None
    """Sequence of the message; with `next_by_subject` the sequence to search from."""
    last_by_subject: str | None = None
    """Last message of that subject; wildcards are allowed."""
    next_by_subject: str | None = None
    """First message of that subject; wildcards are allowed."""
    start_time: datetime | None = None
    """First message stored at or after that time."""

    def __post_init__(self) -> None:
        """Check names and options. Raises ConfigError."""
        check_stream_name(self.stream)
        check_selector(self.sequence, self.last_by_subject, self.next_by_subject, self.start_time)

    def subject(self, prefix: str = API_PREFIX) -> str:
        """Return the subject to publish to."""
        return f"{prefix}DIRECT.GET.{self.stream}"

    def payload(self) -> bytes:
        """Return the request as JSON."""
        return encode_fields(
            seq=self.sequence,
            last_by_subj=self.last_by_subject,
            next_by_subj=self.next_by_subject,
            start_time=self.start_time,
        )


@dataclass(frozen=True, slots=True)
class DirectLastRequest:
    """Get the last message of a subject. The request's subject contains it, so permissions can restrict reads."""

    stream: str
    """Name of the stream."""
    message_subject: str
    """Subject of the message."""

    def __post_init__(self) -> None:
        """Check the names."""
        check_stream_name(self.stream)
        check_publish_subject(self.message_subject)

    def subject(self, prefix: str = API_PREFIX) -> str:
        """Return the subject to publish to."""
        return f"{prefix}DIRECT.GET.{self.stream}.{self.message_subject}"

    def payload(self) -> bytes:
        """Return an empty payload."""
        return b""


@dataclass(frozen=True, slots=True)
class DirectBatchRequest:
    """Get many messages in order. The replies end with a `DirectBatchEnd`."""

    stream: str
    """Name of the stream."""
    batch: int
    """Maximum number of messages."""
    sequence: int | None = None
    """Sequence to search from; 1 if neither it nor `start_time` is given."""
    start_time: datetime | None = None
    """Time to search from."""
    next_by_subject: str | None = None
    """Only messages of that subject; wildcards are allowed."""
    max_bytes: int | None = None
    """The batch ends with the message that reaches so many bytes; the server's `max_pending` if unset."""

    def __post_init__(self) -> None:
        """Check names and options. Raises ConfigError."""
        check_stream_name(self.stream)
        _check_sizes(self.batch, self.max_bytes)
        if self.sequence is not None and self.start_time is not None:
            raise ConfigError("a batch starts at sequence or at start_time, not both")
        if self.next_by_subject is not None:
            check_filter_subject(self.next_by_subject)

    def subject(self, prefix: str = API_PREFIX) -> str:
        """Return the subject to publish to."""
        return f"{prefix}DIRECT.GET.{self.stream}"

    def payload(self) -> bytes:
        """Return the request as JSON."""
        sequence = 1 if self.sequence is None and self.start_time is None else self.sequence
        return encode_fields(
            batch=self.batch,
            seq=sequence,
            start_time=self.start_time,
            next_by_subj=self.next_by_subject,
            max_bytes=self.max_bytes,
        )

    def next_request(self, end: DirectBatchEnd) -> Self | None:
        """Return the request for the messages after a batch, None if there are no more.

        Raises InvalidReplyError if the batch brought the read no further.
        """
        if not end.found or end.num_pending <= 0:
            return None
        _check_progress(self.stream, self.sequence, end)
        return replace(self, sequence=end.last_sequence + 1, start_time=None)


@dataclass(frozen=True, slots=True)
class DirectMultiLastRequest:
    """Get the last message of each of many subjects, of one state of the stream, by sequence. Ends with a
    `DirectBatchEnd`.

    The server refuses the request if more than 1,024 subjects match (TooManyResultsError).
    """

    stream: str
    """Name of the stream."""
    subjects: tuple[str, ...]
    """Subjects; wildcards are allowed."""
    batch: int | None = None
    """Maximum number of messages of one request."""
    sequence: int | None = None
    """Sequence to search from."""
    up_to_sequence: int | None = None
    """Read the stream as it was at that sequence."""
    up_to_time: datetime | None = None
    """Read the stream as it was at that time. Not together with `up_to_sequence`."""
    max_bytes: int | None = None
    """The batch ends with the message that reaches so many bytes."""

    def __post_init__(self) -> None:
        """Check names and options. Raises ConfigError."""
        check_stream_name(self.stream)
        _check_sizes(self.batch, self.max_bytes)
        if not self.subjects:
            raise ConfigError("give at least one subject")
        for subject in self.subjects:
            check_filter_subject(subject)
        if self.up_to_sequence is not None and self.up_to_time is not None:
            raise ConfigError("give up_to_sequence or up_to_time, not both")

    def subject(self, prefix: str = API_PREFIX) -> str:
        """Return the subject to publish to."""
        return f"{prefix}DIRECT.GET.{self.stream}"

    def payload(self) -> bytes:
        """Return the request as JSON."""
        return encode_fields(
            multi_last=self.subjects,
            batch=self.batch,
            seq=self.sequence,
            up_to_seq=self.up_to_sequence,
            up_to_time=self.up_to_time,
            max_bytes=self.max_bytes,
        )

    def next_request(self, end: DirectBatchEnd) -> Self | None:
        """Return the request for the messages after a batch, of the same state; None if there are no more.

        Raises InvalidReplyError if the batch brought the read no further.
        """
        if not end.found or end.num_pending <= 0:
            return None
        _check_progress(self.stream, self.sequence, end)
        return replace(self, sequence=end.last_sequence + 1, up_to_sequence=end.up_to_sequence, up_to_time=None)


def read_direct_message(
    request: DirectGetRequest | DirectLastRequest, status: Status | None, headers: Headers, payload: bytes
) -> StoredMessage:
    """Read the reply to a request for one message.

    Raises MessageNotFoundError, NoDirectGetError, DirectGetRequestError, or InvalidReplyError, also if the message is
    another one than asked for.
    """
    where = f"direct get from stream {request.stream!r}"
    if status is not None and not payload:
        raise _status_error(status, where)
    message = _message(headers.copy(), payload, where)
    if isinstance(request, DirectLastRequest):
        check_selected(message, where, None, request.message_subject, None, None)
    else:
        check_selected(
            message, where, request.sequence, request.last_by_subject, request.next_by_subject, request.start_time
        )
    return message


def read_batch_reply(
    status: Status | None, headers: Headers, payload: bytes, where: str
) -> StoredMessage | DirectBatchEnd:
    """Read one reply to a batch: a message, or its end.

    Raises NoDirectGetError, DirectGetRequestError, TooManyResultsError, StatusError or InvalidReplyError.
    """
    if status is None or payload:
        own = headers.copy()
        return _message(own, payload, where, own.pop_last(names.NUM_PENDING), own.pop_last(names.LAST_SEQUENCE))
    if status.code == _NOT_FOUND:
        return DirectBatchEnd(found=False)
    if status.code != _END_OF_BATCH:
        raise _status_error(status, where)
    return DirectBatchEnd(
        _last_number(headers, names.NUM_PENDING, where) or 0,
        _last_number(headers, names.LAST_SEQUENCE, where) or 0,
        _last_number(headers, names.UP_TO_SEQUENCE, where),
    )


def _status_error(status: Status, where: str) -> Error:
    if status.code == _NOT_FOUND:
        return MessageNotFoundError(status.code, 10037, status.description, where=where)
    return _STATUS_ERRORS.get(status.code, StatusError)(status.code, status.description, where=where)


def _message(
    own: Headers, payload: bytes, where: str, pending: str | None = None, before: str | None = None
) -> StoredMessage:
    """Read a message, and take the headers that the server adds to each one out of `own`."""
    stream, subject, sequence, stamp = [own.pop_last(name) for name in _ADDED]
    if stream is None or subject is None or sequence is None or stamp is None:
        raise InvalidReplyError(f"{where}: the reply to a direct get lacks stream, subject, sequence or time")
    try:
        timestamp_ns = parse_rfc3339(stamp)
    except ValueError as problem:
        raise InvalidReplyError(f"{where}: {problem}") from None
    if abs(timestamp_ns) > MAX_INT64:
        raise InvalidReplyError(f"{where}: the time {quote(stamp)} does not fit in 64 bits of nanoseconds")
    return StoredMessage(
        stream,
        subject,
        _number(sequence, names.SEQUENCE, where),
        timestamp_ns,
        own,
        payload,
        None if pending is None else _number(pending, names.NUM_PENDING, where),
        None if before is None else _number(before, names.LAST_SEQUENCE, where),
    )


def _number(text: str, name: str, where: str) -> int:
    number = parse_number(text, MAX_INT64)
    if number is None:
        raise InvalidReplyError(f"{where}: header {name} is not a number of 63 bits: {quote(text)}")
    return number


def _last_number(headers: Headers, name: str, where: str) -> int | None:
    values = headers.get_all(name)
    return _number(values[-1], name, where) if values else None


def _check_progress(stream: str, asked: int | None, end: DirectBatchEnd) -> None:
    if end.last_sequence < (asked or 1):
        raise InvalidReplyError(
            f"direct get from stream {stream!r}: a batch from sequence {asked or 1} on has ended at sequence "
            f"{end.last_sequence}, and {end.num_pending} messages are said to follow"
        )


def _check_sizes(batch: int | None, max_bytes: int | None) -> None:
    if batch is not None and batch < 1:
        raise ConfigError(f"batch must be at least 1, not {batch}")
    if max_bytes is not None and max_bytes < 1:
        raise ConfigError(f"max_bytes must be positive, not {max_bytes}")
