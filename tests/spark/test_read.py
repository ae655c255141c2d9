"""Batch reads in Spark: columns, range and partitions, on a real server."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.support import Nats, running

from jetspark import bulk
from jetspark.jetstream import RetentionPolicy, StreamConfig
from jetspark.jetstream.api import StreamCreateRequest, StreamInfoRequest
from jetspark.jetstream.times import format_rfc3339

pytestmark = pytest.mark.spark

COLUMNS = ["subject", "data", "stream", "sequence", "timestamp", "timestamp_ns"]


def load(spark: SparkSession, nats: Nats, stream: str, schema: str | None = None, **options: object) -> DataFrame:
    reader = spark.read.format("jetstream").option("servers", nats.url).option("stream", stream)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return (reader if schema is None else reader.schema(schema)).load()


def sequences(frame: DataFrame) -> list[int]:
    return sorted(row.sequence for row in frame.select("sequence").collect())


def test_the_format_is_found_without_registration_and_gives_every_column(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(3, ("x", "y"))
    frame = load(spark, nats, stream)
    assert frame.dtypes == [
        ("subject", "string"),
        ("data", "binary"),
        ("stream", "string"),
        ("sequence", "bigint"),
        ("timestamp", "timestamp"),
        ("timestamp_ns", "bigint"),
    ]
    rows = frame.orderBy("sequence").collect()
    expected = nats.rows(stream)
    for row, message in zip(rows, expected, strict=True):
        assert (row.subject, bytes(row.data), row.stream) == (message["subject"], message["data"], stream)
        assert (row.sequence, row.timestamp_ns) == (message["sequence"], message["timestamp_ns"])
        assert row.timestamp.astimezone(UTC) == message["timestamp"]
    assert [row.subject for row in rows] == [f"{stream}.x", f"{stream}.y", f"{stream}.x"]


def test_headers_are_included_on_request(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()
    headers = [[("k", ["1", "2"]), ("K", [""])], None, []]
    kind = pa.map_(pa.string(), pa.list_(pa.string()))
    bulk.publish(
        nats.connection,
        pa.record_batch({"subject": [f"{stream}.a"] * 3, "data": [b""] * 3, "headers": pa.array(headers, kind)}),
    )
    frame = load(spark, nats, stream, includeHeaders="true")
    assert frame.columns == ["subject", "data", "headers", "stream", "sequence", "timestamp", "timestamp_ns"]
    assert dict(frame.dtypes)["headers"] == "map<string,array<string>>"
    found = [row.headers for row in frame.orderBy("sequence").collect()]
    assert found == [{"k": ["1", "2"], "K": [""]}, None, None]
    assert "headers" not in load(spark, nats, stream).columns
    named = load(spark, nats, stream, "headers map<string,array<string>> NOT NULL, sequence long")
    assert [row.headers for row in named.orderBy("sequence").collect()] == [{"k": ["1", "2"], "K": [""]}, {}, {}]


@pytest.mark.parametrize(
    "schema",
    [
        "sequence bigint",
        "timestamp_ns bigint, subject string",
        "data string, sequence int",
        "SEQUENCE bigint NOT NULL, Data binary NOT NULL",
        "timestamp timestamp_ntz, stream string",
        "timestamp_ns bigint, timestamp timestamp, stream string, data binary, subject string, sequence bigint",
    ],
)
def test_a_user_schema_is_a_projection(spark: SparkSession, nats: Nats, schema: str) -> None:
    stream = nats.filled(4)
    frame = load(spark, nats, stream, schema)
    assert (
        frame.schema.simpleString()
        == "struct<" + schema.replace(" NOT NULL", "").replace(", ", ",").replace(" ", ":") + ">"
    )
    for row, message in zip(frame.collect(), nats.rows(stream), strict=True):
        for field in frame.schema:
            wanted = message[field.name.lower()]
            if field.dataType.typeName() == "string" and isinstance(wanted, bytes):
                wanted = wanted.decode()
            if isinstance(wanted, datetime):
                wanted = (
                    wanted.astimezone().replace(tzinfo=None) if "ntz" not in schema else wanted.replace(tzinfo=None)
                )
            assert row[field.name] == wanted


def test_bytes_that_are_not_utf8_cause_no_error_in_a_string_column(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()
    nats.publish([f"{stream}.a"], [b"a\xffb"])
    frame = load(spark, nats, stream, "data string")
    assert frame.selectExpr("hex(data) as hex").collect()[0].hex == "61FF62"


def test_timestamps_are_exact(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(1)
    ns = nats.rows(stream)[0]["timestamp_ns"]
    assert isinstance(ns, int)
    row = load(spark, nats, stream).selectExpr("unix_micros(timestamp) as us", "timestamp_ns").collect()[0]
    assert (row.us, row.timestamp_ns) == (ns // 1000, ns)
    naive = load(spark, nats, stream, "timestamp timestamp_ntz").collect()[0].timestamp
    assert naive == datetime.fromtimestamp(ns // 10**9, UTC).replace(microsecond=ns // 1000 % 10**6, tzinfo=None)


def test_several_streams_are_read_together(spark: SparkSession, nats: Nats) -> None:
    one, two, empty = nats.filled(5), nats.filled(7), nats.stream()
    frame = load(spark, nats, f"{one}, {two},{empty}")
    assert {row.stream: row["count"] for row in frame.groupBy("stream").count().collect()} == {one: 5, two: 7}


def test_the_subject_option_filters(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(30, ("a.x", "a.y", "b.x"))
    subjects = {row.subject for row in load(spark, nats, stream, subject=f"{stream}.*.x, {stream}.a.>").collect()}
    assert subjects == {f"{stream}.a.x", f"{stream}.a.y", f"{stream}.b.x"}
    assert sequences(load(spark, nats, stream, subject=f"{stream}.b.*")) == list(range(3, 31, 3))
    assert load(spark, nats, stream, subject="elsewhere").count() == 0


def test_offsets_limit_the_range(spark: SparkSession, nats: Nats) -> None:
    one, two = nats.filled(10), nats.filled(10)
    start, end = json.dumps({one: 4}), json.dumps({one: 8})
    assert sequences(load(spark, nats, one, startingOffsets=start, endingOffsets=end)) == [4, 5, 6, 7]
    assert sequences(load(spark, nats, one, startingOffsets="earliest", endingOffsets="latest")) == list(range(1, 11))
    both = load(
        spark,
        nats,
        f"{one},{two}",
        startingOffsets=json.dumps({one: 9, two: -2}),
        endingOffsets=json.dumps({one: -1, two: 3}),
    )
    assert sorted((row.stream, row.sequence) for row in both.collect()) == sorted(
        [(one, 9), (one, 10), (two, 1), (two, 2)]
    )
    assert load(spark, nats, one, startingOffsets=json.dumps({one: 11})).count() == 0


def test_times_limit_the_range_to_the_nanosecond(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(10)
    ns = [row["timestamp_ns"] for row in nats.rows(stream)]
    assert all(isinstance(each, int) for each in ns)
    start, end = format_rfc3339(int(str(ns[3]))), format_rfc3339(int(str(ns[6])))
    assert sequences(load(spark, nats, stream, startingTimestamp=start, endingTimestamp=end)) == [4, 5, 6]
    by_stream = load(spark, nats, stream, startingOffsetsByTimestamp=json.dumps({stream: start}))
    assert sequences(by_stream) == list(range(4, 11))
    assert sequences(load(spark, nats, stream, endingOffsetsByTimestamp=json.dumps({stream: end}))) == list(range(1, 7))
    assert sequences(load(spark, nats, stream, startingTimestamp=0)) == list(range(1, 11))
    assert load(spark, nats, stream, startingTimestamp="2999-01-01T00:00:00Z").count() == 0
    assert sequences(load(spark, nats, stream, startingTimestamp=start, startingOffsets=json.dumps({stream: 9}))) == (
        list(range(4, 11))
    )


def test_the_range_is_split_by_sequence(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(100)
    assert load(spark, nats, stream).rdd.getNumPartitions() == 1
    frame = load(spark, nats, stream, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    parts = frame.selectExpr("spark_partition_id() as part", "sequence").groupBy("part")
    found = sorted(
        (row["min"], row["max"])
        for row in parts.agg({"sequence": "min"})
        .join(parts.agg({"sequence": "max"}), "part")
        .toDF("part", "min", "max")
        .collect()
    )
    assert found == [(1, 25), (26, 50), (51, 75), (76, 100)]
    assert load(spark, nats, stream, maxRecordsPerPartition=30).rdd.getNumPartitions() == 4
    assert sequences(load(spark, nats, stream, maxRecordsPerPartition=7, minPartitions=3)) == list(range(1, 101))


def test_deleted_and_filtered_messages_are_no_loss(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(20, ("a", "b"), max_msgs_per_subject=5)
    assert sequences(load(spark, nats, stream, minPartitions=3)) == list(range(11, 21))
    assert sequences(load(spark, nats, stream, minPartitions=3, subject=f"{stream}.b")) == list(range(12, 21, 2))


def test_an_empty_stream_gives_no_rows(spark: SparkSession, nats: Nats) -> None:
    assert load(spark, nats, nats.stream()).count() == 0
    purged = nats.filled(3)
    nats.purge(purged)
    assert load(spark, nats, purged).count() == 0


def test_messages_after_the_planning_are_not_read(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(5)
    frame = load(spark, nats, stream)
    planned = frame.rdd
    nats.publish([f"{stream}.late"])
    assert planned.count() == 5
    assert load(spark, nats, stream).count() == 6


def test_record_batches_stay_within_their_limits(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(1000)
    frame = load(spark, nats, stream, arrowBatchRows=100, arrowBatchBytes="4k", maxBytesInFlight="64k")
    assert sequences(frame) == list(range(1, 1001))


def test_large_and_empty_payloads_are_read_completely(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()
    sizes = [0, 1, 1 << 20, 0, 700_000]
    nats.publish([f"{stream}.a"] * len(sizes), [b"z" * size for size in sizes])
    frame = load(spark, nats, stream, minPartitions=2).selectExpr("sequence", "length(data) as size")
    assert [row["size"] for row in frame.orderBy("sequence").collect()] == sizes


def test_a_limit_stops_early_and_leaves_nothing_open(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(5000)
    assert len(load(spark, nats, stream, arrowBatchRows=10).take(3)) == 3
    assert load(spark, nats, stream).count() == 5000
    assert nats.consumers_left(stream) == 0


def test_sql_reads_a_stream(spark: SparkSession, nats: Nats) -> None:
    stream = nats.filled(4)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING jetstream OPTIONS (servers '{nats.url}', stream '{stream}')"
    )
    try:
        assert spark.sql("SELECT max(sequence) AS top FROM orders").collect()[0].top == 4
    finally:
        spark.catalog.dropTempView("orders")


def test_a_table_is_read_and_written_with_the_options_in_the_statement(spark: SparkSession, nats: Nats) -> None:
    # Spark does not pass the options of a table in its catalog to a Python source.
    stream = nats.stream()
    options = f"WITH (servers = '{nats.url}', stream = '{stream}', maxPendingAcks = 10)"
    spark.sql("CREATE TABLE orders_table (subject STRING, data STRING) USING jetstream")
    try:
        spark.sql(f"INSERT INTO orders_table {options} VALUES ('{stream}.a', 'one'), ('{stream}.b', 'two')")
        rows = spark.sql(f"SELECT data FROM orders_table {options} WHERE subject = '{stream}.b'").collect()
    finally:
        spark.sql("DROP TABLE orders_table")
    assert [row.data for row in rows] == ["two"]


def test_a_join_of_two_reads_has_both_sides(spark: SparkSession, nats: Nats) -> None:
    one, two = nats.filled(10), nats.filled(5)
    joined = load(spark, nats, one).join(load(spark, nats, two), "sequence")
    assert joined.count() == 5


def test_a_work_queue_is_read_and_keeps_its_messages(spark: SparkSession, nats: Nats) -> None:
    stream = "QUEUE"
    config = StreamConfig(name=stream, subjects=["queue.>"], retention=RetentionPolicy.WORK_QUEUE, allow_direct=True)
    with bulk.connect(nats.url) as connection:
        connection.request(StreamCreateRequest(config))
        bulk.publish(connection, pa.record_batch({"data": [b"%d" % number for number in range(50)]}), subject="queue.a")
        frame = load(spark, nats, stream, minPartitions=2)
        assert sequences(frame) == list(range(1, 51))
        assert sorted(int(bytes(row.data)) for row in frame.collect()) == list(range(50))
        assert connection.request(StreamInfoRequest(stream)).state.messages == 50


def test_a_task_opens_one_connection_and_its_worker_keeps_it(spark: SparkSession) -> None:
    """The server counts one connection of the planning process and one of each worker, for two and eight tasks."""
    with running() as nats:
        stream = nats.filled(80)

        def made() -> int:
            total = nats.server.monitor("/varz")["total_connections"]
            assert isinstance(total, int)
            return total

        before = made()
        assert load(spark, nats, stream, maxRecordsPerPartition=80).count() == 80
        assert made() - before == 2
        frame = load(spark, nats, stream, maxRecordsPerPartition=10)
        assert frame.rdd.getNumPartitions() == 8
        before = made()
        assert frame.count() == 80
        assert made() - before <= 3
