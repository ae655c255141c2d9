"""Batch reads of an object store: all objects that it has at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.objects import META_COLUMNS, ObjectPartition, ObjectRows
from jetspark.spark.streams.buckets import request_info

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ObjectReader"]


class ObjectReader(DataSourceReader):
    """Reads the objects of a bucket. Raises ConfigError if the schema is not possible."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._rows = ObjectRows(schema, options, changes=False)

    def partitions(self) -> list[InputPartition]:
        """Read the descriptions of the objects, and pack them into partitions.

        Raises
        ------
        BucketNotFoundError, BadBucketError
            There is no such bucket, or its stream is no object store.
        BadObjectError, LinkError, ObjectNotFoundError, ConfigError
            See `ObjectRows.plan`.
        """
        from jetspark.bulk import last_per_subject
        from jetspark.bulk.object_get import ObjectPlace
        from jetspark.bulk.retry import request_with_retry

        options, server = self._options, self._options.server
        (stream,) = options.streams
        with borrow_connection(server.connect, options.retry_timeout, first_contact=True) as connection:
            info = request_with_retry(
                connection, lambda: request_info(connection, options, stream), options.retry_timeout
            )
            place = ObjectPlace.of(info)
            found = last_per_subject(
                connection,
                stream,
                subjects=place.meta_subjects,
                columns=META_COLUMNS,
                max_bytes_in_flight=options.bytes_in_flight,
                timeout=server.request_timeout,
                retry_timeout=options.retry_timeout,
                prefix=server.api_prefix,
                consumer_prefix=server.consumer_prefix,
            )
            return self._rows.plan(connection, place, found.table)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition; see `ObjectRows.read`."""
        if isinstance(partition, ObjectPartition):  # without partitions, Spark creates an empty one of its own class
            yield from self._rows.read(partition)
