"""Errors of key-value buckets. None of them shows a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.jetstream.errors.api import (
    MessageSizeExceedsMaximumError,
    StreamNameInUseError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from jetspark.wire.errors import BadNameError, BadSubjectError, ConfigError, DataLossError, Error

if TYPE_CHECKING:
    from jetspark.jetstream.key_value.entry import KeyValueEntry

__all__ = [
    "BadBucketError",
    "BucketExistsError",
    "BucketNotFoundError",
    "BucketReplacedError",
    "HistoryTooLargeError",
    "InvalidBucketNameError",
    "InvalidKeyError",
    "KeyDeletedError",
    "KeyExistsError",
    "KeyNotFoundError",
    "RevisionError",
    "ValueTooLargeError",
    "WrongLastRevisionError",
]


class InvalidBucketNameError(BadNameError):
    """The name of a bucket cannot be used; nothing was sent."""


class BucketNotFoundError(StreamNotFoundError):
    """There is no such bucket (10059).

    Attributes
    ----------
    bucket
        Name of the bucket.
    """

    def __init__(self, bucket: str) -> None:
        super().__init__(
            404, 10059, f"there is no bucket {bucket!r}", hint="create it, or check its name and the domain"
        )
        self.bucket = bucket


class BucketExistsError(StreamNameInUseError):
    """A bucket of that name exists with another configuration (10058).

    Attributes
    ----------
    bucket
        Name of the bucket.
    """

    def __init__(self, bucket: str) -> None:
        super().__init__(
            400,
            10058,
            f"bucket {bucket!r} exists with another configuration",
            hint="update it instead, or choose another name",
        )
        self.bucket = bucket


class BadBucketError(ConfigError):
    """The stream of that name is no bucket: its configuration does not fit."""


class BucketReplacedError(DataLossError):
    """The bucket was deleted and created again while it was watched: its revisions start again."""


class InvalidKeyError(BadSubjectError):
    """A key, or a filter of keys, cannot be used; nothing was sent."""


class KeyNotFoundError(Error, LookupError):
    """There is no such key, or not in the revision that was asked for.

    Attributes
    ----------
    bucket, key
        Name of the bucket, and the key.
    revision
        The revision that was asked for; None if it was the newest.
    """

    def __init__(self, message: str = "", *, bucket: str = "", key: str = "", revision: int | None = None) -> None:
        super().__init__(message)
        self.bucket = bucket
        self.key = key
        self.revision = revision


class KeyDeletedError(KeyNotFoundError):
    """The newest entry of the key is a marker: it was deleted, purged, or has expired.

    Attributes
    ----------
    entry
        The marker.
    """

    def __init__(self, entry: KeyValueEntry, revision: int | None = None) -> None:
        what = "has expired" if entry.expired else "is deleted"
        super().__init__(
            f"{entry.bucket}: key {entry.key!r} {what} (revision {entry.revision})",
            bucket=entry.bucket,
            key=entry.key,
            revision=revision,
        )
        self.entry = entry


class WrongLastRevisionError(WrongLastSequenceError):
    """The newest revision of the key is not the expected one (10071, 10164); nothing was stored.

    Attributes
    ----------
    bucket, key
        Name of the bucket, and the key.
    expected
        The revision that the call expected; 0 for a key that does not exist.
    actual
        The newest revision of the key, 0 if it has none; None if the server did not say.
    """

    def __init__(
        self, bucket: str, key: str, expected: int, actual: int | None = None, *, err_code: int = 10071, what: str = ""
    ) -> None:
        found = "is unknown" if actual is None else f"is {actual}"
        text = what or f"key {key!r}: revision {expected} was expected, and the newest {found}"
        super().__init__(400, err_code, text, where=bucket, hint="read the key again, and repeat with its revision")
        self.bucket = bucket
        self.key = key
        self.expected = expected
        self.actual = actual

    @property
    def last_sequence(self) -> int | None:
        """The same as `actual`."""
        return self.actual


class KeyExistsError(WrongLastRevisionError):
    """The key to create exists; nothing was stored. `actual` is its revision."""

    def __init__(self, bucket: str, key: str, actual: int | None = None) -> None:
        super().__init__(bucket, key, 0, actual, what=f"key {key!r} exists (revision {actual})")


class HistoryTooLargeError(ConfigError):
    """A bucket keeps 1 to 64 revisions of a key."""


class ValueTooLargeError(MessageSizeExceedsMaximumError):
    """The value is larger than the bucket allows (10054); nothing was stored.

    Attributes
    ----------
    size, limit
        Bytes of the value with its headers, and those that the bucket allows.
    """

    def __init__(self, where: str = "", *, size: int = 0, limit: int = 0) -> None:
        super().__init__(
            400,
            10054,
            f"the value has {size} bytes with its headers, and the bucket allows {limit}",
            where=where,
            hint="raise max_value_size of the bucket",
        )
        self.size = size
        self.limit = limit


class RevisionError(Error, ValueError):
    """The revision to resume from lies in the future: the bucket has not reached it.

    Attributes
    ----------
    revision, last
        The revision that was asked for, and the newest one of the bucket.
    """

    def __init__(self, message: str = "", *, revision: int = 0, last: int = 0) -> None:
        super().__init__(message)
        self.revision = revision
        self.last = last
