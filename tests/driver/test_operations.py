"""Publish, request, subscribe and their cancellation on a connection that stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.frames import Unsub
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark import aio
from jetspark.errors import (
    NoMessageError,
    PermissionsViolationError,
    RequestTimeoutError,
    SubscriptionClosedError,
)
from jetspark.wire.events import ErrorOccurred, SlowConsumer


async def test_publishes_of_one_loop_iteration_reach_the_server_in_order(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    for number in range(10):
        await connection.publish("a", b"%d" % number, headers={"N": str(number)} if number % 2 else None)
    assert not server.session.published()
    await clock.settle()
    assert [int(pub.payload) for pub in server.session.published()] == list(range(10))
    assert server.session.published()[1].headers == {"N": "1"}


async def test_a_payload_is_copied_when_it_is_published(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    payload = bytearray(b"before")
    await connection.publish("a", payload)
    await connection.publish("a", memoryview(payload))
    payload[:] = b"behind"
    await clock.settle()
    assert [pub.payload for pub in server.session.published("a")] == [b"before", b"before"]


async def test_a_publish_waits_while_writing_is_paused(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.session.transport.stop_taking()
    done: list[float] = []

    async def much() -> None:
        for _ in range(4):
            await connection.publish("much", bytes(40_000))
            done.append(clock.now)

    publishing = asyncio.create_task(much())
    await clock.until(3)
    assert done == [0.0]  # the second one is too much for the transport
    server.session.transport.take_again()
    await publishing
    assert done == [0.0, 3.0, 3.0, 3.0]


async def test_a_waiting_publish_is_released_when_the_session_is_lost(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.session.transport.stop_taking()

    async def much() -> None:
        for _ in range(3):
            await connection.publish("much", bytes(80_000))

    publishing = asyncio.create_task(much())
    await clock.until(1)
    server.session.reset()
    await publishing
    assert clock.now == 1.0


@pytest.mark.conformance("REC-09")
async def test_a_forbidden_subscription_ends_with_its_error(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    subscription, other = await connection.subscribe("secret"), await connection.subscribe("open")
    waiting = asyncio.create_task(subscription.next_msg())
    await clock.settle()
    server.session.error('Permissions Violation for Subscription to "secret"')
    with pytest.raises(PermissionsViolationError):
        await waiting
    assert subscription.closed
    assert not other.closed
    server.session.reset()
    await clock.settle()
    assert server.session.subjects == ["open"]


@pytest.mark.parametrize("seconds", [0.1, 60.0])
async def test_a_wait_for_a_message_times_out(world: World, clock: Clock, seconds: float) -> None:
    subscription = await (await world.connect()).subscribe("a")
    with pytest.raises(NoMessageError):
        await subscription.next_msg(seconds)
    assert clock.now == seconds


async def test_a_timeout_of_zero_returns_available_messages(world: World, server: MemoryServer, clock: Clock) -> None:
    subscription = await (await world.connect()).subscribe("a")
    await clock.settle()
    with pytest.raises(NoMessageError):
        await subscription.next_msg(0)
    server.session.deliver("a", b"x")
    await clock.settle()
    assert (await subscription.next_msg(0)).payload == b"x"


async def test_each_of_several_waiters_gets_one_message(world: World, server: MemoryServer, clock: Clock) -> None:
    subscription = await (await world.connect()).subscribe("a")
    waiting = [asyncio.create_task(subscription.next_msg()) for _ in range(3)]
    await clock.settle()
    for number in range(3):
        server.session.deliver("a", b"%d" % number)
    assert sorted([message.payload for message in await asyncio.gather(*waiting)]) == [b"0", b"1", b"2"]


async def test_a_waiter_that_is_cancelled_as_its_message_arrives_passes_it_on(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    subscription = await (await world.connect()).subscribe("a")
    first, second = (asyncio.create_task(subscription.next_msg()) for _ in range(2))
    await clock.settle()
    server.session.deliver("a", b"x")
    while not subscription.pending[0]:  # noqa: ASYNC110 - the very turn in which it came matters
        await asyncio.sleep(0)
    first.cancel()
    assert (await second).payload == b"x"
    assert first.cancelled()


async def test_max_msgs_ends_the_subscription(world: World, server: MemoryServer, clock: Clock) -> None:
    subscription = await (await world.connect()).subscribe("a", max_msgs=2)
    await clock.settle()
    assert server.session.of(Unsub)[0].most == 2
    for number in range(3):
        server.session.deliver("a", b"%d" % number)
    assert [message.payload async for message in subscription] == [b"0", b"1"]
    with pytest.raises(SubscriptionClosedError):
        await subscription.next_msg(1)


async def test_unsubscribe_wakes_a_waiter_and_drops_pending_messages(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    subscription = await (await world.connect()).subscribe("a")
    waiting = asyncio.create_task(subscription.next_msg())
    await clock.settle()
    await subscription.unsubscribe()
    with pytest.raises(SubscriptionClosedError):
        await waiting
    await clock.settle()
    assert server.session.subjects == []


async def test_a_context_manager_unsubscribes_unless_it_has_ended(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    async with await connection.subscribe("a") as subscription:
        await clock.settle()
        assert server.session.subjects == ["a"]
    await clock.settle()
    assert server.session.subjects == []
    async with await connection.subscribe("b") as subscription:
        await connection.close()
    assert subscription.closed


async def test_a_draining_subscription_delivers_messages_in_flight(world: World, clock: Clock) -> None:
    world.net.latency = 0.1
    subscription = await (await world.connect()).subscribe("a")
    await clock.advance(1)
    draining = asyncio.create_task(subscription.drain())
    await clock.advance(0.05)
    assert world.server.session.deliver("a", b"late") == 1
    await clock.advance(0.2)
    assert not draining.done()
    assert [message.payload async for message in subscription] == [b"late"]
    await draining


async def test_a_full_subscription_drops_messages_and_reports_it_once(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    subscription = await (await world.connect()).subscribe("a", pending_msgs_limit=3)
    await clock.settle()
    for number in range(10):
        server.session.deliver("a", b"%d" % number)
    await clock.settle()
    assert (subscription.received, subscription.dropped) == (10, 7)
    [event] = world.events.of(SlowConsumer)
    assert event.subject == "a"
    assert [(await subscription.next_msg(1)).payload for _ in range(3)] == [b"0", b"1", b"2"]


async def test_a_full_subscription_can_pause_reading_instead(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    subscription = await connection.subscribe("a", pending_msgs_limit=4, overflow="pause")
    await clock.settle()
    for number in range(20):
        server.session.deliver("a", b"%d" % number)
    await clock.settle()
    assert subscription.pending[0] < 20
    assert not server.session.transport.is_reading()
    got = [int((await subscription.next_msg(1)).payload) for _ in range(20)]
    assert got == list(range(20))
    assert subscription.dropped == 0
    assert not world.events.of(SlowConsumer)


async def test_an_exception_of_a_callback_is_reported_and_the_next_message_comes(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    got: list[bytes] = []

    async def fail_first(message: aio.Msg) -> None:
        got.append(message.payload)
        if len(got) == 1:
            raise ValueError("not that one")

    await connection.subscribe("a", callback=fail_first)
    await clock.settle()
    for number in range(2):
        server.session.deliver("a", b"%d" % number)
    await clock.settle()
    assert got == [b"0", b"1"]
    assert [str(event.error) for event in world.events.of(ErrorOccurred)] == ["not that one"]


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize(
    "operation", ["publish", "much", "flush", "request", "unanswered", "own inbox", "subscribe", "next", "drain"]
)
async def test_an_operation_can_be_cancelled_anywhere(
    world: World, server: MemoryServer, clock: Clock, operation: str, moment: Moment
) -> None:
    connection = await world.connect()
    server.respond("echo", b"echo")
    server.on("silent", lambda session, pub: None)

    async def much() -> None:
        for _ in range(4):
            await connection.publish("much", bytes(80_000))

    async def unanswered() -> None:
        with pytest.raises(RequestTimeoutError):
            await connection.request("silent", timeout=1)

    async def take() -> None:
        async with await connection.subscribe("self") as subscription:
            await connection.publish("self")
            await subscription.next_msg(1)

    async def drain() -> None:
        subscription = await connection.subscribe("drained")
        await subscription.drain()

    operations: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "publish": lambda: connection.publish("one"),
        "much": much,
        "flush": connection.flush,
        "request": lambda: connection.request("echo"),
        "unanswered": unanswered,
        "own inbox": lambda: connection.request("echo", own_inbox=True),
        "subscribe": lambda: connection.subscribe("some"),
        "next": take,
        "drain": drain,
    }

    async def usable() -> None:
        async with await connection.subscribe("usable") as subscription:
            await connection.publish("usable", b"yes")
            assert (await subscription.next_msg(1)).payload == b"yes"
        await connection.flush(1)
        assert (await connection.request("echo")).payload == b"echo"
        assert len(connection._core.client.pings) == 0
        assert len(connection._core.client.reply_mux) == 0
        assert len(server.sessions) == 1

    await cancel_everywhere(operations[operation], usable, moment)


async def test_a_callback_that_is_cancelled_ends_its_subscription(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()

    def cancel(_: aio.Msg) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    subscription = await connection.subscribe("a", callback=cancel)
    await clock.settle()
    server.session.deliver("a", b"1")
    await clock.settle()
    assert subscription.closed
    assert "a" not in server.session.subjects
    [event] = world.events.of(ErrorOccurred)
    assert "was cancelled" in str(event.error)


async def test_the_maximum_of_a_subscription_can_be_set_later(world: World, server: MemoryServer, clock: Clock) -> None:
    subscription = await (await world.connect()).subscribe("a")
    await subscription.unsubscribe(max_msgs=2)
    await clock.settle()
    assert [unsub.most for unsub in server.session.of(Unsub)] == [2]
    server.session.deliver("a", b"1")
    server.session.deliver("a", b"2")
    assert [(await subscription.next_msg(1)).payload for _ in range(2)] == [b"1", b"2"]
    assert subscription.closed
    with pytest.raises(SubscriptionClosedError):
        await subscription.next_msg(1)
