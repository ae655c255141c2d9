"""Calls that are cancelled or time out lose nothing: the next call returns the messages that arrived (R24, R25)."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.api.consuming.support import (
    LONG,
    consumer_of,
    numbered,
    payloads,
    publish_while_blocked,
    pull_bodies,
    spy_on_pulls,
    take,
    wait_for_deliveries,
    wait_for_open_pulls,
)
from tests.fronts import FrontName, Ground, Profile, open_ground

from jetspark.aio import Msg
from jetspark.aio.jetstream import Consumer
from jetspark.errors import ConfigError
from jetspark.jetstream.message import message_size
from jetspark.server import NatsServer

pytestmark = pytest.mark.parametrize("front", ["aio"], indirect=True)  # blocking calls are not cancelled


async def cancel_fetch(ground: Ground, consumer: Consumer, count: int) -> None:
    """Start a fetch, and cancel it after the available messages have arrived."""
    fetching = asyncio.create_task(consumer.fetch(10, timeout=20))
    await wait_for_deliveries(ground, consumer, count)
    await cancelled(fetching)


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.conformance("FET-07")
async def test_r24_messages_of_a_cancelled_fetch_go_to_the_next_fetch(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=5)
    before = await ground.listening()
    fetching = asyncio.create_task(consumer.fetch(10, timeout=LONG))
    await wait_for_deliveries(ground, consumer, 5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await fetching
    assert await ground.listening() == before
    assert payloads(await consumer.fetch(3, timeout=5)) == numbered(0, 3)
    await wait_for_open_pulls(ground, consumer, 0)
    await ground.fill(f"{consumer.stream_name}.a", b"5")
    batch = await consumer.fetch(3, timeout=5)
    assert payloads(batch) == numbered(3, 6)
    assert {message.metadata.num_delivered for message in batch} == {1}
    assert (await consumer.info()).num_ack_pending == 6


@pytest.mark.parametrize("call", ["next", "fetch_no_wait", "consume", "fetch_bytes"])
async def test_r24_every_call_takes_messages_of_cancelled_calls(ground: Ground, call: str) -> None:
    consumer = await consumer_of(ground, messages=4)
    await cancel_fetch(ground, consumer, 4)
    if call == "next":
        got = [(await consumer.next(5)).payload for _ in range(4)]
    elif call == "consume":
        async with consumer.consume(max_messages=2) as messages:
            got = payloads(await take(messages, 4))
    elif call == "fetch_bytes":
        got = payloads(await consumer.fetch_bytes(10_000, timeout=0.3))
    else:
        got = payloads(await consumer.fetch_no_wait(10))
    assert got == numbered(0, 4)


async def test_r24_messages_in_flight_to_a_cancelled_call_are_not_lost(ground: Ground) -> None:
    """A call that is cancelled at any moment loses none of 200 messages and keeps their order.

    If the client unsubscribes while the server sends a message, nobody receives it. The server notices this and
    delivers the message again, maybe after later ones. Then a number is missing among the deliveries.
    """
    consumer = await consumer_of(ground, messages=200)
    seen: list[Msg] = []
    for turns in range(40):
        call = asyncio.create_task(consumer.fetch(5, timeout=5))
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
        seen += await consumer.fetch(200 - len(seen), timeout=5)
    deliveries = [message.metadata.consumer_sequence for message in seen]
    assert deliveries == sorted(set(deliveries))
    assert sorted(payloads(seen), key=int) == numbered(0, 200)
    if deliveries == list(range(1, 201)):
        assert payloads(seen) == numbered(0, 200)


@pytest.mark.parametrize("left", [1, 4])
async def test_r24_a_refused_call_takes_no_messages_of_cancelled_calls(ground: Ground, left: int) -> None:
    consumer = await consumer_of(ground, messages=left)
    await cancel_fetch(ground, consumer, left)
    with pytest.raises(ConfigError, match="heartbeat"):
        await consumer.fetch(2, timeout=1, idle_heartbeat=1)
    with pytest.raises(ConfigError, match="priority"):
        consumer.consume(priority=99)
    assert payloads(await consumer.fetch(left, timeout=5)) == numbered(0, left)


async def test_r24_messages_of_a_cancelled_call_keep_to_the_byte_limit_of_the_next_fetch(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=5, size=500)
    await cancel_fetch(ground, consumer, 5)
    assert [len(message) for message in await consumer.fetch_bytes(1300, timeout=5)] == [500, 500]
    assert await consumer.fetch_bytes(400, timeout=5) == []  # as if the server had a larger one
    spy = await spy_on_pulls(ground)
    batch = await consumer.fetch(4, max_bytes=10_000, timeout=0.3)
    assert [len(message) for message in batch] == [500] * 3
    await spy.settled()
    [body] = pull_bodies(spy)
    assert (body["batch"], body["max_bytes"]) == (1, 10_000 - sum(map(message_size, batch)))


@pytest.mark.parametrize("limit", [{"max_messages": 2}, {"max_bytes": 2000}])
async def test_r24_a_consume_takes_messages_in_flight_to_a_call_that_was_just_cancelled(
    ground: Ground, limit: dict[str, int]
) -> None:
    consumer = await consumer_of(ground)
    fetching = asyncio.create_task(consumer.fetch(10, timeout=20))
    await wait_for_open_pulls(ground, consumer, 1)
    publish_while_blocked(ground, consumer.stream_name, *numbered(0, 3))
    fetching.cancel()
    await asyncio.sleep(0)
    async with consumer.consume(**limit) as messages:  # type: ignore[arg-type]
        assert payloads(await take(messages, 3)) == numbered(0, 3)
        await ground.fill(f"{consumer.stream_name}.a", *numbered(3, 20))
        assert payloads(await take(messages, 17)) == numbered(3, 20)


async def test_r24_late_messages_are_kept_if_the_consume_after_the_fetch_was_stopped(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    fetching = asyncio.create_task(consumer.fetch(10, timeout=20))
    await wait_for_open_pulls(ground, consumer, 1)
    publish_while_blocked(ground, consumer.stream_name, *numbered(0, 3))
    fetching.cancel()
    await asyncio.sleep(0)
    await consumer.consume().stop()
    assert payloads(await consumer.fetch(3, timeout=5)) == numbered(0, 3)


@pytest.mark.conformance("FET-04")
@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
@pytest.mark.matrix
async def test_the_timeout_of_a_fetch_includes_its_wait_for_a_cancelled_fetch(
    front: FrontName, profile: Profile
) -> None:
    with NatsServer() as server:
        async with open_ground(front, profile, server) as ground:
            consumer = await consumer_of(ground, messages=3)
            fetching = asyncio.create_task(consumer.fetch(10, timeout=20))
            await wait_for_deliveries(ground, consumer, 3)
            server.pause()
            try:
                await cancelled(fetching)
                begin = time.monotonic()
                batch = await consumer.fetch(10, timeout=2)
                assert 2.9 < time.monotonic() - begin < 10.0  # not the sum of both timeouts
            finally:
                server.resume()
            assert payloads(batch) == numbered(0, 3)


async def test_r25_cancellation_is_never_turned_into_another_error(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    for call in (
        lambda: consumer.fetch(1, timeout=LONG),
        lambda: consumer.next(LONG),
        lambda: consumer.fetch_bytes(100, timeout=LONG),
        lambda: anext(consumer.consume(timeout=LONG)),
    ):
        task = asyncio.ensure_future(call())
        await wait_for_open_pulls(ground, consumer, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait_for_open_pulls(ground, consumer, 0)


async def test_a_cancelled_iteration_loses_nothing_and_can_continue(ground: Ground) -> None:
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


async def test_a_call_that_is_cancelled_before_it_starts_leaves_nothing(ground: Ground) -> None:
    consumer: Consumer = await consumer_of(ground, messages=1)
    task = asyncio.create_task(consumer.fetch(1))
    await cancelled(task)
    assert (await consumer.info()).num_waiting == 0
    assert payloads(await consumer.fetch(1)) == [b"0"]


async def test_closing_the_connection_ends_the_wait_for_messages_of_a_cancelled_call(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    fetching = asyncio.create_task(consumer.fetch(10, timeout=5))
    await wait_for_open_pulls(ground, consumer, 1)
    fetching.cancel()
    await asyncio.wait([fetching])
    await ground.nc.close()
    with pytest.raises(ConnectionError):
        await consumer.fetch(1)
