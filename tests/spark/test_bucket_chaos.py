"""The long form of KSP-09: real drivers of Spark are killed, in the snapshot and after it, while others write."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.bulk.streams import until
from tests.spark.buckets import Bucket
from tests.spark.support import Nats
from tests.spark.test_bucket_streams import write_until
from tests.spark.test_streaming import run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.matrix]

ROOT = Path(__file__).parents[2]
SNAPSHOT_BATCHES = 4
MAX_STARTS = 3
"""On a busy machine a driver may end, because Spark does not wait long for its Python workers."""


def planned(folder: Path) -> int:
    """Return the number of micro-batches that drivers have planned."""
    return len([each for each in (folder / "checkpoint" / "offsets").glob("*") if each.name.isdecimal()])


def run_driver(bucket: Bucket, folder: Path, goal: int) -> None:
    """Run a driver until it has planned a micro-batch, and kill it with its processes."""
    command = [sys.executable, "-m", "tests.spark.bucket_job", bucket.nats.url, bucket.name, str(folder)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    driver = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: planned(folder) >= goal or driver.poll() is not None, 240.0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def kill_after(bucket: Bucket, folder: Path, batches: int) -> None:
    """Kill a driver after it has planned a number of micro-batches more."""
    goal = planned(folder) + batches
    for _ in range(MAX_STARTS):
        run_driver(bucket, folder, goal)
        if planned(folder) >= goal:
            return
    raise AssertionError(f"{MAX_STARTS} drivers planned only {planned(folder)} of {goal} micro-batches")


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
        for batches in (1, 1, SNAPSHOT_BATCHES):
            kill_after(bucket, tmp_path, batches)
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
