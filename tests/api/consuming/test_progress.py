"""Messages that wait in the buffer, or are worked on, for longer than the consumer's `ack_wait` (R26)."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from tests.api.consuming.support import consumer_of, numbered, payloads, take
from tests.fronts import Ground, eventually

import jetspark
from jetspark.aio import Msg

ACK_WAIT = timedelta(seconds=1)


@pytest.mark.parametrize("auto_in_progress", [True, False])
async def test_r26_a_full_buffer_behind_a_slow_handler_is_delivered_once_if_asked_for(
    ground: Ground, auto_in_progress: bool
) -> None:
    consumer = await consumer_of(ground, messages=5, ack_wait=ACK_WAIT)
    deliveries: list[int] = []

    async def slow(message: Msg) -> None:
        deliveries.append(message.metadata.num_delivered)
        await asyncio.sleep(0.5)
        await message.ack_sync()

    context = consumer.consume(slow, max_messages=500, auto_in_progress=auto_in_progress)
    if auto_in_progress:
        await eventually(lambda: len(deliveries) == 5)
        await context.drain()
        await context.wait_closed(10)
        assert deliveries == [1] * 5
        assert (await consumer.info()).num_ack_pending == 0
    else:
        await eventually(lambda: 2 in deliveries)  # what waited was delivered again: the buffer counts as delivered
        await context.stop()


async def test_r26_a_handler_that_takes_longer_than_the_ack_wait_keeps_its_message(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, ack_wait=ACK_WAIT)
    deliveries: list[int] = []
    done = asyncio.Event()

    async def slow(message: Msg) -> None:
        deliveries.append(message.metadata.num_delivered)
        await asyncio.sleep(2.5)
        await message.ack()
        done.set()

    context = consumer.consume(slow, auto_in_progress=True)
    await asyncio.wait_for(done.wait(), 10)
    await context.stop()
    assert deliveries == [1]


async def test_r26_a_message_that_its_handler_has_left_without_an_acknowledgement_is_delivered_again(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=ACK_WAIT)
    deliveries: list[tuple[bytes, int]] = []

    async def leaving(message: Msg) -> None:
        deliveries.append((message.payload, message.metadata.num_delivered))
        if len(deliveries) == 1:
            await asyncio.sleep(2.5)
        else:
            await message.ack()

    context = consumer.consume(leaving, auto_in_progress=True)
    await eventually(lambda: len(deliveries) == 3)
    await context.stop()
    assert deliveries == [(b"0", 1), (b"1", 1), (b"0", 2)]


@pytest.mark.parametrize("front", ["aio"], indirect=True)  # who takes one message is who takes the next
async def test_r26_the_body_of_a_loop_keeps_its_message_until_it_asks_for_the_next(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=ACK_WAIT)
    async with consumer.consume(auto_in_progress=True) as messages:
        [first] = await take(messages, 1)
        await asyncio.sleep(2.5)
        [second] = await take(messages, 1)
        await second.ack()
        [again] = await take(messages, 1)
    assert payloads([first, second, again]) == [b"0", b"1", b"0"]
    assert again.metadata.num_delivered == 2


@pytest.mark.parametrize("front", ["sync"], indirect=True)
async def test_r26_so_does_the_body_of_a_blocking_loop(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=ACK_WAIT)

    def read() -> list[tuple[bytes, int]]:
        with jetspark.sync.connect(ground.server.url, **ground.profile.options) as connection:
            js = connection.jetstream(domain=ground.profile.domain)
            with js.consumer(consumer.stream_name, consumer.name).consume(auto_in_progress=True) as messages:
                first = next(messages)
                time.sleep(2.5)
                second = next(messages)
                second.ack()
                again = next(messages)
                return [(each.payload, each.metadata.num_delivered) for each in (first, second, again)]

    assert await asyncio.to_thread(read) == [(b"0", 1), (b"1", 1), (b"0", 2)]


async def test_r26_reports_end_with_the_consume(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, ack_wait=ACK_WAIT)
    spy = await ground.spy("$JS.ACK.>")
    async with consumer.consume(auto_in_progress=True) as messages:
        await take(messages, 1)
        await spy.wait(3)
    assert {message.payload for message in await spy.settled()} == {b"+WPI"}
    count = len(spy.messages)
    await asyncio.sleep(1)
    assert len(await spy.settled()) == count
    assert sorted(payloads(await consumer.fetch(3, expires=5))) == numbered(0, 3)  # delivered again, as each is due
