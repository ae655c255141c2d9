"""Batch reads: the driver plans ranges of sequences, and each task reads its own range.

A task reads its range as record batches with the schema that Spark expects. At the end it checks that no message was
missing. A repeated task reads the same messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from jetspark.jetstream import StreamInfo
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.parallelism import cores_to_read_with
from jetspark.spark.read.dead_letters import check_dead_letters
from jetspark.spark.read.filter_pushdown import PushedFilters, column_names, push_filters, selected_subjects
from jetspark.spark.read.partitions import StreamPartition, plan_partitions
from jetspark.spark.read.range_reader import RangeReader, report_loss
from jetspark.spark.streams.buckets import EntrySelection, request_info, select_entries
from jetspark.spark.streams.listing import streams_of
from jetspark.spark.streams.offsets import StreamExtent
from jetspark.spark.streams.ranges import Bounds, StreamRange, resolve_range

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection

__all__ = ["FilteringReader", "JetStreamReader"]


class JetStreamReader(DataSourceReader):
    """Reads ranges of streams. Created on the driver, used there for planning, and sent to every task."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._ranges = RangeReader(schema, options)
        self._push = PushedFilters(selected_subjects(options))

    def partitions(self) -> list[InputPartition]:
        """Request the state of the streams, and split the range to read.

        Raises
        ------
        DataLossError
            Sequences that the options request are lost, and `failOnDataLoss` is true.
        ConfigError
            No stream takes the dead letters, or it is one that is read.
        StreamNotFoundError, BucketNotFoundError, BadBucketError, ConnectError, ...
            The server cannot be reached, or refuses a request, or there is no such bucket.
        """
        check_dead_letters(self._options)
        if self._push.empty:
            return []
        ranges: list[StreamRange] = []
        extents: dict[str, StreamExtent] = {}
        entries: EntrySelection | None = None
        options = self._options
        with borrow_connection(options.server.connect, options.retry_timeout, first_contact=True) as connection:
            for stream in self._streams(connection):
                if self._push.streams is None or stream in self._push.streams:
                    info = self._request_info(connection, stream)
                    ranges.append(self._plan_range(connection, stream, info))
                    extents[stream] = StreamExtent.of(info, self._push.subjects)
                    entries = select_entries(info, options, self._push.subjects)
        parts = plan_partitions(ranges, extents, self._options, cores_to_read_with())
        return [replace(part, entries=entries) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition.

        Raises
        ------
        DataLossError
            Messages of the partition are lost, or the stream is another one, and `failOnDataLoss` is true.
        """
        if isinstance(partition, StreamPartition):  # without partitions, Spark creates an empty one of its own class
            yield from self._ranges.read(partition)

    def _streams(self, connection: Connection) -> tuple[str, ...]:
        from jetspark.bulk.retry import request_with_retry

        options = self._options
        return request_with_retry(connection, lambda: streams_of(connection, options), options.retry_timeout)

    def _request_info(self, connection: Connection, stream: str) -> StreamInfo:
        from jetspark.bulk.retry import request_with_retry

        options = self._options
        return request_with_retry(connection, lambda: request_info(connection, options, stream), options.retry_timeout)

    def _plan_range(self, connection: Connection, stream: str, info: StreamInfo) -> StreamRange:
        from jetspark.bulk.retry import request_with_retry

        server, options = self._options.server, self._options

        def sequence_at(ns: int) -> int:
            return request_with_retry(
                connection, lambda: server.first_sequence_at(connection, stream, ns), options.retry_timeout
            )

        bounds = Bounds(self._push.sequence.low, self._push.sequence.high)
        time = self._push.time_ns
        bounds.narrow(
            None if time.low is None else sequence_at(time.low), None if time.high is None else sequence_at(time.high)
        )
        each, losses = resolve_range(
            stream, info.state, options.starts[stream], options.ends[stream], bounds, sequence_at
        )
        for loss in losses:
            if options.bucket is None or not loss.gone:  # a bucket replaces revisions; that is no loss
                report_loss(loss, options)
        return each


class FilteringReader(JetStreamReader):
    """A reader that accepts filters of Spark. If Spark's switch for them is off, Spark refuses such a reader."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the filters that the server can apply; return those that Spark must evaluate."""
        self._push, rest = push_filters(
            filters, selected_subjects(self._options), self._ranges.rows.native_columns, column_names(self._options)
        )
        self._ranges.subjects = self._push.subjects
        return rest
