"""Batch reads with `mode` = `lastPerSubject`: the newest message of every subject, at one moment of each stream.

One task reads a stream, because one moment cannot be had by several, and keeps a row for each subject in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jetspark.spark.connections import lend
from jetspark.spark.options import ReadOptions
from jetspark.spark.schema import project

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SnapshotReader"]

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class SnapshotPartition(InputPartition):
    """One task's part: a whole stream."""

    stream: str


class SnapshotReader(DataSourceReader):
    """Reads the last message of every subject. Raises ConfigError for a schema that cannot be served."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection = project(schema)

    def partitions(self) -> list[InputPartition]:
        """One for each stream."""
        return [SnapshotPartition(stream) for stream in self._options.streams]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream."""
        from jetspark.bulk import last_per_subject

        assert isinstance(partition, SnapshotPartition)
        options, server = self._options, self._options.server
        with lend(server.connect, options.retry_timeout) as connection:
            snapshot = last_per_subject(
                connection,
                partition.stream,
                subjects=options.subjects,
                columns=self._projection.columns,
                max_bytes_in_flight=options.bytes_in_flight,
                timeout=server.request_timeout,
                retry_timeout=options.retry_timeout,
                prefix=server.api,
            )
        _log.info("stream %s at sequence %d: %d rows", partition.stream, snapshot.sequence, len(snapshot.table))
        for batch in snapshot.table.to_batches(max_chunksize=options.batch_rows):
            yield self._projection.apply(batch)
