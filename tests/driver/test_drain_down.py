"""Drain and close while the server is down: nothing waits for it, and what was not sent is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.driver.jetstream import SILENCE, ConsumerScript, JetStreamScript
from tests.driver.reading import Reading, handle, reading
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark import aio
from jetspark.errors import ConnectionClosedError, DisconnectedError, DrainTimeoutError
from jetspark.wire.events import ErrorOccurred

Leave = Callable[[aio.Connection], Awaitable[None]]


async def drain(connection: aio.Connection) -> None:
    await connection.drain()


async def close(connection: aio.Connection) -> None:
    await connection.close()


async def leave(connection: aio.Connection) -> None:
    async with connection:
        pass


async def down(world: World) -> aio.Connection:
    """Connect, and lose the server."""
    connection = await world.connect(reconnect_wait=10)
    world.server.down()
    await world.clock.settle()
    return connection


def errors(world: World) -> list[Exception]:
    """Return the errors of the events."""
    return [event.error for event in world.events.of(ErrorOccurred)]


def reports(world: World) -> list[str]:
    """Return the reports of what was not sent."""
    texts = [str(event.error) for event in world.events.of(ErrorOccurred)]
    return [text.partition(" were not sent")[0] for text in texts if "not sent" in text]


@pytest.mark.parametrize("how", [drain, close, leave])
async def test_the_end_does_not_wait_for_a_server_that_is_down(world: World, clock: Clock, how: Leave) -> None:
    connection = await down(world)
    await how(connection)
    assert clock.now == 0.0
    assert connection.closed
    assert reports(world) == []


@pytest.mark.parametrize("how", [drain, leave])
async def test_a_drain_raises_for_messages_that_were_not_sent(world: World, clock: Clock, how: Leave) -> None:
    connection = await down(world)
    for _ in range(2):
        await connection.publish("lost", headers={"a": "b"})
    with pytest.raises(DisconnectedError, match="2 messages were not sent"):
        await how(connection)
    assert clock.now == 0.0
    assert reports(world) == ["2 messages"]


async def test_a_close_reports_messages_that_were_not_sent(world: World) -> None:
    connection = await down(world)
    await connection.publish("lost", reply="answers")
    await connection.close()
    assert reports(world) == ["1 messages"]
    assert world.events.names[-1] == "Closed"


async def test_requests_do_not_count_as_messages_because_their_callers_get_an_error(world: World) -> None:
    connection = await down(world)
    asking = asyncio.create_task(connection.request("service"))
    await asyncio.sleep(0)
    await connection.drain()
    with pytest.raises(DisconnectedError):
        await asking
    assert reports(world) == []


async def test_a_drain_hands_out_what_waits_and_an_unsent_ack_is_no_error(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=100)
    fix_jitter(connection._core, 0)
    consumer = await connection.jetstream().consumer("ORDERS", "worker")
    got: list[bytes] = []

    async def work(message: aio.Msg) -> None:
        await asyncio.sleep(1)
        got.append(message.payload)
        await message.ack()

    context = consumer.consume(work)
    await clock.settle()
    worker.pull.fill(3)
    await clock.settle()
    server.down()
    await clock.settle()
    await connection.drain()
    assert got == [b"1", b"2", b"3"]
    assert clock.now == 3.0
    assert reports(world) == ["0 messages and 3 acknowledgements"]
    assert context.closed


async def test_messages_of_callbacks_are_sent_if_the_server_comes_back_meanwhile(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=1)

    async def work(_: aio.Msg) -> None:
        await asyncio.sleep(5)
        await connection.publish("done")

    await connection.subscribe("a", callback=work)
    await clock.settle()
    server.session.deliver("a")
    await clock.settle()
    server.down()
    await clock.settle()
    draining = asyncio.create_task(connection.drain())
    await clock.until(2)
    server.up()
    await draining
    assert clock.now == 5.0
    assert server.session.published("done")


async def test_a_server_that_dies_during_a_drain_stops_no_callback(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=100)
    fix_jitter(connection._core, 0)
    got: list[float] = []

    async def work(_: aio.Msg) -> None:
        await asyncio.sleep(1)
        got.append(clock.now)

    await connection.subscribe("a", callback=work)
    await clock.settle()
    for _ in range(3):
        server.session.deliver("a")
    await clock.settle()
    server.answers_pings = False
    draining = asyncio.create_task(connection.drain())
    await clock.until(0.5)
    server.down()
    with pytest.raises(DisconnectedError):
        await draining
    assert got == [1.0, 2.0, 3.0]
    assert clock.now == 3.0


@pytest.mark.parametrize("how", [drain, leave])
async def test_the_consumer_of_a_subscription_is_not_deleted_while_the_server_is_down(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock, how: Leave
) -> None:
    script.stream("ORDERS")
    connection = await world.connect(reconnect_wait=100)
    js = connection.jetstream()
    pushed = [await js.subscribe("orders.a", ordered_consumer=ordered) for ordered in (False, True)]
    pulled = await js.pull_subscribe("orders.a")
    server.down()
    await clock.settle()
    await how(connection)
    assert clock.now == 0.0
    assert all(each.closed for each in pushed)
    assert pulled.closed
    assert reports(world) == []


@pytest.mark.parametrize("call", ["request", "info", "flush"])
async def test_a_callback_that_waits_for_the_server_does_not_hold_up_the_drain(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock, call: str
) -> None:
    connection = await world.connect(reconnect_wait=100)
    fix_jitter(connection._core, 0)
    consumer = await connection.jetstream().consumer("ORDERS", "worker")
    outcomes: list[type[Exception]] = []

    async def work(_: aio.Msg) -> None:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "request": lambda: connection.request("service", timeout=20),
            "info": lambda: consumer.info(timeout=20),
            "flush": lambda: connection.flush(20),
        }
        await asyncio.sleep(1)
        for _attempt in range(2):
            try:
                await calls[call]()
            except ConnectionError as error:
                outcomes.append(type(error))

    await connection.subscribe("a", callback=work)
    await clock.settle()
    server.session.deliver("a")
    await clock.settle()
    server.down()
    await clock.until(7)
    await connection.drain()
    assert outcomes == [DisconnectedError] * 2
    assert clock.now <= 7.1


@pytest.mark.parametrize("kind", ["core", "push", "pull"])
async def test_drain_of_one_subscription_does_not_wait_for_a_server_that_is_down(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock, kind: str
) -> None:
    connection = await world.connect(reconnect_wait=100)
    js = connection.jetstream()
    subscription: aio.Subscription | aio.jetstream.PullSubscription
    if kind == "core":
        subscription = await connection.subscribe("a")
    elif kind == "push":
        subscription = await js.subscribe_bind("ORDERS", None, "pusher")
    else:
        pusher.js.consumer("ORDERS", "worker")
        subscription = await js.pull_subscribe_bind("ORDERS", "worker")
    server.down()
    await clock.settle()
    await subscription.drain()
    assert clock.now == 0.0
    assert subscription.closed


@pytest.mark.parametrize("end", ["drain", "unsubscribe"])
@pytest.mark.parametrize("kind", ["push", "ordered", "pull"])
async def test_the_consumer_of_one_subscription_that_ends_without_a_server_is_deleted_after_the_reconnect(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock, kind: str, end: str
) -> None:
    script.stream("ORDERS")
    connection = await world.connect(reconnect_wait=100)
    fix_jitter(connection._core, 0)
    js = connection.jetstream()
    subscription: aio.jetstream.PushSubscription | aio.jetstream.PullSubscription
    if kind == "pull":
        subscription = await js.pull_subscribe("orders.a")
    else:
        subscription = await js.subscribe("orders.a", ordered_consumer=kind == "ordered")
    server.down()
    await clock.settle()
    if end == "drain":
        await subscription.drain()
        await clock.settle()
        report = errors(world)[-1]
    else:
        with pytest.raises(DisconnectedError) as caught:
            await subscription.unsubscribe()
        report = caught.value
    assert clock.now == 0.0
    assert subscription.closed
    assert "is not deleted yet" in str(report)
    server.up()
    await clock.advance(200)
    assert script.created[0].deleted


@pytest.mark.parametrize("kind", ["push", "ordered", "pull"])
async def test_a_drain_whose_session_is_lost_at_the_deletion_ends_at_once(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock, kind: str
) -> None:
    script.stream("ORDERS")
    connection = await world.connect(reconnect_wait=100)
    fix_jitter(connection._core, 0)
    js = connection.jetstream()
    subscription: aio.jetstream.PushSubscription | aio.jetstream.PullSubscription
    if kind == "pull":
        subscription = await js.pull_subscribe("orders.a")
    else:
        subscription = await js.subscribe("orders.a", ordered_consumer=kind == "ordered")
    script.answer("CONSUMER.DELETE.>", SILENCE)
    draining = asyncio.create_task(subscription.drain())
    await clock.until(1)
    server.down()
    await draining
    assert clock.now == 1.0
    script.answer("CONSUMER.DELETE.>", {"success": True})
    server.up()
    await clock.advance(200)
    assert len(script.asked("CONSUMER.DELETE.>")) == 2


@pytest.mark.parametrize("kind", ["push", "pull"])
async def test_a_drain_that_times_out_does_not_wait_for_the_deletion(
    world: World, script: JetStreamScript, clock: Clock, kind: str
) -> None:
    script.stream("ORDERS")
    js = (await world.connect()).jetstream()
    subscription: aio.jetstream.PushSubscription | aio.jetstream.PullSubscription
    subscription = await (js.subscribe("orders.a") if kind == "push" else js.pull_subscribe("orders.a"))
    script.answer("CONSUMER.DELETE.>", SILENCE)
    with pytest.raises(DrainTimeoutError):
        await subscription.drain(2)
    assert clock.now == 2.0
    await clock.advance(10)
    assert "RequestTimeoutError" in [type(each).__name__ for each in errors(world)]


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("up", [False, True])
async def test_a_reader_that_was_to_catch_up_raises_if_the_connection_drains_before(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock, up: bool
) -> None:
    script.answer("STREAM.MSG.GET.>", SILENCE)
    read = await reading(world, until_caught_up=True)
    script.created[0].pull.fill(2)
    await clock.settle()
    if not up:
        server.down()
        await clock.settle()
    draining = asyncio.create_task(aio.Connection(read.consumer._js.connection).drain())
    assert await read.take(2) == [b"1", b"2"]
    with pytest.raises(ConnectionClosedError, match="before the end was reached"):
        await read.take(1)
    await draining


@pytest.mark.usefixtures("stream")
async def test_a_drain_that_times_out_is_an_error_for_ordered_readers(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    read = Reading(await handle(world))
    connection = aio.Connection(read.consumer._js.connection)
    subscription = await connection.jetstream().subscribe("orders.a", ordered_consumer=True)
    await clock.settle()
    [puller] = [each for each in script.created if "deliver_subject" not in each.config]
    [pusher] = [each for each in script.created if "deliver_subject" in each.config]
    puller.pull.fill(2)
    pusher.push(b"1", b"2", b"3")
    await clock.settle()
    with pytest.raises(DrainTimeoutError, match="5 messages dropped"):
        await connection.drain(1)
    with pytest.raises(DrainTimeoutError):
        await read.take(1)
    with pytest.raises(DrainTimeoutError):
        _ = [message async for message in subscription]


async def test_after_a_drain_that_timed_out_no_message_comes_although_reading_was_paused(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    got: list[bytes] = []

    async def slow(message: aio.Msg) -> None:
        got.append(message.payload)
        await asyncio.sleep(0.5)

    await connection.subscribe("a", callback=slow, pending_msgs_limit=2, overflow="pause")
    await clock.settle()
    for number in range(9):
        server.session.deliver("a", b"%d" % number)
    await clock.settle()
    with pytest.raises(DrainTimeoutError):
        await connection.drain(0.2)
    taken = len(got)
    await clock.advance(60)
    assert len(got) == taken == 1
