"""Buckets as sinks: options, columns, and the rows that are refused."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.bucket_sink import CONDITIONS, ROWS, SECRET, batch_writer, entries, schema, table
from tests.spark.buckets import Bucket
from tests.spark.sink import writer
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.errors import (
    BadBucketError,
    BucketNotFoundError,
    ConfigError,
    InvalidKeyError,
    KeyExistsError,
    MessageTTLDisabledError,
    ValueTooLargeError,
    WrongLastRevisionError,
)
from jetspark.spark.options.batch import write_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.batch_writer import plan_write
from jetspark.spark.write.bucket_rows import entry_write_columns

ALL = "key string, value string, operation string, expected_revision bigint, ttl string, msg_id string"

spark_test = pytest.mark.spark


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stream": "ORDERS"}, "options bucket and stream contradict each other"),
        ({"subject": "a"}, "options bucket and subject contradict each other"),
        ({"expectedStream": "KV_users"}, "options bucket and expectedStream contradict each other"),
        ({"atomic": "true"}, "options bucket and atomic = true contradict each other"),
        ({"controlHeaders": "keep"}, "options bucket and controlHeaders = keep contradict each other"),
        ({"onConflict": "retry"}, "option onConflict is 'retry': it must be fail or skip"),
        ({"bucket": "a.b"}, "bucket name 'a.b' must be made of letters"),
    ],
)
def test_options_that_do_not_fit_a_bucket_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        write_options({"bucket": "users", **given})
    with pytest.raises(ConfigError, match=words):
        stream_write_options({"bucket": "users", **given})


def test_options_that_fit_a_bucket_are_taken() -> None:
    given = write_options({"bucket": "users", "onConflict": "SKIP", "keys": "a", "atomic": "false"})
    assert (given.bucket, given.skip_conflicts) == ("users", True)
    with pytest.raises(ConfigError, match="option onConflict needs option bucket"):
        write_options({"onConflict": "skip"})


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("key string", "the rows have no column value"),
        ("value string", "the rows have no column key"),
        ("key string, value int", "column value can only be written from binary or string"),
        ("key int, value string", "column key can only be written from string, not int"),
        (f"{ROWS}, expected_revision string", "column expected_revision can only be written from bigint or int"),
        (f"{ROWS}, expected_revision bigint, ttl int", "column ttl can only be written from interval day to second"),
        (f"{ROWS}, ttl string", "column ttl needs column expected_revision or operation"),
        (f"{ROWS}, subject string", "there is no column subject to write; did you mean key"),
        (f"{ROWS}, name string", "there is no column name to write"),
        (f"{ROWS}, KEY string", "the rows have the column key twice"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(ddl: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        entry_write_columns(schema(ddl))


def test_columns_of_a_read_are_accepted_and_those_without_a_use_dropped() -> None:
    read = "key string, value binary, revision bigint, created timestamp, operation string"
    assert entry_write_columns(schema(f"{read}, headers map")).positions == {
        "key": 0,
        "value": 1,
        "operation": 4,
        "headers": 5,
    }
    for kind in ("string", "interval", "interval hours"):
        assert "ttl" in entry_write_columns(schema(f"Key string, VALUE string, expected_revision int, TTL {kind}"))


@pytest.mark.conformance("KSP-11")
@pytest.mark.conformance("KSP-13")
def test_a_write_that_cannot_work_is_refused_before_the_first_row(nats: Nats) -> None:
    missing = Bucket(nats)
    nats.delete(missing.stream)
    nats.stream("KV_plain")
    for name, error in (("plain", BadBucketError), (missing.name, BucketNotFoundError)):
        missing.name = name
        with pytest.raises(error):
            batch_writer(nats, missing)
        with pytest.raises(error):
            writer(nats, schema(ROWS), bucket=name)
    without_ttl = Bucket(nats)
    with pytest.raises(MessageTTLDisabledError, match="set limit_marker_ttl of the bucket"):
        batch_writer(nats, without_ttl, ALL)
    given = write_options({"servers": nats.url, "bucket": without_ttl.name})
    with pytest.raises(ConfigError, match="use mode append"):
        plan_write(schema(ROWS), given, overwrite=True)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ([("a", "1"), (None, SECRET)], InvalidKeyError, "row 3: the key is null"),
        ([("a", "1"), ("b c", SECRET)], InvalidKeyError, "row 3: key 'b c' has ' '"),
        ([("a", "1"), ("big", SECRET * 100)], ValueTooLargeError, r"row 3 \(key 'big'\)"),
    ],
)
@pytest.mark.conformance("KSP-11")
def test_a_bad_row_is_shown_without_its_value_and_its_batch_is_not_sent(
    nats: Nats, rows: list[tuple[object, ...]], error: type[Exception], words: str
) -> None:
    bucket = Bucket(nats, max_value_size=500)
    parts = [table("key string, value string", ("x", "1"), ("y", "2")), table("key string, value string", *rows)]
    with pytest.raises(error, match=words) as caught:
        batch_writer(nats, bucket, "key string, value string").write(iter(parts))
    assert SECRET not in str(caught.value)
    assert entries(bucket) == {"x": b"1", "y": b"2"}


@pytest.mark.conformance("KSP-12")
def test_a_conflict_fails_the_task_or_is_skipped_and_counted(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    bucket = Bucket(nats, history=5)
    revision = bucket.put("a", "b", "gone")
    bucket.batch()
    rows = table(CONDITIONS, ("a", b"x", revision - 2), ("b", SECRET.encode(), 500), ("new", b"n", 0))
    with pytest.raises(WrongLastRevisionError) as caught:
        batch_writer(nats, bucket, CONDITIONS).write(iter([rows]))
    assert (caught.value.key, caught.value.expected, caught.value.actual) == ("b", 500, revision - 1)
    exists = table(CONDITIONS, ("b", SECRET.encode(), 0))
    with pytest.raises(KeyExistsError) as live:
        batch_writer(nats, bucket, CONDITIONS).write(iter([exists]))
    assert SECRET not in f"{caught.value}{live.value}"
    skipping = batch_writer(nats, bucket, CONDITIONS, onConflict="skip")
    with caplog.at_level(logging.INFO, "jetspark.spark.write"):
        done = skipping.write(iter([exists, table(CONDITIONS, ("c", b"c", 0), ("gone", None, revision))]))
        skipping.commit([done])
    assert (done.conflicts, done.streams[bucket.stream].count) == (1, 2)
    assert "1 rows were not stored because of another revision; the first keys: 'b'" in caplog.text
    assert "1 rows were not stored, because the newest revision of their key was not expected_revision" in caplog.text
    assert SECRET not in caplog.text
    assert sorted(entries(bucket)) == ["a", "b", "c", "new"]


@spark_test
@pytest.mark.conformance("KSP-11")
@pytest.mark.conformance("KSP-12")
@pytest.mark.conformance("KSP-13")
def test_rows_of_spark_are_written_into_a_bucket(spark: SparkSession, nats: Nats) -> None:
    bucket = Bucket(nats, history=5, limit_marker_ttl=timedelta(seconds=60))
    bucket.put("old", "gone", "purged")

    def save(query: str | DataFrame, mode: str = "append", **options: str) -> None:
        frame = spark.sql(query) if isinstance(query, str) else query
        given = {"servers": nats.url, "bucket": bucket.name, **options}
        frame.write.format("jetstream").options(**given).mode(mode).save()

    save(
        """
        SELECT * FROM VALUES
            ('old', X'00FF', null, 1L, null, 'x'),
            ('gone', null, null, null, null, null),
            ('purged', X'01', 'PURGE', 3L, INTERVAL '90' SECOND, null),
            ('new', X'', 'PUT', 0L, INTERVAL '01:00:00' HOUR TO SECOND, null)
        AS rows(key, value, operation, expected_revision, ttl, msg_id)
        """
    )
    found = {row["key"]: row for row in bucket.batch(includeDeletes="true")}
    assert {key: (row["value"], row["operation"]) for key, row in found.items()} == {
        "old": (b"\x00\xff", "PUT"),
        "gone": (None, "DEL"),
        "purged": (None, "PURGE"),
        "new": (b"", "PUT"),
    }
    with bulk.scan(nats.connection, bucket.stream, columns=["subject", "headers"]) as batches:
        stored = [row for batch in batches for row in batch.to_pylist()]
    ttls = {row["subject"].rpartition(".")[2]: dict(row["headers"] or ()).get("Nats-TTL") for row in stored}
    assert ttls == {"old": None, "gone": None, "purged": ["90"], "new": ["3600"]}

    # A read is written unchanged, into another bucket, with its deletes and headers.
    read = spark.read.format("jetstream").options(
        servers=nats.url, bucket=bucket.name, includeDeletes="true", includeHeaders="true"
    )
    copy = Bucket(nats)
    save(read.load().repartition("key"), bucket=copy.name)
    shown = {row["key"]: (row["value"], row["operation"]) for row in copy.batch(includeDeletes="true")}
    assert shown == {key: (row["value"], row["operation"]) for key, row in found.items()}
    save("SELECT key, value, null AS operation, null AS msg_id FROM VALUES ('a', null), ('b', 'c') AS r(key, value)")
    save("SELECT 'old' AS KEY, null AS VALUE")
    assert entries(bucket) == {"b": b"c", "new": b""}

    for query, options, words in (
        ("SELECT 'a' AS key, 'b' AS value, 1 AS size", {}, "ConfigError: there is no column size to write"),
        ("SELECT 'a' AS key, 'b' AS value", {"bucket": "none"}, "BucketNotFoundError: there is no bucket 'none'"),
        ("SELECT 'a b' AS key, 'classified' AS value", {}, "InvalidKeyError: row 0: key 'a b'"),
        (
            "SELECT 'new' AS key, 'classified' AS value, 0L AS expected_revision",
            {},
            "KeyExistsError: .*key 'new' exists",
        ),
        (
            "SELECT 'new' AS key, 'classified' AS value, 9L AS expected_revision",
            {},
            "key 'new': revision 9 was expected, and the newest is",
        ),
    ):
        with pytest.raises(PySparkException, match=words) as caught:
            save(query, **options)
        assert "'classified'" not in str(caught.value).replace(query, "")
    with pytest.raises(PySparkException, match="mode overwrite is not supported"):
        save("SELECT 'a' AS key, 'b' AS value", mode="overwrite")
