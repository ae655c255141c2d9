"""Requests about single messages by the management API. `jetspark.jetstream.direct_get` is faster and reads batches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from jetspark.jetstream.api.base import Request, check_success, encode_fields, read_reply
from jetspark.jetstream.codec import JsonStruct
from jetspark.jetstream.errors import ConfigError, InvalidReplyError
from jetspark.jetstream.names import check_filter_subject, check_stream_name, subject_matches
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.jetstream.times import TimestampField, time_ns
from jetspark.wire.headers import parse_header_block

__all__ = ["MessageDeleteRequest", "MessageGetRequest", "check_selected", "check_selector"]


class _Stored(JsonStruct):
    subject: str
    seq: int
    time: TimestampField
    hdrs: bytes = b""
    data: bytes = b""


class _MessageReply(JsonStruct):
    type: str = ""
    message: _Stored | None = None


@dataclass(frozen=True, slots=True)
class MessageGetRequest(Request[StoredMessage]):
    """Get one message from the stream's leader, which has every write that was acknowledged before.

    Give exactly one of `sequence`, `last_by_subject`, `start_time` or `next_by_subject` (with `sequence` or
    `start_time` as lower bound, if wanted).
    """

    idempotent: ClassVar[bool] = True

    stream: str
    """Name of the stream."""
    sequence: int | None = None
    """Sequence of the message; with `next_by_subject` the sequence to search from."""
    last_by_subject: str | None = None
    """Last message of that subject; wildcards are allowed."""
    next_by_subject: str | None = None
    """First message of that subject from `sequence` on; wildcards are allowed."""
    start_time: datetime | None = None
    """First message stored at or after that time."""
    no_headers: bool = False
    """Whether to leave out the headers."""

    def __post_init__(self) -> None:
        """Check names and options."""
        check_stream_name(self.stream)
        check_selector(self.sequence, self.last_by_subject, self.next_by_subject, self.start_time)

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.MSG.GET.{self.stream}"

    def payload(self) -> bytes:
        """Return the request as JSON."""
        return encode_fields(
            seq=self.sequence,
            last_by_subj=self.last_by_subject,
            next_by_subj=self.next_by_subject,
            start_time=self.start_time,
            no_hdr=self.no_headers,
        )

    def read(self, payload: bytes) -> StoredMessage:
        """Read the reply. MessageNotFoundError (10037) if there is no such message."""
        message = read_reply(_MessageReply, payload, self.endpoint).message
        if message is None:
            raise InvalidReplyError(f"{self.endpoint}: the server's reply has no message")
        found = StoredMessage(
            self.stream,
            message.subject,
            message.seq,
            time_ns(message.time),
            parse_header_block(message.hdrs),
            message.data,
        )
        check_selected(found, self.endpoint, self.sequence, self.last_by_subject, self.next_by_subject, self.start_time)
        return found


@dataclass(frozen=True, slots=True)
class MessageDeleteRequest(Request[None]):
    """Delete one message."""

    stream: str
    """Name of the stream."""
    sequence: int
    """Sequence of the message."""
    secure: bool = False
    """Whether to overwrite it with random bytes, which is slower."""

    def __post_init__(self) -> None:
        """Check name and sequence."""
        check_stream_name(self.stream)
        if self.sequence < 1:
            raise ConfigError(f"sequences start at 1, so {self.sequence} cannot be deleted")

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"STREAM.MSG.DELETE.{self.stream}"

    def payload(self) -> bytes:
        """Return the request as JSON."""
        return encode_fields(seq=self.sequence, no_erase=not self.secure)

    def read(self, payload: bytes) -> None:
        """Read the reply. MessageNotFoundError (10043) if there is no such message."""
        check_success(payload, self.endpoint)


def check_selector(
    sequence: int | None, last_by_subject: str | None, next_by_subject: str | None, start_time: datetime | None
) -> None:
    """Raise ConfigError unless the selectors choose exactly one message."""
    for subject in (last_by_subject, next_by_subject):
        if subject is not None:
            check_filter_subject(subject)
    if sequence is not None and sequence < 1:
        raise ConfigError(f"sequences start at 1, so there is no message {sequence}")
    chosen = [name for name, value in (("sequence", sequence), ("start_time", start_time)) if value is not None]
    if last_by_subject is not None:
        chosen.append("last_by_subject")
        if next_by_subject is not None:
            chosen.append("next_by_subject")
    elif next_by_subject is not None and not chosen:
        chosen.append("next_by_subject")
    if len(chosen) != 1:
        given = " and ".join(chosen) or "none"
        raise ConfigError(
            "choose a message by one of sequence, last_by_subject, start_time or next_by_subject (which may be used "
            f"together with sequence or start_time); given: {given}"
        )


def check_selected(
    message: StoredMessage,
    where: str,
    sequence: int | None,
    last_by_subject: str | None,
    next_by_subject: str | None,
    start_time: datetime | None,
) -> None:
    """Raise InvalidReplyError if the server's reply is not the message that was asked for."""
    wrong = message.sequence < 1
    if sequence is not None:
        wrong |= message.sequence < sequence if next_by_subject is not None else message.sequence != sequence
    pattern = next_by_subject if last_by_subject is None else last_by_subject
    if pattern is not None:
        wrong |= not subject_matches(pattern, message.subject)
    if start_time is not None:
        wrong |= message.timestamp_ns < time_ns(start_time)
    if wrong:
        raise InvalidReplyError(
            f"{where}: the server has sent a message that was not asked for: sequence {message.sequence}, "
            f"subject {message.subject[:200]!r}"
        )
