"""Streaming reads of an object store: the changes of its objects as rows.

Offsets, limits and restarts are those of any stream. The driver reads the descriptions in the range of a micro-batch,
and packs them into partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.stream_read import StreamReadOptions
from jetspark.spark.read.objects import META_COLUMNS, ObjectPartition, ObjectRows
from jetspark.spark.read.partitions import StreamPartition
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.schema import read_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk.object_get import ObjectPlace

__all__ = ["ObjectStreamReader"]


class ObjectStreamReader(JetStreamStreamReader):
    """Plans and reads micro-batches of objects. Raises ConfigError if the schema is not possible."""

    def __init__(self, schema: StructType, options: StreamReadOptions) -> None:
        descriptions = read_schema(include_headers=False)
        super().__init__(StructType([descriptions[name] for name in META_COLUMNS]), options)
        self._rows = ObjectRows(schema, options.read, changes=True)

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        """Read the descriptions between two offsets, and pack their objects into partitions.

        A repeated micro-batch lacks the objects that were replaced since.

        Raises
        ------
        DataLossError
            See `JetStreamStreamReader.partitions`.
        BadObjectError, LinkError, ObjectNotFoundError, ConfigError
            See `ObjectRows.plan`.
        """
        import pyarrow as pa

        parts = super().partitions(start, end)
        if not parts:
            return []
        place = self._place()
        self._ranges.subjects = (place.meta_subjects,)
        found = [batch for part in parts if isinstance(part, StreamPartition) for batch in self._ranges.read(part)]
        if not found:
            return []
        read = self._options.read
        with borrow_connection(read.server.connect, read.retry_timeout) as connection:
            return self._rows.plan(connection, place, pa.Table.from_batches(found))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition; see `ObjectRows.read`."""
        if isinstance(partition, ObjectPartition):  # Spark makes an empty one of its own when there is none
            yield from self._rows.read(partition)

    def _subjects(self) -> tuple[str, ...]:
        return (self._place().meta_subjects,)

    def _place(self) -> ObjectPlace:
        from jetspark.bulk.object_get import ObjectPlace

        (stream,) = self._options.read.streams
        return ObjectPlace.of(self._states.infos[stream])
