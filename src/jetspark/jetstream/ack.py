"""The ack subject of a delivered message, and the metadata in it (ADR-15, JSAck).

Two forms exist. v1 has exactly nine tokens: `$JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<ts>.<pending>`.
v2 adds domain and account hash after `ACK`, and newer servers may add tokens at the end, so it has eleven or more. Ten
tokens are not valid. Acknowledgements go to this subject exactly as received; it is never rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.jetstream.errors import InvalidAckError
from jetspark.jetstream.times import datetime_from_ns
from jetspark.wire.argument_types import wrong_type
from jetspark.wire.subjects import check_reply_subject
from jetspark.wire.untrusted import MAX_DIGITS, MAX_INT64, MAX_UINT64, quote

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "ACK",
    "ACK_PREFIX",
    "IN_PROGRESS",
    "NAK",
    "TERM",
    "AckMetadata",
    "check_ack_subject",
    "nak_payload",
    "parse_ack_subject",
    "term_payload",
    "undelivered_error",
]

ACK_PREFIX: Final = b"$JS.ACK."
"""Prefix of every ack subject."""
ACK: Final = b"+ACK"
"""Payload that acknowledges a message."""
NAK: Final = b"-NAK"
"""Payload that asks for redelivery."""
TERM: Final = b"+TERM"
"""Payload that ends redelivery."""
IN_PROGRESS: Final = b"+WPI"
"""Payload that restarts the ack wait; the only one that may be sent repeatedly."""

_V1_TOKENS: Final = 9
_V2_TOKENS: Final = 11


class AckMetadata(msgspec.Struct, frozen=True, gc=False):
    """Metadata of a delivered message: its position in the stream and in the consumer."""

    stream: str
    """Name of the stream."""
    consumer: str
    """Name of the consumer."""
    num_delivered: int
    """Number of deliveries of the message, including this one; the first is 1."""
    stream_sequence: int
    """Sequence in the stream."""
    consumer_sequence: int
    """Sequence of the delivery; a redelivery gets a new one."""
    timestamp_ns: int
    """When the message was stored, nanoseconds since 1970 UTC."""
    num_pending: int
    """Number of messages that match the consumer and were not delivered yet."""
    domain: str | None = None
    """JetStream domain; None for the default domain and in the v1 form."""
    account_hash: str | None = None
    """Hash of the account, None in the v1 form."""

    @property
    def timestamp(self) -> datetime:
        """When the message was stored, as a UTC `datetime` (microseconds; `timestamp_ns` is exact)."""
        return datetime_from_ns(self.timestamp_ns)


def parse_ack_subject(subject: str | None) -> AckMetadata:
    """Read the reply subject of a delivered message.

    Raises InvalidAckError if there is none, or if it is not of the v1 or v2 form. The time is at most 2^63 - 1, each
    other number at most 2^64 - 1, all of at most 20 digits.
    """
    if not subject:
        raise InvalidAckError("the message has no reply subject, so it was not delivered by a JetStream consumer")
    try:
        tokens = subject.split(".")
    except (AttributeError, TypeError):
        raise wrong_type("parse_ack_subject", "subject", "text or None", subject) from None
    count = len(tokens)
    if tokens[0] != "$JS" or count < _V1_TOKENS or tokens[1] != "ACK":
        raise InvalidAckError(f"the reply subject is not an ack subject: {quote(subject)}")
    if count == _V1_TOKENS:
        first, domain, account_hash = 2, None, None
    elif count >= _V2_TOKENS:
        first, domain, account_hash = 4, tokens[2], tokens[3]
        if domain == "_":
            domain = None
    else:
        raise InvalidAckError(f"the ack subject has {count} tokens, which is not a known form: {quote(subject)}")
    numbers = tokens[first + 2 : first + 7]
    joined = "".join(numbers)
    # int() alone would also accept signs, blanks, underscores and digits of other scripts.
    if "" in numbers or not (joined.isascii() and joined.isdigit()) or max(map(len, numbers)) > MAX_DIGITS:
        raise InvalidAckError(f"a token of the ack subject is not a number of 64 bits: {quote(subject)}")
    delivered, stream_sequence, consumer_sequence, timestamp_ns, num_pending = map(int, numbers)
    if timestamp_ns > MAX_INT64 or max(delivered, stream_sequence, consumer_sequence, num_pending) > MAX_UINT64:
        raise InvalidAckError(f"a number of the ack subject is too large: {quote(subject)}")
    return AckMetadata(
        tokens[first],
        tokens[first + 1],
        delivered,
        stream_sequence,
        consumer_sequence,
        timestamp_ns,
        num_pending,
        domain,
        account_hash,
    )


def undelivered_error(reply: str, where: str) -> InvalidAckError:
    """Return the error of a message that is dropped, because its reply shows that no consumer delivered it."""
    return InvalidAckError(
        f"{where}: a message was dropped, because no consumer delivered it: its reply subject is {quote(reply)}"
    )


def check_ack_subject(subject: bytes) -> None:
    """Raise InvalidAckError if a reply subject is not an ack subject, BadSubjectError if nothing may be sent to it."""
    if not subject.startswith(ACK_PREFIX):
        raise InvalidAckError(
            f"a message with reply subject {quote(subject.decode(errors='replace'))} was not delivered by a JetStream "
            "consumer and cannot be acknowledged"
        )
    check_reply_subject(subject)


def nak_payload(delay_ns: int = 0) -> bytes:
    """Return the payload of a negative ack; with `delay_ns` above 0 the server waits so long before it redelivers.

    Raises ValueError for a negative delay.
    """
    if delay_ns < 0:
        raise ValueError(f"delay of a negative ack must not be negative: {delay_ns} ns")
    return b'-NAK {"delay": %d}' % delay_ns if delay_ns else NAK


def term_payload(reason: str = "") -> bytes:
    """Return the payload that ends redelivery; the server's advisory contains the reason."""
    return b"+TERM " + reason.encode() if reason else TERM
