"""Buckets as tables: options, columns, and batch reads."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThanOrEqual,
    In,
    LessThan,
    StringStartsWith,
)
from pyspark.sql.types import StructType
from tests.bulk.streams import until
from tests.spark.buckets import DEL, EXPIRED, PURGE, Bucket
from tests.spark.support import Nats

from jetspark.errors import BadBucketError, BucketNotFoundError, ConfigError
from jetspark.jetstream import StreamSource
from jetspark.spark.options.batch import common_read_options, read_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.options.values import Position, PositionKind
from jetspark.spark.read.batch_reader import FilteringReader
from jetspark.spark.read.entries import entry_schema, plan_rows
from jetspark.spark.read.snapshot_reader import FilteringSnapshotReader
from jetspark.spark.source import JetStreamDataSource

HISTORY = {"history": "true"}


def pairs(rows: list[dict[str, Any]], column: str = "revision") -> list[tuple[object, object]]:
    return [(row["key"], row[column]) for row in rows]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stream": "ORDERS"}, "options bucket and stream contradict each other"),
        ({"subject": "a"}, "options bucket and subject contradict each other"),
        ({"readMode": "all"}, "options bucket and readMode contradict each other"),
        ({"readMode": "lastPerSubject"}, "options bucket and readMode contradict each other"),
        ({"objects": "files"}, "options bucket and objects contradict each other"),
        ({"startingOffsets": "earliest"}, "option startingOffsets needs option history = true"),
        ({"endingOffsets": '{"users": 4}'}, "option endingOffsets needs option history = true"),
        ({"startingTimestamp": "0"}, "option startingTimestamp needs option history = true"),
        ({"minPartitions": "2", "history": "false"}, "option minPartitions needs option history = true"),
        ({"maxRecordsPerPartition": "2"}, "option maxRecordsPerPartition needs option history = true"),
        ({"history": "yes"}, "option history is 'yes': it must be true or false"),
        ({"keys": "a..b"}, "option keys is 'a..b': filter 'a..b' has a dot"),
        ({"keys": "a.>.b"}, "'>' before its end"),
        ({"keys": "a*"}, r"option keys is 'a\*'"),
        ({"keys": ""}, "option keys is '': it is empty"),
        ({"bucket": "a.b"}, "option bucket is 'a.b': bucket name 'a.b' must be made of letters"),
        ({"bucket": "a,b"}, "option bucket is 'a,b'"),
        ({"bucket": " "}, "option bucket is ' ': it is empty"),
        ({"startingOffsets": '{"KV_users": 4}', **HISTORY}, "names bucket KV_users, which is not in option bucket"),
        ({"startingOffsets": "latest", **HISTORY}, "starts at the latest message reads nothing"),
    ],
)
def test_options_that_do_not_fit_a_bucket_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_options({"bucket": "users", **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"history": "true"}, "option history = true is for batch reads"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for batch reads"),
        ({"commitMode": "purge"}, "options bucket and commitMode = purge contradict each other"),
        ({"commitMode": "consumer", "commitConsumer": "c"}, "options bucket and commitMode = consumer contradict"),
        ({"initialSnapshot": "true", "startingOffsets": "latest"}, "startingOffsets and initialSnapshot = true"),
        ({"initialSnapshot": "true", "startingTimestamp": "0"}, "startingTimestamp and initialSnapshot = true"),
    ],
)
def test_options_that_do_not_fit_a_streaming_read_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        stream_read_options({"bucket": "users", **given})


def test_options_of_buckets_need_a_bucket() -> None:
    for option, value in (("keys", "a"), ("history", "true"), ("includeDeletes", "true"), ("initialSnapshot", "true")):
        with pytest.raises(ConfigError, match=f"option {option} needs option bucket"):
            common_read_options({"stream": "ORDERS", option: value})
    with pytest.raises(ConfigError, match="option bucket: the name of a key-value bucket"):
        read_options({})


def test_positions_are_revisions_of_the_bucket() -> None:
    options = read_options({"bucket": "users", "keys": "a.*, a.b ,c", "startingOffsets": '{"users": 17}', **HISTORY})
    assert options.streams == ("KV_users",)
    assert options.starts == {"KV_users": Position(PositionKind.SEQUENCE, 17)}
    assert options.bucket is not None
    assert options.bucket.keys == ("a.*", "c")
    assert not options.last_per_subject
    assert pickle.loads(pickle.dumps(options)) == options
    assert read_options({"bucket": "users", "keys": ">"}).bucket == read_options({"bucket": "users"}).bucket


def test_deletes_are_shown_in_history_and_streams_unless_the_option_says_otherwise() -> None:
    def shown(streaming: bool = False, /, **given: str) -> bool:
        options = {"bucket": "users", **given}
        bucket = stream_read_options(options).read.bucket if streaming else read_options(options).bucket
        assert bucket is not None
        return bucket.include_deletes

    assert (shown(), shown(**HISTORY), shown(True)) == (False, True, True)
    assert shown(includeDeletes="true")
    assert not shown(includeDeletes="false", **HISTORY)
    assert not shown(True, includeDeletes="false")


@pytest.mark.parametrize(
    ("column", "kind", "words"),
    [
        ("data", "binary", "there is no column data to read; did you mean value?"),
        ("stream", "string", "there is no column stream to read"),
        ("revision", "integer", "column revision can only be read as bigint, not int"),
        ("value", "long", "column value can only be read as binary or string, not bigint"),
        ("created", "long", "column created can only be read as timestamp, not bigint"),
        ("operation", "integer", "column operation can only be read as string, not int"),
    ],
)
def test_other_columns_and_types_are_refused(column: str, kind: str, words: str) -> None:
    options = read_options({"bucket": "users"})
    with pytest.raises(ConfigError, match=words):
        plan_rows(StructType().add(column, kind), options)


def test_the_columns_are_those_of_entries() -> None:
    made = JetStreamDataSource({"bucket": "users"}).schema()
    assert made.simpleString() == "struct<key:string,value:binary,revision:bigint,created:timestamp,operation:string>"
    assert JetStreamDataSource({"bucket": "users", "includeHeaders": "true"}).schema() == entry_schema(True)
    assert entry_schema(True).names[-1] == "headers"
    required = StructType().add("value", "binary", nullable=False)
    plan_rows(required, read_options({"bucket": "users"}))
    with pytest.raises(ConfigError, match="column value is NOT NULL"):
        plan_rows(required, read_options({"bucket": "users", "includeDeletes": "true"}))
    for bad in (StructType(), StructType().add("key", "string").add("KEY", "string")):
        with pytest.raises(ConfigError, match="the schema has"):
            plan_rows(bad, read_options({"bucket": "users"}))


@pytest.mark.conformance("KSP-01")
def test_a_bucket_is_read_instead_of_a_stream(nats: Nats) -> None:
    bucket = Bucket(nats)
    bucket.put("a", "b")
    assert pairs(bucket.batch()) == [("a", 1), ("b", 2)]
    nats.stream("KV_other", subjects=["other.>"], max_msgs_per_subject=1)
    nats.stream("KV_keepsall", subjects=["$KV.keepsall.>"])
    for options in ({}, HISTORY):
        for name, error in (
            ("nobody", BucketNotFoundError),
            ("other", BadBucketError),
            ("keepsall", BadBucketError),
        ):
            with pytest.raises(error, match=name):
                bucket.batch(bucket=name, **options)
    for name, error in (("nobody", BucketNotFoundError), ("other", BadBucketError)):
        with pytest.raises(error, match=name):
            bucket.reader(bucket=name).initialOffset()
    for conflict in ({"stream": "S"}, {"subject": "s"}, {"readMode": "all"}, {"objects": "o"}):
        with pytest.raises(ConfigError):
            bucket.batch(**conflict)
    # A mirror has the subjects of its origin.
    mirror = Bucket(nats, mirror=StreamSource(name=bucket.name))
    until(lambda: nats.info(mirror.stream).state.messages == 2)
    assert pairs(mirror.batch()) == [("a", 1), ("b", 2)]
    assert pairs(mirror.batch(keys="b", **HISTORY)) == [("b", 2)]
    reader = mirror.reader(startingOffsets="earliest", keys="a")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert pairs(mirror.micro_batch(reader, start, end)) == [("a", 1)]


@pytest.mark.conformance("KSP-02")
def test_a_value_is_null_only_in_rows_of_deleted_keys(nats: Nats) -> None:
    bucket = Bucket(nats, limit_marker_ttl=timedelta(minutes=1))
    bucket.expire_later("short")
    bucket.put("a", "deleted", "purged", "x.y")
    bucket.put("empty", value=b"")
    bucket.mark(DEL, "deleted")
    bucket.mark(PURGE, "purged")
    assert until(lambda: nats.info(bucket.stream).state.last_sequence == 9)
    rows = {row["key"]: row for row in bucket.batch(entry_schema(True), includeDeletes="true")}
    assert {key: (row["value"], row["operation"]) for key, row in rows.items()} == {
        "a": (b"2", "PUT"),
        "x.y": (b"5", "PUT"),
        "empty": (b"", "PUT"),
        "deleted": (None, "DEL"),
        "purged": (None, "PURGE"),
        "short": (None, "EXPIRED"),
    }
    assert rows["a"]["headers"] is None
    assert dict(rows["short"]["headers"])["Nats-Marker-Reason"] == ["MaxAge"]
    stored = {row["subject"]: row["timestamp"] for row in nats.rows(bucket.stream)}
    assert rows["x.y"]["created"] == stored[f"$KV.{bucket.name}.x.y"]
    chosen = StructType().add("value", "string", nullable=False).add("KEY", "string")
    assert {"value": "2", "KEY": "a"} in bucket.batch(chosen)
    for bad in (StructType().add("sequence", "long"), StructType().add("revision", "string")):
        with pytest.raises(ConfigError):
            bucket.batch(bad)


@pytest.mark.conformance("KSP-03")
def test_a_batch_has_the_newest_entry_of_each_key_and_only_values(nats: Nats) -> None:
    bucket = Bucket(nats, history=5)
    bucket.put("a", "b", "a", "c", "d")
    bucket.mark(DEL, "b")
    bucket.mark(EXPIRED, "c")
    bucket.put("a")
    assert pairs(bucket.batch()) == [("d", 5), ("a", 8)]
    assert pairs(bucket.batch(arrowBatchRows="1")) == [("d", 5), ("a", 8)]
    assert pairs(bucket.batch(includeDeletes="true"), "operation") == [
        ("d", "PUT"),
        ("b", "DEL"),
        ("c", "EXPIRED"),
        ("a", "PUT"),
    ]
    reader = FilteringSnapshotReader(entry_schema(False), read_options({"servers": nats.url, "bucket": bucket.name}))
    assert len(reader.partitions()) == 1
    empty = Bucket(nats)
    assert empty.batch() == empty.batch(includeDeletes="true") == []


@pytest.mark.conformance("KSP-04")
def test_the_history_has_every_stored_revision_in_parallel_parts(nats: Nats) -> None:
    bucket = Bucket(nats, history=3)
    bucket.put("a", "a", "a", "a", "b")
    bucket.mark(DEL, "b")
    assert pairs(bucket.batch(**HISTORY)) == [("a", 2), ("a", 3), ("a", 4), ("b", 5), ("b", 6)]
    assert pairs(bucket.batch(includeDeletes="false", **HISTORY)) == [("a", 2), ("a", 3), ("a", 4), ("b", 5)]
    bounds = {"startingOffsets": f'{{"{bucket.name}": 3}}', "endingOffsets": f'{{"{bucket.name}": 5}}'}
    assert pairs(bucket.batch(minPartitions="2", **bounds, **HISTORY)) == [("a", 3), ("a", 4)]
    first = {"startingOffsets": f'{{"{bucket.name}": 1}}'}  # it was replaced, which is no loss
    assert len(bucket.batch(**first, **HISTORY)) == 5
    assert bucket.batch(startingTimestamp="2100-01-01T00:00:00Z", **HISTORY) == []
    options = read_options({"servers": nats.url, "bucket": bucket.name, "minPartitions": "3", **HISTORY})
    assert len(FilteringReader(entry_schema(False), options).partitions()) == 3
    for option in ("startingOffsets", "endingOffsets"):
        with pytest.raises(ConfigError, match="needs option history"):
            bucket.batch(**{option: bounds[option]})


@pytest.mark.conformance("KSP-05")
def test_filters_of_keys_go_to_the_server(nats: Nats) -> None:
    bucket = Bucket(nats, history=2)
    bucket.put("a.x", "a.y", "ab", "b.x", "b.y.z", "a.x")
    assert pairs(bucket.batch(keys="a.*,b.>")) == [("a.y", 2), ("b.x", 4), ("b.y.z", 5), ("a.x", 6)]
    assert pairs(bucket.batch(keys="a.x,*.x", **HISTORY)) == [("a.x", 1), ("b.x", 4), ("a.x", 6)]
    with pytest.raises(ConfigError, match="option keys"):
        bucket.batch(keys="a..b")

    def pushed(history: bool, *conditions: Any, **options: str) -> tuple[list[Filter], list[tuple[object, object]]]:
        given = {"servers": nats.url, "bucket": bucket.name, "history": str(history).lower(), **options}
        made = FilteringReader if history else FilteringSnapshotReader
        reader = made(entry_schema(False), read_options(given))
        rest = list(reader.pushFilters([*conditions]))
        with nats.watched() as requests:
            rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
            filters = [config.get("filter_subject") or config.get("filter_subjects") for config in requests.configs()]
        assert all(each not in (None, ">") for each in filters) is ("key" in str(conditions))
        return rest, pairs(rows)

    assert pushed(False, EqualTo(("key",), "a.x")) == ([], [("a.x", 6)])
    assert pushed(True, In(("key",), ("a.x", "ab"))) == ([], [("a.x", 1), ("ab", 3), ("a.x", 6)])
    assert pushed(False, StringStartsWith(("key",), "b.")) == ([], [("b.x", 4), ("b.y.z", 5)])
    assert pushed(True, StringStartsWith(("key",), "b."), keys="*.x") == ([], [("b.x", 4)])
    prefix = StringStartsWith(("key",), "b.y")
    assert pushed(False, prefix) == ([prefix], [("b.x", 4), ("b.y.z", 5)])
    assert pushed(True, GreaterThanOrEqual(("revision",), 4), LessThan(("revision",), 6))[1] == [
        ("b.x", 4),
        ("b.y.z", 5),
    ]
    bound, operation = LessThan(("revision",), 3), EqualTo(("operation",), "PUT")
    rest, rows = pushed(False, bound, operation)  # of the newest entries
    assert (rest, len(rows)) == ([bound, operation], 5)
    assert pushed(True, EqualTo(("key",), "a.*"), EqualTo(("key",), "ab"))[0] == [EqualTo(("key",), "a.*")]


@pytest.mark.spark
def test_a_bucket_is_a_table_of_spark(spark: SparkSession, nats: Nats) -> None:
    bucket = Bucket(nats, history=2)
    bucket.put("ua", "aa", "xx")
    bucket.put("ua", value=b'{"name": "United"}')
    bucket.mark(DEL, "xx")
    reader = spark.read.format("jetstream").options(servers=nats.url, bucket=bucket.name)
    frame = reader.load()
    assert {row.key: (bytes(row.value), row.revision) for row in frame.collect()} == {
        "aa": (b"2", 2),
        "ua": (b'{"name": "United"}', 4),
    }
    named = reader.schema("key string, value string").load().where("value LIKE '{%'")
    assert named.selectExpr("get_json_object(value, '$.name') AS name").collect()[0].name == "United"
    history = spark.read.format("jetstream").options(
        servers=nats.url, bucket=bucket.name, history="true", minPartitions="2"
    )
    counts = {row.operation: row["count"] for row in history.load().groupBy("operation").count().collect()}
    assert counts == {"PUT": 4, "DEL": 1}
    bucket.put("new")
    assert frame.count() == 3  # unlike a range, the newest entries are read again
    with pytest.raises(PySparkException, match="BucketNotFoundError: there is no bucket 'nobody'"):
        spark.read.format("jetstream").options(servers=nats.url, bucket="nobody").load().count()
