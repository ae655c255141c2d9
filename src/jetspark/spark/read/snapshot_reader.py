"""Batch reads with `readMode` = `lastPerSubject`: the newest message of every subject, at one moment of each stream.

One task reads a whole stream, because several tasks could not read at the same moment. It keeps one row for each
subject in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.filter_pushdown import PushedFilters, push_filters
from jetspark.spark.schema import plan_projection

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FilteringSnapshotReader", "SnapshotReader"]

_log: Final = logging.getLogger(__name__)

_PUSHED: Final = frozenset({"subject", "stream"})


@dataclass(frozen=True)
class SnapshotPartition(InputPartition):
    """The part of a read for one task: a whole stream."""

    stream: str


class SnapshotReader(DataSourceReader):
    """Reads the last message of every subject. Raises ConfigError if the schema is not possible."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection = plan_projection(schema)
        self._push = PushedFilters(options.subjects)

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each stream."""
        streams = [] if self._push.empty else self._options.streams
        return [SnapshotPartition(each) for each in streams if self._push.streams is None or each in self._push.streams]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream."""
        from jetspark.bulk import last_per_subject

        if not isinstance(partition, SnapshotPartition):  # Spark's own empty partition, if there is none
            return
        options, server = self._options, self._options.server
        with borrow_connection(server.connect, options.retry_timeout) as connection:
            snapshot = last_per_subject(
                connection,
                partition.stream,
                subjects=self._push.subjects,
                columns=self._projection.columns,
                max_bytes_in_flight=options.bytes_in_flight,
                timeout=server.request_timeout,
                retry_timeout=options.retry_timeout,
                prefix=server.api_prefix,
            )
        _log.info("stream %s at sequence %d: %d rows", partition.stream, snapshot.sequence, len(snapshot.table))
        for batch in snapshot.table.to_batches(max_chunksize=options.batch_rows):
            yield self._projection.apply(batch)


class FilteringSnapshotReader(SnapshotReader):
    """A snapshot reader that accepts filters; see `jetspark.spark.read.batch_reader.FilteringReader`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the filters on subject and stream. Spark applies the others to the newest messages."""
        self._push, rest = push_filters(filters, self._options.subjects, self._projection.native_columns & _PUSHED)
        return rest
