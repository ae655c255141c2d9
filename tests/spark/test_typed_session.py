"""Typed rows in a session of Spark: batches, streams, SQL, written and read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, from_json
from tests.pages import examples
from tests.spark.support import Nats, running

pytestmark = pytest.mark.spark


def source(spark: SparkSession, nats: Nats, stream: str, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("jetstream").options(servers=nats.url, stream=stream, payloadFormat="text", **options)
    return (reader if schema is None else reader.schema(schema)).load()


def test_payloads_are_typed_rows_in_batches_streams_and_sql(spark: SparkSession, nats: Nats, tmp_path: Path) -> None:
    stream, copy = nats.stream(), nats.stream()
    nats.publish([f"{stream}.{at}" for at in range(4)], [b"one", b"\xff", b"three", b""])

    inferred = source(spark, nats, stream)
    assert inferred.columns == ["value", "subject", "stream", "sequence", "timestamp", "timestamp_ns"]
    assert [row.value for row in inferred.orderBy("sequence").collect()] == ["one", None, "three", ""]

    schema = "line STRING, sequence BIGINT, _corrupt_record STRING"
    kept = source(spark, nats, stream, schema).orderBy("sequence").collect()
    assert [(row.line, row._corrupt_record) for row in kept][:2] == [("one", None), (None, "\ufffd")]
    dropped = source(spark, nats, stream, "line STRING NOT NULL, subject STRING", mode="DROPMALFORMED")
    assert not dropped.schema["line"].nullable
    assert {row.subject: row.line for row in dropped.collect()} == {
        f"{stream}.0": "one",
        f"{stream}.2": "three",
        f"{stream}.3": "",
    }
    with pytest.raises(
        PySparkException, match=rf"stream {stream}, sequence 2, subject {stream}\.1: the payload is not"
    ):
        source(spark, nats, stream, "line STRING", mode="FAILFAST").collect()
    with pytest.raises(PySparkException, match=r"column sequence struct<a:int>.*metadataPrefix"):
        source(spark, nats, stream, "sequence STRUCT<a: INT>").collect()

    changed = dropped.select(expr("upper(line) AS body"), expr(f"replace(subject, '{stream}', '{copy}') AS subject"))
    options = {"servers": nats.url, "payloadFormat": "text"}
    changed.write.format("jetstream").options(**options).mode("append").save()
    assert sorted(str(row["data"]) for row in nats.rows(copy, "data")) == ["b''", "b'ONE'", "b'THREE'"]

    reader = spark.readStream.format("jetstream").options(**options, stream=copy, startingOffsets="earliest")
    query = (
        reader.schema("again STRING, subject STRING")
        .load()
        .withColumn("subject", expr("subject || '.again'"))
        .writeStream.format("jetstream")
        .options(**options, checkpointLocation=str(tmp_path / "checkpoint"), maxReplayDelay="1m")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert len(nats.rows(copy, "data")) == 6

    spark.sql(
        f"CREATE TEMPORARY VIEW lines (line STRING, subject STRING) USING jetstream OPTIONS (servers '{nats.url}', "
        f"stream '{stream}', payloadFormat 'text', mode 'DROPMALFORMED')"
    )
    try:
        found = spark.sql("SELECT line FROM lines WHERE line LIKE 't%' AND subject IS NOT NULL").collect()
    finally:
        spark.sql("DROP VIEW lines")
    assert [row.line for row in found] == ["three"]


ZONE = "spark.sql.session.timeZone"
FIELDS = "id BIGINT, at TIMESTAMP, on DATE, tags ARRAY<STRING>, place STRUCT<city: STRING, at: TIMESTAMP>"
PAYLOADS = [
    b'{"id": 1, "at": "2026-03-01 12:00:00", "on": "2026-03-01", "tags": ["a", null], "extra": 1}',
    b'{"id": 2, "at": "2026-03-01T12:00:00Z", "place": {"city": "Bern", "at": "2026-07-01T00:00:00"}}',
    b'{"id": "three"}',
    b'{"id": 4',
    b"",
    b'{"id": 6}',
]


def test_json_is_read_as_from_json_reads_it_in_every_time_zone(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()
    nats.publish([f"{stream}.a"] * len(PAYLOADS), PAYLOADS)
    schema = f"{FIELDS}, sequence BIGINT, data STRING"
    reader = spark.read.format("jetstream").options(servers=nats.url, stream=stream, payloadFormat="json")
    zone = spark.conf.get(ZONE)
    try:
        for name in ("UTC", "Asia/Tokyo", "+03:00"):
            spark.conf.set(ZONE, name)
            ours = reader.schema(schema).load()
            fields = from_json(col("data"), f"{FIELDS}, needed INT NOT NULL").alias("fields")
            theirs = ours.select("sequence", fields).select("sequence", "fields.*").orderBy("sequence")
            assert theirs.schema["needed"].nullable  # Spark ignores it
            columns = [expr(each).cast("STRING") for each in ("id", "at", "`on`", "tags", "place")]
            assert ours.orderBy("sequence").select(columns).collect() == theirs.select(columns).collect()
        spark.conf.set(ZONE, "Asia/Tokyo")
        (row,) = (
            reader.option("timeZone", "UTC")
            .schema(schema)
            .load()
            .where("id = 1")
            .selectExpr("at = TIMESTAMP '2026-03-01 12:00:00+00:00' AS same")
            .collect()
        )
        assert row.same
    finally:
        spark.conf.set(ZONE, str(zone))


def test_the_examples_of_the_page_run(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orders, tickets, write = (text.replace("/tmp/", f"{tmp_path}/") for text in examples("typed-rows.md"))
    names: dict[str, object] = {"spark": spark}
    with running() as nats:
        nats.stream("ORDERS", subjects=["orders.*"])
        nats.stream("TICKETS", subjects=["tickets.*"])
        nats.stream("DOUBLED", subjects=["doubled.*"])
        nats.publish(["orders.eu", "orders.us"], [b'{"id": 1, "amount": 250.5}', b'{"id": 2, "amount": 1}'])
        nats.publish(["tickets.new"], [b'{"subject": "it burns", "priority": 1}'])
        exec(orders.replace("nats://localhost:4222", nats.url), names)
        assert "|  1| 250.5|NULL|orders.eu|       1|" in capsys.readouterr().out
        exec(tickets.replace("nats://localhost:4222", nats.url), names)
        assert "|it burns|       1|tickets.new|" in capsys.readouterr().out
        exec(write.replace("nats://localhost:4222", nats.url), names)
        found = {row["subject"]: row["data"] for row in nats.rows("DOUBLED", "subject", "data")}
    assert found == {"doubled.1": b'{"id":1,"amount":501.0}', "doubled.2": b'{"id":2,"amount":2.0}'}
