"""`Connection.reconnect()`: the program leaves its server."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.server import MemoryNetwork, MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark.errors import ConnectError, ConnectionClosedError, DisconnectedError
from jetspark.wire.events import Disconnected


def _servers(net: MemoryNetwork) -> list[MemoryServer]:
    return [net.server(port) for port in (1, 2, 3)]


async def test_reconnect_takes_the_next_server_and_returns_when_it_is_connected(
    world: World, net: MemoryNetwork, clock: Clock
) -> None:
    connection = await world.connect([each.url for each in _servers(net)], randomize=False)
    visited = []
    for _ in range(4):
        assert connection.address is not None
        visited.append(connection.address.port)
        await connection.reconnect()
        assert connection.connected
    assert visited == [1, 2, 3, 1]
    assert clock.now == 0.0
    assert world.events.names[:3] == ["Connected", "Disconnected", "Reconnected"]
    assert "the program called reconnect" in str(world.events.of(Disconnected)[0].error)


async def test_reconnect_restores_subscriptions_and_keeps_received_messages(
    world: World, net: MemoryNetwork, clock: Clock
) -> None:
    servers = _servers(net)
    connection = await world.connect([each.url for each in servers], randomize=False)
    subscription = await connection.subscribe("news", queue="q")
    await connection.publish("news", b"before")
    await connection.flush()
    await connection.reconnect()
    await clock.settle()
    assert servers[1].session.subjects == ["news"]
    await connection.publish("news", b"after")
    assert [(await subscription.next_msg(1)).payload for _ in range(2)] == [b"before", b"after"]


async def test_a_request_that_waits_fails_when_the_program_reconnects(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    server.on("slow", lambda *_: None)
    connection = await world.connect()
    waiting = asyncio.create_task(connection.request("slow", timeout=60))
    await clock.settle()
    await connection.reconnect()
    with pytest.raises(DisconnectedError, match="the program called reconnect"):
        await waiting
    assert clock.now == 0.0


async def test_reconnect_sends_what_was_published_before_it(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    await connection.publish("news", b"before")
    await connection.reconnect()
    await clock.settle()
    assert [pub.payload for session in server.sessions for pub in session.published("news")] == [b"before"]


async def test_reconnect_without_a_session_tries_all_servers_at_once(
    world: World, net: MemoryNetwork, clock: Clock
) -> None:
    servers = _servers(net)
    connection = await world.connect(
        [each.url for each in servers], randomize=False, reconnect_wait=60, reconnect_wait_max=60
    )
    fix_jitter(connection._core, 0)
    for each in servers:
        each.down()
    await clock.until(10)
    for each in servers:
        each.attempts.clear()
    servers[2].up()
    await connection.reconnect()
    assert clock.now == 10.0
    assert connection.address is not None
    assert connection.address.port == 3


async def test_reconnect_says_when_no_server_accepts_and_the_connection_keeps_trying(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=4, reconnect_wait_max=4)
    fix_jitter(connection._core, 0)
    server.down()
    await clock.settle()
    with pytest.raises(ConnectError, match="within 2 s; the connection keeps trying") as caught:
        await connection.reconnect(timeout=2)
    assert caught.value.timed_out
    assert clock.now == 2.0
    server.up()
    await clock.until(5)
    assert connection.connected


async def test_reconnect_works_although_lost_sessions_are_not_replaced(world: World, server: MemoryServer) -> None:
    connection = await world.connect(reconnect=False)
    await connection.reconnect()
    await connection.flush()
    assert len(server.sessions) == 2


async def test_a_reconnect_request_counts_for_one_session_only(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect=False)
    await connection.reconnect()
    server.session.reset()
    await clock.settle()
    assert connection.closed


async def test_several_reconnects_at_once_make_one_new_session(world: World, server: MemoryServer) -> None:
    connection = await world.connect()
    await asyncio.gather(*(connection.reconnect() for _ in range(3)))
    assert connection.connected
    assert len(server.sessions) == 2


@pytest.mark.parametrize("state", ["closed", "draining", "closed meanwhile"])
async def test_a_connection_that_ends_does_not_reconnect_on_request(
    world: World, server: MemoryServer, clock: Clock, state: str
) -> None:
    connection = await world.connect()
    ends = asyncio.create_task(asyncio.sleep(0))
    if state == "closed":
        await connection.close()
    elif state == "draining":
        subscription = await connection.subscribe("news")
        await connection.publish("news", b"kept")
        await connection.flush()
        ends = asyncio.create_task(connection.drain())
        await clock.settle()
    else:
        server.down()
        ends = asyncio.create_task(_close_later(world, connection))
    with pytest.raises(ConnectionClosedError):
        await connection.reconnect()
    if state == "draining":
        assert (await subscription.next_msg(1)).payload == b"kept"
    await ends


async def _close_later(world: World, connection: object) -> None:
    await world.clock.advance(0.5)
    await world.close()
