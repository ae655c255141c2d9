"""Buckets for the tests of Spark, written and read without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType
from tests.bulk.streams import HEADERS, create
from tests.spark.micro_batches import Offset
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.jetstream.key_value import KeyValueConfig
from jetspark.jetstream.key_value.config import stream_config
from jetspark.spark.options.batch import read_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.batch_reader import JetStreamReader
from jetspark.spark.read.entries import entry_schema
from jetspark.spark.read.snapshot_reader import SnapshotReader
from jetspark.spark.read.stream_reader import JetStreamStreamReader

__all__ = ["DEL", "EXPIRED", "PURGE", "Bucket", "Row"]

DEL = [("KV-Operation", ["DEL"])]
PURGE = [("KV-Operation", ["PURGE"]), ("Nats-Rollup", ["sub"])]
EXPIRED = [("Nats-Marker-Reason", ["MaxAge"])]

Row = dict[str, Any]
_numbers = itertools.count(1)


class Bucket:
    """A bucket on the server of a test."""

    def __init__(self, nats: Nats, name: str | None = None, **config: Any) -> None:
        self.nats = nats
        self.name = name or f"b{next(_numbers):04}"
        self.stream = f"KV_{self.name}"
        create(nats.connection, stream_config(KeyValueConfig(bucket=self.name, **config)))

    def put(self, *keys: str, value: bytes | None = None) -> int:
        """Put a value under each key, by default its revision; return the last revision."""
        first = self.nats.info(self.stream).state.last_sequence + 1
        values = [b"%d" % (first + at) if value is None else value for at in range(len(keys))]
        return self._publish(keys, values, [None] * len(keys))

    def mark(self, header: list[tuple[str, list[str]]], *keys: str) -> int:
        """Store a marker for each key; return the last revision."""
        return self._publish(keys, [b""] * len(keys), [header] * len(keys))

    def expire_later(self, key: str, ttl: str = "1s") -> None:
        """Put a value that expires."""
        self._publish([key], [b"short"], [[("Nats-TTL", [ttl])]])

    def batch(self, schema: StructType | None = None, /, **options: str) -> list[Row]:
        """Return the rows of a batch read."""
        given = read_options({"servers": self.nats.url, "bucket": self.name, **options})
        made = SnapshotReader if given.last_per_subject else JetStreamReader
        reader = made(schema or entry_schema(include_headers=False), given)
        return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]

    def reader(self, **options: str) -> JetStreamStreamReader:
        """Return the reader of a streaming query."""
        given = {"servers": self.nats.url, "bucket": self.name, **options}
        return JetStreamStreamReader(entry_schema(include_headers=False), stream_read_options(given))

    def micro_batch(self, reader: JetStreamStreamReader, start: Offset, end: Offset) -> list[Row]:
        """Return the rows of a micro-batch."""
        parts = reader.partitions(start, end)
        return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]

    def _publish(
        self, keys: Iterable[str], values: list[bytes], headers: list[list[tuple[str, list[str]]] | None]
    ) -> int:
        subjects = [f"$KV.{self.name}.{key}" for key in keys]
        rows = pa.record_batch({"subject": subjects, "data": values, "headers": pa.array(headers, HEADERS)})
        bulk.publish(self.nats.connection, rows, control_headers="keep")
        return self.nats.info(self.stream).state.last_sequence
