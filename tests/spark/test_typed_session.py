"""Typed rows in a session of Spark: batches, streams, SQL, written and read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from tests.spark.support import Nats

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
