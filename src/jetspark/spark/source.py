"""The data source of `format("jetstream")`. Its import needs neither numpy nor pyarrow."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options.batch import common_read_options, read_options, write_options
from jetspark.spark.options.parsed import RedactedOptions
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.read.batch_reader import FilteringReader, JetStreamReader
from jetspark.spark.read.entries import entry_schema
from jetspark.spark.read.inference import example_schema, inferred_schema, is_inferred_from_payloads
from jetspark.spark.read.object_reader import ObjectReader
from jetspark.spark.read.object_stream_reader import ObjectStreamReader
from jetspark.spark.read.objects import object_schema
from jetspark.spark.read.snapshot_reader import FilteringSnapshotReader, SnapshotReader
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.schema import read_schema
from jetspark.spark.shared_plan_bug import accepts_filters
from jetspark.spark.write.batch_writer import JetStreamWriter, plan_write
from jetspark.spark.write.object_writer import (
    ObjectBatchWriter,
    ObjectStreamWriter,
    plan_object_stream_write,
    plan_object_write,
)
from jetspark.spark.write.stream_writer import JetStreamStreamWriter, plan_stream_write

__all__ = ["JetStreamDataSource"]


class JetStreamDataSource(DataSource):
    """Streams, buckets and objects of NATS JetStream as tables, batch and streaming.

    Options: `jetspark.spark.options.table`.
    """

    _sampled = False  # Spark keeps this object, with what `schema` found out about the payloads

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "jetstream"

    def schema(self) -> StructType:
        """Return the columns of a read; checks the options as well.

        Fields of payloads may be inferred from the first messages. Only then a connection is opened.

        Raises
        ------
        ConfigError
            An option is wrong, or no schema can be inferred.
        StreamNotFoundError, ConnectError, ...
            Messages are needed, and cannot be read.
        """
        # Spark asks for the schema before it says whether the read is a batch or a stream.
        options = common_read_options(RedactedOptions(self.options))
        if options.objects is not None:
            return object_schema()
        if options.payload is not None:
            self._sampled = is_inferred_from_payloads(options.payload)
            return inferred_schema(options, options.payload)
        return (read_schema if options.bucket is None else entry_schema)(options.include_headers)

    def reader(self, schema: StructType) -> JetStreamReader | SnapshotReader | ObjectReader:
        """Return the reader of a batch. Raises ConfigError for options or a schema that cannot be served."""
        options = read_options(RedactedOptions(self.options))
        if options.objects is not None:
            return ObjectReader(schema, options)
        filtering = accepts_filters(options.push_down_predicate)
        if options.last_per_subject:
            return (FilteringSnapshotReader if filtering else SnapshotReader)(schema, options)
        return (FilteringReader if filtering else JetStreamReader)(schema, options)

    def streamReader(self, schema: StructType) -> JetStreamStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of micro-batches. Raises ConfigError as `reader` does."""
        options = stream_read_options(RedactedOptions(self.options))
        if self._sampled and options.read.payload is not None:
            raise ConfigError(
                f"a streaming read with option payloadFormat = {options.read.payload.format} needs a schema, because "
                f"the query reads messages that do not exist yet: {example_schema(options.read)}"
            )
        return (JetStreamStreamReader if options.read.objects is None else ObjectStreamReader)(schema, options)

    def writer(self, schema: StructType, overwrite: bool) -> JetStreamWriter | ObjectBatchWriter:
        """Return the writer of a batch. Raises ConfigError as `reader` does, and for the mode `overwrite`."""
        options = write_options(RedactedOptions(self.options))
        if options.objects is not None:
            return plan_object_write(schema, options, overwrite)
        return plan_write(schema, options, overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> JetStreamStreamWriter | ObjectStreamWriter:
        """Return the writer of a micro-batch. Raises ConfigError as `writer` does."""
        options = stream_write_options(RedactedOptions(self.options))
        if options.write.objects is not None:
            return plan_object_stream_write(schema, options.write, overwrite)
        return plan_stream_write(schema, options, overwrite)
