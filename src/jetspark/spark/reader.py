"""Batch reads: planned on the driver as ranges of sequences, read by each task for itself.

A task reads its range and nothing else, as record batches that are already what Spark wants, and proves at the end that
nothing was missing in it. A repeated task reads the same.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from jetspark.jetstream import StreamInfo
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.errors import DataLossError, StreamNotFoundError
from jetspark.jetstream.times import time_ns
from jetspark.spark.connections import lend
from jetspark.spark.filters import Bounds, Pushdown, push_filters
from jetspark.spark.offsets import Loss, StreamRange, resolve_range
from jetspark.spark.options import ReadOptions
from jetspark.spark.planning import StreamPartition, split_ranges
from jetspark.spark.schema import project

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection, Scan, ScanReport

__all__ = ["FilteringReader", "JetStreamReader"]

_log: Final = logging.getLogger(__name__)


class JetStreamReader(DataSourceReader):
    """Reads ranges of streams. Made on the driver, used there for planning, and sent to every task."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection = project(schema)
        self._push = Pushdown(options.subjects)

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
        created: dict[str, int] = {}
        with lend(self._options.server.connect) as connection:
            for stream in self._options.streams:
                if self._push.streams is None or stream in self._push.streams:
                    each, created[stream] = self._plan_stream(connection, stream)
                    ranges.append(each)
        parts = split_ranges(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
            cores=_cores(),
        )
        return [StreamPartition(part.stream, created[part.stream], part.start, part.end) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition.

        Raises
        ------
        DataLossError
            Messages of the partition are gone, or the stream is another one, and `failOnDataLoss` is true.
        """
        if isinstance(partition, StreamPartition):  # Spark makes an empty one of its own when there is none
            yield from self._read(partition)

    def _plan_stream(self, connection: Connection, stream: str) -> tuple[StreamRange, int]:
        from jetspark.bulk import first_sequence_at, patiently

        server, options = self._options.server, self._options

        def sequence_at(ns: int) -> int:
            def ask() -> int:
                return first_sequence_at(connection, stream, ns, timeout=server.request_timeout, prefix=server.api)

            return patiently(connection, ask, options.retry_timeout)

        def ask_info() -> StreamInfo:
            return connection.request(StreamInfoRequest(stream), timeout=server.request_timeout, prefix=server.api)

        info = patiently(connection, ask_info, options.retry_timeout)
        bounds = Bounds(self._push.sequence.low, self._push.sequence.high)
        time = self._push.time_ns
        bounds.narrow(
            None if time.low is None else sequence_at(time.low), None if time.high is None else sequence_at(time.high)
        )
        each, losses = resolve_range(
            stream, info.state, options.starts[stream], options.ends[stream], bounds, sequence_at
        )
        for loss in losses:
            self._lost(loss)
        return each, time_ns(info.created)

    def _read(self, part: StreamPartition) -> Iterator[pa.RecordBatch]:
        from jetspark.bulk import scan

        options, server = self._options, self._options.server
        with (
            lend(server.connect) as connection,
            scan(
                connection,
                part.stream,
                subjects=self._push.subjects,
                start_sequence=part.start,
                end_sequence=part.end,
                columns=self._projection.columns,
                max_batch_rows=options.batch_rows,
                max_batch_bytes=options.batch_bytes,
                max_bytes_in_flight=options.bytes_in_flight,
                timeout=server.request_timeout,
                retry_timeout=options.retry_timeout,
                prefix=server.api,
            ) as batches,
        ):
            try:
                yield from self._proven(part, batches)
            except (StreamNotFoundError, _StreamReplacedError) as error:
                last = batches.report.last_sequence
                self._lost(Loss(part.stream, part.start if last is None else last + 1, part.end - 1, str(error)))

    def _proven(self, part: StreamPartition, batches: Scan) -> Iterator[pa.RecordBatch]:
        """The batches of a scan, with a look at the stream before the first one and at the count behind the last."""
        batch = _next(batches)
        if not self._is_planned_one(part, batches.report):
            return
        while batch is not None:
            yield self._projection.apply(batch)
            batch = _next(batches)
        if batches.report.missing:
            reason = (
                f"{batches.report.missing} messages between sequences {part.start} and {part.end - 1} went while they "
                "were read: purged, deleted or expired"
            )
            self._lost(Loss(part.stream, None, None, reason))

    def _is_planned_one(self, part: StreamPartition, report: ScanReport) -> bool:
        """See that the stream still holds the range; whether it is the one that the read was planned with."""
        if report.created is None or time_ns(report.created) != part.created_ns:
            reason = "the stream was deleted and made again since the read was planned"
            self._lost(Loss(part.stream, part.start, part.end - 1, reason))
            return False
        if report.stream_first_sequence > part.start:
            last = min(report.stream_first_sequence, part.end) - 1
            reason = f"the stream starts at {report.stream_first_sequence} now; they were purged, deleted or expired"
            self._lost(Loss(part.stream, part.start, last, reason))
        elif report.stream_last_sequence < part.end - 1:
            reason = f"the stream ends at {report.stream_last_sequence} now"
            self._lost(Loss(part.stream, report.stream_last_sequence + 1, part.end - 1, reason))
        return True

    def _lost(self, loss: Loss) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{loss}; with option failOnDataLoss = false the rest is read",
                stream=loss.stream,
                first=loss.first,
                last=loss.last,
            )
        _log.warning("data loss: %s", loss)


class FilteringReader(JetStreamReader):
    """A reader that Spark may hand filters to. Where its switch for that is off, it refuses a reader that can."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that the server can apply; return those that Spark has to evaluate."""
        self._push, rest = push_filters(filters, self._options.subjects, self._projection.natural)
        return rest


class _StreamReplacedError(DataLossError):
    """The stream of the partition is not there any more; another one has its name."""


def _next(batches: Scan) -> pa.RecordBatch | None:
    try:
        return next(batches, None)
    except DataLossError as error:  # the scan came back to another stream
        raise _StreamReplacedError(str(error)) from error


def _cores() -> int:
    return os.cpu_count() or 1
