"""Calls that are cancelled or time out lose nothing: what had arrived is handed out by the next call (R24, R25)."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.api.consuming.support import (
    LONG,
    arrived,
    consumer_of,
    numbered,
    payloads,
    pull_bodies,
    spy_on_pulls,
    take,
    unseen,
    waiting,
)
from tests.fronts import FrontName, Ground, Profile, open_ground

from jetspark.aio import Msg
from jetspark.aio.jetstream import Consumer
from jetspark.aio.jetstream._drivers.pull import message_size
from jetspark.errors import ConfigError
from jetspark.server import NatsServer

pytestmark = pytest.mark.parametrize("front", ["aio"], indirect=True)  # blocking calls are not cancelled


async def leave(ground: Ground, consumer: Consumer, count: int) -> None:
    """A fetch that is cancelled behind the messages that are there."""
    fetching = asyncio.create_task(consumer.fetch(10, expires=20))
    await arrived(ground, consumer, count)
    await cancelled(fetching)


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.conformance("FET-07")
async def test_r24_what_a_cancelled_fetch_had_is_in_the_next_one(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=5)
    before = await ground.listening()
    fetching = asyncio.create_task(consumer.fetch(10, expires=LONG))
    await arrived(ground, consumer, 5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await fetching
    assert await ground.listening() == before
    assert payloads(await consumer.fetch(3, expires=5)) == numbered(0, 3)
    await waiting(ground, consumer, 0)
    await ground.fill(f"{consumer.stream_name}.a", b"5")
    batch = await consumer.fetch(3, expires=5)
    assert payloads(batch) == numbered(3, 6)
    assert {message.metadata.num_delivered for message in batch} == {1}
    assert (await consumer.info()).num_ack_pending == 6


@pytest.mark.parametrize("call", ["next", "fetch_no_wait", "consume", "fetch_bytes"])
async def test_r24_every_call_takes_what_was_left(ground: Ground, call: str) -> None:
    consumer = await consumer_of(ground, messages=4)
    await leave(ground, consumer, 4)
    if call == "next":
        got = [(await consumer.next(5)).payload for _ in range(4)]
    elif call == "consume":
        async with consumer.consume(max_messages=2) as messages:
            got = payloads(await take(messages, 4))
    elif call == "fetch_bytes":
        got = payloads(await consumer.fetch_bytes(10_000, expires=1))
    else:
        got = payloads(await consumer.fetch_no_wait(10))
    assert got == numbered(0, 4)


async def test_r24_messages_under_way_to_a_cancelled_call_are_not_lost(ground: Ground) -> None:
    """Cancelled at any moment of its life, a call loses none of 200 messages, and nothing comes out of its place.

    What the server is about to send when the subscription goes finds nobody. The server sees that and delivers it once
    more, maybe behind others; then a number is missing among the deliveries.
    """
    consumer = await consumer_of(ground, messages=200)
    seen: list[Msg] = []
    for turns in range(40):
        call = asyncio.create_task(consumer.fetch(5, expires=5))
        for _ in range(turns % 13):
            await asyncio.sleep(0)
        if call.done():
            seen += call.result()
        else:
            call.cancel()
            try:
                seen += await call
            except asyncio.CancelledError:
                continue
    while len(seen) < 200:
        seen += await consumer.fetch(200 - len(seen), expires=5)
    deliveries = [message.metadata.consumer_sequence for message in seen]
    assert deliveries == sorted(set(deliveries))
    assert sorted(payloads(seen), key=int) == numbered(0, 200)
    if deliveries == list(range(1, 201)):
        assert payloads(seen) == numbered(0, 200)


@pytest.mark.parametrize("left", [1, 4])
async def test_r24_a_call_that_is_refused_takes_nothing_of_what_was_left(ground: Ground, left: int) -> None:
    consumer = await consumer_of(ground, messages=left)
    await leave(ground, consumer, left)
    with pytest.raises(ConfigError, match="heartbeat"):
        await consumer.fetch(2, expires=1, idle_heartbeat=1)
    with pytest.raises(ConfigError, match="priority"):
        consumer.consume(priority=99)
    assert payloads(await consumer.fetch(left, expires=5)) == numbered(0, left)


async def test_r24_what_was_left_keeps_to_the_bytes_of_the_next_fetch(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=5, size=500)
    await leave(ground, consumer, 5)
    assert [len(message) for message in await consumer.fetch_bytes(1300, expires=5)] == [500, 500]
    assert await consumer.fetch_bytes(400, expires=5) == []  # as where the server has a larger one
    spy = await spy_on_pulls(ground)
    batch = await consumer.fetch(4, max_bytes=10_000, expires=1)
    assert [len(message) for message in batch] == [500] * 3
    await spy.settled()
    [body] = pull_bodies(spy)
    assert (body["batch"], body["max_bytes"]) == (1, 10_000 - sum(map(message_size, batch)))


@pytest.mark.parametrize("limit", [{"max_messages": 2}, {"max_bytes": 2000}])
async def test_r24_a_consume_takes_what_is_under_way_to_a_call_that_was_just_cancelled(
    ground: Ground, limit: dict[str, int]
) -> None:
    consumer = await consumer_of(ground)
    fetching = asyncio.create_task(consumer.fetch(10, expires=20))
    await waiting(ground, consumer, 1)
    unseen(ground, consumer.stream_name, *numbered(0, 3))
    fetching.cancel()
    await asyncio.sleep(0)
    async with consumer.consume(**limit) as messages:  # type: ignore[arg-type]
        assert payloads(await take(messages, 3)) == numbered(0, 3)
        await ground.fill(f"{consumer.stream_name}.a", *numbered(3, 20))
        assert payloads(await take(messages, 17)) == numbered(3, 20)


async def test_r24_what_comes_late_is_kept_where_the_consume_behind_it_was_stopped(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    fetching = asyncio.create_task(consumer.fetch(10, expires=20))
    await waiting(ground, consumer, 1)
    unseen(ground, consumer.stream_name, *numbered(0, 3))
    fetching.cancel()
    await asyncio.sleep(0)
    await consumer.consume().stop()
    assert payloads(await consumer.fetch(3, expires=5)) == numbered(0, 3)


@pytest.mark.conformance("FET-04")
@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock is the same on all of them
async def test_the_time_of_a_fetch_counts_what_it_waits_for_a_cancelled_one(front: FrontName, profile: Profile) -> None:
    with NatsServer() as server:
        async with open_ground(front, profile, server) as ground:
            consumer = await consumer_of(ground, messages=3)
            fetching = asyncio.create_task(consumer.fetch(10, expires=20))
            await arrived(ground, consumer, 3)
            server.pause()
            try:
                await cancelled(fetching)
                begin = time.monotonic()
                batch = await consumer.fetch(10, expires=2)
                assert 2.9 < time.monotonic() - begin < 10.0  # not the time of both
            finally:
                server.resume()
            assert payloads(batch) == numbered(0, 3)


async def test_r25_cancellation_is_never_turned_into_something_else(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    for call in (
        lambda: consumer.fetch(1, expires=LONG),
        lambda: consumer.next(LONG),
        lambda: consumer.fetch_bytes(100, expires=LONG),
        lambda: anext(consumer.consume(expires=LONG)),
    ):
        task = asyncio.ensure_future(call())
        await waiting(ground, consumer, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await waiting(ground, consumer, 0)


async def test_a_cancelled_iteration_loses_nothing_and_can_go_on(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    async with consumer.consume() as messages:
        for number in range(20):
            waiter = asyncio.create_task(take(messages, 1))
            await asyncio.sleep(0)
            filling = asyncio.create_task(ground.fill(f"{consumer.stream_name}.a", b"%d" % number))
            for _ in range(number):
                await asyncio.sleep(0)
            waiter.cancel()
            done, _ = await asyncio.wait([waiter])
            if not done.pop().cancelled():
                assert payloads(waiter.result()) == [b"%d" % number]
            else:
                assert payloads(await take(messages, 1)) == [b"%d" % number]
            await filling


async def test_several_readers_share_one_consume(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=60)
    async with consumer.consume(max_messages=10) as messages:
        parts = await asyncio.gather(*(take(messages, 20) for _ in range(3)))
    assert sorted(int(message.payload) for part in parts for message in part) == list(range(60))


async def test_a_cancelled_call_that_never_began_leaves_nothing(ground: Ground) -> None:
    consumer: Consumer = await consumer_of(ground, messages=1)
    task = asyncio.create_task(consumer.fetch(1))
    await cancelled(task)
    assert (await consumer.info()).num_waiting == 0
    assert payloads(await consumer.fetch(1)) == [b"0"]


async def test_a_closed_connection_ends_what_a_cancelled_call_waits_for(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    fetching = asyncio.create_task(consumer.fetch(10, expires=5))
    await waiting(ground, consumer, 1)
    fetching.cancel()
    await asyncio.wait([fetching])
    await ground.nc.close()
    with pytest.raises(ConnectionError):
        await consumer.fetch(1)
