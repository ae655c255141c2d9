"""Buckets as sinks: tasks and micro-batches that are repeated, also late, and servers that are killed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.spark.bucket_sink import CONDITIONS, ROWS, batch_writer, entries, forgetful, history, schema, table
from tests.spark.buckets import DEL, PURGE, Bucket
from tests.spark.sink import forget, forget_records, recorded, task, writer
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.errors import (
    WrongLastRevisionError,
)
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.server import NatsServer

spark_test = pytest.mark.spark


@pytest.mark.conformance("KSP-14")
def test_a_repeated_task_stores_nothing_twice(nats: Nats) -> None:
    """On one server, the repeat of a row with an expected revision is refused before its id is looked at."""
    bucket = Bucket(nats, history=5)
    bucket.put("a", "b")
    bucket.mark(DEL, "gone")
    parts = [
        table(CONDITIONS, ("a", b"x", 1), ("b", None, 2), ("gone", b"g", 0), ("new", b"n", 0), ("a", b"y", None)),
        table(CONDITIONS, ("free", b"f", None), ("b", b"z", None)),
    ]
    made = batch_writer(nats, bucket, CONDITIONS)
    first = made.write(iter(parts)).streams[bucket.stream]
    before = history(bucket)
    again = made.write(iter(parts)).streams[bucket.stream]
    assert (first.count, first.duplicates, again.count, again.duplicates) == (7, 0, 7, 7)
    assert history(bucket) == before
    assert entries(bucket) == {"a": b"y", "b": b"z", "gone": b"g", "new": b"n", "free": b"f"}
    with pytest.raises(WrongLastRevisionError, match="key 'a': revision 1 was expected"):  # another job
        batch_writer(nats, bucket, CONDITIONS).write(iter(parts))


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.conformance("KSP-14")
def test_a_late_repeat_with_a_record_writes_nothing_over_what_came_later(nats: Nats, kept: int) -> None:
    bucket = forgetful(nats, history=kept)
    probe = f"$KV.{bucket.name}.probe"
    bucket.put("k5")
    parts = [table(ROWS, *((f"k{at % 40}", b"%d" % (number * 50 + at)) for at in range(50))) for number in range(4)]
    lost, options = task(7, partition=kept), {"bucket": bucket.name}
    forget_records(nats)

    def until_lost() -> Iterator[pa.RecordBatch]:
        yield from parts[:2]
        bucket.put("k0", "k0", "k1", "k1", value=b"foreign")
        raise ConnectionResetError("the task is lost")

    with pytest.raises(ConnectionResetError):
        recorded(nats, schema(ROWS), **options).publish(lost, until_lost())
    bucket.mark(PURGE, "k2")
    forget(nats, bucket.stream, probe)
    before = history(bucket)
    done = recorded(nats, schema(ROWS), **options).publish(lost, iter(parts[:2]))
    assert (done.streams, done.skipped) == ({}, 100)
    assert history(bucket) == before
    # Without the record, the repeat overwrites what came later.
    forget(nats, bucket.stream, probe)
    writer(nats, schema(ROWS), **options).publish(lost, iter(parts[:2]))
    newest = entries(bucket)
    assert (newest["k0"], newest["k1"], newest["k2"], newest["k39"]) == (b"90", b"91", b"92", b"89")


def test_a_task_that_is_lost_continues_with_the_rows_that_are_not_stored(nats: Nats) -> None:
    bucket = forgetful(nats, history=1)
    parts = [
        table(ROWS, *((f"k{(number * 50 + at) % 70}", b"%d" % (number * 50 + at)) for at in range(50)))
        for number in range(4)
    ]
    lost, options = task(8), {"bucket": bucket.name}

    def until_lost() -> Iterator[pa.RecordBatch]:
        yield from parts[:2]
        raise ConnectionResetError("the task is lost")

    forget_records(nats)
    with pytest.raises(ConnectionResetError):
        recorded(nats, schema(ROWS), **options).publish(lost, until_lost())
    forget(nats, bucket.stream, f"$KV.{bucket.name}.probe")
    done = recorded(nats, schema(ROWS), **options).publish(lost, iter(parts))
    assert (done.streams[bucket.stream].count, done.skipped) == (100, 100)
    assert entries(bucket) == {f"k{row % 70}": b"%d" % row for row in range(130, 200)}


def killed(server: NatsServer, stream: str, kills: Iterable[int]) -> threading.Thread:
    """Kill the server, and start it again, as soon as the stream has so many messages."""

    def work() -> None:
        for count in kills:
            with bulk.connect(server.url) as own:
                while own.request(StreamInfoRequest(stream), timeout=20).state.last_sequence < count:
                    pass
            server.kill()
            server.restart()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(8, marks=pytest.mark.matrix)])
def test_a_server_that_is_killed_while_revisions_are_expected_loses_and_repeats_nothing(kills: int) -> None:
    keys = [f"k{number}" for number in range(1_000)]
    with NatsServer() as server, bulk.connect(server.url) as own:
        nats = Nats(server, own)
        bucket = Bucket(nats, history=64)
        bucket.put(*keys)
        points = [1_300 + number * 1_000 for number in range(kills)]
        thread = killed(server, bucket.stream, points)
        for number in range(kills + 2):  # the revisions are those of the round before
            rows = [(key, b"%d" % number, number * 1_000 + at + 1) for at, key in enumerate(keys)]
            parts = [table(CONDITIONS, *rows[at : at + 250]) for at in range(0, len(rows), 250)]
            done = batch_writer(nats, bucket, CONDITIONS, retryTimeout="60s").write(iter(parts))
            assert (done.streams[bucket.stream].count, done.conflicts) == (1_000, 0)
        thread.join()
        own.reconnect()
        found: dict[str, list[bytes]] = {key: [] for key in keys}
        for row in bucket.batch(history="true"):
            found[row["key"]].append(row["value"])
        assert found == {
            key: [b"%d" % (at + 1), *(b"%d" % number for number in range(kills + 2))] for at, key in enumerate(keys)
        }


@spark_test
def test_a_query_whose_last_commit_was_lost_changes_a_bucket_once(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    origin, copy = Bucket(nats), forgetful(nats, history=64)
    origin.put(*(f"k{number % 300}" for number in range(1_000)))
    origin.mark(DEL, "k7")

    def run() -> None:
        changes = spark.readStream.format("jetstream").options(
            servers=nats.url,
            bucket=origin.name,
            startingOffsets="earliest",
            maxOffsetsPerTrigger="400",
            minPartitions="1",
        )
        query = (
            changes.load()
            .writeStream.format("jetstream")
            .options(servers=nats.url, bucket=copy.name, ledgerStream="CHANGES", checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    before = history(copy)
    assert entries(copy) == entries(origin)
    last = max(int(file.name) for file in (tmp_path / "commits").iterdir() if file.name.isdecimal())
    for file in (tmp_path / "commits").glob(f"*{last}*"):
        file.unlink()
    copy.put("k8", value=b"foreign")
    forget(nats, copy.stream, f"$KV.{copy.name}.probe")
    run()
    assert history(copy) == [*before, ("k8", b"foreign", "PUT")]
    complete = spark.readStream.format("jetstream").options(servers=nats.url, bucket=origin.name).load()
    query = complete.groupBy("key").count().selectExpr("key", "cast(count as string) AS value").writeStream
    with pytest.raises(StreamingQueryException, match="output mode complete is not supported"):
        query.format("jetstream").options(
            servers=nats.url, bucket=copy.name, checkpointLocation=str(tmp_path / "complete")
        ).outputMode("complete").trigger(availableNow=True).start().awaitTermination()
