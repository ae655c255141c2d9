"""A push subscription: acknowledgements, and its end."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.frames import Unsub
from tests.driver.jetstream import SILENCE, ConsumerScript, JetStreamScript
from tests.driver.pushing import bound, errors
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark import aio
from jetspark.aio import Connection
from jetspark.aio.jetstream import PushSubscription
from jetspark.errors import (
    DrainTimeoutError,
    RequestTimeoutError,
    SubscriptionClosedError,
)


@pytest.mark.conformance("ACK-09")
async def test_a_callback_acknowledges_when_it_returns_and_not_when_it_raises(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    async def work(message: aio.Msg) -> None:
        await asyncio.sleep(1)
        if message.payload == b"2":
            raise ValueError("not that one")

    subscription = await bound(world, callback=work)
    pusher.push(b"1", b"2", b"3")
    await clock.until(4)
    assert [(pub.at, pub.subject.split(".")[5]) for pub in pusher.js.acks] == [(1.0, "1"), (3.0, "3")]
    assert not subscription.closed


@pytest.mark.conformance("UNS-03")
async def test_drain_delivers_received_messages_and_then_deletes_the_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.stream("ORDERS")
    subscription = await (await world.connect()).jetstream().subscribe("orders.a")
    consumer = script.created[0]
    consumer.push(b"1", b"2")
    await clock.settle()
    draining = asyncio.create_task(subscription.drain())
    await clock.until(2)
    assert script.asked("CONSUMER.DELETE.>") == []
    assert [message.payload async for message in subscription] == [b"1", b"2"]
    await draining
    assert consumer.deleted
    assert clock.now == 2.0


async def test_drain_waits_a_moment_for_a_reader_that_does_not_ask_again(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.stream("ORDERS")
    subscription = await (await world.connect()).jetstream().subscribe("orders.a")
    script.created[0].push(b"1")
    await clock.settle()
    draining = asyncio.create_task(subscription.drain())
    await clock.until(2)
    await (await subscription.next_msg(1)).ack()
    await draining
    assert clock.now == 2.25
    assert [pub.at for pub in script.acks] == [2.0]


async def test_drain_times_out_drops_the_rest_and_deletes_the_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.stream("ORDERS")
    subscription = await (await world.connect()).jetstream().subscribe("orders.a")
    script.created[0].push(b"1", b"2")
    await clock.settle()
    with pytest.raises(DrainTimeoutError, match="2 messages dropped"):
        await subscription.drain(3)
    assert clock.now == 3.0
    assert subscription.pending_msgs == 0
    await clock.settle()
    assert script.created[0].deleted


async def test_a_cancelled_drain_can_be_repeated(world: World, script: JetStreamScript, clock: Clock) -> None:
    script.stream("ORDERS")
    subscription = await (await world.connect()).jetstream().subscribe("orders.a")
    script.created[0].push(b"1")
    await clock.settle()
    first = asyncio.create_task(subscription.drain())
    await clock.until(1)
    first.cancel()
    await clock.settle()
    second = asyncio.create_task(subscription.drain())
    await clock.until(2)
    assert [message.payload async for message in subscription] == [b"1"]
    await second
    assert script.created[0].deleted


async def test_close_of_the_connection_drops_pending_messages(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.push(b"1", b"2")
    await clock.settle()
    assert subscription.pending_msgs == 2
    await subscription._core.connection.close()
    assert subscription.pending_msgs == 0
    assert subscription.closed


async def test_drain_delivers_messages_in_flight(world: World, pusher: ConsumerScript, clock: Clock) -> None:
    world.net.latency = 0.1
    subscription = await bound(world)
    await clock.advance(1)
    draining = asyncio.create_task(subscription.drain())
    await clock.advance(0.05)
    pusher.push(b"1")  # the server has not read the UNSUB
    assert [message.payload async for message in subscription] == [b"1"]
    await draining


async def test_a_limit_ends_the_subscription_after_its_messages_and_at_once_if_they_have_arrived(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.push(b"1")
    await clock.settle()
    await subscription.unsubscribe(3)
    pusher.push(b"2", b"3", b"4")
    assert [message.payload async for message in subscription] == [b"1", b"2", b"3"]
    assert subscription.closed
    second = await Connection(subscription._core.connection).jetstream().subscribe_bind("ORDERS", None, "pusher")
    await clock.settle()
    pusher.push(b"5", b"6")
    await clock.settle()
    await second.unsubscribe(1)
    assert second.closed
    assert [message.payload async for message in second] == [b"5", b"6"]


@pytest.mark.conformance("UNS-02")
async def test_unsubscribe_leaves_a_bound_consumer(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.push(b"1")
    await clock.settle()
    await subscription.unsubscribe()
    await clock.settle()
    assert not pusher.deleted
    assert server.session.of(Unsub)
    with pytest.raises(SubscriptionClosedError):
        await subscription.next_msg(1)
    await clock.until(100)
    assert errors(world) == []


async def test_a_deletion_without_an_answer_is_reported_and_the_subscription_has_ended(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.stream("ORDERS")
    subscription = await (await world.connect()).jetstream(timeout=3).subscribe("orders.a")
    script.answer("CONSUMER.DELETE.>", SILENCE)
    with pytest.raises(RequestTimeoutError):
        await subscription.unsubscribe()
    assert clock.now == 3.0
    assert subscription.closed


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize("end", ["unsubscribe", "drain"])
async def test_a_subscription_that_is_cancelled_anywhere_leaves_nothing_open(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock, end: str, moment: Moment
) -> None:
    script.stream("ORDERS")
    connection = await world.connect()
    js = connection.jetstream()
    opened: list[PushSubscription] = []

    async def subscribe() -> None:
        opened.append(await js.subscribe("orders.a"))
        await (opened[-1].unsubscribe() if end == "unsubscribe" else opened[-1].drain())

    async def check() -> None:
        for subscription in opened:
            if not subscription.closed:
                await subscription.unsubscribe()
        opened.clear()
        await clock.settle()
        assert [subject for subject in server.session.subjects if not subject.endswith(".*")] == []
        assert len(connection._core.client.reply_mux) == 0

    assert await cancel_everywhere(subscribe, check, moment) >= 3


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_cancelled_creation_leaves_no_consumer(
    world: World, script: JetStreamScript, clock: Clock, moment: Moment
) -> None:
    script.stream("ORDERS")
    world.net.latency = 0.1
    js = (await world.connect()).jetstream()

    async def subscribe() -> None:
        await (await js.subscribe("orders.a")).unsubscribe()

    async def check() -> None:
        await clock.advance(1)
        assert all(consumer.deleted for consumer in script.created)

    await cancel_everywhere(subscribe, check, moment)
