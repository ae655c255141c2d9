"""Many operations of every kind leave nothing: on the server, in the process, in the client's tables."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.key_value.buckets import make_bucket
from tests.api.publishing.support import until
from tests.fronts import Ground

from jetspark.aio.jetstream import Consumer, Counter, KeyValue, Stream
from jetspark.errors import Error

Operation = Callable[[int], Awaitable[object]]
MOST_GROWTH = 1 << 20
"""Bytes of Python objects; most of it belongs to caches of limited size."""


class Operations:
    """Operations that succeed, fail, run out of time, or are cancelled; each ends what it begins."""

    def __init__(self, ground: Ground, stream: Stream, consumer: Consumer, bucket: KeyValue, counter: Counter) -> None:
        self.nc, self.js = ground.nc, ground.js
        self.stream, self.consumer, self.bucket, self.counter = stream, consumer, bucket, counter
        self.subject = f"{stream.name}.a"

    @property
    def all(self) -> dict[str, Operation]:
        return {name: member for name in dir(type(self)) if inspect_operation(name) and (member := getattr(self, name))}

    async def do_publish(self, number: int) -> None:
        await self.js.publish(self.subject, b"%d" % number)
        await (await self.js.publish_async(self.subject, b"%d" % number))

    async def do_publish_to_nobody(self, number: int) -> None:
        await self.js.publish(f"nobody.{number}", retry_attempts=0)

    async def do_request_to_nobody(self, number: int) -> None:
        await self.nc.request(f"nobody.{number}", b"", timeout=1)

    async def do_subscribe(self, number: int) -> None:
        subscription = await self.nc.subscribe(f"other.{number}")
        with suppress(Error):
            await subscription.next_msg(timeout=0.001)
        await subscription.unsubscribe()

    async def do_fetch(self, number: int) -> None:
        for message in await self.consumer.fetch(2, timeout=0.1):
            await message.ack()

    async def do_fetch_without_messages(self, number: int) -> None:
        await self.consumer.fetch(1000, timeout=0.01)

    async def do_next_that_is_cancelled(self, number: int) -> None:
        waiting = asyncio.ensure_future(self.consumer.next(timeout=0.05))  # a blocking call goes on
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await (await waiting).nak()

    async def do_consume(self, number: int) -> None:
        context = self.consumer.consume(max_messages=5)
        await context.stop()

    async def do_ordered_consume(self, number: int) -> None:
        async with self.js.ordered_consumer(self.stream.name).consume(until_caught_up=True) as messages:
            async for _ in messages:
                break

    async def do_push_subscribe(self, number: int) -> None:
        subscription = await self.js.subscribe(self.subject)
        await subscription.unsubscribe()

    async def do_pull_subscribe(self, number: int) -> None:
        subscription = await self.js.pull_subscribe(self.subject, stream=self.stream.name)
        with suppress(Error):
            await subscription.fetch(1, timeout=0.01)
        await subscription.unsubscribe()

    async def do_get(self, number: int) -> None:
        await self.stream.get_last_msg(self.subject)
        await self.stream.get_batch(10).all()
        await self.stream.get_msg(1 << 40)

    async def do_manage(self, number: int) -> None:
        await self.stream.create_consumer(durable_name=f"other{number}")
        await self.stream.delete_consumer(f"other{number}")
        await self.stream.delete_consumer("missing")

    async def do_batch(self, number: int) -> None:
        batch = self.js.atomic_batch()
        await batch.add(self.subject, b"")
        await batch.discard()

    async def do_keys(self, number: int) -> None:
        await self.bucket.put(f"k{number % 5}", b"%d" % number)
        await self.bucket.put_many({f"k{number % 5}": b"", "x": None})
        await self.bucket.keys().all()
        async with await self.bucket.watch() as watch:
            await watch.next(1)
        await self.bucket.create("x", b"")
        await self.bucket.update("x", b"", 1)

    async def do_entries(self, number: int) -> None:
        await self.bucket.delete("x")
        await self.bucket.entries()
        await self.bucket.get_many(f"k{number % 5}", "missing")
        await self.bucket.history(f"k{number % 5}")
        await self.bucket.get("missing")

    async def do_watch_that_is_left(self, number: int) -> None:
        async with await self.bucket.watch() as watch:
            await self.bucket.put("watched", b"%d" % number)
            await watch.next(0.001)

    async def do_count(self, number: int) -> None:
        subject = f"{self.counter.stream_name}.{number % 5}"
        await self.counter.add(subject, number)
        await self.counter.get(subject)
        await self.counter.get_many(f"{self.counter.stream_name}.*")
        await self.counter.get(f"{self.counter.stream_name}.missing")

    async def do_schedule(self, number: int) -> None:
        jobs = await self.js.schedules(self.stream.name)
        later = datetime.now(UTC) + timedelta(hours=1)
        await jobs.schedule(f"{self.stream.name}.plan", b"", target=f"{self.stream.name}.b", at=later)
        await jobs.list()
        await jobs.cancel(f"{self.stream.name}.plan")
        await jobs.get(f"{self.stream.name}.plan")

    async def do_scan(self, number: int) -> None:
        async with self.stream.scan(max_batch_rows=1) as batches:
            async for _ in batches:
                break

    async def do_fetch_arrow_that_ends_early(self, number: int) -> None:
        await self.js.publish(self.subject, b"")
        async with self.consumer.fetch_arrow(1000, timeout=5) as batches:
            await anext(batches, None)


def inspect_operation(name: str) -> bool:
    return name.startswith("do_")


async def state(ground: Ground, streams: list[str]) -> dict[str, Any]:
    """Return what an operation could leave."""
    client = ground.nc._core.client
    sessions: Any = await asyncio.to_thread(ground.server.monitor, "/connz")
    return {
        "subscriptions": await ground.listening(),
        "consumers": [sorted(await ground.admin_js.consumer_names(name).all()) for name in streams],
        "tasks": sum(task is not asyncio.current_task() for task in asyncio.all_tasks()),
        "threads": sorted(thread.name for thread in threading.enumerate() if "jetspark" in thread.name),
        "connections": sessions["num_connections"],
        "waiting requests": len(client.reply_mux),
        "known subscriptions": len(client.subscriptions.by_sid),
        "listeners": len(client.reply_listeners) + len(client.session_listeners),
    }


@pytest.mark.parametrize("count", [3, pytest.param(220, marks=[pytest.mark.matrix, pytest.mark.slow])])
@pytest.mark.parametrize("front", ["aio", "sync"], indirect=True)
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_many_operations_leave_nothing(ground: Ground, count: int) -> None:
    """The long form does 10,000 operations."""
    stream = await ground.stream(allow_direct=True, allow_atomic=True, allow_msg_schedules=True, max_msgs=1000)
    counted = await ground.stream(allow_direct=True, allow_msg_counter=True)
    consumer = await stream.create_consumer(durable_name="worker", max_ack_pending=-1)
    bucket, counter = await make_bucket(ground, history=5), await ground.js.counter(counted.name)
    operations = Operations(ground, stream, consumer, bucket, counter)

    async def run(times: int) -> None:
        for number in range(times):
            for operation in operations.all.values():
                with suppress(Error):
                    await operation(number)

    streams = [stream.name, counted.name, f"KV_{bucket.bucket}"]
    await run(2)  # what is made once, such as the shared inbox and caches
    before = await state(ground, streams)
    gc.collect()
    tracemalloc.start()
    try:
        held = []
        for _ in range(2):  # caches fill in the first half
            await run(count)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    async def nothing_left() -> bool:
        gc.collect()
        return await state(ground, streams) == before

    try:
        await until(nothing_left, 10)
    except TimeoutError:
        assert await state(ground, streams) == before
    assert held[1] - held[0] < MOST_GROWTH
