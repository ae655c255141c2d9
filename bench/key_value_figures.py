"""Key-value buckets against what is below them: publish, direct get, `bulk.publish`, `last_per_subject`, consume.

Latencies are medians in microseconds, one call after the other, so there a ratio below 1 is better. Many keys are in a
bucket of their own: each message has another subject, which costs the server more than one subject for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import statistics
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.memory import in_subprocess
from bench.rawstream import payload
from bench.registry import figure
from bench.run import PAYLOAD
from jetspark import aio, bulk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from bench.run import Run
    from jetspark.aio.jetstream import JetStream, KeyValue

ONE_BY_ONE = 10_000
"""Calls of which the latency is the median."""

WRITTEN = 200_000
"""Keys of the writes."""

KEYS = 1_000_000
"""Keys of the reads."""

SMALL = 100_000
"""Keys of the smaller read whose memory is compared."""

BATCH_ROWS = 10_000
"""Rows of the record batches."""

MIB = 1 << 20

_numbers = itertools.count(1)


# -- one by one ------------------------------------------------------------------------------------------------------


def latency(run: Run, call: Callable[[JetStream, KeyValue, bytes], Awaitable[object]]) -> float:
    """Microseconds of a call on a bucket that has one key."""
    return asyncio.run(_latency(run, call)) * 1e6


async def _latency(run: Run, call: Callable[[JetStream, KeyValue, bytes], Awaitable[object]]) -> float:
    content, took = payload(1, PAYLOAD), []
    async with await aio.connect(run.url) as connection:
        js = connection.jetstream()
        async with _new_bucket(js) as bucket:
            await bucket.put("key", content)
            for _ in range(run.count(ONE_BY_ONE)):
                begin = time.perf_counter()
                await call(js, bucket, content)
                took.append(time.perf_counter() - begin)
    return statistics.median(took)


@contextlib.asynccontextmanager
async def _new_bucket(js: JetStream) -> Any:
    bucket = await js.create_key_value(bucket=f"BENCH{next(_numbers)}")
    try:
        yield bucket
    finally:
        await js.delete_key_value(bucket.bucket)


def _subject(bucket: KeyValue) -> str:
    return f"$KV.{bucket.bucket}.key"


@figure("bucket_publish", group="key_value", unit="us")
def bucket_publish(run: Run) -> float:
    """A publish to the subject of a key, and its acknowledgement."""
    return latency(run, lambda js, bucket, content: js.publish(_subject(bucket), content))


@figure("kv_put", group="key_value", unit="us", reference="bucket_publish")
def kv_put(run: Run) -> float:
    """`KeyValue.put`."""
    return latency(run, lambda _, bucket, content: bucket.put("key", content))


@figure("bucket_direct_get", group="key_value", unit="us")
def bucket_direct_get(run: Run) -> float:
    """A direct get of the last message of a key."""
    from jetspark.jetstream.direct_get import DirectLastRequest

    def get(js: JetStream, bucket: KeyValue, _: bytes) -> Awaitable[object]:
        return js.direct_get(DirectLastRequest(f"KV_{bucket.bucket}", _subject(bucket)))

    return latency(run, get)


@figure("kv_get", group="key_value", unit="us", reference="bucket_direct_get")
def kv_get(run: Run) -> float:
    """`KeyValue.get`."""
    return latency(run, lambda _, bucket, __: bucket.get("key"))


# -- writes of many keys ---------------------------------------------------------------------------------------------


def rate_of_write(run: Run, write: Callable[[JetStream, KeyValue, int], Awaitable[float]]) -> float:
    """Keys a second of a write into a new bucket, which must have all of them afterwards."""
    return asyncio.run(_rate_of_write(run, write))


async def _rate_of_write(run: Run, write: Callable[[JetStream, KeyValue, int], Awaitable[float]]) -> float:
    count = run.count(WRITTEN)
    async with await aio.connect(run.url) as connection:
        js = connection.jetstream()
        async with _new_bucket(js) as bucket:
            seconds = await write(js, bucket, count)
            if (found := (await bucket.status()).values) != count:
                raise RuntimeError(f"{found} keys of {count} are stored")
    return count / seconds


def _columns(count: int, key: str, value: str, prefix: str = "") -> pa.Table:
    """Many keys with values, in record batches as Spark hands them over."""
    batches = []
    for first in range(0, count, BATCH_ROWS):
        numbers = range(first, min(first + BATCH_ROWS, count))
        names = pa.array([f"{prefix}k{number}" for number in numbers], pa.string())
        values = pa.array([payload(number, PAYLOAD) for number in numbers], pa.binary())
        batches.append(pa.record_batch({key: names, value: values}))
    return pa.Table.from_batches(batches)


@figure("bucket_bulk_publish", group="key_value")
def bucket_bulk_publish(run: Run) -> float:
    """`bulk.publish` of many keys."""

    async def write(_: JetStream, bucket: KeyValue, count: int) -> float:
        rows = _columns(count, "subject", "data", f"$KV.{bucket.bucket}.")
        begin = time.perf_counter()
        with bulk.connect(run.url) as connection:
            bulk.publish(connection, rows)
        return time.perf_counter() - begin

    return rate_of_write(run, write)


@figure("kv_put_many", group="key_value", reference="bucket_bulk_publish")
def kv_put_many(run: Run) -> float:
    """`KeyValue.put_many` of a table."""

    async def write(_: JetStream, bucket: KeyValue, count: int) -> float:
        rows = _columns(count, "key", "value")
        begin = time.perf_counter()
        await bucket.put_many(rows)
        return time.perf_counter() - begin

    return rate_of_write(run, write)


@figure("bucket_publish_async", group="key_value")
def bucket_publish_async(run: Run) -> float:
    """`publish_async` of many keys, every acknowledgement read."""

    async def write(js: JetStream, bucket: KeyValue, count: int) -> float:
        messages = {f"$KV.{bucket.bucket}.k{number}": payload(number, PAYLOAD) for number in range(count)}
        begin = time.perf_counter()
        acks = [(subject, await js.publish_async(subject, content)) for subject, content in messages.items()]
        await js.publish_async_completed()
        _ = {subject: ack.result().sequence for subject, ack in acks}
        return time.perf_counter() - begin

    return rate_of_write(run, write)


@figure("kv_put_many_mapping", group="key_value", reference="bucket_publish_async")
def kv_put_many_mapping(run: Run) -> float:
    """`KeyValue.put_many` of a mapping."""

    async def write(_: JetStream, bucket: KeyValue, count: int) -> float:
        values = {f"k{number}": payload(number, PAYLOAD) for number in range(count)}
        begin = time.perf_counter()
        await bucket.put_many(values)
        return time.perf_counter() - begin

    return rate_of_write(run, write)


# -- reads of many keys ----------------------------------------------------------------------------------------------


@functools.cache
def _bucket_of(count: int) -> Callable[[Run], Any]:
    """Return what makes a bucket with so many keys, once in a run."""

    @contextlib.contextmanager
    def make(run: Run) -> Iterator[str]:
        name = f"KEYS{count}"
        asyncio.run(_create(run.url, name))
        with bulk.connect(run.url) as connection:
            bulk.publish(connection, _columns(count, "subject", "data", f"$KV.{name}."))
        yield name

    return make


async def _create(url: str, name: str) -> None:
    async with await aio.connect(url) as connection:
        await connection.jetstream().create_key_value(bucket=name)


def read_in_process(run: Run, read: Callable[[str, str], tuple[int, float]], keys: int = KEYS) -> tuple[float, float]:
    """Read a bucket in a process of its own; return keys a second, and the peak of its memory in MiB."""
    count = run.count(keys)
    measured = in_subprocess(read, run.url, run.shared(_bucket_of(count)))
    found, seconds = measured.result
    if found != count:
        raise RuntimeError(f"{found} keys of {count} were read")
    return count / seconds, measured.peak / MIB


def _last_per_subject(url: str, bucket: str) -> tuple[int, float]:
    begin = time.perf_counter()
    with bulk.connect(url) as connection:
        table = bulk.last_per_subject(connection, f"KV_{bucket}").table
    return len(table), time.perf_counter() - begin


def _to_arrow(url: str, bucket: str) -> tuple[int, float]:
    async def read(_: JetStream, keys: KeyValue) -> int:
        return len((await keys.to_arrow()).table)

    return _seconds_of(url, bucket, read)


def _entries(url: str, bucket: str) -> tuple[int, float]:
    async def read(_: JetStream, keys: KeyValue) -> int:
        return len(await keys.entries())

    return _seconds_of(url, bucket, read)


def _watch(url: str, bucket: str) -> tuple[int, float]:
    async def read(_: JetStream, keys: KeyValue) -> int:
        count = size = 0
        async with await keys.watch() as watch:
            async for entry in watch:
                if entry is None:
                    break
                count += 1
                size += len(entry.value or b"")
        return count if size == count * PAYLOAD else 0

    return _seconds_of(url, bucket, read)


def _ordered_consume(url: str, bucket: str) -> tuple[int, float]:
    async def read(js: JetStream, keys: KeyValue) -> int:
        count = size = 0
        left = (await keys.status()).values
        consumer = js.ordered_consumer(f"KV_{bucket}")
        async with consumer.consume() as messages:
            async for message in messages:
                count += 1
                size += len(message.payload)
                if count == left:
                    break
        return count if size == count * PAYLOAD else 0

    return _seconds_of(url, bucket, read)


def _seconds_of(url: str, bucket: str, read: Callable[[JetStream, KeyValue], Awaitable[int]]) -> tuple[int, float]:
    async def measure() -> tuple[int, float]:
        async with await aio.connect(url) as connection:
            js = connection.jetstream()
            keys = await js.key_value(bucket)
            begin = time.perf_counter()
            count = await read(js, keys)
            return count, time.perf_counter() - begin

    return asyncio.run(measure())


def _rate(run: Run, read: Callable[[str, str], tuple[int, float]]) -> float:
    return read_in_process(run, read)[0]


for _name, _read, _reference in (
    ("bucket_last_per_subject", _last_per_subject, None),
    ("kv_to_arrow", _to_arrow, "bucket_last_per_subject"),
    ("kv_entries", _entries, "bucket_last_per_subject"),
    ("bucket_ordered_consume", _ordered_consume, None),
    ("kv_watch_initial", _watch, "bucket_ordered_consume"),
):
    figure(_name, group="key_value", reference=_reference)(functools.partial(_rate, read=_read))


@figure("kv_watch_memory_small", group="key_value", unit="MiB")
def kv_watch_memory_small(run: Run) -> float:
    """Peak of a process that reads the initial data of a watch of 100,000 keys."""
    return read_in_process(run, _watch, SMALL)[1]


@figure("kv_watch_memory", group="key_value", unit="MiB", reference="kv_watch_memory_small")
def kv_watch_memory(run: Run) -> float:
    """The same for 1,000,000 keys."""
    return read_in_process(run, _watch)[1]
