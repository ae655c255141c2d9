"""Dead letters: which rows become one, and the message that is published for each. No I/O.

A read publishes the messages that it cannot decode, a write the rows that can never be stored. The payload and the
headers stay as they are, as far as they fit. Further headers say where the row is from, and what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from jetspark.jetstream.control_headers import CONTROL_HEADER_PATTERN
from jetspark.jetstream.errors import (
    BadHeadersError,
    BadSubjectError,
    CounterError,
    Error,
    MaxPayloadError,
    MessageSizeExceedsMaximumError,
    MessageTTLDisabledError,
    MessageTTLInvalidError,
    PayloadError,
    RequiredAPILevelError,
    RollupError,
    ScheduleError,
    WrongStreamError,
)

__all__ = [
    "ERROR",
    "HEADERS_LEFT_OUT",
    "MSG_ID",
    "PAYLOAD_SIZE",
    "QUERY",
    "SEQUENCE",
    "STREAM",
    "SUBJECT",
    "DeadLetter",
    "dead_letter_id",
    "is_refused_for_good",
    "letter_message",
]

STREAM: Final = "Jetspark-Stream"
"""Stream of the message that was read, or the stream that a write expects to store all rows."""
SEQUENCE: Final = "Jetspark-Sequence"
"""Sequence of the message that was read."""
SUBJECT: Final = "Jetspark-Subject"
"""Subject of the message or the row."""
ERROR: Final = "Jetspark-Error"
"""The fault, in one line."""
QUERY: Final = "Jetspark-Query"
"""Id of the streaming query, or of the job of a batch."""
MSG_ID: Final = "Jetspark-Msg-Id"
"""Message id of the message or the row."""
PAYLOAD_SIZE: Final = "Jetspark-Payload-Size"
"""Bytes of the whole payload, if the dead letter has only its first part."""
HEADERS_LEFT_OUT: Final = "Jetspark-Headers-Left-Out"
"""Number of headers that do not fit, or that no message can have."""

_REFUSED: Final[tuple[type[Error], ...]] = (
    MessageSizeExceedsMaximumError,
    WrongStreamError,
    MessageTTLDisabledError,
    MessageTTLInvalidError,
    RollupError,
    CounterError,
    ScheduleError,
    RequiredAPILevelError,
)
"""Answers of the server that depend on the row alone, and come again."""
_NOT_SENT: Final[tuple[type[Error], ...]] = (BadHeadersError, BadSubjectError, MaxPayloadError, PayloadError)
"""Errors of rows that are not sent at all."""

_OURS: Final = "Jetspark-"
_MAX_VALUE: Final = 1024  # characters
_MAX_ORIGIN: Final = 256  # bytes of the first part of an id
_MAX_HEADERS: Final = 32 << 10  # bytes; the server accepts 64 KiB
_FIRST_LINE: Final = 12  # bytes of `NATS/1.0` and of the empty line at the end
_LINE: Final = 4  # bytes of a header line besides name and value
_RESERVE: Final = 512  # bytes for the id, and for the headers about what is left out
_control: Final = re.compile(CONTROL_HEADER_PATTERN)
_name: Final = re.compile(r"[!-9;-~]+")
_line_end: Final = re.compile(r"[\r\n]")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that cannot be decoded, or a row that can never be stored.

    Attributes
    ----------
    reason
        The fault: one line.
    subject
        Its subject; None if the row has none.
    payload
        Its payload.
    headers
        Its headers: name and value, in their order; a name may be there several times. A value may be null.
    stream, sequence
        Place of a message; for a row, the stream that was expected to store it, and None.
    msg_id
        Its message id; None if it has none.
    id
        Message id of the dead letter; None if there is none, so that a repeat may store it twice.
    """

    reason: str
    subject: str | None
    payload: bytes
    headers: Sequence[tuple[str, str | None]] = ()
    stream: str | None = None
    sequence: int | None = None
    msg_id: str | None = None
    id: str | None = None


def is_refused_for_good(error: Error) -> bool:
    """Return whether a row can never be stored because of this error.

    Other errors concern a stream that cannot store now (it is full, sealed or offline), or a condition in the headers
    of a row (`Nats-Expected-*`), which the row itself can break when it is sent again. They are no dead letters.
    """
    return isinstance(error, (*_REFUSED, *_NOT_SENT))


def dead_letter_id(origin: str, *where: str) -> str:
    """Return the message id of a dead letter: `origin`, and a hash that differs for each `where`.

    A repeat has the same id. A message of a stream that was created again has another one, and so has the same message
    in another query.

    Parameters
    ----------
    origin
        `<stream>-<sequence>` of a message, or the message id of a row.
    where
        Parts that make the origin unique: the kind of the job, the query, the time at which the stream was created.
    """
    text = "\n".join((origin, *where))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    if not origin.isprintable() or len(origin.encode()) > _MAX_ORIGIN:
        return digest
    return f"{origin}-{digest}"


def letter_message(letter: DeadLetter, query: str, limit: int) -> tuple[bytes, list[tuple[str, str]]]:
    """Return payload and headers of a dead letter.

    Headers that command the server are left out, and so are those of an earlier dead letter. Its own headers and its
    payload are cut if they do not fit; then a header says so.

    Parameters
    ----------
    query
        Id of the query or the job.
    limit
        Maximum bytes of payload and headers.
    """
    given = {
        STREAM: letter.stream,
        SEQUENCE: None if letter.sequence is None else str(letter.sequence),
        SUBJECT: letter.subject,
        ERROR: letter.reason,
        QUERY: query,
        MSG_ID: letter.msg_id,
    }
    ours = [(name, _clean(value)) for name, value in given.items() if value]
    headers, left_out = _own_headers(letter.headers, min(_MAX_HEADERS, limit // 4))
    if left_out:
        ours.append((HEADERS_LEFT_OUT, str(left_out)))
    headers += ours
    room = limit - _FIRST_LINE - sum(map(_line_size, headers)) - _RESERVE
    payload = letter.payload
    if len(payload) > room:
        headers.append((PAYLOAD_SIZE, str(len(payload))))
        payload = payload[: max(room, 0)]
    return payload, headers


def _own_headers(headers: Sequence[tuple[str, str | None]], room: int) -> tuple[list[tuple[str, str]], int]:
    """Return the headers that the dead letter keeps, and the number of those that it cannot keep."""
    kept: list[tuple[str, str]] = []
    left_out = 0
    for name, value in headers:
        if _control.match(name) or name.startswith(_OURS):
            continue
        if (
            value is None
            or not _name.fullmatch(name)
            or _line_end.search(value)
            or (size := _line_size((name, value))) > room
        ):
            left_out += 1
        else:
            room -= size
            kept.append((name, value))
    return kept, left_out


def _line_size(header: tuple[str, str]) -> int:
    name, value = header
    return len(name) + len(value.encode("utf-8", "surrogatepass")) + _LINE


def _clean(value: str) -> str:
    """Return a text as the value of a header: one line of limited length."""
    cut = value[:_MAX_VALUE] + ("..." if len(value) > _MAX_VALUE else "")
    return "".join(char if char.isprintable() else " " for char in cut).strip()
