"""Streams and consumers as Arrow columns, on both fronts."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.fronts import Ground, eventually

from jetspark import ConnectOptions, bulk
from jetspark.aio.jetstream.arrow import ScanReader
from jetspark.errors import ConnectionClosedError, ConsumerDeletedError, StreamNotFoundError

COUNT = 500


async def filled(ground: Ground, count: int = COUNT) -> Any:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *(b"%d" % number for number in range(count)))
    return stream


def blocking(batches: Any) -> Any:
    """The Arrow stream of either front."""
    return batches.inner if hasattr(batches, "inner") else batches.reader


@pytest.mark.blocking
async def test_a_stream_is_read_as_columns(ground: Ground) -> None:
    stream = await filled(ground)
    async with stream.scan(columns=["sequence", "data"], max_batch_rows=200) as batches:
        sizes = [batch.num_rows async for batch in batches]
        assert sum(sizes) == COUNT
        assert max(sizes) <= 200
        assert batches.report.complete
    async with stream.scan(start_sequence=11, end_sequence=21) as batches:
        table = await batches.read_all()
    assert table["sequence"].to_pylist() == list(range(11, 21))
    assert table["data"].to_pylist() == [b"%d" % number for number in range(10, 20)]
    assert table["subject"].to_pylist() == [f"{stream.name}.a"] * 10


@pytest.mark.profiles
@pytest.mark.blocking
async def test_a_consumer_delivers_columns_and_takes_one_ack_for_all(ground: Ground) -> None:
    stream = await filled(ground)
    consumer = await stream.create_consumer(durable_name="c", ack_policy="explicit", ack_wait=timedelta(seconds=30))
    async with consumer.fetch_arrow(300, columns=["sequence"]) as batches:
        table = await batches.read_all()
        assert table["sequence"].to_pylist() == list(range(1, 301))
        assert (batches.received, (await consumer.info()).num_ack_pending) == (300, 300)
        await batches.ack()
    info = await consumer.info()
    assert (info.num_ack_pending, info.ack_floor.stream_sequence) == (0, 300)
    async with consumer.fetch_arrow(1000, no_wait=True) as batches:
        assert (await batches.read_all()).num_rows == 200


@pytest.mark.profiles
@pytest.mark.blocking
@pytest.mark.conformance("DIR-08", "DIR-09")
async def test_the_last_message_of_each_subject_is_a_frame_of_pandas_and_of_polars(ground: Ground) -> None:
    stream = await ground.stream()
    names = [f"{stream.name}.{key}" for key in "abc"]
    for data in (b"old", b"new"):
        for name in names:
            await ground.fill(name, data)
    snapshot = await stream.last_per_subject()
    assert snapshot.to_pandas()[["subject", "data"]].to_dict("list") == {"subject": names, "data": [b"new"] * 3}
    assert snapshot.to_polars().select("subject", "sequence").rows() == [(names[0], 4), (names[1], 5), (names[2], 6)]
    assert (snapshot.sequence, snapshot.created) == (6, stream.cached_info.created)
    one = await stream.last_per_subject(subjects=names[1], columns=["data", "sequence"])
    assert one.table.to_pylist() == [{"data": b"new", "sequence": 5}]
    two = await stream.last_per_subject(subjects=names[1:], columns=["sequence"])
    assert pl.DataFrame(two).rows() == [(5,), (6,)]
    async with asyncio.timeout(15):  # nobody waits for the answer to the deletion of the consumer
        while await stream.consumer_names().all():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)


async def test_the_last_messages_of_a_work_queue_are_read_by_direct_get(ground: Ground) -> None:
    stream = await ground.stream(retention="workqueue", allow_direct=True)
    await ground.fill(f"{stream.name}.a", b"1", b"2")
    assert (await stream.last_per_subject(columns=["data"])).table.to_pylist() == [{"data": b"2"}]
    assert (await stream.info()).state.messages == 2


async def test_a_snapshot_of_a_stream_that_is_gone_fails(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.js.delete_stream(stream.name)
    with pytest.raises(StreamNotFoundError):
        await stream.last_per_subject()


@pytest.mark.parametrize("front", ["aio"], indirect=True)
async def test_a_cancelled_snapshot_ends_its_connection(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, ended = threading.Event(), threading.Event()

    def read(connection: bulk.Connection, *_: Any, **__: Any) -> None:
        reading.set()
        try:
            while True:
                connection.read(time.monotonic() + 60)
        finally:
            ended.set()

    monkeypatch.setattr(bulk, "last_per_subject", read)
    stream = await ground.stream()
    call = asyncio.ensure_future(stream.last_per_subject())
    assert await asyncio.to_thread(reading.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(ended.wait, 10)


async def test_pandas_polars_and_duckdb_accept_the_result(ground: Ground) -> None:
    stream = await filled(ground)

    def analyse() -> tuple[int, int, int]:
        frame = pa.table(blocking(stream_scans[0])).to_pandas()
        assert isinstance(frame, pd.DataFrame)
        polars = pl.DataFrame(blocking(stream_scans[1]))
        reader = pa.RecordBatchReader.from_stream(blocking(stream_scans[2]))
        (total,) = duckdb.from_arrow(reader).sum("sequence").fetchall()[0]
        return int(frame["sequence"].sum()), int(polars["sequence"].sum()), int(total)

    stream_scans = [stream.scan(columns=["sequence"]) for _ in range(3)]
    assert await asyncio.to_thread(analyse) == (COUNT * (COUNT + 1) // 2,) * 3


async def test_errors_are_raised_while_the_stream_is_read(ground: Ground) -> None:
    stream = await filled(ground, 5)
    consumer = await stream.create_consumer(durable_name="c", ack_policy="explicit")
    async with consumer.fetch_arrow(10) as batches:
        while batches.received < 5:  # in the batches in which they arrive
            await anext(batches)
        await consumer.delete()
        with pytest.raises(ConsumerDeletedError):
            await anext(batches)
    batches = stream.scan()
    await ground.js.delete_stream(stream.name)
    with pytest.raises(StreamNotFoundError):
        await batches.read_all()
    await batches.close()


@pytest.mark.blocking
async def test_messages_that_a_closed_reader_did_not_return_are_for_the_next_call(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *(b"%02d" % number * 150_000 for number in range(1, 21)))
    consumer = await stream.create_consumer(
        durable_name="c", ack_policy="explicit", ack_wait=timedelta(minutes=10), max_ack_pending=-1
    )
    async with consumer.fetch_arrow(50, timeout=60) as batches:
        got = (await anext(batches)).num_rows
        async with asyncio.timeout(10):
            while (await consumer.info()).delivered.consumer_sequence < 20:
                pass
    messages = await consumer.fetch(20 - got, timeout=10)
    assert [each.payload[:2] for each in messages] == [b"%02d" % number for number in range(got + 1, 21)]
    assert {each.metadata.num_delivered for each in messages} <= {1}


@pytest.mark.parametrize("front", ["aio"], indirect=True)
async def test_a_cancelled_wait_loses_no_batch(ground: Ground) -> None:
    stream = await filled(ground, 3)
    consumer = await stream.create_consumer(durable_name="c", ack_policy="explicit")
    async with consumer.fetch_arrow(6, columns=["sequence"]) as batches:
        got = [await anext(batches)]
        waiting = asyncio.ensure_future(batches.read_all())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await ground.fill(f"{stream.name}.a", b"3", b"4", b"5")
        got += [batch async for batch in batches]
    assert [number for batch in got for number in batch["sequence"].to_pylist()] == [1, 2, 3, 4, 5, 6]


async def test_a_batch_that_arrives_during_the_cancellation_is_not_lost() -> None:
    ours = bulk.ScanReader(ConnectOptions(), lambda connection: bulk.scan(connection, "S"))
    batches = ScanReader(ours)
    numbers = [pa.record_batch({"sequence": [number]}) for number in range(3)]
    gate = threading.Event()
    ours._batches = (batch for batch in numbers if gate.wait(10))
    waiting = asyncio.ensure_future(anext(batches))
    await eventually(lambda: batches._next_batch is not None)
    assert batches._next_batch is not None
    batches._next_batch.add_done_callback(lambda _: waiting.cancel())
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [batch async for batch in batches] == numbers


@pytest.mark.parametrize("front", ["aio"], indirect=True)
async def test_close_ends_a_running_read(ground: Ground) -> None:
    stream = await ground.stream()
    consumer = await stream.create_consumer(durable_name="c", ack_policy="explicit")
    batches = consumer.fetch_arrow(6, timeout=60)
    waiting = asyncio.ensure_future(anext(batches))
    async with asyncio.timeout(10):
        while not (await consumer.info()).num_waiting:
            pass
        await batches.close()
        await batches.close()
    with pytest.raises(ConnectionError, match="closed"):
        await waiting
    with pytest.raises(ConnectionClosedError):
        await anext(batches)


@pytest.mark.blocking
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_closes_at_the_same_time_end_a_read(ground: Ground) -> None:
    stream = await filled(ground, 5)
    consumer = await stream.create_consumer(durable_name="c", ack_policy="explicit")
    batches = consumer.fetch_arrow(20, timeout=60, columns=["data"])
    reading = asyncio.ensure_future(batches.read_all())
    async with asyncio.timeout(10):
        while (await consumer.info()).delivered.consumer_sequence < 5:
            pass
        await asyncio.gather(*(batches.close() for _ in range(4)))
        with pytest.raises(ConnectionClosedError, match="the record batches were closed"):
            await reading
    messages = await consumer.fetch(5, timeout=10)
    assert [each.payload for each in messages] == [b"%d" % number for number in range(5)]
