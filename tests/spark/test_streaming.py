"""Streaming queries on Spark itself. Each takes seconds, so there are few, and other tests cover the logic."""

from __future__ import annotations

import json
import logging
import queue
import statistics
import time
from datetime import datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.support import Nats, running

from jetspark import bulk
from jetspark.jetstream import RetentionPolicy
from jetspark.jetstream.api import MessageGetRequest, StreamInfoRequest
from jetspark.jetstream.times import time_ns
from jetspark.spark import (
    JetStreamListener,
    PrometheusMetrics,
    QueryProgress,
    StreamProgress,
    progress_of,
    release_committed,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DEADLINE = 180.0


def streamed(spark: SparkSession, nats: Nats, stream: str, **options: str) -> DataFrame:
    given = {"servers": nats.url, "stream": stream, "startingOffsets": "earliest", **options}
    return spark.readStream.format("jetstream").options(**given).load()


def to_parquet(frame: DataFrame, folder: Path, name: str = "out") -> DataStreamWriter:
    writer = frame.writeStream.format("parquet").option("path", str(folder / name))
    return writer.option("checkpointLocation", str(folder / "checkpoint"))


def run(writer: DataStreamWriter) -> StreamingQuery:
    """Run a query up to the available messages."""
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(int(DEADLINE))
    return query


def sequences(spark: SparkSession, folder: Path, name: str = "out") -> list[int]:
    rows = spark.read.parquet(str(folder / name)).select("sequence").collect()
    return sorted(row.sequence for row in rows)


def rows_of(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress]


def connections(nats: Nats) -> int:
    """Return the connections of the processes of Spark."""
    found = nats.server.monitor("/connz")["connections"]
    assert isinstance(found, list)
    return sum(each.get("name") == "tests-source" for each in found)


def await_connections(nats: Nats, count: int) -> None:
    deadline = time.monotonic() + DEADLINE
    while connections(nats) != count and time.monotonic() < deadline:
        time.sleep(0.02)  # the server notices when one is closed
    assert connections(nats) == count


def test_available_now_runs_read_everything_once_and_release_it(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    stream = nats.filled(10, retention=RetentionPolicy.WORK_QUEUE, allow_direct=True)
    options = {"commitMode": "purge", "maxOffsetsPerTrigger": "4"}
    first = run(to_parquet(streamed(spark, nats, stream, **options), tmp_path))
    assert rows_of(first) == [4, 4, 2]
    assert sequences(spark, tmp_path) == list(range(1, 11))
    assert nats.info(stream).state.first_sequence == 9  # Spark reports a commit one batch late
    given = {"servers": nats.url, "stream": stream, "connectionName": "tests-source", **options}
    assert release_committed(str(tmp_path / "checkpoint"), given, spark) == {stream: 11}
    await_connections(nats, 0)
    assert nats.info(stream).state.messages == 0
    nats.publish([f"{stream}.a"] * 3)
    second = run(to_parquet(streamed(spark, nats, stream, **options), tmp_path))
    assert rows_of(second) == [3]
    assert sequences(spark, tmp_path) == list(range(1, 14))
    assert release_committed(str(tmp_path / "nowhere"), given, spark) is None
    assert nats.consumers_left(stream) == 0
    nats.delete(stream)
    nats.stream(stream, retention=RetentionPolicy.WORK_QUEUE, allow_direct=True)
    assert release_committed(str(tmp_path / "checkpoint"), given, spark) == {stream: 1}  # of an empty one, too


def test_the_progress_of_a_query_shows_its_filters_and_how_far_it_is(
    spark: SparkSession, nats: Nats, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = nats.filled(10, ("a", "b"))
    filters = f"{stream}.a,{stream}.c"
    frame = streamed(spark, nats, stream, subject=filters, maxOffsetsPerTrigger="6")
    frame.explain(True)
    plan = capsys.readouterr().out
    assert f"stream={stream}" in plan
    assert f"subject={filters}" in plan
    query = run(to_parquet(frame, tmp_path))
    state = nats.info(stream).state
    ends = json.loads(query.recentProgress[0].sources[0].latestOffset)
    shown = ends["streams"][stream]
    assert (shown["next"], shown["lag"], shown["subjects"]) == (11, 4, filters.split(","))
    assert shown["bytesBehind"] == ends["estimatedTotalBytesBehindLatest"] == state.bytes * 4 // 10
    assert [ends[f"{each}OffsetsBehindLatest"] for each in ("min", "max", "avg")] == [4, 4, 4.0]
    at = nats.connection.request(MessageGetRequest(stream, sequence=6)).timestamp_ns
    assert state.last_ts is not None
    assert shown["secondsBehind"] == pytest.approx((time_ns(state.last_ts) - at) / 1e9)
    last = progress_of(query.lastProgress)
    assert last is not None
    assert last.streams == {stream: StreamProgress(7, 11, 11, 0, 0, 0.0, (f"{stream}.a", f"{stream}.c"))}


def test_a_running_query_reports_its_progress_and_leaves_nothing_open(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jetspark.spark.listener")
    reports: queue.Queue[QueryProgress] = queue.Queue()
    with running() as nats, bulk.connect(nats.url) as ear:
        stream = nats.filled(10)
        ear.subscribe("reports.progress")
        ear.request(StreamInfoRequest(stream))  # the server has the subscription now
        registry = CollectorRegistry()
        listener = JetStreamListener(
            reports.put,
            subject="reports.progress",
            options={"servers": nats.url},
            metrics=[PrometheusMetrics(registry)],
        )
        spark.streams.addListener(listener)
        try:
            frame = streamed(
                spark, nats, stream, maxOffsetsPerTrigger="6", connectionName="tests-source", includeHeaders="true"
            )
            query = to_parquet(frame, tmp_path).queryName("orders").start()
            batches = [reports.get(timeout=DEADLINE), reports.get(timeout=DEADLINE)]
            nats.publish([f"{stream}.a"] * 5)
            while sum(batch.rows for batch in batches) < 15:  # the query may poll while they are stored
                batches.append(reports.get(timeout=DEADLINE))
            labels = {"query": "orders", "stream": stream}
            assert registry.get_sample_value("jetspark_stream_read_sequence", labels) == 15.0
            assert registry.get_sample_value("jetspark_query_rows_total", {"query": "orders"}) == 15.0
            before = connections(nats)
            query.stop()
            assert query.exception() is None
            deadline = time.monotonic() + DEADLINE
            while connections(nats) == before and time.monotonic() < deadline:
                time.sleep(0.02)  # the workers of the tasks keep their connections
            assert connections(nats) == before - 1
        finally:
            spark.streams.removeListener(listener)
        assert nats.consumers_left(stream) == 0
        assert [batch.rows for batch in batches[:2]] == [6, 4]
        assert [batch.lag for batch in (*batches[:2], batches[-1])] == [4, 0, 0]
        streams = [batch.streams[stream] for batch in batches]
        assert [each.end for each in (*streams[:2], streams[-1])] == [7, 11, 16]
        assert [each.start for each in streams] == [None, *(each.end for each in streams[:-1])]
        assert [batch.rows for batch in batches[2:]] == [each.end - (each.start or 0) for each in streams[2:]]
        assert all(batch.name == "orders" and batch.seconds > 0 and batch.rows_per_second > 0 for batch in batches)
        table = ear.read(time.monotonic() + DEADLINE)
        assert table is not None
        published = json.loads(table.message(0).payload)
        assert (published["rows"], published["lag"], published["streams"][stream]["latest"]) == (6, 4, 11)
    assert f"query orders batch 0: 6 rows in {batches[0].seconds:.3f} s" in caplog.text
    assert f"lag 4: {stream} up to 6 (lag 4)" in caplog.text


def test_a_processing_time_trigger_starts_one_micro_batch_in_each_interval(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    reports: queue.Queue[QueryProgress] = queue.Queue()
    listener = JetStreamListener(reports.put)
    spark.streams.addListener(listener)
    stream = nats.filled(3)
    query = to_parquet(streamed(spark, nats, stream), tmp_path).trigger(processingTime="2 seconds").start()
    try:
        seen = 0
        for count in (3, 6, 9):
            while seen < count:
                seen += reports.get(timeout=DEADLINE).rows
            for _ in range(3):
                nats.publish([f"{stream}.a"])
        while seen < 12:
            seen += reports.get(timeout=DEADLINE).rows
        begun = [datetime.fromisoformat(each.timestamp) for each in query.recentProgress if each.numInputRows]
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    intervals = [int(at.timestamp()) // 2 for at in begun]
    # Spark records the time a moment after it has found that the interval has begun: one may show the next one's.
    assert len(set(intervals)) >= len(intervals) - 1 >= 3
    assert sequences(spark, tmp_path) == list(range(1, 13))


def test_an_idle_query_polls_the_server_seldom_and_still_sees_new_messages(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    stream = nats.filled(3)
    query = to_parquet(streamed(spark, nats, stream, pollInterval="250ms"), tmp_path).start()
    try:
        query.processAllAvailable()
        time.sleep(3.0)  # no message comes until the bound of the option is reached
        with nats.watched(f"STREAM.INFO.{stream}") as requests:
            # 0.25 s; 0.1 s or more if Spark is so slow that it never waits (mostly 0.01 s), and
            # 0.6 s or more without the option. Most of them: now and then a process stands still.
            assert 0.08 <= statistics.median(requests.gaps(16)) <= 0.5
        nats.publish([f"{stream}.a"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert sequences(spark, tmp_path) == [1, 2, 3, 4]


def test_a_query_reports_why_it_fails(spark: SparkSession, nats: Nats, tmp_path: Path) -> None:
    one, other = nats.filled(3), nats.filled(3)
    run(to_parquet(streamed(spark, nats, one), tmp_path))
    query = to_parquet(streamed(spark, nats, other), tmp_path).trigger(availableNow=True).start()
    text = f"the checkpoint is of stream {one}, but option stream names {other}"
    with pytest.raises(StreamingQueryException, match=text):
        query.awaitTermination(int(DEADLINE))


def test_a_user_schema_is_the_projection(spark: SparkSession, nats: Nats, tmp_path: Path) -> None:
    stream = nats.filled(10, ("a", "b"))
    reader = spark.readStream.format("jetstream").schema("sequence bigint, data string").option("servers", nats.url)
    frame = (
        reader.option("subject", f"{stream}.b").option("startingOffsets", "earliest").option("stream", stream).load()
    )
    run(to_parquet(frame, tmp_path))
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("sequence").collect()
    assert [(row.sequence, row.data) for row in rows] == [(2, "1"), (4, "3"), (6, "5"), (8, "7"), (10, "9")]
