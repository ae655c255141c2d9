"""Streaming reads of buckets, as Spark's driver asks for them: changes, and the snapshot with which a query begins."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from tests.bulk.streams import create, until
from tests.spark.buckets import DEL, EXPIRED, PURGE, Bucket, Row
from tests.spark.micro_batches import Offset, latest, nexts
from tests.spark.support import Nats, running

from jetspark import bulk
from jetspark.errors import BucketNotFoundError, ConfigError, DataLossError
from jetspark.jetstream.key_value import KeyValueConfig
from jetspark.jetstream.key_value.config import stream_config
from jetspark.spark.read.partitions import StreamPartition
from jetspark.spark.read.stream_reader import JetStreamStreamReader

SNAPSHOT = {"initialSnapshot": "true"}


def rows(bucket: Bucket, reader: JetStreamStreamReader, start: Offset, end: Offset) -> list[tuple[object, ...]]:
    found = bucket.micro_batch(reader, start, end)
    return [(row["key"], row["revision"], row["operation"]) for row in found]


def entry(offset: Offset) -> dict[str, object]:
    streams = offset["streams"]
    assert isinstance(streams, dict)
    (found,) = streams.values()
    assert isinstance(found, dict)
    return found


def partitions(reader: JetStreamStreamReader, start: Offset, end: Offset) -> list[StreamPartition]:
    return [part for part in reader.partitions(start, end) if isinstance(part, StreamPartition)]


@pytest.mark.conformance("KSP-06")
def test_a_stream_of_changes_shows_deletes_and_skips_superseded_revisions(nats: Nats) -> None:
    bucket = Bucket(nats)
    bucket.put("a", "b")
    reader = bucket.reader()
    start = reader.initialOffset()
    assert nexts(start) == [3]  # the default is latest
    bucket.put("a", "c", "a", "d")
    bucket.mark(DEL, "b")
    bucket.mark(EXPIRED, "d")
    end = latest(reader, start)
    assert rows(bucket, reader, start, end) == [("c", 4, "PUT"), ("a", 5, "PUT"), ("b", 7, "DEL"), ("d", 8, "EXPIRED")]
    quiet = bucket.reader(includeDeletes="false", startingOffsets="earliest")
    assert rows(bucket, quiet, quiet.initialOffset(), end) == [("c", 4, "PUT"), ("a", 5, "PUT")]
    chosen = bucket.reader(keys="a,d", startingOffsets=json.dumps({bucket.name: 3}))
    begin = chosen.initialOffset()
    assert rows(bucket, chosen, begin, latest(chosen, begin)) == [("a", 5, "PUT"), ("d", 8, "EXPIRED")]
    assert entry(chosen.reportLatestOffset())["subjects"] == [f"$KV.{bucket.name}.a", f"$KV.{bucket.name}.d"]
    assert "subjects" not in entry(reader.reportLatestOffset())
    bucket.put("a", "a", "a")  # a repeated batch lacks what was superseded since
    assert rows(bucket, bucket.reader(), start, end) == [("c", 4, "PUT"), ("b", 7, "DEL"), ("d", 8, "EXPIRED")]
    nats.delete(bucket.stream)
    with pytest.raises(BucketNotFoundError):
        latest(reader, end)
    Bucket(nats, bucket.name).put("new")
    with pytest.raises(DataLossError, match="it was deleted and created again"):
        latest(bucket.reader(), end)
    lossy = bucket.reader(failOnDataLoss="false")
    assert rows(bucket, lossy, end, latest(lossy, end)) == [("new", 1, "PUT")]
    lost = {"streams": {bucket.stream: {**entry(latest(lossy, end)), "next": 9, "start": 2}}, "version": 1}
    with pytest.raises(DataLossError, match="the stream, which ends at 1"):
        latest(bucket.reader(), lost)


@pytest.mark.conformance("KSP-07")
def test_a_query_begins_with_the_newest_entry_of_each_key_and_continues_with_changes(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = Bucket(nats)
    bucket.put("a", "b", "c", "a")
    bucket.mark(DEL, "b")
    reader = bucket.reader(**SNAPSHOT)
    start = reader.initialOffset()
    assert {name: entry(start)[name] for name in ("history", "next", "snapshot")} == {
        "history": 1,
        "next": 3,  # the first that the bucket still has
        "snapshot": 5,
    }
    bucket.put("d")
    bucket.mark(DEL, "c")
    first = latest(reader, start)
    assert (nexts(first), entry(first)["snapshot"]) == ([6], 5)  # the changes are in the next micro-batch
    assert rows(bucket, reader, start, first) == [("a", 4, "PUT")]  # c was deleted before it was read
    second = latest(reader, first)
    assert rows(bucket, reader, first, second) == [("d", 6, "PUT"), ("c", 7, "DEL")]
    assert json.dumps(second) == json.dumps(second, sort_keys=True)
    bucket.put("e")
    later = bucket.reader()  # the checkpoint decides, not the option
    third = latest(later, second)
    assert (rows(bucket, later, second, third), entry(third)["snapshot"]) == ([("e", 8, "PUT")], 5)
    assert not caplog.records
    # Markers are hidden in the snapshot, whatever the option says, and after it as the option says.
    shown = bucket.reader(includeDeletes="true", **SNAPSHOT)
    begin = shown.initialOffset()
    assert rows(bucket, shown, begin, latest(shown, begin)) == [("a", 4, "PUT"), ("d", 6, "PUT"), ("e", 8, "PUT")]
    for option, value in (
        ("startingOffsets", "earliest"),
        ("startingTimestamp", "0"),
        ("startingOffsetsByTimestamp", "{}"),
    ):
        with pytest.raises(ConfigError):
            bucket.reader(**SNAPSHOT, **{option: value})
    # An old checkpoint goes on without a snapshot, with one warning.
    plain = bucket.reader(startingOffsets="earliest")
    old = latest(plain, plain.initialOffset())
    added = bucket.reader(**SNAPSHOT)
    bucket.put("f")
    newer = latest(added, old)
    assert rows(bucket, added, old, newer) == [("f", 9, "PUT")]
    latest(added, newer)
    assert [record.message.partition(":")[0] for record in caplog.records] == ["option initialSnapshot is ignored"]
    empty = Bucket(nats).reader(**SNAPSHOT)
    assert (entry(empty.initialOffset())["snapshot"], nexts(empty.initialOffset())) == (0, [1])


@pytest.mark.conformance("KSP-08")
def test_a_snapshot_is_read_in_parallel_micro_batches_or_at_once(nats: Nats) -> None:
    bucket = Bucket(nats)
    bucket.put(*(f"k{at}" for at in range(10)))
    reader = bucket.reader(maxOffsetsPerTrigger="4", minPartitions="2", **SNAPSHOT)
    offset, read, parts = reader.initialOffset(), [], []
    bucket.put("k0", "k9")
    for _ in range(4):
        start, offset = offset, latest(reader, offset)
        read.append([revision for _, revision, _ in rows(bucket, reader, start, offset)])
        parts.append(len(partitions(reader, start, offset)))
    assert read == [[2, 3, 4, 5], [6, 7, 8, 9], [], [11, 12]]  # revision 10 was superseded before it was read
    assert parts == [2, 2, 1, 2]
    # With a history, the newest of each key up to S is read at once, also of keys that have changed since.
    deep = Bucket(nats, history=2)
    deep.put("a", "b", "a", "c", "d", "e")
    deep.mark(PURGE, "e")
    reader = deep.reader(maxOffsetsPerTrigger="2", minPartitions="2", **SNAPSHOT)
    start = reader.initialOffset()
    deep.put("a", "b", "b", "f", value=b"new")  # b lost its entry of the snapshot
    deep.mark(DEL, "c")
    reader.prepareForTriggerAvailableNow()
    end = latest(reader, start, ReadMaxRows(2))
    (part,) = partitions(reader, start, end)
    assert (nexts(end), part.newest_only) == ([8], True)
    found = sorted(rows(deep, reader, start, end))
    assert found == [("a", 3, "PUT"), ("c", 4, "PUT"), ("d", 5, "PUT")]
    repeated = deep.reader()
    deep.put("a")  # which removes its revision 3
    assert sorted(rows(deep, repeated, start, end)) == [("c", 4, "PUT"), ("d", 5, "PUT")]
    following = latest(reader, end, ReadMaxRows(3))
    assert [revision for _, revision, _ in rows(deep, reader, end, following)] == [8, 9, 10]
    chosen = deep.reader(keys="a,b", **SNAPSHOT)
    begin = chosen.initialOffset()
    assert {row[0] for row in rows(deep, chosen, begin, latest(chosen, begin))} == {"a", "b"}
    closed = Bucket(nats, history=2)
    config = stream_config(KeyValueConfig(bucket=closed.name, history=2)).replace(allow_direct=False)
    nats.delete(closed.stream)
    create(nats.connection, config)
    with pytest.raises(ConfigError, match="initialSnapshot needs allow_direct"):
        closed.reader(**SNAPSHOT).initialOffset()


class _KilledError(Exception):
    """The driver was killed."""


@dataclass
class Driver:
    """Spark's driver, as far as a query is concerned: what survives when it is killed, and its order of calls."""

    bucket: Bucket
    options: dict[str, str]
    dice: random.Random
    offsets: list[Offset] = field(default_factory=list)
    committed: list[list[Row]] = field(default_factory=list)
    killed: dict[str, int] = field(default_factory=lambda: {"in": 0, "after": 0})

    def run(self, risk: float) -> None:
        """Run micro-batches until there is no more to read, or the driver is killed."""
        reader = self.bucket.reader(**self.options)
        start = self.offsets[len(self.committed) - 1] if self.committed else reader.initialOffset()
        while True:
            if len(self.offsets) == len(self.committed):
                end = latest(reader, start)
                if end == start:
                    return
                self.offsets.append(end)
            self._maybe_kill(risk)
            rows: list[Row] = []
            for part in reader.partitions(start, self.offsets[-1]):
                self._maybe_kill(risk / 2)
                rows += [row for batch in reader.read(part) for row in batch.to_pylist()]
            self._maybe_kill(risk, last=True)
            self.committed.append(rows)
            start = self.offsets[-1]
            reader.commit(start)

    def _maybe_kill(self, risk: float, *, last: bool = False) -> None:
        at = entry(self.offsets[-1])
        first, revision = at["start"], at["snapshot"]
        assert isinstance(first, int)
        assert isinstance(revision, int)
        phase = "in" if first <= revision else "after"
        forced = last and phase == "in" and self.killed["in"] < 4
        if forced or self.dice.random() < risk:
            self.killed[phase] += 1
            raise _KilledError

    def folded(self) -> dict[str, bytes]:
        """Return the table that the committed rows make."""
        table: dict[str, bytes] = {}
        for rows in self.committed:
            for row in sorted(rows, key=lambda row: int(row["revision"])):
                table.pop(row["key"], None)
                if row["operation"] == "PUT":
                    table[row["key"]] = row["value"]
        return table


