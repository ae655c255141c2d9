"""Batch reads: planned on the driver as ranges of sequences, read by each task for itself.

A task reads its range and nothing else, as record batches that are already what Spark wants, and proves at the end that
nothing was missing in it. A repeated task reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from jetspark.jetstream import StreamInfo
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.filters import PushedFilters, push_filters
from jetspark.spark.read.partitions import StreamPartition, plan_partitions
from jetspark.spark.read.range_reader import RangeReader, report_loss
from jetspark.spark.streams.offsets import StreamExtent
from jetspark.spark.streams.ranges import Bounds, StreamRange, resolve_range

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection

__all__ = ["FilteringReader", "JetStreamReader"]


class JetStreamReader(DataSourceReader):
    """Reads ranges of streams. Made on the driver, used there for planning, and sent to every task."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._ranges = RangeReader(schema, options)
        self._push = PushedFilters(options.subjects)

    def partitions(self) -> list[InputPartition]:
        """Look at the streams and split what there is to read.

        Raises
        ------
        DataLossError
            Sequences that the options ask for are gone, and `failOnDataLoss` is true.
        StreamNotFoundError, JetStreamNotEnabledError, ConnectError, ...
            The server cannot be reached or refuses.
        """
        if self._push.empty:
            return []
        ranges: list[StreamRange] = []
        extents: dict[str, StreamExtent] = {}
        with borrow_connection(self._options.server.connect) as connection:
            for stream in self._options.streams:
                if self._push.streams is None or stream in self._push.streams:
                    each, extents[stream] = self._plan_stream(connection, stream)
                    ranges.append(each)
        return list(plan_partitions(ranges, extents, self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition.

        Raises
        ------
        DataLossError
            Messages of the partition are gone, or the stream is another one, and `failOnDataLoss` is true.
        """
        if isinstance(partition, StreamPartition):  # Spark makes an empty one of its own when there is none
            yield from self._ranges.read(partition)

    def _plan_stream(self, connection: Connection, stream: str) -> tuple[StreamRange, StreamExtent]:
        from jetspark.bulk.retry import request_with_retry

        server, options = self._options.server, self._options

        def sequence_at(ns: int) -> int:
            return request_with_retry(
                connection, lambda: server.first_sequence_at(connection, stream, ns), options.retry_timeout
            )

        def ask_info() -> StreamInfo:
            return server.request(connection, StreamInfoRequest(stream))

        info = request_with_retry(connection, ask_info, options.retry_timeout)
        bounds = Bounds(self._push.sequence.low, self._push.sequence.high)
        time = self._push.time_ns
        bounds.narrow(
            None if time.low is None else sequence_at(time.low), None if time.high is None else sequence_at(time.high)
        )
        each, losses = resolve_range(
            stream, info.state, options.starts[stream], options.ends[stream], bounds, sequence_at
        )
        for loss in losses:
            report_loss(loss, options)
        return each, StreamExtent.of(info, self._push.subjects)


class FilteringReader(JetStreamReader):
    """A reader that Spark may hand filters to. Where its switch for that is off, it refuses a reader that can."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that the server can apply; return those that Spark has to evaluate."""
        self._push, rest = push_filters(filters, self._options.subjects, self._ranges.projection.native_columns)
        self._ranges.subjects = self._push.subjects
        return rest
