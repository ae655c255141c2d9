"""The checked options of batch reads and batch writes, and the part that streaming reads and writes share with them.

Errors are raised before anything is read or written. They name the option with a wrong value, or the two options that
contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.names import check_publish_subject
from jetspark.jetstream.subject_filters import EVERYTHING, reduce_filters
from jetspark.spark.options import table
from jetspark.spark.options.bucket import BucketOptions, check_bucket_write, make_bucket_options
from jetspark.spark.options.dead_letters import DeadLetterOptions, read_dead_letter_options, write_dead_letter_options
from jetspark.spark.options.objects import ObjectReadOptions, make_object_options
from jetspark.spark.options.option import Use
from jetspark.spark.options.parsed import ParsedOptions, conflicting_options, option_errors
from jetspark.spark.options.payload import PayloadOptions, make_payload_options
from jetspark.spark.options.positions import (
    EARLIEST,
    END_OPTIONS,
    START_OPTIONS,
    check_order,
    end_positions,
    start_positions,
)
from jetspark.spark.options.server import ServerOptions, make_server_options
from jetspark.spark.options.stream_pattern import StreamPattern
from jetspark.spark.options.values import Position

__all__ = [
    "ReadOptions",
    "WriteOptions",
    "common_read_options",
    "make_read_options",
    "make_write_options",
    "read_options",
    "write_options",
]

_MAX_WRITE_SIZE: Final = 64 << 20
"""Default of `maxObjectSize` for writes."""
_RANGE_OPTIONS: Final = (*START_OPTIONS, *END_OPTIONS, table.MIN_PARTITIONS, table.MAX_RECORDS_PER_PARTITION)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of a read.

    Attributes
    ----------
    server
        How to reach JetStream.
    streams
        Names of the streams; empty with a pattern.
    subjects
        Subject filters, none of which covers another; empty for all subjects.
    starts, ends
        For each stream, the start (included) and the end (excluded; a streaming query has no end).
    min_partitions, max_records_per_partition
        Limits for the partitions; None leaves them to the planning.
    push_down_predicate
        Whether the server applies conditions; None if not given.
    include_headers
        Whether the schema has the column `headers`.
    fail_on_data_loss
        Whether missing messages are an error; otherwise they are a warning.
    batch_rows, batch_bytes, bytes_in_flight
        Limits of the record batches, and of the bytes that the server may send ahead.
    retry_timeout
        Seconds for which a task keeps trying while the server cannot be reached.
    last_per_subject
        Whether to read only the last message of every subject.
    bucket
        The bucket whose entries are read; None if something else is read.
    objects
        The object store whose objects are read; None if something else is read.
    payload
        How payloads become columns; None if they stay bytes.
    dead_letters
        Subject and limit of the dead letters; None if there are none.
    stream_pattern
        Pattern of the names of the streams; None if they are named.
    """

    server: ServerOptions
    streams: tuple[str, ...]
    subjects: tuple[str, ...]
    starts: Mapping[str, Position]
    ends: Mapping[str, Position]
    min_partitions: int | None
    max_records_per_partition: int | None
    push_down_predicate: bool | None
    include_headers: bool
    fail_on_data_loss: bool
    batch_rows: int
    batch_bytes: int
    bytes_in_flight: int
    retry_timeout: float
    last_per_subject: bool
    bucket: BucketOptions | None = None
    objects: ObjectReadOptions | None = None
    payload: PayloadOptions | None = None
    dead_letters: DeadLetterOptions | None = None
    stream_pattern: StreamPattern | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options of a batch write.

    Attributes
    ----------
    server
        How to reach JetStream.
    subject
        Subject of all rows; None takes the column.
    dedup
        Whether rows without a `msg_id` get a message id.
    max_pending
        Maximum number of messages without acknowledgement.
    ack_timeout
        Seconds to wait for an acknowledgement.
    retry_timeout
        Seconds for which a task keeps trying while the server cannot be reached.
    expected_stream
        Stream that must store all rows; None allows any stream.
    atomic
        Whether to publish in atomic batches.
    keep_control_headers
        Whether headers that command the server are published.
    bucket
        Name of the bucket into which the rows are written; None if they are messages.
    objects
        Name of the object store into which the rows are written; None if they are something else.
    max_object_size
        Most bytes of an object.
    skip_conflicts
        Whether rows for a bucket are skipped if their expected revision is wrong.
    payload
        How columns become payloads; None if the payload is one of them.
    dead_letters
        Subject and limit of the dead letters; None if a bad row fails the task.
    """

    server: ServerOptions
    subject: str | None
    dedup: bool
    max_pending: int
    ack_timeout: float
    retry_timeout: float
    expected_stream: str | None
    atomic: bool
    keep_control_headers: bool
    bucket: str | None = None
    skip_conflicts: bool = False
    objects: str | None = None
    max_object_size: int = 0
    payload: PayloadOptions | None = None
    dead_letters: DeadLetterOptions | None = None


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a batch read. Raises ConfigError."""
    parsed = ParsedOptions(options, Use.READ)
    _check_has_range(parsed)
    return make_read_options(parsed, EARLIEST)