def write_until(bucket: Bucket, done: threading.Event, seed: int, pause: float = 0.002) -> None:
    """Put and delete random keys; wait for `pause` seconds each time."""
    dice = random.Random(seed)
    with bulk.connect(bucket.nats.url) as connection:
        writing = Bucket.__new__(Bucket)
        writing.nats, writing.name, writing.stream = Nats(bucket.nats.server, connection), bucket.name, bucket.stream
        while not done.wait(pause):
            keys = [f"k{dice.randrange(60)}" for _ in range(5)]
            writing.put(*keys)
            writing.mark(dice.choice((DEL, PURGE, EXPIRED)), f"k{dice.randrange(60)}")


@pytest.mark.conformance("KSP-09")
@pytest.mark.parametrize("history", [1, 5])
def test_each_revision_is_committed_once_whenever_the_driver_is_killed(nats: Nats, history: int) -> None:
    bucket = Bucket(nats, history=history)
    bucket.put(*(f"k{at % 60}" for at in range(200)))
    options = {"maxOffsetsPerTrigger": "10", "minPartitions": "2", "pollInterval": "1ms", **SNAPSHOT}
    driver = Driver(bucket, options, random.Random(history))
    done = threading.Event()
    writer = threading.Thread(target=write_until, args=(bucket, done, history))
    writer.start()
    try:
        while driver.killed["after"] < 8:
            with contextlib.suppress(_KilledError):
                driver.run(risk=0.25)
    finally:
        done.set()
        writer.join()
    driver.run(risk=0.0)
    assert driver.killed["in"] >= 4
    revisions = [row["revision"] for rows in driver.committed for row in rows]
    assert len(revisions) == len(set(revisions))
    assert driver.folded() == {row["key"]: row["value"] for row in bucket.batch()}
    assert len(driver.folded()) > 20


