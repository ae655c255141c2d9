"""Entries of a bucket: a value of a key, or a marker that the key is gone (ADR-8, ADR-48)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Final

from jetspark.jetstream import header_names as names
from jetspark.jetstream.message import JetStreamMessage
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.jetstream.times import Timestamp
from jetspark.wire.headers import Headers

__all__ = [
    "KV_OPERATION",
    "MARKER_HEADERS",
    "DeliveredEntry",
    "KeyValueEntry",
    "KeyValueOperation",
    "read_operation",
    "stored_entry",
]

KV_OPERATION: Final = "KV-Operation"
"""Header of a marker that a client wrote."""


class KeyValueOperation(StrEnum):
    """The effect of an entry on its key."""

    PUT = "PUT"
    """It set the value."""
    DELETE = "DEL"
    """It deleted the key; earlier revisions stay as far as the history reaches."""
    PURGE = "PURGE"
    """It deleted the key with all earlier revisions."""


MARKER_HEADERS: Final[dict[KeyValueOperation, list[tuple[str, str]]]] = {
    KeyValueOperation.DELETE: [(KV_OPERATION, KeyValueOperation.DELETE.value)],
    KeyValueOperation.PURGE: [(KV_OPERATION, KeyValueOperation.PURGE.value), (names.ROLLUP, "sub")],
}
"""Headers of a marker that a client writes, by what it does."""

_BY_REASON: Final = {
    "MaxAge": KeyValueOperation.PURGE,
    "Purge": KeyValueOperation.PURGE,
    "Remove": KeyValueOperation.DELETE,
}
_EXPIRED: Final = "MaxAge"
_REMOVED: Final = "Remove"
_MAX_DIGITS: Final = 20


def read_operation(headers: Headers) -> tuple[KeyValueOperation, bool]:
    """Return what an entry with these headers did, and whether it says that the value has expired.

    A marker of a client has `KV-Operation`; one of the server has `Nats-Marker-Reason`. An unknown one counts as a
    marker, never as a value.
    """
    if (written := headers.get(KV_OPERATION)) is not None:
        return (KeyValueOperation.PURGE if written == KeyValueOperation.PURGE else KeyValueOperation.DELETE), False
    if (reason := headers.get(names.MARKER_REASON)) is not None:
        removed = reason == _REMOVED
        return (KeyValueOperation.DELETE if removed else KeyValueOperation.PURGE), reason == _EXPIRED
    return KeyValueOperation.PUT, False


def stored_entry(bucket: str, prefix: str, message: StoredMessage) -> KeyValueEntry:
    """Return the entry that a stored message is; `prefix` is the subject before its key."""
    operation, expired = read_operation(message.headers) if message.headers else (KeyValueOperation.PUT, False)
    return KeyValueEntry(
        bucket=bucket,
        key=message.subject.removeprefix(prefix),
        value=message.payload,
        revision=message.sequence,
        created_ns=message.timestamp_ns,
        operation=operation,
        headers=message.headers,
        expired=expired,
        size=len(message.payload),
    )


def _read_size(headers: Headers) -> int:
    """Return the size of a payload that was left out; 0 if the server did not say."""
    text = headers.get(names.MSG_SIZE, "") or ""
    return int(text) if len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit() else 0


@dataclass(slots=True, eq=False)
class KeyValueEntry:
    """One revision of a key."""

    bucket: str
    """Name of the bucket."""
    key: str
    """The key, without the prefix of its subject."""
    value: bytes | None
    """The value; empty for markers. None if the watch leaves values out (`meta_only`)."""
    revision: int
    """Sequence in the stream of the bucket; it grows with each write of any key."""
    created_ns: int
    """When it was stored, nanoseconds since 1970 UTC."""
    operation: KeyValueOperation
    """Whether it is a value or a marker."""
    headers: Headers
    """Headers of the message."""
    expired: bool = False
    """Whether it is a marker of a value whose time to live has ended."""
    delta: int | None = None
    """In a watch: number of entries that follow at the moment. None in the result of a get."""
    size: int = 0
    """Bytes of the value, also if the watch leaves values out."""

    @property
    def created(self) -> datetime:
        """When it was stored, as a UTC `Timestamp`: a `datetime` that keeps the nanoseconds."""
        return Timestamp.from_ns(self.created_ns)

    @property
    def is_marker(self) -> bool:
        """Whether the key is gone with this revision."""
        return self.operation is not KeyValueOperation.PUT

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyValueEntry):
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash((self.bucket, self.key, self.revision))

    def __reduce__(self) -> tuple[object, ...]:
        return KeyValueEntry, _values(self)

    def __repr__(self) -> str:
        what = "expired" if self.expired else self.operation.value
        return f"<KeyValueEntry {self.bucket}/{self.key} revision {self.revision} {what} {self.size} bytes>"


_NAMES: Final = tuple(each.name for each in fields(KeyValueEntry))


def _values(entry: KeyValueEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, name) for name in _NAMES)


_OF_METADATA: Final = frozenset({"revision", "created_ns", "delta"})
_OF_CONTENT: Final = frozenset({"key", "value", "operation", "expired", "size", "headers"})


class DeliveredEntry(KeyValueEntry):
    """An entry of a watch. It is decoded when its attributes are first used: its content, and its place in the stream.

    Parameters
    ----------
    bucket
        Name of the bucket.
    prefix
        The subject before the key.
    message
        The message of the consumer.
    """

    __slots__ = ("_content", "_delivery", "_prefix")  # the message, until it is decoded

    def __init__(self, bucket: str, prefix: str, message: JetStreamMessage) -> None:
        self.bucket = bucket
        self._content: JetStreamMessage | None = message
        self._delivery: JetStreamMessage | None = message
        self._prefix = prefix

    def __getattr__(self, name: str) -> object:
        """Decode the part of the message that has this attribute, which is not set yet."""
        if name in _OF_METADATA and self._delivery is not None:
            metadata, self._delivery = self._delivery.metadata, None
            self.revision = metadata.stream_sequence
            self.created_ns = metadata.timestamp_ns
            self.delta = metadata.num_pending
        elif name in _OF_CONTENT and self._content is not None:
            message, self._content = self._content, None
            self.key = message.subject.removeprefix(self._prefix)
            self.value, self.size = message.payload, len(message.payload)
            self.operation, self.expired = KeyValueOperation.PUT, False
            if message.raw_header:
                self._read_headers(message.headers)
        elif name == "headers":  # there are none
            self.headers = Headers()
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value: object = getattr(self, name)
        return value

    def _read_headers(self, headers: Headers) -> None:
        self.headers = headers
        self.operation, self.expired = read_operation(headers)
        if names.MSG_SIZE in headers:
            self.value, self.size = None, _read_size(headers)
