"""Helpers for the tests of writes into buckets: rows as Spark gives them to a task, writers, and what was stored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from tests.spark.buckets import Bucket
from tests.spark.sink import SHORT
from tests.spark.support import Nats

from jetspark.jetstream.api import StreamUpdateRequest
from jetspark.spark.options.batch import write_options
from jetspark.spark.write.batch_writer import JetStreamWriter, plan_write

__all__ = ["CONDITIONS", "ROWS", "SECRET", "batch_writer", "entries", "forgetful", "history", "schema", "table"]

SECRET = "classified"
ROWS = "key string, value binary"
CONDITIONS = f"{ROWS}, expected_revision bigint"


_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "map": MapType(StringType(), ArrayType(StringType())),
    "interval": DayTimeIntervalType(),
    "interval hours": DayTimeIntervalType(1, 1),
}


def schema(columns: str) -> StructType:
    """Return a schema as SQL writes it; SQL itself needs a session."""
    named = [column.split(" ", 1) for column in columns.split(", ")]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in named])


def batch_writer(nats: Nats, bucket: Bucket, ddl: str = ROWS, **options: str) -> JetStreamWriter:
    given = write_options({"servers": nats.url, "bucket": bucket.name, **options})
    return plan_write(schema(ddl), given, overwrite=False)


def table(ddl: str, *rows: tuple[object, ...]) -> pa.RecordBatch:
    """Return rows as Spark gives them to a task."""
    arrow = to_arrow_schema(schema(ddl))
    columns = list(zip(*rows, strict=True))
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)], arrow)


def entries(bucket: Bucket, **options: str) -> dict[str, Any]:
    """Return the newest values."""
    return {row["key"]: row["value"] for row in bucket.batch(**options)}


def history(bucket: Bucket) -> list[tuple[str, Any, str]]:
    return [(row["key"], row["value"], row["operation"]) for row in bucket.batch(history="true")]


def forgetful(nats: Nats, **config: Any) -> Bucket:
    """Return a bucket that recognises message ids for a moment only."""
    bucket = Bucket(nats, **config)
    changed = nats.info(bucket.stream).config.replace(duplicate_window=SHORT)
    nats.connection.request(StreamUpdateRequest(changed))
    return bucket
