"""The rows of a write into a key-value bucket: their columns, and what is checked of the bucket before a task runs.

`bulk.key_value_rows` makes messages of the rows, and `bulk.key_value_publish` publishes them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructType,
)

from jetspark.jetstream.errors import ConfigError, MessageTTLDisabledError
from jetspark.jetstream.message_columns import find_entry_write_columns
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.schema import HEADERS, WRITABLE_HEADERS, WriteColumns, check_write_types, columns_of

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["ENTRY_WRITABLE_TYPES", "check_entry_columns", "entry_write_columns", "find_target"]

_TEXT: Final = StringType()
_ONLY_NULLS: Final = NullType()
ENTRY_WRITABLE_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "key": (_TEXT,),
    "value": (BinaryType(), _TEXT, _ONLY_NULLS),
    "operation": (_TEXT, _ONLY_NULLS),
    "expected_revision": (LongType(), IntegerType(), _ONLY_NULLS),
    "ttl": (DayTimeIntervalType(), _TEXT),
    HEADERS: WRITABLE_HEADERS,
    "msg_id": (_TEXT, _ONLY_NULLS),
}


def entry_write_columns(schema: StructType) -> WriteColumns:
    """Check the schema of a write into a bucket.

    Raises
    ------
    ConfigError
        A required column is missing, a column has the wrong type, or a column would not be written.
    """
    positions = find_entry_write_columns(schema.names, any_case=True)
    check_write_types(schema, positions, ENTRY_WRITABLE_TYPES)
    if "value" not in positions:
        raise ConfigError(
            f"the rows have no column value (binary or string; null deletes the key); they have {columns_of(schema)}"
        )
    check_entry_columns(positions, schema)
    return WriteColumns(positions)


def check_entry_columns(positions: Collection[str], schema: StructType) -> None:
    """Check that a write into a bucket has the columns that it needs. Raises ConfigError."""
    if "key" not in positions:
        raise ConfigError(f"the rows have no column key (string); they have {columns_of(schema)}")
    if "ttl" in positions and not ("expected_revision" in positions or "operation" in positions):
        raise ConfigError(
            "column ttl needs column expected_revision or operation: only a row with expected_revision 0 or operation "
            "PURGE can have a ttl"
        )


def find_target(
    connection: Connection, columns: WriteColumns, options: WriteOptions
) -> tuple[WriteColumns, WriteOptions]:
    """Ask the server for the bucket of a write. Return the columns with it, and the options for its stream.

    Raises
    ------
    BucketNotFoundError, BadBucketError
        There is no such bucket.
    MessageTTLDisabledError
        There is a column `ttl`, and the keys of the bucket cannot have a time to live.
    """
    from jetspark.bulk.key_value_bucket import find_bucket

    if options.bucket is None:
        return columns, options
    server = options.server
    bucket = find_bucket(
        connection,
        options.bucket,
        timeout=server.request_timeout,
        prefix=server.api_prefix,
        retry_timeout=options.retry_timeout,
    )
    if "ttl" in columns and not bucket.allows_ttl:
        raise MessageTTLDisabledError(
            400,
            10166,
            f"the rows have a column ttl, and keys of bucket {bucket.bucket!r} cannot have a time to live",
            hint="set limit_marker_ttl of the bucket, or leave the column out",
        )
    of_stream = replace(options, expected_stream=bucket.stream, server=replace(server, api_prefix=bucket.prefix))
    return replace(columns, bucket=bucket), of_stream