def common_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options that batch and streaming reads have in common. Raises ConfigError."""
    return make_read_options(ParsedOptions(options, Use.READ_STREAM), EARLIEST)


def make_read_options(parsed: ParsedOptions, start: Position) -> ReadOptions:
    """Check the options of a read. It begins at `start`, unless an option gives another start. Raises ConfigError."""
    bucket, objects = make_bucket_options(parsed), make_object_options(parsed)
    store = bucket or objects
    pattern = parsed[table.STREAM_PATTERN]
    if pattern is not None and table.STREAM in parsed:
        raise conflicting_options(table.STREAM, table.STREAM_PATTERN)
    names = parsed[table.STREAM] if store is None else (store.name,)  # as the options of positions name them
    if not names and pattern is None:
        raise ConfigError(
            "option stream must be given: the name of a stream, or several names with commas between them; or option "
            "streamPattern: a glob for names of streams; or option bucket: the name of a key-value bucket; or option "
            "objects: the name of an object store"
        )
    subjects = reduce_filters(parsed[table.SUBJECT])
    starts, ends = start_positions(parsed, pattern or names, start), end_positions(parsed, pattern or names)
    if parsed.use is Use.READ:
        for name in names or {*starts, *ends} or (f"every stream of {pattern}",):
            check_order(name, starts, ends)
    streams = dict(zip(names if store is None else (store.stream,), names, strict=True))
    return ReadOptions(
        server=make_server_options(parsed),
        streams=tuple(streams),
        subjects=() if subjects == (EVERYTHING,) else subjects,
        starts=starts if pattern is not None else {stream: starts[name] for stream, name in streams.items()},
        ends=ends if pattern is not None else {stream: ends[name] for stream, name in streams.items()},
        min_partitions=parsed[table.MIN_PARTITIONS],
        max_records_per_partition=parsed[table.MAX_RECORDS_PER_PARTITION],
        push_down_predicate=parsed[table.PUSH_DOWN_PREDICATE],
        include_headers=parsed[table.INCLUDE_HEADERS],
        fail_on_data_loss=parsed[table.FAIL_ON_DATA_LOSS],
        batch_rows=parsed[table.ARROW_BATCH_ROWS],
        batch_bytes=parsed[table.ARROW_BATCH_BYTES],
        bytes_in_flight=parsed[table.MAX_BYTES_IN_FLIGHT],
        retry_timeout=parsed[table.RETRY_TIMEOUT],
        last_per_subject=_is_last_per_subject(parsed, bucket),
        bucket=bucket,
        objects=objects,
        payload=make_payload_options(parsed),
        dead_letters=read_dead_letter_options(parsed),
        stream_pattern=pattern,
    )


def _check_has_range(parsed: ParsedOptions) -> None:
    """Check that a batch read of a bucket gives no range, unless it reads the history of a key-value bucket."""
    if table.OBJECTS in parsed:
        for option in (*START_OPTIONS, *END_OPTIONS):
            if option in parsed:
                raise ConfigError(
                    f"option {option.name} is for streaming reads of objects; a batch read returns all objects"
                )
    if table.BUCKET not in parsed or parsed[table.HISTORY]:
        return
    for option in _RANGE_OPTIONS:
        if option in parsed:
            raise ConfigError(
                f"option {option.name} needs option history = true: without it, a batch read of a bucket returns the "
                "newest entry of each key"
            )


def _is_last_per_subject(parsed: ParsedOptions, bucket: BucketOptions | None) -> bool:
    """Whether a read is a snapshot, which has no range and cannot be split."""
    if bucket is not None:
        return parsed.use is Use.READ and not bucket.history
    if parsed[table.READ_MODE] == "all":
        return False
    for option in _RANGE_OPTIONS:
        if option in parsed:
            raise conflicting_options(option, table.READ_MODE, f" = {parsed[table.READ_MODE]}")
    return True


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Check the options of a batch write. Raises ConfigError."""
    return make_write_options(ParsedOptions(options, Use.WRITE))


def make_write_options(parsed: ParsedOptions) -> WriteOptions:
    """Check the options of a write. Raises ConfigError."""
    check_bucket_write(parsed)
    subjects = parsed[table.SUBJECT]
    if len(subjects) > 1:
        raise ConfigError(f"option subject names {len(subjects)} subjects; a write needs exactly one")
    with option_errors(table.SUBJECT):
        subject = check_publish_subject(subjects[0]) if subjects else None
    return WriteOptions(
        server=make_server_options(parsed),
        subject=subject,
        dedup=parsed[table.DEDUP] == "auto",
        max_pending=parsed[table.MAX_PENDING_ACKS],
        ack_timeout=parsed[table.ACK_TIMEOUT],
        retry_timeout=parsed[table.RETRY_TIMEOUT],
        expected_stream=parsed[table.EXPECTED_STREAM],
        atomic=parsed[table.ATOMIC],
        keep_control_headers=parsed[table.CONTROL_HEADERS] == "keep",
        bucket=parsed[table.BUCKET],
        skip_conflicts=parsed[table.ON_CONFLICT] == "skip",
        objects=parsed[table.OBJECTS],
        max_object_size=parsed[table.MAX_OBJECT_SIZE] or _MAX_WRITE_SIZE,
        payload=make_payload_options(parsed),
        dead_letters=write_dead_letter_options(parsed),
    )
