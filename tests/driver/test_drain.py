"""Drain of a connection with readers and callbacks, and servers that answer, do not answer, or die meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.frames import Ping, Unsub
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark import aio
from jetspark.errors import ConnectionClosedError, DisconnectedError, DrainTimeoutError


async def test_drain_ends_subscriptions_before_the_connection(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    got: list[bytes] = []
    await connection.subscribe("a", callback=lambda message: got.append(message.payload))
    await clock.settle()
    server.session.deliver("a", b"before")
    await connection.drain()
    assert got == [b"before"]
    assert connection.closed
    kinds = [type(frame) for frame in server.session.frames]
    assert kinds.index(Unsub) < len(kinds) - 1 - kinds[::-1].index(Ping)
    assert clock.now == 0.0


async def test_drain_delivers_messages_sent_before_the_server_processed_unsub(world: World, clock: Clock) -> None:
    world.net.latency = 0.1
    connection = await world.connect()
    got: list[bytes] = []
    await connection.subscribe("a", callback=lambda message: got.append(message.payload))
    await clock.advance(1)
    draining = asyncio.create_task(connection.drain())
    await clock.advance(0.05)
    world.server.session.deliver("a", b"on its way")
    await draining
    assert got == [b"on its way"]


async def test_drain_waits_for_a_reader(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    subscription = await connection.subscribe("a")
    await clock.settle()
    for number in range(2):
        server.session.deliver("a", b"%d" % number)
    await clock.settle()
    draining = asyncio.create_task(connection.drain())
    await clock.until(5)
    assert not draining.done()
    assert [message.payload async for message in subscription] == [b"0", b"1"]
    await draining
    assert clock.now == 5.0


async def test_drain_waits_for_a_slow_callback(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    done: list[float] = []

    async def slow(_: aio.Msg) -> None:
        await asyncio.sleep(3)
        done.append(clock.now)

    await connection.subscribe("a", callback=slow)
    await clock.settle()
    for _ in range(3):
        server.session.deliver("a")
    await clock.settle()
    await connection.drain()
    assert done == [3.0, 6.0, 9.0]
    assert clock.now == 9.0


@pytest.mark.parametrize("seconds", [None, 4.0])
async def test_drain_times_out_and_drops_the_rest(
    world: World, server: MemoryServer, clock: Clock, seconds: float | None
) -> None:
    connection = await world.connect(drain_timeout=7)
    await connection.subscribe("a")
    subscription = await connection.subscribe("b")
    await clock.settle()
    for _ in range(3):
        server.session.deliver("b")
    await clock.settle()
    with pytest.raises(DrainTimeoutError, match="3 messages dropped"):
        await connection.drain(seconds)
    assert clock.now == (seconds or 7.0)
    assert connection.closed
    assert subscription.closed
    assert subscription.pending == (0, 0)
    assert [message async for message in subscription] == []


async def test_drain_of_a_subscription_times_out_and_drops_the_rest(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    subscription = await connection.subscribe("a")
    await clock.settle()
    server.session.deliver("a")
    await clock.settle()
    with pytest.raises(DrainTimeoutError, match="1 messages dropped"):
        await subscription.drain(2)
    assert clock.now == 2.0
    assert subscription.closed
    assert [message async for message in subscription] == []


async def test_drain_of_a_silent_server_takes_its_timeout_and_no_more(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    await connection.subscribe("a")
    server.answers_pings = False
    with pytest.raises(DrainTimeoutError):
        await connection.drain(3)
    assert clock.now == 3.0
    assert server.session.transport.aborted


async def test_drain_of_a_server_that_falls_silent_later_waits_for_it_in_the_close(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    subscription = await connection.subscribe("a")
    await clock.settle()
    server.session.deliver("a")
    await clock.settle()
    draining = asyncio.create_task(connection.drain(3))
    await clock.settle()
    server.answers_pings = False
    with pytest.raises(DrainTimeoutError):
        await draining
    assert subscription.closed
    assert clock.now == 5.0  # the close gives it two seconds


async def test_drain_reports_a_server_that_dies_meanwhile(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    await connection.subscribe("a")
    server.answers_pings = False
    draining = asyncio.create_task(connection.drain(10))
    await clock.until(2)
    server.down()
    with pytest.raises(DisconnectedError):
        await draining
    assert clock.now == 2.0
    assert connection.closed


async def test_a_draining_connection_refuses_subscriptions(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.answers_pings = False
    draining = asyncio.create_task(connection.drain())
    await clock.settle()
    with pytest.raises(ConnectionClosedError, match="accepts no new subscriptions"):
        await connection.subscribe("a")
    await connection.publish("still", b"taken")
    server.answers_pings = True
    server.session.send(b"PONG\r\n")
    await draining
    assert server.session.published("still")
