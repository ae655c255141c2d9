"""A file sink skips the micro-batches whose numbers it has, whatever their rows are: a check sees it before a start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.support import Nats

from jetspark.jetstream.errors import ConfigError
from jetspark.spark import check_file_sink

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def run(spark: SparkSession, nats: Nats, stream: str, folder: Path, limit: str) -> None:
    """Append the available messages to Parquet files, in micro-batches of `limit` sequences."""
    given = {"servers": nats.url, "stream": stream, "startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}
    writer = spark.readStream.format("jetstream").options(**given).load().writeStream.format("parquet")
    writer = writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(180)


def test_a_checkpoint_that_is_older_than_a_file_sink_is_refused(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    stream = nats.filled(4)
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    check_file_sink(out, checkpoint, spark)  # before the first start
    run(spark, nats, stream, tmp_path, "4")
    check_file_sink(out, checkpoint, spark)
    shutil.copytree(checkpoint, tmp_path / "older")
    nats.publish([f"{stream}.a"] * 4)
    run(spark, nats, stream, tmp_path, "2")
    check_file_sink(out, checkpoint, spark)
    with pytest.raises(ConfigError, match=r"up to 2, but the checkpoint \S+ ends at micro-batch 0: .* 1 to 2;"):
        check_file_sink(out, str(tmp_path / "older"), spark)
    with pytest.raises(ConfigError, match=r"has no micro-batch: .* micro-batches 0 to 2;"):
        check_file_sink(out, str(tmp_path / "new"), spark)

    # This is what the check prevents: Spark plans micro-batch 1 again with other rows, and the sink drops them.
    shutil.rmtree(checkpoint)
    (tmp_path / "older").rename(checkpoint)
    nats.publish([f"{stream}.a"] * 4)
    run(spark, nats, stream, tmp_path, "8")
    rows = spark.read.parquet(out).select("sequence").collect()
    assert sorted(row.sequence for row in rows) == list(range(1, 9))  # not 9 to 12


def test_the_log_of_a_file_sink_is_read_after_spark_has_merged_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    for name in ("8", "9.compact", ".9.compact.crc"):
        (tmp_path / "out" / "_spark_metadata" / name).write_text("v1")
    with pytest.raises(ConfigError, match="up to 9, but"):
        check_file_sink(str(tmp_path / "out"), str(tmp_path / "checkpoint"), spark)
