"""Many messages: nothing is dropped, lost or stuck, and the counters return to zero."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest
from tests.api.consuming.support import consumer_of
from tests.fronts import Ground, eventually

from jetspark.aio import Msg
from jetspark.aio.jetstream import AsyncPublishOptions, Consumer, Stream
from jetspark.sync import jetstream as sync

SOAK = int(os.environ.get("JETSPARK_SOAK", "10000"))
"""Number of messages of the soak test; `make soak` uses a million."""


async def filled(ground: Ground, count: int) -> Stream:
    """Return a stream with `count` messages."""
    stream = await ground.stream()
    js = ground.admin.jetstream(domain=ground.profile.domain, publishing=AsyncPublishOptions(stall_wait=60))
    acks = [await js.publish_async(f"{stream.name}.a", b"%d" % number) for number in range(count)]
    await js.publish_async_completed(60)
    assert acks[-1].result().sequence == count
    return stream


async def nothing_left(ground: Ground, consumer: Consumer, count: int) -> None:
    """Wait until every message is acknowledged. Then no message and no pull may be left."""
    deadline = asyncio.get_running_loop().time() + 30
    info = await ground.admin_js.consumer_info(consumer.stream_name, consumer.name)
    while info.num_ack_pending or info.num_waiting:
        assert asyncio.get_running_loop().time() < deadline, info
        await asyncio.sleep(0.02)
        info = await ground.admin_js.consumer_info(consumer.stream_name, consumer.name)
    assert (info.num_pending, info.num_redelivered, info.ack_floor.stream_sequence) == (0, 0, count)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_a_slow_and_a_fast_reader_lose_nothing(ground: Ground) -> None:
    """Acknowledge each message, and check that none is lost or stuck and that pending returns to zero."""
    stream = await filled(ground, SOAK)
    consumer = await stream.create_consumer(durable_name="d", max_ack_pending=5000)
    async with asyncio.timeout(60 + SOAK / 1000):
        if ground.front == "aio":
            await read(consumer)
        else:
            await asyncio.to_thread(read_blocking, consumer)
    await nothing_left(ground, consumer, SOAK)


async def read(consumer: Consumer) -> None:
    seen = 0
    async with consumer.consume(max_messages=1000) as messages:
        async for message in messages:
            assert message.payload == b"%d" % seen
            seen += 1
            if seen < SOAK // 10 and seen % 100 == 0:
                await asyncio.sleep(0.01)  # slow at the start
            await message.ack()
            if seen == SOAK:
                break


def read_blocking(carried: Any) -> None:
    """Do the same as `read`, directly on the blocking front."""
    consumer: sync.Consumer = carried.inner
    seen = 0
    with consumer.consume(max_messages=1000) as messages:
        for message in messages:
            assert message.payload == b"%d" % seen
            seen += 1
            if seen < SOAK // 10 and seen % 100 == 0:
                time.sleep(0.01)  # slow at the start
            message.ack()
            if seen == SOAK:
                break


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_r44_a_drain_delivers_all_received_messages(ground: Ground) -> None:
    count = 5_000
    stream = await filled(ground, count)
    consumer = await stream.create_consumer(durable_name="d", max_ack_pending=-1)
    seen: list[bytes] = []
    gate = asyncio.Event()

    async def handle(message: Msg) -> None:
        await gate.wait()
        seen.append(message.payload)
        await message.ack()

    context = consumer.consume(handle, max_messages=count)
    await eventually(lambda: context.pending[0] > count // 2)
    arrived = context.pending[0]
    await context.drain()
    gate.set()
    await context.wait_closed()
    assert seen == [b"%d" % number for number in range(len(seen))]
    assert len(seen) >= arrived
    deadline = asyncio.get_running_loop().time() + 10
    info = await consumer.info()
    while len(seen) + info.num_ack_pending != info.delivered.stream_sequence:  # the others never left the server
        assert asyncio.get_running_loop().time() < deadline, info
        await asyncio.sleep(0.01)
        info = await consumer.info()


@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_r43_pulled_messages_are_never_dropped(ground: Ground) -> None:
    """The limits of subscriptions and the speed of the reader do not matter (R43)."""
    consumer = await consumer_of(ground, messages=300)
    connection = await ground.connect(pending_msgs_limit=10, pending_bytes_limit=100)
    handle = await connection.jetstream().consumer(consumer.stream_name, consumer.name)
    async with handle.consume(max_messages=300) as messages:
        await eventually(lambda: messages.pending[0] == 300)
        seen = [(await anext(messages)).payload for _ in range(300)]
    assert seen == [b"%d" % number for number in range(300)]
