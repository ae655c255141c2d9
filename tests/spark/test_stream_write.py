"""Streaming writes through Spark: a micro-batch whose commit was lost runs again and stores nothing twice."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from tests.spark.support import Nats

from jetspark.spark.source import JetStreamDataSource
from jetspark.spark.write.commit_message import merge_messages
from jetspark.spark.write.stream_writer import JetStreamStreamWriter

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def source(spark: SparkSession, nats: Nats, stream: str, **more: str) -> DataFrame:
    options = {"servers": nats.url, "stream": stream, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"}
    return spark.readStream.format("jetstream").options(**options, minPartitions="2", **more).load()


def run(frame: DataFrame, nats: Nats, checkpoint: Path, mode: str = "append", **options: str) -> list[int]:
    """Run a query to the end of the available messages; return its micro-batches."""
    writer = frame.writeStream.format("jetstream").outputMode(mode).queryName("copy").trigger(availableNow=True)
    query = writer.options(servers=nats.url, checkpointLocation=str(checkpoint), **options).start()
    query.awaitTermination()
    return [progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]]


def lose_commit(checkpoint: Path, batch: int) -> None:
    """Leave the checkpoint like a driver that is killed at the worst moment."""
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
    options = {"subject": f"{target}.copy", **({"ledgerStream": "QUERIES", "atomic": "true"} if late else {})}
    assert run(source(spark, nats, origin), nats, tmp_path, **options) == [0, 1, 2]
    lose_commit(tmp_path, 2)
    nats.publish([f"{origin}.a"] * 10, [b"%d" % number for number in range(2500, 2510)])
    assert run(source(spark, nats, origin), nats, tmp_path, **options) == [2, 3]
    assert data(nats, target) == list(range(2510))
    assert nats.info(target).state.messages == 2510


def test_a_first_batch_keeps_its_split_if_half_of_it_is_gone_when_it_is_repeated(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    """Spark asks again where the query starts, and gets the first sequence of the stream, which has changed by then."""
    origin, target = nats.filled(1000), nats.stream()
    frame = source(spark, nats, origin, failOnDataLoss="false")
    assert run(frame, nats, tmp_path, subject=f"{target}.copy") == [0]
    lose_commit(tmp_path, 0)
    nats.purge(origin, before=501)
    assert run(frame, nats, tmp_path, subject=f"{target}.copy") == [0]
    assert data(nats, target) == list(range(1000))


def test_tasks_know_the_run_of_their_query_and_find_a_window_that_is_too_short(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    origin, target = nats.filled(2000), nats.stream(duplicate_window=timedelta(minutes=7))
    record_file = tmp_path / "record_file"

    class RecordingWriter(JetStreamStreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            stored = merge_messages(messages)
            with record_file.open("a") as file:
                file.write(json.dumps([batchId, stored.run_id, stored.warnings]) + "\n")
            super().commit(messages, batchId)

    class RecordingSource(JetStreamDataSource):
        @classmethod
        def name(cls) -> str:
            return "hearing"

        def streamWriter(self, schema: StructType, overwrite: bool) -> JetStreamStreamWriter:  # noqa: N802
            made = super().streamWriter(schema, overwrite)
            assert isinstance(made, JetStreamStreamWriter)
            made.__class__ = RecordingWriter
            return made

    spark.dataSource.register(RecordingSource)
    runs = []
    for _ in range(2):
        writer = source(spark, nats, origin).writeStream.format("hearing").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).option("servers", nats.url)
        query = writer.option("subject", f"{target}.copy").start()
        query.awaitTermination()
        runs += [query.runId] * 2
        nats.publish([f"{origin}.a"] * 2000)
    recorded = [json.loads(line) for line in record_file.read_text().splitlines()]
    assert [(batch, run) for batch, run, _ in recorded] == list(enumerate(runs))
    for first in (0, 2):
        assert f"stream {target} recognises duplicates for 7m0s" in recorded[first][2][target]


def test_output_modes_other_than_append_are_refused(spark: SparkSession, nats: Nats, tmp_path: Path) -> None:
    counts = source(spark, nats, nats.filled(10)).groupBy("subject").count().selectExpr("subject", "'x' AS data")
    with pytest.raises(StreamingQueryException, match="output mode complete"):
        run(counts, nats, tmp_path, mode="complete")
