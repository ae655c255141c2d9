"""Micro-batches that are written again after their ids are forgotten: the ledger keeps each row stored once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, MapType, StringType, StructType
from tests.spark.sink import (
    PROGRESS,
    QUERY,
    ROWS,
    SHORT,
    WITH_IDS,
    batches,
    data,
    forget,
    forget_records,
    recorded,
    task,
    until_lost,
    writer,
)
from tests.spark.support import Nats

from jetspark.jetstream import RetentionPolicy
from jetspark.spark.write.ledger import SupersededBatchError


@pytest.fixture(autouse=True, scope="module")
def without_records(nats: Nats) -> None:
    forget_records(nats)


def test_without_a_record_a_late_repeat_is_stored_twice(nats: Nats) -> None:
    """The reason for the record: it prevents these duplicates."""
    stream = nats.stream(duplicate_window=SHORT)
    for _ in range(2):
        writer(nats).publish(task(), iter(batches(stream, range(10))))
        forget(nats, stream)
    assert data(nats, stream) == [*range(10), *range(10)]


@pytest.mark.parametrize("schema", [ROWS, WITH_IDS])
def test_with_a_record_a_late_repeat_is_stored_once(nats: Nats, schema: StructType) -> None:
    stream = nats.stream(duplicate_window=SHORT)
    ids = None if schema is ROWS else f"{stream}-"
    query = task(partition=1 if ids else 2)
    done = recorded(nats, schema).publish(query, iter(batches(stream, range(1000), ids=ids)))
    assert (done.streams[stream].count, done.skipped) == (1000, 0)
    forget(nats, stream)
    again = recorded(nats, schema).publish(query, iter(batches(stream, range(1000), ids=ids)))
    assert (again.streams, again.skipped) == ({}, 1000)
    cut = recorded(nats, schema).publish(query, iter(batches(stream, range(1000), size=70, ids=ids)))
    assert (cut.streams, cut.skipped) == ({}, 1000)  # other record batches: looked up in the stream
    assert data(nats, stream) == list(range(1000))


@pytest.mark.parametrize("atomic", ["true", "false"])
def test_with_a_record_a_lost_task_continues_where_it_stopped(nats: Nats, atomic: str) -> None:
    stream = nats.stream(duplicate_window=SHORT, allow_atomic=True)
    parts = batches(stream, range(3000))
    query = task(3, partition=4 if atomic == "true" else 5)
    with pytest.raises(ConnectionResetError):
        recorded(nats, atomic=atomic).publish(
            query, until_lost(nats, parts, 25, together=1000 if atomic == "true" else 1)
        )
    forget(nats, stream)
    there = len(data(nats, stream))
    assert there == (2000 if atomic == "true" else 2500)
    done = recorded(nats, atomic=atomic).publish(query, iter(parts))
    assert done.skipped == there
    assert sorted(data(nats, stream)) == list(range(3000))
    forget(nats, stream)
    assert recorded(nats).publish(query, iter(parts)).skipped == 3000


@pytest.mark.parametrize("values", [pa.string(), pa.list_(pa.string())])
def test_with_a_record_ids_in_the_headers_are_recognised(nats: Nats, values: pa.DataType) -> None:
    """A copy with headers has the ids of its origin; rows without an id get ours."""
    stream = nats.stream(duplicate_window=SHORT)
    is_map = values == pa.string()
    schema = StructType(ROWS.fields[:]).add(
        "headers", MapType(StringType(), StringType() if is_map else ArrayType(StringType()))
    )

    def with_headers(part: pa.RecordBatch) -> pa.RecordBatch:
        own = [f"{stream}-{each.decode()}" if int(each) % 3 else None for each in part.column("data").to_pylist()]
        headers = [[("Nats-Msg-Id", each if is_map else [each])] if each else [] for each in own]
        return part.append_column("headers", pa.array(headers, pa.map_(pa.string(), values)))

    parts = [with_headers(part) for part in batches(stream, range(1000))]
    query = task(partition=11 if is_map else 12)
    with pytest.raises(ConnectionResetError):
        recorded(nats, schema, controlHeaders="keep").publish(query, until_lost(nats, parts, 5))
    forget(nats, stream)
    there = len(data(nats, stream))
    assert there == 500
    assert recorded(nats, schema, controlHeaders="keep").publish(query, iter(parts)).skipped == there
    assert sorted(data(nats, stream)) == list(range(1000))


def test_with_a_record_rows_that_consumers_have_taken_are_not_stored_again(nats: Nats) -> None:
    stream = nats.stream(duplicate_window=SHORT, retention=RetentionPolicy.WORK_QUEUE)
    query = task(partition=6)
    recorded(nats).publish(query, iter(batches(stream, range(300))))
    forget(nats, stream)
    nats.purge(stream)
    done = recorded(nats).publish(query, iter(batches(stream, range(300))))
    assert (done.streams, done.skipped) == ({}, 300)
    assert nats.info(stream).state.messages == 0


def test_with_a_record_an_attempt_of_a_superseded_batch_stores_nothing(nats: Nats) -> None:
    stream = nats.stream()
    recorded(nats).publish(task(1, partition=7), iter(batches(stream, range(10))))
    recorded(nats).publish(task(2, partition=7), iter(batches(stream, range(10, 20))))
    with pytest.raises(
        SupersededBatchError, match=f"micro-batch 1 of query {QUERY} is over: .* micro-batch 2 has begun"
    ):
        recorded(nats).publish(task(1, partition=7), iter(batches(stream, range(20, 30))))

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from batches(stream, range(30, 35))
        recorded(nats).publish(task(4, partition=7), iter(batches(stream, range(35, 40))))

    with pytest.raises(SupersededBatchError, match="micro-batch 4 has begun"):
        recorded(nats).publish(task(3, partition=7), overtaken())
    assert sorted(data(nats, stream)) == [*range(20), *range(30, 40)]


def test_two_attempts_of_one_task_can_run_at_the_same_time(nats: Nats) -> None:
    stream = nats.stream()

    def beside() -> Iterator[pa.RecordBatch]:
        yield from batches(stream, range(100))
        done = recorded(nats).publish(task(partition=8), iter(batches(stream, range(200))))
        assert done.streams[stream].count + done.skipped == 200
        yield from batches(stream, range(100, 200))

    done = recorded(nats).publish(task(partition=8), beside())
    assert done.streams[stream].count == 200
    assert sorted(data(nats, stream)) == list(range(200))
    records = [row for row in nats.rows(PROGRESS, "subject", "data") if f"{QUERY}.8" in str(row["subject"])]
    assert len(records) == 1  # one for each partition, however many batches
    assert b'"done":true' in records[0]["data"]  # type: ignore[operator]  # bytes


def test_rows_of_several_streams_are_looked_up_in_each(nats: Nats) -> None:
    one, two = nats.stream(duplicate_window=SHORT), nats.stream(duplicate_window=SHORT)
    parts = [part for pair in zip(batches(one, range(200)), batches(two, range(200)), strict=True) for part in pair]
    query = task(partition=10)
    with pytest.raises(ConnectionResetError):
        recorded(nats).publish(query, until_lost(nats, [*parts, parts[0]], 4))
    for stream in (one, two):
        forget(nats, stream)
    assert recorded(nats).publish(query, iter(parts)).skipped == 400
    assert sorted(data(nats, one)) == sorted(data(nats, two)) == list(range(200))


def test_a_stream_whose_messages_cannot_be_looked_up_is_reported(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    stream = nats.stream(duplicate_window=SHORT, retention=RetentionPolicy.WORK_QUEUE, allow_direct=False)
    query = task(partition=9)
    with pytest.raises(ConnectionResetError):
        recorded(nats).publish(query, until_lost(nats, batches(stream, range(300)), 2))
    recorded(nats).publish(query, iter(batches(stream, range(300))))
    text = f"subject {stream}.0: cannot look up the rows that an earlier run has stored; they may be stored twice: "
    assert f"{text}stream '{stream}'" in caplog.text
    assert nats.info(stream).state.messages >= 300
