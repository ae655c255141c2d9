"""The end of a pull subscription: unsubscribe, drain, cancellation."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import ConsumerScript, JetStreamScript
from tests.driver.pulling import bound, payloads
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    DrainTimeoutError,
    SubscriptionClosedError,
)
from jetspark.wire.events import ErrorOccurred


async def test_unsubscribe_ends_an_open_fetch(world: World, worker: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    fetching = asyncio.create_task(subscription.fetch(1, timeout=60))
    await clock.until(1)
    await subscription.unsubscribe()
    with pytest.raises(SubscriptionClosedError):
        await fetching
    with pytest.raises(SubscriptionClosedError):
        await subscription.fetch(1)
    assert not worker.deleted


@pytest.mark.conformance("UNS-01")
async def test_unsubscribe_deletes_its_own_consumer(world: World, script: JetStreamScript, clock: Clock) -> None:
    script.stream("ORDERS")
    js = (await world.connect()).jetstream()
    subscription = await js.pull_subscribe("orders.a")
    assert subscription.created
    await subscription.unsubscribe()
    assert script.created[0].deleted


@pytest.mark.conformance("UNS-05")
async def test_a_second_unsubscribe_is_an_error_without_traffic(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    await subscription.unsubscribe()
    frames = len(server.session.frames)
    with pytest.raises(SubscriptionClosedError):
        await subscription.unsubscribe()
    await clock.settle()
    assert len(server.session.frames) == frames


async def test_a_drain_after_the_end_or_during_another_drain_is_an_error(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    server.answers_pings = False
    first = asyncio.create_task(subscription.drain())
    await clock.settle()
    with pytest.raises(SubscriptionClosedError):
        await subscription.drain()
    server.answers_pings = True
    server.session.send(b"PONG\r\n")
    await first
    with pytest.raises(SubscriptionClosedError):
        await subscription.drain()


async def test_drain_waits_until_late_messages_are_fetched(world: World, worker: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    first = asyncio.create_task(subscription.fetch(5))
    await clock.settle()
    worker.pull.fill(2)
    await clock.settle()
    first.cancel()
    await clock.settle()
    draining = asyncio.create_task(subscription.drain())
    await clock.until(3)
    assert not draining.done()
    assert payloads(await subscription.fetch(5)) == [b"1", b"2"]
    await draining
    assert clock.now == 3.25  # a moment for the acknowledgements
    assert subscription.closed


async def test_drain_ends_at_once_when_the_reader_fetches_again(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    first = asyncio.create_task(subscription.fetch(5))
    await clock.settle()
    worker.pull.fill(1)
    await clock.settle()
    first.cancel()
    await clock.settle()
    draining = asyncio.create_task(subscription.drain())
    await clock.until(1)
    [message] = await subscription.fetch(5)
    await message.ack()
    with pytest.raises(SubscriptionClosedError):
        await subscription.fetch(5)
    await draining
    assert clock.now == 1.0
    assert len(worker.js.acks) == 1


async def test_drain_times_out_and_drops_the_rest(world: World, worker: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    first = asyncio.create_task(subscription.fetch(5))
    await clock.settle()
    worker.pull.fill(2)
    await clock.settle()
    first.cancel()
    await clock.settle()
    with pytest.raises(DrainTimeoutError, match="2 messages dropped"):
        await subscription.drain(3)
    assert clock.now == 3.0
    assert subscription.pending_msgs == 0


@pytest.mark.conformance("UNS-04")
async def test_a_failed_deletion_after_a_drain_is_an_event(world: World, script: JetStreamScript, clock: Clock) -> None:
    script.stream("ORDERS")
    js = (await world.connect()).jetstream()
    subscription = await js.pull_subscribe("orders.a")
    script.created[0].deleted = True
    await subscription.drain()
    await clock.settle()
    assert [type(event.error).__name__ for event in world.events.of(ErrorOccurred)] == ["ConsumerNotFoundError"]


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_subscription_that_is_cancelled_anywhere_leaves_no_consumer(
    world: World, script: JetStreamScript, clock: Clock, moment: Moment
) -> None:
    script.stream("ORDERS")
    connection = await world.connect()
    js = connection.jetstream()

    async def subscribe() -> None:
        await (await js.pull_subscribe("orders.a")).unsubscribe()

    async def check() -> None:
        await clock.settle()
        assert all(consumer.deleted for consumer in script.created)
        assert len(connection._core.client.reply_mux) == 0

    assert await cancel_everywhere(subscribe, check, moment) >= 3
