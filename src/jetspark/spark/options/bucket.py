"""The options of reads and writes of a key-value bucket. Its entries are the messages of the stream `KV_<bucket>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jetspark.jetstream.buckets import KEY_VALUE
from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options import table
from jetspark.spark.options.option import Option, Use
from jetspark.spark.options.parsed import ParsedOptions, conflicting_options

__all__ = ["BucketOptions", "check_bucket_write", "make_bucket_options"]

_OF_STREAMS: Final[tuple[Option[object], ...]] = (
    table.STREAM,
    table.STREAM_PATTERN,
    table.SUBJECT,
    table.OBJECTS,
    table.READ_MODE,
)
_OF_BUCKETS: Final[tuple[Option[object], ...]] = (
    table.KEYS,
    table.HISTORY,
    table.INCLUDE_DELETES,
    table.INITIAL_SNAPSHOT,
)


@dataclass(frozen=True, slots=True)
class BucketOptions:
    """The checked options of a read of a bucket.

    Attributes
    ----------
    name
        Name of the bucket.
    keys
        Filters of keys, none of which covers another; empty for all keys.
    history
        Whether a batch read returns every stored revision.
    include_deletes
        Whether rows for deleted, purged and expired keys are returned.
    initial_snapshot
        Whether a new streaming query begins with the newest entry of each key.
    """

    name: str
    keys: tuple[str, ...] = ()
    history: bool = False
    include_deletes: bool = False
    initial_snapshot: bool = False

    @property
    def stream(self) -> str:
        """Name of the stream of the bucket."""
        return KEY_VALUE.stream_of(self.name)


def make_bucket_options(parsed: ParsedOptions) -> BucketOptions | None:
    """Check the options of a read of a bucket; return None if the read is of streams. Raises ConfigError."""
    name = parsed[table.BUCKET]
    if name is None:
        for option in _OF_BUCKETS:
            if option in parsed:
                raise ConfigError(f"option {option.name} needs option {table.BUCKET.name}: the name of a bucket")
        return None
    for option in _OF_STREAMS:
        if option in parsed:
            raise conflicting_options(table.BUCKET, option)
    history, deletes = parsed[table.HISTORY], parsed[table.INCLUDE_DELETES]
    keys = parsed[table.KEYS]
    return BucketOptions(
        name=name,
        keys=() if keys == (">",) else keys,
        history=history,
        include_deletes=(history or parsed.use is Use.READ_STREAM) if deletes is None else deletes,
        initial_snapshot=parsed[table.INITIAL_SNAPSHOT],
    )


def check_bucket_write(parsed: ParsedOptions) -> None:
    """Check the options of a write that cannot be given together with a bucket, or without one. Raises ConfigError."""
    if table.OBJECTS in parsed:
        for option in (table.BUCKET, table.STREAM, table.SUBJECT, table.EXPECTED_STREAM, table.LEDGER_STREAM):
            if option in parsed:
                raise conflicting_options(table.OBJECTS, option)
        if parsed[table.ATOMIC]:
            raise conflicting_options(table.OBJECTS, table.ATOMIC, " = true")
    elif table.MAX_OBJECT_SIZE in parsed:
        raise ConfigError(
            f"option {table.MAX_OBJECT_SIZE.name} needs option {table.OBJECTS.name}: the name of an object store"
        )
    if table.BUCKET not in parsed:
        if table.ON_CONFLICT in parsed:
            raise ConfigError(f"option {table.ON_CONFLICT.name} needs option {table.BUCKET.name}: the name of a bucket")
        return
    for option in (table.STREAM, table.SUBJECT, table.EXPECTED_STREAM):
        if option in parsed:
            raise conflicting_options(table.BUCKET, option)
    if parsed[table.ATOMIC]:
        raise conflicting_options(table.BUCKET, table.ATOMIC, " = true")
    if parsed[table.CONTROL_HEADERS] == "keep":
        raise conflicting_options(table.BUCKET, table.CONTROL_HEADERS, " = keep")
