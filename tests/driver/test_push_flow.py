"""A push subscription: flow control, and a slow reader."""

from __future__ import annotations

import pytest
from tests.driver.jetstream import ConsumerScript
from tests.driver.pushing import bound, errors, take
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.wire.events import SlowConsumer


@pytest.mark.conformance("FLC-01", "FLC-03")
async def test_flow_control_is_answered_at_once_if_nothing_is_pending(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.ask_flow("$JS.FC.ORDERS.pusher.1")
    await clock.settle()
    assert [(pub.subject, pub.payload) for pub in pusher.js.flow] == [("$JS.FC.ORDERS.pusher.1", b"")]
    assert subscription.pending_msgs == 0


@pytest.mark.conformance("FLC-02")
async def test_flow_control_is_answered_when_earlier_messages_are_taken(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.push(b"1", b"2")
    pusher.ask_flow("$JS.FC.ORDERS.pusher.1")
    pusher.push(b"3")
    await clock.until(1)
    await take(subscription, 1)
    await clock.settle()
    assert pusher.js.flow == []
    await clock.until(2)
    await take(subscription, 1)
    await clock.settle()
    assert [pub.at for pub in pusher.js.flow] == [2.0]


@pytest.mark.conformance("FLC-04")
async def test_a_heartbeat_with_a_stalled_consumer_is_answered(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.push(b"1")
    pusher.heartbeat(stalled="$JS.FC.ORDERS.pusher.7")
    await clock.settle()
    assert pusher.js.flow == []
    await take(subscription, 1)
    await clock.settle()
    assert [pub.subject for pub in pusher.js.flow] == ["$JS.FC.ORDERS.pusher.7"]


@pytest.mark.conformance("FLC-05")
async def test_each_request_is_answered_once(world: World, pusher: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    pusher.ask_flow("$JS.FC.ORDERS.pusher.1")
    pusher.heartbeat(stalled="$JS.FC.ORDERS.pusher.1")
    pusher.ask_flow("$JS.FC.ORDERS.pusher.2")
    await clock.settle()
    assert [pub.subject[-1] for pub in pusher.js.flow] == ["1", "2"]
    assert not subscription.closed


async def test_a_request_that_is_repeated_in_the_next_session_is_answered_again(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.ask_flow("$JS.FC.ORDERS.pusher.1")
    await clock.settle()
    server.session.reset()
    await clock.settle()
    pusher.heartbeat(stalled="$JS.FC.ORDERS.pusher.1")
    await clock.settle()
    assert len(pusher.js.flow) == 2
    assert not subscription.closed


async def test_nothing_is_answered_without_a_session(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world, {"reconnect_wait": 1})
    pusher.push(b"1")
    pusher.ask_flow("$JS.FC.ORDERS.pusher.1")
    await clock.settle()
    server.down()
    await clock.settle()
    await take(subscription, 1)
    server.up()
    await clock.until(2)
    assert pusher.js.flow == []


# -- a slow reader ---------------------------------------------------------------------------------------------------


async def test_a_full_subscription_drops_messages_and_reports_it_once(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world, pending_msgs_limit=2)
    pusher.push(*(b"%d" % number for number in range(1, 6)))
    await clock.settle()
    assert (subscription.pending_msgs, subscription.dropped, subscription.delivered) == (2, 3, 2)
    assert len(world.events.of(SlowConsumer)) == 1
    assert await take(subscription, 2) == [b"1", b"2"]
    pusher.push(b"6")
    assert await take(subscription, 1) == [b"6"]
    assert errors(world) == []  # messages dropped here are not a gap


async def test_a_full_subscription_can_pause_reading(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world, pending_msgs_limit=2, overflow="pause")
    for number in range(1, 8):
        pusher.push(b"%d" % number)
    await clock.settle()
    assert not server.session.transport.is_reading()
    assert await take(subscription, 7) == [b"%d" % number for number in range(1, 8)]
    assert subscription.dropped == 0
