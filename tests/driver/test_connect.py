"""Opening a connection."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.frames import Connect, Ping
from tests.driver.server import MemoryNetwork, MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import AuthenticationError, ConnectError, NoServersError, ProtocolError, TLSError
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.connection_status import ConnectionStatus
from jetspark.wire.events import Connected
from jetspark.wire.options import ConnectOptions, TLSOptions


async def test_the_client_sends_connect_and_ping_after_info(world: World, server: MemoryServer) -> None:
    connection = await world.connect(name="tester")
    assert connection.connected
    first, second = server.session.frames[:2]
    assert isinstance(first, Connect)
    assert isinstance(second, Ping)
    assert first.options["name"] == "tester"


@pytest.mark.conformance("WIR-01")
async def test_connect_enables_headers_no_responders_and_protocol_1(world: World, server: MemoryServer) -> None:
    await world.connect()
    options = server.session.of(Connect)[0].options
    assert (options["headers"], options["no_responders"], options["protocol"]) == (True, True, 1)


async def test_a_server_that_refuses_the_connection_is_named_at_once(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    server.down()
    with pytest.raises(ConnectError, match="localhost:4222: cannot connect: refused"):
        await world.connect()
    assert clock.now == 0.0


async def test_a_server_that_never_accepts_the_connection_uses_up_the_connect_timeout(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    server.accepts.clear()
    with pytest.raises(ConnectError, match="no answer in time"):
        await world.connect(connect_timeout=3)
    assert clock.now == 3.0
    server.accepts.set()


@pytest.mark.parametrize("behaviour", ["greets", "answers_connect"])
async def test_a_silent_server_uses_up_the_connect_timeout(
    world: World, server: MemoryServer, clock: Clock, behaviour: str
) -> None:
    setattr(server, behaviour, False)
    with pytest.raises(ConnectError, match="no answer in time"):
        await world.connect(connect_timeout=3)
    assert clock.now == 3.0
    assert server.session.transport.aborted


async def test_the_connect_timeout_applies_to_each_server(world: World, net: MemoryNetwork, clock: Clock) -> None:
    servers = [net.server(port) for port in (1, 2, 3)]
    for server in servers[:2]:
        server.greets = False
    connection = await world.connect([each.url for each in servers], connect_timeout=2, randomize=False)
    assert clock.now == 4.0
    assert str(connection.address) == servers[2].url


async def test_connect_fails_after_one_round_and_names_each_server(world: World, net: MemoryNetwork) -> None:
    servers = [net.server(port) for port in (1, 2)]
    for server in servers:
        server.down()
    with pytest.raises(NoServersError, match=r"localhost:1: .*localhost:2: "):
        await world.connect([each.url for each in servers], randomize=False)
    assert [len(each.attempts) for each in servers] == [1, 1]


async def test_rejected_credentials_are_reported(world: World, server: MemoryServer) -> None:
    server.rejects = "Authorization Violation"
    server.answers_connect = False
    with pytest.raises(AuthenticationError, match="Authorization Violation"):
        await world.connect(user="alice", password="wrong")


async def test_a_server_that_is_not_a_nats_server_is_recognised(world: World, server: MemoryServer) -> None:
    server.greeting = lambda: b"PING\r\n"  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="check that a NATS server listens there"):
        await world.connect()


async def test_a_server_without_headers_is_too_old(world: World, server: MemoryServer) -> None:
    server.info["headers"] = False
    with pytest.raises(ConnectError, match="has no headers"):
        await world.connect()


async def test_a_server_that_closes_after_info_fails_at_once(world: World, server: MemoryServer, clock: Clock) -> None:
    server.answers_connect = False
    connecting = asyncio.create_task(world.connect())
    await clock.settle()
    server.session.close()
    with pytest.raises(ConnectError, match="the server closed the connection"):
        await connecting
    assert clock.now == 0.0


async def test_a_ping_during_the_handshake_is_answered(world: World, server: MemoryServer, clock: Clock) -> None:
    server.answers_connect = False
    connecting = asyncio.create_task(world.connect())
    await clock.settle()
    server.session.send(b"PING\r\n", b"PONG\r\n")
    connection = await connecting
    await clock.settle()
    assert [type(frame).__name__ for frame in server.session.frames] == ["Connect", "Ping", "Pong"]
    assert connection.connected


async def test_info_in_pieces_is_read(world: World, server: MemoryServer, clock: Clock) -> None:
    server.greets = False
    connecting = asyncio.create_task(world.connect())
    await clock.settle()
    for byte in server.greeting():
        server.session.send(bytes([byte]))
    assert (await connecting).server_info.server_id == "ID4222"


async def test_tls_starts_between_info_and_connect(world: World, server: MemoryServer) -> None:
    server.info["tls_required"] = True
    await world.connect(tls=TLSOptions(verify=False))
    assert server.session.tls
    assert server.session.of(Connect)[0].options["tls_required"] is True


async def test_tls_that_the_server_does_not_offer_is_an_error(world: World, server: MemoryServer) -> None:
    with pytest.raises(TLSError, match="the server does not offer it"):
        await world.connect(tls=TLSOptions(verify=False))
    assert not server.session.of(Connect)


async def test_a_failed_tls_handshake_leaves_nothing_open(world: World, server: MemoryServer) -> None:
    server.info["tls_required"] = True
    server.tls_error = ConnectionResetError("during the handshake")
    with pytest.raises(ConnectError, match="during the handshake"):
        await world.connect(tls=TLSOptions(verify=False))


async def test_a_server_that_disconnects_in_the_tls_handshake_fails_at_once(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    server.info["tls_required"] = True
    server.closes_in_tls = True
    with pytest.raises(ConnectError, match="during the TLS handshake"):
        await world.connect(tls=TLSOptions(verify=False))
    assert clock.now == 0.0


async def test_retry_connect_continues_until_the_server_is_available(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    server.down()
    connecting = asyncio.create_task(world.connect(retry_connect=True, reconnect_wait=1, reconnect_wait_max=1))
    await clock.until(10)
    assert not connecting.done()
    assert 11 <= len(server.attempts) <= 21  # waits of half a second to one
    server.up()
    connection = await connecting
    assert connection.connected
    assert clock.now <= 11
    await clock.settle()
    assert world.events.names == ["Connected"]


async def test_retry_connect_ends_when_the_last_server_is_given_up(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    server.down()
    with pytest.raises(NoServersError, match="no server is left"):
        await world.connect(retry_connect=True, max_reconnects=3)
    assert len(server.attempts) == 3
    assert not world.events.of(Connected)


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_connect_that_is_cancelled_anywhere_leaves_nothing_open(
    world: World, net: MemoryNetwork, server: MemoryServer, clock: Clock, moment: Moment
) -> None:
    async def connect() -> None:
        await (await world.connect()).close()

    async def check() -> None:
        await clock.settle()
        assert not net.open_transports
        assert not world.left()

    assert await cancel_everywhere(connect, check, moment) >= 4


async def test_a_retry_that_is_cancelled_anywhere_leaves_nothing_open(
    world: World, net: MemoryNetwork, server: MemoryServer, clock: Clock
) -> None:
    tries = 0

    def refuse() -> bytes:
        nonlocal tries
        tries += 1
        return b"-ERR 'maximum connections exceeded'\r\n" if tries % 3 else MemoryServer.greeting(server)

    server.greeting = refuse  # type: ignore[method-assign]

    async def connect() -> None:
        await (await world.connect(retry_connect=True)).close()

    async def check() -> None:
        nonlocal tries
        tries = 0
        await clock.settle()
        assert not world.left()

    assert await cancel_everywhere(connect, check) >= 8


async def test_before_the_first_session_there_is_no_server_and_no_failure() -> None:
    client = ConnectionState(ConnectOptions(), print)
    assert (client.server, client.fatal_error, client.status) == (None, None, ConnectionStatus.CONNECTING)
    assert not client.closed
