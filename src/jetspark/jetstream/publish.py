"""Headers of a publish, and its acknowledgement (PubAck).

A publish into a stream is an ordinary message; headers hold the options for JetStream. The acknowledgement is JSON. It
may have an error together with a stream and the sequence zero, so the error is checked first.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, Literal, TypedDict, cast

import msgspec

from jetspark.jetstream import header_names as names
from jetspark.jetstream.api.base import raise_error
from jetspark.jetstream.codec import decode
from jetspark.jetstream.errors import (
    APIError,
    ConfigError,
    Error,
    InvalidAckError,
    InvalidReplyError,
    NoStreamResponseError,
)
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.names import check_filter_subject
from jetspark.jetstream.times import duration_ns, format_go_duration, format_rfc3339, time_ns
from jetspark.wire.argument_types import check_fields, checks_arguments, field_kinds, wrong_type
from jetspark.wire.arguments import check_names
from jetspark.wire.headers import Headers, HeadersLike
from jetspark.wire.untrusted import decode_json, parse_number, quote

__all__ = [
    "MAX_ACK_PREFIXES",
    "MAX_ATOMIC_BATCH",
    "MAX_BATCH_ID_LENGTH",
    "MAX_SEQUENCE",
    "OTHER_STREAM_WAIT",
    "RETRY_ATTEMPTS",
    "RETRY_WAIT",
    "PublishFields",
    "PublishOptions",
    "batch_headers",
    "check_commit",
    "is_refusal_of_other_stream",
    "no_stream_error",
    "plain_ack_prefix",
    "publish_headers",
    "read_pub_ack",
    "schedule_at",
    "schedule_every",
    "wait_for_expected_stream",
]

MAX_ATOMIC_BATCH: Final = 1000
"""Maximum number of messages of an atomic batch (ADR-50)."""
MAX_BATCH_ID_LENGTH: Final = 64
"""Maximum number of characters of a batch's id."""
RETRY_ATTEMPTS: Final = 2
"""Number of retries of a publish that no stream answers (503) (PUB-03)."""
RETRY_WAIT: Final = 0.25
"""Seconds before each retry (PUB-03)."""
MAX_ACK_PREFIXES: Final = 16
"""Maximum number of results of `plain_ack_prefix` to keep, one for each stream."""

MAX_SEQUENCE: Final = 2**64 - 1
"""Largest sequence of a stream."""
OTHER_STREAM_WAIT: Final = 1.0
"""Seconds for the answer of the expected stream after another one has refused the publish."""

_SEQUENCE: Final = b'"seq":'
_SECOND: Final = 1_000_000_000
_Fields = Iterable[tuple[str, str | int | timedelta | None]]


class _AnsweringStream(msgspec.Struct):
    stream: str = ""


_answering_stream: Final = msgspec.json.Decoder(_AnsweringStream)
_plain_ack: Final = msgspec.json.Decoder(PubAck)


def read_pub_ack(payload: bytes, where: str = "publish", expected_stream: str | None = None) -> PubAck:
    """Read the acknowledgement of a publish; `where` is the subject of the publish, for the error message.

    Raises the APIError that the server reports (WrongLastSequenceError, StreamStoreFailedError, ...), and
    InvalidAckError if the answer is not an acknowledgement, for instance because it does not come from a stream, or
    from another one than expected.
    """
    try:
        ack = decode_json(_plain_ack, payload)
    except msgspec.DecodeError:  # an error, unknown fields, or no acknowledgement
        ack = None
    if ack is None or not ack.stream:
        try:
            raise_error(payload, where)
            ack = decode(PubAck, payload)
        except (msgspec.DecodeError, InvalidReplyError) as problem:
            raise InvalidAckError(
                f"{where}: the reply is not a publish acknowledgement ({problem}): {quote(payload)}"
            ) from None
    if not ack.stream:
        raise InvalidAckError(f"{where}: the acknowledgement names no stream: {quote(payload)}")
    if not 0 < ack.sequence <= MAX_SEQUENCE:
        raise InvalidAckError(f"{where}: the acknowledgement has the sequence {ack.sequence}: {quote(payload)}")
    if expected_stream is not None and ack.stream != expected_stream:
        raise InvalidAckError(
            f"{where}: stream {ack.stream!r} has answered, not the expected {expected_stream!r}; the message may be "
            "stored there"
        )
    return ack


