"""The options of a streaming read: those of a batch read, the size of a micro-batch, and the commit mode.

If two options contradict each other, or one needs another, the error names both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options import table
from jetspark.spark.options.batch import ReadOptions, make_read_options
from jetspark.spark.options.option import Option, Use
from jetspark.spark.options.parsed import ParsedOptions, conflicting_options
from jetspark.spark.options.positions import EARLIEST, END_OPTIONS, LATEST, START_OPTIONS, Positions
from jetspark.spark.options.values import Position

__all__ = ["CommitMode", "ReleaseOptions", "StreamReadOptions", "TriggerLimits", "stream_read_options"]


class CommitMode(Enum):
    """The release of a stream after Spark has committed a micro-batch."""

    NONE = "none"
    """No release: only the stream's limits decide which messages it keeps."""
    CONSUMER = "consumer"
    """The ack floor of a durable consumer moves. So interest streams release, and the server shows Spark's lag."""
    PURGE = "purge"
    """The messages that were read are purged, within the filter. For work queues."""


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """The options of the release after a commit.

    Attributes
    ----------
    mode
        See `CommitMode`.
    consumer
        Name of the durable consumer; empty unless the mode is `CONSUMER`.
    allow_purge
        Whether streams that are not work queues may be purged, too.
    """

    mode: CommitMode
    consumer: str
    allow_purge: bool


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The limits of a micro-batch.

    Attributes
    ----------
    max_offsets
        Maximum number of sequences.
    max_bytes
        Approximate maximum number of bytes.
    min_offsets
        Minimum number of sequences. With fewer, the micro-batch waits, at most for `max_delay`.
    max_delay
        Longest wait for `min_offsets`, in seconds.
    """

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay: float = 900.0


@dataclass(frozen=True, slots=True)
class StreamReadOptions:
    """The checked options of a streaming read.

    Attributes
    ----------
    read
        Options that it shares with a batch read.
    limits
        Maximum and minimum size of a micro-batch.
    poll_interval
        Longest time in seconds between two requests while a stream has no new messages.
    release
        Release after a commit.
    joining
        Start in each stream that a query begins to read when it has a checkpoint.
    allow_removed
        Whether a query goes on without streams that were left out or deleted.
    """

    read: ReadOptions
    limits: TriggerLimits
    poll_interval: float
    release: ReleaseOptions
    joining: Mapping[str, Position]
    allow_removed: bool


def stream_read_options(options: Mapping[str, str]) -> StreamReadOptions:
    """Check the options of a streaming read. Raises ConfigError."""
    parsed = ParsedOptions(options, Use.READ_STREAM)
    for option in END_OPTIONS:
        if option in parsed:
            raise ConfigError(
                f"option {option.name} is for batch reads: a streaming query has no end; leave it out "
                "(Trigger.AvailableNow stops at the last message that exists when the query starts)"
            )
    if parsed[table.READ_MODE] != "all":
        raise ConfigError(
            f"option {table.READ_MODE.name} = {parsed[table.READ_MODE]} is for batch reads; to join a stream with a "
            "snapshot, read the snapshot in foreachBatch, or once before the query starts"
        )
    _check_bucket(parsed)
    release = _release_options(parsed)
    from_first = release.mode is CommitMode.PURGE or parsed[table.INITIAL_SNAPSHOT]
    read = make_read_options(parsed, EARLIEST if from_first else LATEST)
    chosen = read.stream_pattern is None and any(option in parsed for option in START_OPTIONS)
    return StreamReadOptions(
        read=read,
        limits=_limits(parsed),
        poll_interval=parsed[table.POLL_INTERVAL],
        release=release,
        joining=read.starts if chosen else Positions(table.STARTING_OFFSETS.name, EARLIEST),
        allow_removed=parsed[table.ALLOW_REMOVED_STREAMS],
    )


def _check_bucket(parsed: ParsedOptions) -> None:
    if parsed[table.HISTORY]:
        raise ConfigError(
            f"option {table.HISTORY.name} = true is for batch reads: a streaming query returns every revision that is "
            "stored while it reads; leave it out"
        )
    if parsed[table.INITIAL_SNAPSHOT]:
        for option in START_OPTIONS:
            if option in parsed:
                raise conflicting_options(option, table.INITIAL_SNAPSHOT, " = true")
    for option in (table.BUCKET, table.OBJECTS):
        if option in parsed and table.ALLOW_REMOVED_STREAMS in parsed:
            raise conflicting_options(option, table.ALLOW_REMOVED_STREAMS)
        if option in parsed and parsed[table.COMMIT_MODE] != CommitMode.NONE.value:
            raise ConfigError(
                f"options {option.name} and {table.COMMIT_MODE.name} = {parsed[table.COMMIT_MODE]} contradict each "
                "other: a bucket keeps its content after it was read"
            )


def _limits(parsed: ParsedOptions) -> TriggerLimits:
    most, least = parsed[table.MAX_OFFSETS_PER_TRIGGER], parsed[table.MIN_OFFSETS_PER_TRIGGER]
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"options {table.MIN_OFFSETS_PER_TRIGGER.name} ({least}) and {table.MAX_OFFSETS_PER_TRIGGER.name} ({most}) "
            "contradict each other: the minimum is larger than the maximum"
        )
    _check_requires(parsed, table.MAX_TRIGGER_DELAY, table.MIN_OFFSETS_PER_TRIGGER)
    return TriggerLimits(most, parsed[table.MAX_BYTES_PER_TRIGGER], least, parsed[table.MAX_TRIGGER_DELAY])


def _release_options(parsed: ParsedOptions) -> ReleaseOptions:
    mode = CommitMode(parsed[table.COMMIT_MODE])
    consumer = parsed[table.COMMIT_CONSUMER]
    if mode is CommitMode.CONSUMER and consumer is None:
        raise ConfigError(
            f"option {table.COMMIT_MODE.name} = {mode.value} needs option {table.COMMIT_CONSUMER.name}: the name of "
            "a durable consumer for this query only"
        )
    prefix = parsed[table.CONSUMER_PREFIX]
    if consumer is not None and table.CONSUMER_PREFIX in parsed and not consumer.startswith(prefix):
        raise ConfigError(
            f"options {table.COMMIT_CONSUMER.name} ({consumer}) and {table.CONSUMER_PREFIX.name} ({prefix}) contradict "
            "each other: the names of all consumers begin with the prefix"
        )
    if mode is not CommitMode.CONSUMER and table.COMMIT_CONSUMER in parsed:
        raise _mode_conflict(table.COMMIT_CONSUMER, mode)
    if mode is not CommitMode.PURGE and parsed[table.ALLOW_PURGE]:
        raise _mode_conflict(table.ALLOW_PURGE, mode)
    if mode is CommitMode.PURGE:
        _check_purge_start(parsed)
    return ReleaseOptions(mode, consumer or "", parsed[table.ALLOW_PURGE])


def _check_purge_start(parsed: ParsedOptions) -> None:
    """Check that the read begins at the first message, because a purge also deletes all messages before the start."""
    for option in START_OPTIONS:
        if option in parsed and parsed[option] != EARLIEST:
            raise ConfigError(
                f"options {table.COMMIT_MODE.name} = purge and {option.name} contradict each other: messages before "
                "the start would be purged unread; start at the earliest message"
            )


def _check_requires(parsed: ParsedOptions, option: Option[object], needed: Option[object]) -> None:
    if option in parsed and needed not in parsed:
        raise ConfigError(f"option {option.name} needs option {needed.name}; give both")


def _mode_conflict(option: Option[object], mode: CommitMode) -> ConfigError:
    return ConfigError(
        f"options {option.name} and {table.COMMIT_MODE.name} = {mode.value} contradict each other; change one of them"
    )
