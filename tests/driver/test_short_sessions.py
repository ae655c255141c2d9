"""Sessions that are lost soon after they begin: the wait before the next try grows, whatever ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.driver.frames import ClientFrame, Ping
from tests.driver.server import MemoryNetwork, MemoryServer, Session
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark.errors import NoServersError
from jetspark.wire.events import Closed, Reconnected


def close_with_error(session: Session) -> None:
    session.error("Some Violation")
    session.close()


ENDS: dict[str, Callable[[Session], None]] = {
    "close": lambda session: session.close(),
    "reset": lambda session: session.reset(),
    "error": close_with_error,
}


def drop_after(server: MemoryServer, seconds: float, end: Callable[[Session], None] = Session.close) -> None:
    """Let a server accept every client, and end each session after some time."""
    handle = server.handle

    def handle_and_drop(session: Session, frame: ClientFrame) -> None:
        handle(session, frame)
        if isinstance(frame, Ping) and len(session.of(Ping)) == 1:
            asyncio.get_running_loop().call_later(seconds, end, session)

    server.handle = handle_and_drop  # type: ignore[method-assign]  # it plays a proxy that cuts connections


@pytest.mark.parametrize("seconds", [0.0, 0.005, 1.0, 4.9])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_server_that_accepts_and_drops_gets_few_connections(
    world: World, server: MemoryServer, clock: Clock, seconds: float, end: Callable[[Session], None]
) -> None:
    drop_after(server, seconds, end)
    connection = await world.connect()
    fix_jitter(connection._core, 0)
    await clock.until(60)
    assert 4 <= len(server.sessions) <= 25
    await connection.close()
    await clock.advance(seconds)


async def test_several_servers_that_accept_and_drop_get_few_connections_together(
    world: World, net: MemoryNetwork, clock: Clock
) -> None:
    servers = [net.server(port) for port in (1, 2, 3)]
    for server in servers:
        drop_after(server, 0.005)
    connection = await world.connect([server.url for server in servers])
    await clock.until(60)
    assert sum(len(server.sessions) for server in servers) <= 3 * 35
    await connection.close()


async def test_a_session_that_lasts_resets_the_wait(world: World, server: MemoryServer, clock: Clock) -> None:
    drop_after(server, 0.005)
    connection = await world.connect(reconnect_wait=1, reconnect_wait_max=100)
    fix_jitter(connection._core, 0)
    await clock.until(20)
    del server.handle
    while not connection.connected:
        await clock.advance(1)
    await clock.advance(6)
    server.session.close()
    await clock.settle()
    assert connection.connected
    server.session.close()
    await clock.advance(1.1)
    assert connection.connected
    assert world.events.names[-1] == "Reconnected"


async def test_a_server_that_drops_one_session_is_asked_again_at_once(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    await world.connect(reconnect_wait=60)
    server.session.close()
    await clock.settle()
    assert len(world.events.of(Reconnected)) == 1


async def test_reconnect_does_not_wait_for_the_end_of_a_back_off(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    drop_after(server, 0.005)
    connection = await world.connect(reconnect_wait=100, reconnect_wait_max=100)
    await clock.until(1)
    assert world.events.names[-1] == "Disconnected"
    await connection.reconnect()
    assert clock.now < 1.1
    assert connection.connected
    await clock.advance(1)


@pytest.mark.parametrize("seconds", [0.0, 4.9])
async def test_a_server_that_accepts_and_drops_is_given_up_after_max_reconnects(
    world: World, server: MemoryServer, clock: Clock, seconds: float
) -> None:
    drop_after(server, seconds)
    connection = await world.connect(max_reconnects=3)
    fix_jitter(connection._core, 0)
    await clock.until(60)
    assert connection.closed
    assert len(server.sessions) == 4  # the first one does not count
    assert isinstance(world.events.of(Closed)[0].error, NoServersError)


async def test_sessions_that_last_are_no_failures(world: World, server: MemoryServer, clock: Clock) -> None:
    drop_after(server, 5.0)
    connection = await world.connect(max_reconnects=2)
    fix_jitter(connection._core, 0)
    await clock.until(62)
    assert not connection.closed
    assert len(server.sessions) >= 12
    await connection.close()
    await clock.advance(5)
