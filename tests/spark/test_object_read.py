"""Object stores as sources: the rows of batches and streams."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType
from tests.bulk.object_stores import make
from tests.bulk.streams import Streams, create, read, until
from tests.spark.micro_batches import Offset, latest, nexts
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.bulk.object_put import ObjectTarget, ObjectWriter, new_object
from jetspark.engine.object_chunks import CHUNK_SIZE
from jetspark.errors import (
    BadBucketError,
    BadObjectError,
    BucketNotFoundError,
    ConfigError,
    DataLossError,
    DigestMismatchError,
    LinkError,
    ObjectIncompleteError,
    ObjectNotFoundError,
)
from jetspark.jetstream import StreamSource, Timestamp
from jetspark.jetstream.object_store import ObjectInfo, ObjectLink, ObjectOptions
from jetspark.jetstream.object_store.config import ObjectStoreConfig, stream_config
from jetspark.jetstream.object_store.info import encode_info
from jetspark.jetstream.object_store.names import chunk_subject, meta_subject, new_nuid
from jetspark.spark.options.batch import read_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.object_reader import ObjectReader
from jetspark.spark.read.object_stream_reader import ObjectStreamReader
from jetspark.spark.read.objects import object_schema

Row = dict[str, Any]


class Store:
    """An object store on the server of a test."""

    def __init__(self, nats: Nats) -> None:
        self.nats = nats
        self.streams = Streams(nats.connection)
        self.target: ObjectTarget = make(self.streams)
        self.writer = ObjectWriter(nats.connection, self.target)

    def put(self, **objects: bytes) -> None:
        for name, data in objects.items():
            self.writer.put(new_object(self.target.bucket, name), data)

    def link(self, name: str, to: str | None, bucket: str | None = None) -> None:
        link = ObjectLink(bucket or self.target.bucket, to)
        self.describe(ObjectInfo(name=name, nuid=new_nuid(), options=ObjectOptions(link=link)))

    def describe(self, info: ObjectInfo) -> None:
        self._publish(meta_subject(self.target.subjects, info.name), encode_info(info))

    def break_meta(self, name: str) -> None:
        self._publish(meta_subject(self.target.subjects, name), b"{}")

    def add_chunk(self, nuid: str, data: bytes) -> None:
        self._publish(chunk_subject(self.target.subjects, nuid), data)

    def drop_chunk(self, number: int) -> None:
        """Delete a chunk, by its position among all chunks of the bucket."""
        chunks, _ = read(self.nats.connection, self.target.stream, subjects=[f"{self.target.subjects}C.>"])
        self.streams.drop(self.target.stream, chunks.column("sequence")[number].as_py())

    def reader(self, schema: StructType | None = None, /, **options: str) -> ObjectReader:
        given = read_options({"servers": self.nats.url, "objects": self.target.bucket, **options})
        made: ObjectReader = pickle.loads(pickle.dumps(ObjectReader(schema or object_schema(), given)))
        return made

    def batch(self, schema: StructType | None = None, /, **options: str) -> list[Row]:
        reader = self.reader(schema, **options)
        return rows(reader, reader.partitions())

    def stream_reader(self, **options: str) -> ObjectStreamReader:
        given = {"servers": self.nats.url, "objects": self.target.bucket, **options}
        return ObjectStreamReader(object_schema(), stream_read_options(given))

    def micro_batch(self, reader: ObjectStreamReader, start: Offset, end: Offset) -> list[Row]:
        return rows(reader, reader.partitions(start, end))

    def found(self, **options: str) -> dict[str, bytes]:
        return {row["path"]: row["content"] for row in self.batch(**options)}

    def _publish(self, subject: str, data: bytes) -> None:
        bulk.publish(self.nats.connection, pa.record_batch({"subject": [subject], "data": [data]}))


def rows(reader: ObjectReader | ObjectStreamReader, parts: list[InputPartition]) -> list[Row]:
    shipped: list[InputPartition] = pickle.loads(pickle.dumps(parts))
    return [row for part in shipped for batch in reader.read(part) for row in batch.to_pylist()]


def sent_bytes(nats: Nats) -> int:
    sent = nats.server.monitor("/varz")["out_bytes"]
    assert isinstance(sent, int)
    return sent


@pytest.fixture
def store(nats: Nats) -> Store:
    return Store(nats)


# -- batches ---------------------------------------------------------------------------------------------------------


def test_a_bucket_that_is_no_object_store_is_refused(nats: Nats) -> None:
    with pytest.raises(BucketNotFoundError):
        ObjectReader(object_schema(), read_options({"servers": nats.url, "objects": "none"})).partitions()
    nats.stream("OBJ_odd")
    with pytest.raises(BadBucketError):
        ObjectReader(object_schema(), read_options({"servers": nats.url, "objects": "odd"})).partitions()


@pytest.mark.conformance("KSP-18")
def test_all_objects_of_a_store_are_rows(store: Store, nats: Nats) -> None:
    large, other = os.urandom(5 * CHUNK_SIZE + 1), Store(nats)
    store.put(**{"dir/a.png": large, "b.png": b"b", "empty": b"", "old": b"1", "gone": b"2"})
    store.put(old=b"3")
    store.writer.delete("gone")
    other.put(far=b"far")
    store.link("near.png", "b.png")
    store.link("far.png", "far", other.target.bucket)
    store.link("bucket.png", None, other.target.bucket)
    expected = {
        "dir/a.png": large, "b.png": b"b", "empty": b"", "old": b"3", "near.png": b"b", "far.png": b"far",
    }  # fmt: skip
    assert store.found() == expected
    assert store.found(maxPartitionBytes="10") == expected
    assert store.found(arrowBatchRows="1") == expected
    assert list(store.found(pathGlobFilter="{b,near,far,bucket}.png")) == ["b.png", "near.png", "far.png"]
    before = sent_bytes(nats)
    some = StructType().add("Length", "long", nullable=False).add("path", "string").add("modificationTime", "timestamp")
    (row,) = store.batch(some, pathGlobFilter="*/a.png", maxObjectSize="1")  # unread, so it is not too large
    assert sent_bytes(nats) - before < len(large)
    assert (row["Length"], row["path"]) == (len(large), "dir/a.png")
    metas = nats.rows(store.target.stream, "subject", "timestamp_ns")
    stored = next(each for each in metas if each["subject"] == meta_subject(store.target.subjects, "dir/a.png"))
    assert row["modificationTime"] == Timestamp.from_ns(stored["timestamp_ns"] // 1000 * 1000)  # type: ignore[operator]
    with pytest.raises(ConfigError, match=r"'dir/a.png' has 655361 bytes, and option maxObjectSize allows 100"):
        store.found(maxObjectSize="100")


def test_a_mirror_has_the_objects_of_its_origin(store: Store, nats: Nats) -> None:
    store.put(a=b"1")
    store.link("b", "a")
    config = ObjectStoreConfig(bucket=f"{store.target.bucket}-mirror", mirror=StreamSource(name=store.target.bucket))
    create(nats.connection, stream_config(config))
    mirror = f"OBJ_{config.bucket}"
    assert until(lambda: nats.info(mirror).state.messages == nats.info(store.target.stream).state.messages)
    reader = ObjectReader(object_schema(), read_options({"servers": nats.url, "objects": config.bucket}))
    assert {row["path"]: row["content"] for row in rows(reader, reader.partitions())} == {"a": b"1", "b": b"1"}


@pytest.mark.conformance("KSP-19")
@pytest.mark.parametrize("size", [300_000, 3_000_000])
def test_damaged_objects_fail_or_are_left_out(store: Store, size: int, caplog: pytest.LogCaptureFixture) -> None:
    data = os.urandom(size)
    store.put(good=data)

    def check(error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=words):
            store.found(ignoreMissingFiles="true")
        caplog.clear()
        assert store.found(ignoreCorruptFiles="true") == {"good": data}
        assert "is left out: " in caplog.text

    store.put(bad=data + b"x")
    store.drop_chunk(-2)
    check(ObjectIncompleteError, "'bad' cannot be read")
    store.put(bad=b"")
    store.describe(ObjectInfo(name="bad", nuid=new_nuid(), size=3, digest="SHA-256=x"))
    check(ObjectIncompleteError, "should have 3 bytes in 0 chunks")
    nuid = new_nuid()
    for _ in range(4):
        store.add_chunk(nuid, data[: size // 4])
    store.describe(ObjectInfo(name="bad", nuid=nuid, size=size - 1, chunks=4, digest="SHA-256=x"))
    check(ObjectIncompleteError, "'bad' cannot be read: it should have")
    store.describe(ObjectInfo(name="bad", nuid=nuid, size=size, chunks=4, digest="SHA-256=x"))
    check(DigestMismatchError, "'bad'.*digest")
    store.break_meta("bad")
    check(BadObjectError, "has no valid nuid")
    store.link("good2", "good")
    store.link("bad", "good2")
    with pytest.raises(LinkError):
        store.found()
    assert list(store.found(ignoreCorruptFiles="true")) == ["good", "good2"]


@pytest.mark.conformance("KSP-19")
def test_objects_that_change_after_the_planning_are_read_as_they_are_then(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(a=b"1", b=b"2", c=b"3" * 2_000_000, d=b"4")
    store.link("l", "b")
    strict, lenient = store.reader(), store.reader(ignoreMissingFiles="true")
    parts = strict.partitions()
    store.put(b=b"newer", c=b"")
    assert {row["path"]: (row["length"], row["content"]) for row in rows(strict, parts)} == {
        "a": (1, b"1"), "b": (5, b"newer"), "c": (0, b""), "d": (1, b"4"), "l": (5, b"newer"),
    }  # fmt: skip
    store.writer.delete("b")
    with pytest.raises(ObjectNotFoundError, match="object 'b' is deleted"):
        rows(strict, parts)
    assert [row["path"] for row in rows(lenient, parts)] == ["a", "c", "d"]
    assert "'b' is left out: " in caplog.text
    assert "'l' is left out: " in caplog.text
    with pytest.raises(ObjectNotFoundError, match="its target, object 'b' of bucket"):
        store.found()
    assert list(store.found(ignoreMissingFiles="true")) == ["a", "d", "c"]


# -- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("KSP-20")
def test_changes_of_objects_are_rows_and_a_replaced_one_is_left_to_the_newer(store: Store, nats: Nats) -> None:
    store.put(old=b"0")
    reader = store.stream_reader()
    start = reader.initialOffset()
    assert nexts(start) == [3]  # the default is latest: after a chunk and a description
    store.put(a=b"1", b=b"2" * 2_000_000, gone=b"3", empty=b"")
    store.put(a=b"newer")
    store.link("l", "b")
    store.link("bucket", None)
    end = latest(reader, start)
    assert [(row["path"], row["length"]) for row in store.micro_batch(reader, start, end)] == [
        ("b", 2_000_000), ("gone", 1), ("empty", 0), ("a", 5), ("l", 2_000_000),
    ]  # fmt: skip
    parts = reader.partitions(start, end)
    store.put(b=b"replaced", empty=b"x")
    store.writer.delete("gone")
    assert [(row["path"], row["content"]) for row in rows(reader, parts)] == [
        ("empty", b""), ("a", b"newer"), ("l", b"replaced"),
    ]  # fmt: skip
    repeated = store.micro_batch(store.stream_reader(), start, end)  # after a restart
    assert [(row["path"], row["content"]) for row in repeated] == [("a", b"newer"), ("l", b"replaced")]
    last = latest(reader, end)
    assert [(row["path"], row["content"]) for row in store.micro_batch(reader, end, last)] == [
        ("b", b"replaced"), ("empty", b"x"),
    ]  # fmt: skip
    streams = reader.reportLatestOffset()["streams"]
    assert isinstance(streams, dict)
    assert streams[store.target.stream]["subjects"] == [f"{store.target.subjects}M.>"]
    whole = store.stream_reader(startingOffsets="earliest", pathGlobFilter="?")
    begin = whole.initialOffset()
    assert [row["path"] for row in store.micro_batch(whole, begin, latest(whole, begin))] == ["a", "l", "b"]
    some = store.stream_reader(startingOffsets=json.dumps({store.target.bucket: nexts(end)[0]}))
    begin = some.initialOffset()
    assert [row["path"] for row in store.micro_batch(some, begin, latest(some, begin))] == ["b", "empty"]
    begin, steps = whole.initialOffset(), []
    while (reached := latest(whole, begin, ReadMaxRows(4))) != begin:
        steps.append([row["path"] for row in store.micro_batch(whole, begin, reached)])
        begin = reached
    assert [step for step in steps if step] == [["a", "l"], ["b"]]
    nats.delete(store.target.stream)
    with pytest.raises(BucketNotFoundError):
        latest(reader, last)
    create(nats.connection, stream_config(ObjectStoreConfig(bucket=store.target.bucket)))
    store.put(new=b"n")
    with pytest.raises(DataLossError, match="it was deleted and created again"):
        latest(store.stream_reader(), last)
    lossy = store.stream_reader(failOnDataLoss="false")
    assert [row["path"] for row in store.micro_batch(lossy, last, latest(lossy, last))] == ["new"]


# -- with Spark ------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_reads_objects_as_it_reads_files(spark: SparkSession, store: Store) -> None:
    data = os.urandom(300_000)
    store.put(**{"a.png": data, "empty.png": b"", "b.txt": b"b", "gone.png": b"1"})
    store.writer.delete("gone.png")
    store.link("link.png", "a.png")

    def load(schema: str | None = None, **options: str) -> DataFrame:
        source = spark.read.format("jetstream").options(servers=store.nats.url, objects=store.target.bucket, **options)
        return (source if schema is None else source.schema(schema)).load()

    frame = load(pathGlobFilter="*.png", maxPartitionBytes="300k")
    assert frame.schema == spark.read.format("binaryFile").load("/dev/null").schema
    found = frame.selectExpr("path", "length", "content", "modificationTime > '2020-01-01' AS recent")
    assert {row.path: tuple(row)[1:] for row in found.collect()} == {
        "a.png": (300_000, data, True), "empty.png": (0, b"", True), "link.png": (300_000, data, True),
    }  # fmt: skip
    assert frame.rdd.getNumPartitions() == 2
    store.drop_chunk(1)
    assert load("path STRING, length LONG").count() == 4
    with pytest.raises(PySparkException, match=r"ObjectIncompleteError.*'a\.png' cannot be read"):
        load().collect()
    assert sorted(row.path for row in load(ignoreCorruptFiles="true").collect()) == ["b.txt", "empty.png"]


@pytest.mark.spark
def test_a_query_returns_each_object_that_is_put(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    def run() -> list[tuple[str, bytes]]:
        source = spark.readStream.format("jetstream").options(servers=store.nats.url, objects=store.target.bucket)
        rows = source.option("startingOffsets", "earliest").load().select("path", "content")
        query = (
            rows.writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted((row.path, bytes(row.content)) for row in spark.read.parquet(str(tmp_path / "rows")).collect())

    store.put(a=b"1", b=b"2")
    store.put(a=b"3")
    assert run() == [("a", b"3"), ("b", b"2")]
    store.put(b=b"4", c=b"")
    store.writer.delete("a")
    assert run() == [("a", b"3"), ("b", b"2"), ("b", b"4"), ("c", b"")]
