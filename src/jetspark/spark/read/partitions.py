"""Splits a read into Spark partitions: few large ranges of sequences.

Every Spark task needs tens of milliseconds before its first row. So by default there are no more partitions than cores
(`spark.parallelism`), and none has less than 50,000 sequences. Deleted and filtered messages count, because only the
read shows where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.datasource import InputPartition

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.streams.buckets import EntrySelection
from jetspark.spark.streams.offsets import StreamExtent
from jetspark.spark.streams.ranges import StreamRange

__all__ = ["StreamPartition", "plan_partitions", "split_ranges", "whole_partition"]

MIN_SEQUENCES_PER_PARTITION: Final = 50_000
"""Minimum number of sequences of a partition, unless an option requires more partitions."""
MAX_PARTITIONS: Final = 100_000
"""Maximum number of partitions: Spark keeps all of them on the driver."""


@dataclass(frozen=True)
class StreamPartition(InputPartition):
    """The part of a read for one task.

    Attributes
    ----------
    stream
        Name of the stream.
    created_ns
        When it was created, nanoseconds since 1970. Another stream of the same name has another time.
    start, end
        First sequence, and the end (excluded). They are equal if the whole part is lost.
    drops_single_messages
        Whether the stream drops single messages in normal operation, so that a gap is no loss.
    replicated
        Whether the stream has replicas. Then a leader that was just elected may not know all messages yet.
    commit_consumer
        Consumer that makes the stream retain the range while it is read; None if none is needed.
    entries
        The entries to read, if the stream is read as a bucket.
    newest_only
        Whether only the newest entry of each key is read, of all that the range has.
    """

    stream: str
    created_ns: int
    start: int
    end: int
    drops_single_messages: bool = False
    replicated: bool = False
    commit_consumer: str | None = None
    entries: EntrySelection | None = None
    newest_only: bool = False

    def clip(self, first: int, end: int) -> StreamPartition:
        """Return the part between two sequences, the second one excluded. It may be empty."""
        start = min(max(self.start, first), self.end)
        return replace(self, start=start, end=max(min(self.end, end), start))


def split_ranges(
    ranges: Sequence[StreamRange], *, min_partitions: int | None, max_records: int | None, cores: int
) -> list[StreamRange]:
    """Return the ranges of the partitions, in order. Together they are the given ranges; none is empty.

    Parameters
    ----------
    ranges
        Range to read of each stream.
    min_partitions
        Minimum number of partitions, if there are as many sequences; divided in proportion to the sizes. None uses the
        number of cores, but at least 50,000 sequences for each partition.
    max_records
        Maximum number of sequences of a partition.
    cores
        Number of cores that read.

    Raises
    ------
    ConfigError
        The result would be more than 100,000 partitions.
    """
    ranges = [each for each in ranges if each.size > 0]
    total = sum(each.size for each in ranges)
    wanted = max(min(cores, total // MIN_SEQUENCES_PER_PARTITION), 1) if min_partitions is None else min_partitions
    counts = _proportional_shares([each.size for each in ranges], wanted)
    if max_records is not None:
        counts = [max(count, -(-each.size // max_records)) for count, each in zip(counts, ranges, strict=True)]
    if sum(counts) > MAX_PARTITIONS:
        raise ConfigError(
            f"options minPartitions and maxRecordsPerPartition make {sum(counts)} partitions of {total} sequences; "
            f"at most {MAX_PARTITIONS} are allowed: lower minPartitions, or raise maxRecordsPerPartition"
        )
    return [part for each, count in zip(ranges, counts, strict=True) for part in _split_evenly(each, count)]


def plan_partitions(
    ranges: Sequence[StreamRange], extents: Mapping[str, StreamExtent], options: ReadOptions, cores: int
) -> list[StreamPartition]:
    """Return the partitions of a read.

    Parameters
    ----------
    ranges
        Range to read of each stream.
    extents
        Extent of each stream, by its name.
    options
        Options of the read.
    cores
        Number of cores that read.
    """
    parts = split_ranges(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
        cores=cores,
    )
    return [whole_partition(each, extents[each.stream]) for each in parts]


def whole_partition(each: StreamRange, extent: StreamExtent) -> StreamPartition:
    """Return a range as one partition."""
    return StreamPartition(
        each.stream, extent.created_ns, each.start, each.end, extent.drops_single_messages, extent.replicated
    )


def _proportional_shares(sizes: list[int], wanted: int) -> list[int]:
    """Divide a number in proportion to sizes. Each share is at most its size, and at least 1 unless the size is 0."""
    total = sum(sizes)
    counts = [min(max(size * wanted // total, 1), size) for size in sizes] if total else [0] * len(sizes)
    # The rest after rounding down goes to the streams with the most sequences per partition.
    while sum(counts) < min(wanted, total):
        open_to_more = [at for at, size in enumerate(sizes) if counts[at] < size]
        counts[max(open_to_more, key=lambda at: sizes[at] / counts[at])] += 1
    return counts


def _split_evenly(whole: StreamRange, count: int) -> list[StreamRange]:
    bounds = [whole.start + whole.size * at // count for at in range(count + 1)]
    return [StreamRange(whole.stream, bounds[at], bounds[at + 1]) for at in range(count)]
