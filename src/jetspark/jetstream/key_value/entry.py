"""Entries of a bucket: a value of a key, or a marker that the key is gone (ADR-8, ADR-48)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from jetspark.jetstream import header_names as names
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.jetstream.times import Timestamp
from jetspark.wire.headers import Headers

__all__ = ["KV_OPERATION", "KeyValueEntry", "KeyValueOperation", "read_operation", "stored_entry"]

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


_BY_REASON: Final = {
    "MaxAge": KeyValueOperation.PURGE,
    "Purge": KeyValueOperation.PURGE,
    "Remove": KeyValueOperation.DELETE,
}
_EXPIRED: Final = "MaxAge"
_REMOVED: Final = "Remove"


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
    operation, expired = read_operation(message.headers)
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


@dataclass(frozen=True, slots=True)
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

    def __repr__(self) -> str:
        what = "expired" if self.expired else self.operation.value
        return f"<KeyValueEntry {self.bucket}/{self.key} revision {self.revision} {what} {self.size} bytes>"