def is_refusal_of_other_stream(error: Error, payload: bytes, expected_stream: str | None) -> bool:
    """Return whether another stream than the expected one has refused a publish: the expected one may still answer.

    If two streams take one subject, the other one refuses a publish that names its stream (10060).
    """
    if expected_stream is None or not isinstance(error, APIError):
        return False
    try:
        return decode_json(_answering_stream, payload).stream not in ("", expected_stream)
    except msgspec.DecodeError:
        return False


def wait_for_expected_stream(payload: bytes, expected_stream: str | None, timeout: float) -> float:
    """Return for how many seconds to wait for a better answer than this one; 0 if it is the answer."""
    if expected_stream is None:
        return 0.0
    try:
        read_pub_ack(payload, expected_stream=expected_stream)
    except Error as error:
        other = is_refusal_of_other_stream(error, payload, expected_stream)
        return min(OTHER_STREAM_WAIT, timeout / 2) if other else 0.0
    return 0.0


def plain_ack_prefix(payload: bytes) -> bytes | None:
    """Return the text of an acknowledgement before its sequence, which is the same in all plain ones of a stream.

    None if another field follows the sequence: `{"stream":"ORDERS", "seq":17, "duplicate": true}`.
    """
    at = payload.rfind(_SEQUENCE)
    start = at + len(_SEQUENCE)
    digits = payload[start:-1]
    plain = at >= 0 and parse_number(digits) is not None and not digits.startswith(b"0") and payload[-1:] == b"}"
    return payload[:start] if plain else None


PING_AT: Final = 0.75
"""Part of the timeout of a publish after which a PING asks whether the server still answers."""


def not_stored_hint(*, ping_answered: bool) -> str:
    """Return why a publish got no acknowledgement, empty if that is not known."""
    if not ping_answered:
        return ""
    return (
        "; the server answers PING, so the stream cannot store: its disk may be full (only a restart of the server "
        "mends that), it has no leader, or it acknowledges nothing (no_ack)"
    )


def no_stream_error(subject: str = "", tries: int = 0) -> NoStreamResponseError:
    """Return the error of a publish that no stream answered (503) after `tries` retries.

    `subject` may be left out if the caller adds it.
    """
    where = f"{subject}: " if subject else ""
    again = f" after {tries} {'retry' if tries == 1 else 'retries'}" if tries else ""
    return NoStreamResponseError(
        f"{where}no stream captures the subject (503){again}; create one, or check the subject and the domain"
    )


class PublishOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Options of JetStream for a message. `to_headers` returns them as headers.

    An expected sequence of 0 is a condition too: there must be no message yet.
    """

    msg_id: str | None = None
    """Message id, by which the stream detects duplicates."""
    expected_stream: str | None = None
    """Store only if this stream captures the subject."""
    expected_last_sequence: int | None = None
    """Store only if this is the stream's last sequence."""
    expected_last_subject_sequence: int | None = None
    """Store only if this is the last sequence of the subject."""
    expected_last_subject_sequence_subject: str | None = None
    """Subject of `expected_last_subject_sequence`, if not the message's own; wildcards are allowed."""
    expected_last_msg_id: str | None = None
    """Store only if this is the id of the last message."""
    ttl: timedelta | Literal["never"] | None = None
    """Time to live, at least a second; with `never` the stream's age limit does not apply (ADR-43)."""
    rollup: Literal["sub", "all"] | None = None
    """Replace the earlier messages of the subject (`sub`), or all earlier messages (`all`)."""
    increment: int | None = None
    """Add to a counter (ADR-49)."""
    schedule: str | None = None
    """When to publish it (ADR-51): `schedule_at`, `schedule_every`, a name such as `@hourly` or six cron fields."""
    schedule_target: str | None = None
    """Subject of the scheduled messages."""
    schedule_source: str | None = None
    """Subject whose last message is published instead of this one."""
    schedule_ttl: timedelta | Literal["never"] | None = None
    """Time to live of the scheduled messages."""
    schedule_time_zone: str | None = None
    """Time zone of a cron schedule, such as `Europe/Berlin`; UTC if unset."""
    schedule_rollup: Literal["sub"] | None = None
    """Whether scheduled messages replace the earlier messages of the target (`sub`)."""

    def __post_init__(self) -> None:
        """Do the checks that need no server. Raises ConfigError."""
        check_fields(self)
        for name, value in (
            ("expected_last_sequence", self.expected_last_sequence),
            ("expected_last_subject_sequence", self.expected_last_subject_sequence),
        ):
            if value is not None and value < 0:
                raise ConfigError(f"{name} must not be negative: {value}")
        if self.expected_last_subject_sequence_subject is not None:
            check_filter_subject(self.expected_last_subject_sequence_subject)
            if self.expected_last_subject_sequence is None:
                raise ConfigError(
                    "expected_last_subject_sequence_subject needs expected_last_subject_sequence; give both"
                )
        if self.increment is not None:
            for name in ("rollup", *_CONDITIONS):
                if getattr(self, name) is not None:
                    raise ConfigError(f"a counter takes no {name}: additions are not conditional")
        if self.schedule is None and not (
            self.schedule_target
            is self.schedule_source
            is self.schedule_ttl
            is self.schedule_time_zone
            is self.schedule_rollup
            is None
        ):
            raise ConfigError("schedule_target, _source, _ttl, _time_zone and _rollup need schedule; give it, too")

    def to_headers(self) -> list[tuple[str, str]]:
        """Return the headers as pairs of key and value."""
        pairs: list[tuple[str, str]] = []
        for name, key in _NAMES.items():
            value = getattr(self, name)
            if value is not None:
                pairs.append((key, _text(name, value)))
        return pairs


class PublishFields(TypedDict, total=False):
    """The fields of `PublishOptions`, as keywords of a publish."""

    msg_id: str | None
    expected_stream: str | None
    expected_last_sequence: int | None
    expected_last_subject_sequence: int | None
    expected_last_subject_sequence_subject: str | None
    expected_last_msg_id: str | None
    ttl: timedelta | Literal["never"] | None
    rollup: Literal["sub", "all"] | None
    increment: int | None
    schedule: str | None
    schedule_target: str | None
    schedule_source: str | None
    schedule_ttl: timedelta | Literal["never"] | None
    schedule_time_zone: str | None
    schedule_rollup: Literal["sub"] | None


def publish_headers(headers: HeadersLike | None, fields: PublishFields) -> HeadersLike | None:
    """Return the headers to send: the caller's, which are not changed, and those of the fields.

    A field replaces a header of the same name. Raises ConfigError for a combination that is not valid.
    """
    if not fields:
        return headers
    kinds = field_kinds(PublishFields)
    for name, value in fields.items():
        if name in kinds and type(value) not in kinds[name].exact and not kinds[name].fits(value):
            raise wrong_type("publish", name, kinds[name].wanted, value)
    if not fields.keys() <= _UNCHECKED_FIELDS or "increment" in fields:
        check_names("a publish", "argument", fields, _NAMES, _OTHER_WORDS)
        PublishOptions(**fields)  # checks them
    pairs = [(_NAMES[name], _text(name, value)) for name, value in cast("_Fields", fields.items()) if value is not None]
    if headers is None:
        return pairs
    merged = Headers(headers)
    for key, value in pairs:
        merged[key] = value
    return merged


