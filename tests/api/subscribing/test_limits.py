"""Limits of a push subscription, what happens above them, and what a cancelled call leaves."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.api.subscribing.support import collect, errors, live, side
from tests.fronts import Ground, eventually

from jetspark.events import SlowConsumer
from jetspark.jetstream import AckPolicy, ConsumerConfig


def some(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_r43_the_queue_holds_at_least_max_ack_pending_messages(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground, pending_msgs_limit=10) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", config=ConsumerConfig(max_ack_pending=50))
        await ground.fill(f"{stream.name}.a", *some(60))
        await eventually(lambda: subscription.pending_msgs == 50, what="50 messages")
        assert subscription.dropped == 0
        for message in await collect(subscription, 50):
            await message.ack()
        assert len(await collect(subscription, 10)) == 10
        await subscription.unsubscribe()


@pytest.mark.parametrize("limit", [{"pending_msgs_limit": 5}, {"pending_bytes_limit": 5}], ids=str)
@pytest.mark.blocking
async def test_r43_dropped_messages_are_reported_and_delivered_again(ground: Ground, limit: dict[str, Any]) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        config = ConsumerConfig(ack_wait=timedelta(minutes=1))
        subscription = await own.js.subscribe(f"{stream.name}.a", config=config, **limit)
        await ground.fill(f"{stream.name}.a", *some(10))
        event = await own.events.wait(SlowConsumer)
        assert event.subject == subscription.subject
        await eventually(lambda: subscription.received == 10, what="ten deliveries")
        assert (subscription.pending_msgs, subscription.dropped) == (5, 5)
        config = (await subscription.consumer_info()).config.replace(ack_wait=timedelta(milliseconds=500))
        await ground.js.update_consumer(stream.name, config)
        seen: set[bytes] = set()
        while len(seen) < 10:
            message = await subscription.next_msg(5)
            seen.add(message.payload)
            await message.ack()
        assert seen == set(some(10))
        await subscription.unsubscribe()


@pytest.mark.blocking
async def test_r43_reading_may_pause_and_nothing_is_dropped(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(
            f"{stream.name}.a",
            config=ConsumerConfig(ack_policy=AckPolicy.NONE),
            pending_msgs_limit=5,
            overflow="pause",
        )
        await ground.fill(f"{stream.name}.a", *some(2000))
        assert [message.payload for message in await collect(subscription, 2000)] == some(2000)
        assert (subscription.dropped, errors(own.events)) == (0, [])
        await subscription.unsubscribe()


async def test_the_limits_can_be_switched_off(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground, pending_msgs_limit=5, pending_bytes_limit=5) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", pending_msgs_limit=-1, pending_bytes_limit=-1)
        await ground.fill(f"{stream.name}.a", *some(20))
        await eventually(lambda: subscription.pending_msgs == 20, what="20 messages")
        assert subscription.pending_bytes == sum(map(len, some(20)))
        await subscription.unsubscribe()


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@pytest.mark.parametrize("endpoint", ["STREAM.NAMES", "CONSUMER.INFO", "CONSUMER.CREATE"])
async def test_r25_a_cancelled_call_leaves_no_subscription_and_raises_cancelled_error(
    ground: Ground, endpoint: str
) -> None:
    """The API of that domain receives requests and never answers. The call is cancelled while it waits."""
    await ground.stream()  # the shared inbox of requests exists from now on
    seen = await ground.admin.subscribe("$JS.silent.API.>")
    await ground.admin.flush()
    silent = ground.nc.jetstream(domain="silent")
    before = live(ground.nc)
    options: dict[str, Any] = {} if endpoint == "STREAM.NAMES" else {"stream": "S"}
    calling = asyncio.create_task(
        silent.subscribe("a", durable="d" if endpoint == "CONSUMER.INFO" else None, **options)
    )
    assert endpoint in (await seen.next_msg(5)).subject
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert live(ground.nc) == before
    await seen.unsubscribe()


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@pytest.mark.parametrize("again", ["drain", "unsubscribe"])
async def test_a_cancelled_drain_can_be_repeated(ground: Ground, again: str) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *some(3))
    subscription = await ground.js.subscribe(f"{stream.name}.a")
    await eventually(lambda: subscription.pending_msgs == 3, what="three messages")
    draining = asyncio.create_task(subscription.drain())
    await ground.nc.flush()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    ending = asyncio.create_task(getattr(subscription, again)())
    if again == "drain":
        assert [message.payload async for message in subscription] == some(3)
    await ending
    assert subscription.closed
    assert await ground.js.consumer_names(stream.name).all() == []


@pytest.mark.parametrize("front", ["aio"], indirect=True)
async def test_r24_a_cancelled_wait_for_a_message_loses_none(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(f"{stream.name}.a")
    seen: list[bytes] = []
    for number in range(20):
        waiting = asyncio.create_task(subscription.next_msg(5))
        await asyncio.sleep(0)
        await ground.admin.publish(f"{stream.name}.a", b"%d" % number)
        await ground.admin.flush()
        waiting.cancel()
        try:
            seen.append((await waiting).payload)
        except asyncio.CancelledError:
            continue
    while len(seen) < 20:
        seen.append((await subscription.next_msg(5)).payload)
    assert sorted(seen) == sorted(some(20))


@pytest.mark.blocking
async def test_pending_bytes_are_counted_exactly(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *some(100))
    subscription = await ground.js.subscribe(f"{stream.name}.a", flow_control=True, idle_heartbeat=0.1)
    await eventually(lambda: subscription.pending_msgs == 100, what="100 messages")
    assert subscription.pending == (100, sum(map(len, some(100))))
    assert subscription.pending_bytes == sum(map(len, some(100)))
    await collect(subscription, 100)
    assert (subscription.pending, subscription.delivered, subscription.received) == ((0, 0), 100, 100)
