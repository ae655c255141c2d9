"""Object stores as sources: options, globs, partitions, and the rows of batches and streams."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType
from tests.bulk.object_stores import make
from tests.bulk.streams import Streams, create, read, until
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.bulk.object_put import ObjectTarget, ObjectWriter, new_object
from jetspark.engine.object_chunks import CHUNK_SIZE
from jetspark.errors import (
    BadBucketError,
    BadObjectError,
    BucketNotFoundError,
    ConfigError,
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
from jetspark.spark.options.globs import parse_glob
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.object_reader import ObjectReader
from jetspark.spark.read.objects import object_schema, pack

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

    def found(self, **options: str) -> dict[str, bytes]:
        return {row["path"]: row["content"] for row in self.batch(**options)}

    def _publish(self, subject: str, data: bytes) -> None:
        bulk.publish(self.nats.connection, pa.record_batch({"subject": [subject], "data": [data]}))


def rows(reader: ObjectReader, parts: list[InputPartition]) -> list[Row]:
    shipped: list[InputPartition] = pickle.loads(pickle.dumps(parts))
    return [row for part in shipped for batch in reader.read(part) for row in batch.to_pylist()]


def sent_bytes(nats: Nats) -> int:
    sent = nats.server.monitor("/varz")["out_bytes"]
    assert isinstance(sent, int)
    return sent


@pytest.fixture
def store(nats: Nats) -> Store:
    return Store(nats)


# -- options, globs, partitions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stream": "S"}, "options objects and stream contradict each other"),
        ({"bucket": "b"}, "options bucket and objects contradict each other"),
        ({"subject": "s"}, "options objects and subject contradict each other"),
        ({"readMode": "all"}, "options objects and readMode contradict each other"),
        ({"includeHeaders": "true"}, "options objects and includeHeaders contradict each other"),
        ({"minPartitions": "2"}, "options objects and minPartitions contradict each other"),
        ({"keys": "a"}, "option keys needs option bucket"),
        ({"startingOffsets": '{"other": 1}'}, "names objects other, which is not in option objects: files"),
        ({"objects": "a.b"}, "option objects is 'a.b': bucket name 'a.b' must be made of letters"),
        ({"maxObjectSize": "2g"}, "a value in Spark has at most 2147483647 bytes"),
        ({"maxPartitionBytes": "0"}, "option maxPartitionBytes is '0'"),
        ({"pathGlobFilter": "[a"}, r"option pathGlobFilter is '\[a': it is no glob"),
        ({"commitMode": "purge"}, "options objects and commitMode = purge contradict each other"),
    ],
)
def test_options_that_do_not_fit_objects_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        stream_read_options({"objects": "files", **given})


def test_a_batch_of_objects_has_no_range_and_its_options_need_a_store() -> None:
    for name, value in (("startingOffsets", "earliest"), ("endingTimestamp", "1")):
        with pytest.raises(ConfigError, match=f"option {name} is for streaming reads of objects"):
            read_options({"objects": "files", name: value})
    for name, value in (("pathGlobFilter", "*"), ("ignoreCorruptFiles", "true"), ("maxObjectSize", "1m")):
        with pytest.raises(ConfigError, match=f"option {name} needs option objects"):
            read_options({"stream": "S", name: value})
    options = read_options({"objects": "files", "pathGlobFilter": "*.{jpg,png}"})
    assert options.streams == ("OBJ_files",)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("glob", "fitting", "other"),
    [
        ("*.png", ["a.png", "dir/a.png", ".png"], ["a.PNG", "a.png.txt", "a-png"]),
        ("dir/*", ["dir/a", "dir/a/b", "dir/"], ["a/dir/b", "dir"]),
        ("**a", ["a", "bba"], ["ab"]),
        ("?", ["a", "ä", "\n"], ["", "ab"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[^a-c]", ["d", "^"], ["a"]),
        ("[!a]", ["b"], ["a"]),
        ("[a^[]", ["a", "^", "["], ["]"]),
        ("[\\]-]", ["]", "-"], ["\\"]),
        ("{a,b{1,2}}.c", ["a.c", "b1.c", "b2.c"], ["b.c", "a,c"]),
        ("a,b}", ["a,b}"], ["a"]),
        ("\\*\\{", ["*{"], ["a{"]),
        ("a.b+(c)$", ["a.b+(c)$"], ["aXb+(c)$"]),
    ],
)
def test_a_glob_matches_whole_names(glob: str, fitting: list[str], other: list[str]) -> None:
    pattern = parse_glob(glob)
    assert [name for name in fitting + other if pattern.fullmatch(name)] == fitting


@pytest.mark.conformance("KSP-18")
@pytest.mark.parametrize("glob", ["", "[", "[]", "[^]", "[a", "{a", "{a,{b}", "a\\", "[a\\", "[z-a]"])
def test_a_bad_glob_is_refused(glob: str) -> None:
    with pytest.raises(ConfigError, match=r"option pathGlobFilter is .*: it is (no glob|empty)"):
        read_options({"objects": "files", "pathGlobFilter": glob})


@pytest.mark.conformance("KSP-19")
@pytest.mark.parametrize(
    ("sizes", "packed"),
    [
        ([], []),
        ([0, 0, 0], [[0, 1, 2]]),
        ([4, 6, 1], [[0, 1], [2]]),
        ([10, 10], [[0], [1]]),
        ([3, 11, 3, 99, 3, 3], [[0, 2, 4], [1], [3], [5]]),
    ],
)
def test_objects_are_packed_by_their_size_and_larger_ones_are_alone(sizes: list[int], packed: list[list[int]]) -> None:
    assert pack(sizes, 10) == packed


def test_a_schema_has_columns_of_objects_only() -> None:
    options = read_options({"objects": "files"})
    for schema, words in (
        (StructType().add("name", "string"), "there is no column name to read; the columns of objects are: path"),
        (StructType().add("content", "string"), "column content can only be read as binary"),
        (StructType().add("path", "string").add("PATH", "string"), "the schema has the column path twice"),
    ):
        with pytest.raises(ConfigError, match=words):
            ObjectReader(schema, options)


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