_CONDITIONS: Final = (
    "expected_stream",
    "expected_last_sequence",
    "expected_last_subject_sequence",
    "expected_last_subject_sequence_subject",
    "expected_last_msg_id",
)
_UNCHECKED_FIELDS: Final = frozenset(
    {"msg_id", "expected_stream", "expected_last_msg_id", "ttl", "rollup", "increment"}
)
"""Fields that `PublishOptions` does not check."""
_OTHER_WORDS: Final = {"message_id": "msg_id", "nats_msg_id": "msg_id", "stream": "expected_stream"}
"""Other words for these fields."""
_NAMES: Final = {
    "msg_id": names.MSG_ID,
    "expected_stream": names.EXPECTED_STREAM,
    "expected_last_sequence": names.EXPECTED_LAST_SEQUENCE,
    "expected_last_subject_sequence": names.EXPECTED_LAST_SUBJECT_SEQUENCE,
    "expected_last_subject_sequence_subject": names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    "expected_last_msg_id": names.EXPECTED_LAST_MSG_ID,
    "ttl": names.TTL,
    "rollup": names.ROLLUP,
    "increment": names.INCREMENT,
    "schedule": names.SCHEDULE,
    "schedule_target": names.SCHEDULE_TARGET,
    "schedule_source": names.SCHEDULE_SOURCE,
    "schedule_ttl": names.SCHEDULE_TTL,
    "schedule_time_zone": names.SCHEDULE_TIME_ZONE,
    "schedule_rollup": names.SCHEDULE_ROLLUP,
}


def batch_headers(batch_id: str, sequence: int, commit: Literal["1", "eob"] | None = None) -> list[tuple[str, str]]:
    """Return the headers of one message of an atomic batch (ADR-50).

    `sequence` counts from 1. The last message commits: with `1` it is stored too, with `eob` it only ends the batch.
    Raises ConfigError for an id that the server would refuse, or if the batch has too many messages.
    """
    if not 0 < len(batch_id) <= MAX_BATCH_ID_LENGTH:
        raise ConfigError(f"the batch id must have 1 to {MAX_BATCH_ID_LENGTH} characters, not {len(batch_id)}")
    if not 0 < sequence <= MAX_ATOMIC_BATCH + (commit == "eob"):
        raise ConfigError(f"an atomic batch has 1 to {MAX_ATOMIC_BATCH} messages; this would be number {sequence}")
    pairs = [(names.BATCH_ID, batch_id), (names.BATCH_SEQUENCE, str(sequence))]
    if commit is not None:
        pairs.append((names.BATCH_COMMIT, commit))
    return pairs


def check_commit(ack: PubAck, batch_id: str, count: int, where: str) -> PubAck:
    """Check that an acknowledgement is for all messages of an atomic batch (BAT-03), and return it.

    Raises InvalidAckError; `where` is the subject for its message.
    """
    if ack.batch != batch_id or ack.count != count or ack.sequence < count:
        raise InvalidAckError(
            f"{where}: the acknowledgement does not match batch {batch_id!r} of {count} messages: it is for "
            f"{ack.batch!r} of {ack.count} messages, up to sequence {ack.sequence}"
        )
    return ack


@checks_arguments()
def schedule_at(moment: datetime) -> str:
    """Return the schedule of a message that is published once, at `moment`."""
    return f"@at {format_rfc3339(time_ns(moment))}"


@checks_arguments()
def schedule_every(interval: timedelta) -> str:
    """Return the schedule of a message that is published repeatedly; the shortest interval is a second.

    Raises ConfigError for a shorter one.
    """
    if duration_ns(interval) < _SECOND:
        raise ConfigError(f"the interval of a schedule must be at least 1s, not {format_go_duration(interval)}")
    return f"@every {format_go_duration(interval)}"


def _text(attribute: str, value: str | int | timedelta) -> str:
    if isinstance(value, timedelta):
        seconds, below = divmod(duration_ns(value), _SECOND)
        return format_go_duration(value) if below else str(seconds)
    return f"{value:+d}" if attribute == "increment" else str(value)