@pytest.mark.conformance("KSP-10")
def test_a_revision_that_a_crash_brings_back_is_not_read_again(caplog: pytest.LogCaptureFixture) -> None:
    with running() as nats:
        bucket = Bucket(nats, limit_marker_ttl=timedelta(minutes=1))
        bucket.put("a", "b")
        bucket.mark([*PURGE, ("Nats-TTL", ["1s"])], "a")
        reader = bucket.reader(**SNAPSHOT)
        start = reader.initialOffset()
        bucket.put("c")
        first = latest(reader, start)
        second = latest(reader, first)
        assert rows(bucket, reader, start, first) == [("b", 2, "PUT")]
        assert rows(bucket, reader, first, second) == [("c", 4, "PUT")]
        assert until(lambda: nats.info(bucket.stream).state.messages == 2)  # the marker is gone
        nats.server.kill()
        nats.server.restart()
        nats.connection.reconnect()
        assert nats.info(bucket.stream).state.messages == 3  # the purged value is back, under its old revision
        bucket.put("d")
        reader = bucket.reader(**SNAPSHOT)
        assert rows(bucket, reader, second, latest(reader, second)) == [("d", 5, "PUT")]
        assert not caplog.records
        silent = Bucket(nats, ttl=timedelta(minutes=1))
        for options in ({}, {"includeDeletes": "false"}):  # without deletes, no row is missing
            reader = silent.reader(**options)
            reader.initialOffset()
            reader.reportLatestOffset()
            latest(reader, reader.initialOffset())
        (record,) = caplog.records
        assert f"bucket {silent.name} (stream {silent.stream}): values expire without a marker" in record.message
