"""The schema of a batch read with `payloadFormat` and without a schema: fields of the payload, and columns of messages.

A format that does not know its fields infers them from the first messages of the read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, StructField, StructType

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.formats import INFERRED_FROM_PAYLOADS, infer_schema
from jetspark.spark.connections import call_with_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.options.payload import PayloadOptions
from jetspark.spark.read.batch_reader import JetStreamReader
from jetspark.spark.read.entries import entry_schema
from jetspark.spark.schema import read_schema
from jetspark.spark.streams.listing import streams_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["example_schema", "inferred_schema", "is_inferred_from_payloads"]


def is_inferred_from_payloads(payload: PayloadOptions) -> bool:
    """Whether the fields of payloads can only be found in payloads."""
    return payload.format in INFERRED_FROM_PAYLOADS


def inferred_schema(options: ReadOptions, payload: PayloadOptions) -> StructType:
    """Return the schema of a read: the fields of the payload, then the columns of messages or entries.

    Raises
    ------
    ConfigError
        There is no message to infer fields from, or a field has the name of a column of messages.
    StreamNotFoundError, ConnectError, ...
        The messages cannot be read.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    payloads = _sample(options, payload) if is_inferred_from_payloads(payload) else None
    fields = from_arrow_schema(infer_schema(payload.format, payloads, payload.format_options))
    content = _content(options)
    base = (read_schema if options.bucket is None else entry_schema)(options.include_headers)
    columns = [StructField(f"{payload.prefix}{field.name}", field.dataType) for field in base if field.name != content]
    names = {column.name.lower() for column in columns} | {f"{payload.prefix}{content}".lower()}
    for field in fields:
        if field.name.lower() in names:
            raise ConfigError(
                f"the payloads have a field {field.name}, and so have the messages; rename the columns of messages: "
                f'option("metadataPrefix", "{"_" if payload.prefix != "_" else "msg_"}"), or give a schema'
            )
    return StructType([*(StructField(field.name, field.dataType) for field in fields), *columns])


def example_schema(options: ReadOptions) -> str:
    """Return a schema as an example for an error."""
    key = "subject" if options.bucket is None else "key"
    prefix = "" if options.payload is None else options.payload.prefix
    return f'.schema("id BIGINT, name STRING, {prefix}{key} STRING")'


def _content(options: ReadOptions) -> str:
    return "data" if options.bucket is None else "value"


def _sample(options: ReadOptions, payload: PayloadOptions) -> pa.BinaryArray:
    """Read the first payloads; of several streams, an equal number from each."""
    import pyarrow as pa

    streams = options.streams
    if options.stream_pattern is not None:
        streams = call_with_connection(
            options.server.connect,
            lambda connection: streams_of(connection, options),
            options.retry_timeout,
            first_contact=True,
        )
    size = max(payload.sampling_size // max(len(streams), 1), 1)
    content = _content(options)
    schema = StructType([StructField(content, BinaryType())])
    plain = replace(
        options,
        payload=None,
        dead_letters=None,
        stream_pattern=None,
        last_per_subject=False,
        batch_rows=min(options.batch_rows, size),
    )
    found: list[pa.Array] = []
    for stream in streams:
        reader = JetStreamReader(schema, replace(plain, streams=(stream,)))
        rest = size
        for partition in reader.partitions():
            batches = reader.read(partition)
            while rest > 0 and (batch := next(batches, None)) is not None:
                found.append(batch.column(0).drop_null()[:rest])
                rest -= len(found[-1])
            batches.close()  # type: ignore[attr-defined]  # a generator
    payloads = pa.concat_arrays(found) if found else pa.array([], pa.binary())
    if not len(payloads):
        raise ConfigError(
            f"there is no message in {', '.join(streams) or f'a stream like {options.stream_pattern}'} to infer the "
            f"fields of the payloads from; give a schema: {example_schema(options)}"
        )
    return payloads
