"""Streaming writes through Spark: a micro-batch whose commit got lost is run again and stores nothing twice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.support import Nats

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def source(spark: SparkSession, nats: Nats, stream: str, **more: str) -> DataFrame:
    options = {"servers": nats.url, "stream": stream, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"}
    return spark.readStream.format("jetstream").options(**options, minPartitions="2", **more).load()


def run(frame: DataFrame, nats: Nats, checkpoint: Path, mode: str = "append", **options: str) -> list[int]:
    """Run a query to the end of what there is; the micro-batches that it ran."""
    writer = frame.writeStream.format("jetstream").outputMode(mode).queryName("copy").trigger(availableNow=True)
    query = writer.options(servers=nats.url, checkpointLocation=str(checkpoint), **options).start()
    query.awaitTermination()
    return [progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]]


def lose_commit(checkpoint: Path, batch: int) -> None:
    """Leave the checkpoint as a driver does that is killed at the worst moment."""
    for file in (checkpoint / "commits").glob(f"*{batch}*"):  # it has a checksum beside it
        file.unlink()


def data(nats: Nats, stream: str) -> list[int]:
    found = [row["data"] for row in nats.rows(stream, "data")]
    return sorted(int(each) for each in found if isinstance(each, bytes))


@pytest.mark.parametrize("late", [False, True])
def test_a_query_whose_last_commit_was_lost_stores_each_row_once(
    spark: SparkSession, nats: Nats, tmp_path: Path, late: bool
) -> None:
    origin = nats.filled(2500, ("a", "b", "c"))
    window = timedelta(milliseconds=100) if late else None
    target = nats.stream(duplicate_window=window, allow_atomic=True)
    options = {"subject": f"{target}.copy", **({"progressStream": "QUERIES", "atomic": "true"} if late else {})}
    assert run(source(spark, nats, origin), nats, tmp_path, **options) == [0, 1, 2]
    lose_commit(tmp_path, 2)
    nats.publish([f"{origin}.a"] * 10, [b"%d" % number for number in range(2500, 2510)])
    assert run(source(spark, nats, origin), nats, tmp_path, **options) == [2, 3]
    assert data(nats, target) == list(range(2510))
    assert nats.info(target).state.messages == 2510


def test_a_first_batch_is_cut_as_it_was_when_half_of_it_is_gone_at_its_repetition(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    """Spark asks anew where the query begins, and gets the stream's first sequence, which is another one by then."""
    origin, target = nats.filled(1000), nats.stream()
    frame = source(spark, nats, origin, failOnDataLoss="false")
    assert run(frame, nats, tmp_path, subject=f"{target}.copy") == [0]
    lose_commit(tmp_path, 0)
    nats.purge(origin, before=501)
    assert run(frame, nats, tmp_path, subject=f"{target}.copy") == [0]
    assert data(nats, target) == list(range(1000))


def test_a_mode_that_is_not_append_is_refused(spark: SparkSession, nats: Nats, tmp_path: Path) -> None:
    counts = source(spark, nats, nats.filled(10)).groupBy("subject").count().selectExpr("subject", "'x' AS data")
    with pytest.raises(StreamingQueryException, match="output mode complete"):
        run(counts, nats, tmp_path, mode="complete")
