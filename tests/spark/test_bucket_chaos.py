"""The long form of KSP-09: real drivers of Spark are killed, in the snapshot and after it, while others write."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.buckets import Bucket
from tests.spark.killed_drivers import kill_after
from tests.spark.support import Nats
from tests.spark.test_bucket_streams import write_until
from tests.spark.test_streaming import run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.matrix]

SNAPSHOT_BATCHES = 4


@pytest.mark.conformance("KSP-09")
@pytest.mark.parametrize("history", [1, 5])
def test_a_table_is_equal_to_its_bucket_after_drivers_were_killed(
    session: SparkSession, nats: Nats, tmp_path: Path, history: int
) -> None:
    bucket = Bucket(nats, history=history)
    for _ in range(history):
        bucket.put(*(f"k{at}" for at in range(SNAPSHOT_BATCHES * 200)))
    done = threading.Event()
    writer = threading.Thread(target=write_until, args=(bucket, done, history, 0.1))
    writer.start()
    try:
        command = ["tests.spark.bucket_job", nats.url, bucket.name, str(tmp_path)]
        for batches in (1, 1, SNAPSHOT_BATCHES):
            kill_after(command, tmp_path, batches)
    finally:
        done.set()
        writer.join()
    options = {"servers": nats.url, "bucket": bucket.name, "initialSnapshot": "true"}
    changes = session.readStream.format("jetstream").options(**options).load()
    output = changes.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    run(output.option("checkpointLocation", str(tmp_path / "checkpoint")))
    rows = session.read.parquet(str(tmp_path / "rows")).select("revision", "key", "value", "operation").collect()
    assert len(rows) == len({row.revision for row in rows})
    newest = {row.key: row for row in sorted(rows, key=lambda row: int(row.revision))}
    table = {key: bytes(row.value) for key, row in newest.items() if row.operation == "PUT"}
    assert table == {row["key"]: row["value"] for row in bucket.batch()}
