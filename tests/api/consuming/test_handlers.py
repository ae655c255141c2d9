"""Handlers side by side on a real server, on both fronts."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.consuming.support import consumer_of, numbered
from tests.fronts import Ground, eventually

from jetspark.aio import Msg


@pytest.mark.blocking
async def test_handlers_work_side_by_side_until_the_consume_is_drained(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    running: list[bytes] = []
    enough = asyncio.Event()
    done: list[bytes] = []

    async def handle(message: Msg) -> None:
        running.append(message.payload)
        if len(running) == 4:
            enough.set()
        await asyncio.wait_for(enough.wait(), 20)  # no message is done before four are handled at the same time
        await message.ack()
        done.append(message.payload)

    context = consumer.consume(handle, concurrency=4)
    await ground.fill(f"{consumer.stream_name}.a", *numbered(0, 20))
    await eventually(lambda: len(done) == 20)
    await context.drain()
    await context.wait_closed(20)
    assert sorted(done) == sorted(numbered(0, 20))
    assert (await consumer.info()).num_ack_pending == 0
