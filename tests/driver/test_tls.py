"""Bytes that come before TLS do not count, and a connection that was encrypted once is encrypted always."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.frames import Connect
from tests.driver.server import MemoryNetwork, MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import ProtocolError, TLSError
from jetspark.wire.events import ErrorOccurred, ServersDiscovered
from jetspark.wire.options import TLSOptions


def forge(server: MemoryServer, extra: bytes) -> None:
    """Let the server send some bytes in the same segment as INFO."""
    server.greeting = lambda: MemoryServer.greeting(server) + extra  # type: ignore[method-assign]


def be_honest(server: MemoryServer) -> None:
    server.greeting = lambda: MemoryServer.greeting(server)  # type: ignore[method-assign]


@pytest.fixture
def plain_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS without options needs no certificates here: the network in memory only notes that TLS was started."""
    monkeypatch.setattr(TLSOptions, "context", lambda _: None)


@pytest.mark.parametrize("tls_required", [True, False])
async def test_a_message_before_the_session_never_reaches_the_program(
    world: World, server: MemoryServer, clock: Clock, plain_tls: None, *, tls_required: bool
) -> None:
    server.info["tls_required"] = tls_required
    connection = await world.connect(reconnect_wait=1, reconnect_wait_max=1)
    subscription = await connection.subscribe("a")
    await connection.flush()
    forge(server, b"MSG a 1 6\r\nforged\r\n")
    server.session.close()
    await clock.advance(5)
    errors = world.events.of(ErrorOccurred)
    assert len(errors) >= 3
    assert all(isinstance(each.error, ProtocolError) for each in errors)
    assert not any(session.of(Connect) for session in server.sessions[1:] if tls_required)
    be_honest(server)
    await clock.advance(2)
    server.publish("a", b"real")
    assert (await subscription.next_msg(1)).payload == b"real"
    assert subscription.pending == (0, 0)


async def test_servers_that_are_reported_in_plaintext_are_not_used(
    world: World, net: MemoryNetwork, server: MemoryServer, clock: Clock, plain_tls: None
) -> None:
    evil, good = net.server(1, "evil"), net.server(2, "good")
    server.info |= {"tls_required": True, "connect_urls": ["evil:1"], "max_payload": 1}
    connection = await world.connect(user="ada", password="secret")
    assert not world.events.of(ServersDiscovered)
    server.session.send(b'INFO {"server_id":"OVER-TLS","headers":true,"connect_urls":["good:2"]}\r\n')
    await clock.settle()
    assert connection.server_info.server_id == "OVER-TLS"
    assert connection.server_info.max_payload == 1 << 20
    good.info["tls_required"] = True
    server.down()
    await clock.advance(1)
    assert connection.address is not None
    assert connection.address.host == "good"
    assert not evil.attempts


@pytest.mark.parametrize("reported", [False, True])
async def test_after_tls_no_server_gets_credentials_in_plaintext(
    world: World, net: MemoryNetwork, server: MemoryServer, clock: Clock, plain_tls: None, *, reported: bool
) -> None:
    other = net.server(1, "other")
    server.info["tls_required"] = True
    where = [server.url] if reported else [server.url, other.url]
    connection = await world.connect(where, user="ada", password="secret", randomize=False)
    if reported:
        server.session.send(b'INFO {"server_id":"X","headers":true,"connect_urls":["other:1"]}\r\n')
        await clock.settle()
    del server.info["tls_required"]
    server.session.close()
    await clock.advance(3)
    assert not connection.connected
    assert len(other.sessions) >= 2
    assert len(server.sessions) >= 3
    for session in (*server.sessions[1:], *other.sessions):
        assert session.frames == []
    assert isinstance(world.events.of(ErrorOccurred)[0].error, TLSError)
    other.info["tls_available"] = True
    await clock.advance(10)
    assert str(connection.address) == "tls://other:1"
    assert other.session.tls


async def test_a_server_that_requires_tls_later_is_not_used_without_it_again(
    world: World, server: MemoryServer, clock: Clock, plain_tls: None
) -> None:
    connection = await world.connect(user="ada", password="secret")
    server.session.send(b'INFO {"server_id":"ID4222","headers":true,"tls_required":true}\r\n')
    await clock.settle()
    server.session.close()
    await clock.advance(3)
    assert not connection.connected
    assert all(session.frames == [] for session in server.sessions[1:])
    server.info["tls_required"] = True
    await clock.advance(10)
    await connection.flush()
    assert server.session.tls


async def test_frames_that_come_with_the_answer_to_connect_belong_to_the_session(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    server.answers_connect = False
    connecting = asyncio.create_task(world.connect())
    await clock.settle()
    late = b'INFO {"server_id":"LATE","headers":true,"connect_urls":["late:1"]}\r\n'
    server.session.send(b"PONG\r\n", late, b"PING\r\n-ERR 'Stale Connection'\r\n")
    server.answers_connect = True
    connection = await connecting
    await clock.settle()
    assert connection.server_info.server_id == "LATE"
    assert [type(frame).__name__ for frame in server.session.frames] == ["Connect", "Ping", "Pong"]
    assert world.events.names == ["Connected", "ServersDiscovered", "ErrorOccurred"]
