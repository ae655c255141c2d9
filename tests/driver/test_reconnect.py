"""Loss of a session, and the reconnect."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.driver.server import MemoryNetwork, MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark.errors import (
    AuthenticationError,
    ConnectError,
    ConnectionClosedError,
    DisconnectedError,
    NoServersError,
)
from jetspark.wire.events import Closed, Disconnected, ErrorOccurred, LameDuck, ServersDiscovered
from jetspark.wire.server_pool import LASTING_SESSION


@pytest.mark.conformance("REC-01")
async def test_the_first_retry_comes_at_once(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect(reconnect_wait=60)
    await clock.until(5)
    server.session.reset()
    await clock.settle()
    assert clock.now == 5.0
    assert connection.connected
    assert world.events.names == ["Connected", "Disconnected", "Reconnected"]


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_the_reason_of_a_loss_is_reported(world: World, server: MemoryServer, clock: Clock, how: str) -> None:
    await world.connect()
    if how == "close":
        server.session.close()
    else:
        server.session.reset(OSError("cable cut"))
    await clock.settle()
    [event] = world.events.of(Disconnected)
    assert isinstance(event.error, DisconnectedError)
    assert ("the server closed the connection" if how == "close" else "cable cut") in str(event.error)


async def test_a_last_error_of_the_server_is_the_reason_of_the_loss(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    await world.connect()
    server.session.error("Secure Connection - TLS Required")
    server.session.close()
    await clock.settle()
    [event] = world.events.of(Disconnected)
    assert "TLS Required" in str(event.error)


@pytest.mark.parametrize(("jitter", "factor"), [(0.0, 1.0), (0.5, 0.75), (1.0, 0.5)])
async def test_waits_grow_by_a_half_each_round_up_to_the_most(
    world: World, server: MemoryServer, clock: Clock, jitter: float, factor: float
) -> None:
    connection = await world.connect(reconnect_wait=1, reconnect_wait_max=3)
    fix_jitter(connection._core, jitter)
    server.attempts.clear()
    server.down()
    await clock.until(20)
    waits = [round(later - sooner, 9) for sooner, later in pairwise(server.attempts)]
    assert server.attempts[0] == 0.0
    assert waits[:5] == [round(factor * wait, 9) for wait in (1, 1.5, 2.25, 3, 3)]


async def test_jitter_stays_within_a_half_of_each_wait(world: World, server: MemoryServer, clock: Clock) -> None:
    await world.connect(reconnect_wait=2, reconnect_wait_max=2)
    server.attempts.clear()
    server.down()
    await clock.until(400)
    waits = [later - sooner for sooner, later in pairwise(server.attempts)]
    assert all(1 <= round(wait, 9) <= 2 for wait in waits)
    assert len({round(wait, 6) for wait in waits}) > 100  # they differ


async def test_a_wait_starts_at_its_least_again_after_a_success(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=1, reconnect_wait_max=100)
    fix_jitter(connection._core, 0)
    server.down()
    await clock.until(10)
    server.up()
    while not connection.connected:
        await clock.advance(1)
    await clock.advance(5)
    server.attempts.clear()
    server.down()
    began = clock.now
    await clock.advance(3)
    assert [at - began for at in server.attempts] == [0.0, 1.0, 2.5]


async def test_all_servers_are_tried_before_the_first_wait(world: World, net: MemoryNetwork, clock: Clock) -> None:
    servers = [net.server(port) for port in (1, 2, 3)]
    connection = await world.connect([each.url for each in servers], randomize=False, reconnect_wait=1)
    fix_jitter(connection._core, 0)
    for server in servers:
        server.attempts.clear()
        server.down()
    await clock.until(1)
    assert [server.attempts for server in servers] == [[0.0, 1.0]] * 3


async def test_a_reconnect_takes_the_next_server_in_turn(world: World, net: MemoryNetwork, clock: Clock) -> None:
    servers = [net.server(port) for port in (1, 2, 3)]
    connection = await world.connect([each.url for each in servers], randomize=False)
    visited = []
    for _ in range(4):
        assert connection.address is not None
        visited.append(connection.address.port)
        servers[connection.address.port - 1].session.reset()
        await clock.settle()
    assert visited == [1, 2, 3, 1]


async def test_servers_are_shuffled_unless_asked_otherwise(world: World, net: MemoryNetwork) -> None:
    urls = [net.server(port).url for port in range(1, 9)]
    orders = {tuple(server.port for server in (await world.connect(urls)).servers) for _ in range(5)}
    assert len(orders) > 1
    assert all(sorted(order) == list(range(1, 9)) for order in orders)


async def test_a_server_that_never_answers_costs_one_connect_timeout_in_each_round(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(connect_timeout=2, reconnect_wait=1, reconnect_wait_max=1)
    fix_jitter(connection._core, 0)
    server.attempts.clear()
    server.greets = False
    server.session.reset()
    await clock.until(8)
    assert server.attempts == [0.0, 3.0, 6.0]
    assert [event.error for event in world.events.of(ErrorOccurred) if not isinstance(event.error, ConnectError)] == []
    server.greets = True


async def test_with_no_server_left_the_connection_closes_and_says_why(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(max_reconnects=3, reconnect_wait=1, reconnect_wait_max=1)
    fix_jitter(connection._core, 0)
    server.attempts.clear()
    server.down()
    await clock.until(10)
    assert server.attempts == [0.0, 1.0, 2.0]
    assert connection.closed
    assert world.events.names == ["Connected", "Disconnected", *["ErrorOccurred"] * 3, "Closed"]
    assert world.events.times_of(Closed) == [2.0]
    assert isinstance(world.events.of(Closed)[0].error, NoServersError)
    with pytest.raises(ConnectionClosedError, match="no server is left"):
        await connection.publish("a")


async def test_a_success_ends_a_row_of_failures(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect(max_reconnects=3, reconnect_wait=1, reconnect_wait_max=1)
    fix_jitter(connection._core, 0)
    for _ in range(4):
        server.down()
        await clock.advance(1)  # two failures
        server.up()
        await clock.advance(1 + LASTING_SESSION)
        assert connection.connected


async def test_only_the_server_that_fails_too_often_is_given_up(world: World, net: MemoryNetwork, clock: Clock) -> None:
    bad, good = net.server(1), net.server(2)
    connection = await world.connect([good.url, bad.url], randomize=False, max_reconnects=2, reconnect_wait=0.1)
    bad.down()
    for _ in range(3):
        good.session.reset()
        await clock.advance(5)
    assert [address.port for address in connection.servers] == [2]
    assert connection.connected
    assert len(bad.attempts) == 2


async def test_refused_credentials_give_a_server_up_if_so_asked(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(max_auth_failures=2, reconnect_wait=1, user="a", password="b")
    server.rejects = "Authorization Violation"
    server.answers_connect = False
    server.session.reset()
    await clock.until(10)
    assert connection.closed
    [event] = world.events.of(Closed)
    assert isinstance(event.error, NoServersError)
    errors = [type(event.error) for event in world.events.of(ErrorOccurred)]
    assert errors == [AuthenticationError, AuthenticationError]


async def test_without_reconnect_a_loss_closes(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect(reconnect=False)
    subscription = await connection.subscribe("a")
    waiting = asyncio.create_task(subscription.next_msg())
    await clock.settle()
    server.session.reset()
    with pytest.raises(ConnectionClosedError):
        await waiting
    await clock.settle()
    assert world.events.names == ["Connected", "Disconnected", "Closed"]
    assert len(server.attempts) == 1


async def test_servers_that_the_cluster_announces_are_tried(world: World, net: MemoryNetwork, clock: Clock) -> None:
    first, second = net.server(1), net.server(2)
    first.info["connect_urls"] = ["localhost:1", "localhost:2"]
    connection = await world.connect(first.url)
    await clock.settle()
    [event] = world.events.of(ServersDiscovered)
    assert [address.port for address in event.addresses] == [2]
    first.down()
    await clock.settle()
    assert connection.address is not None
    assert connection.address.port == 2
    assert second.session.frames


async def test_servers_of_a_later_info_are_tried_and_reported_once(
    world: World, net: MemoryNetwork, clock: Clock
) -> None:
    first = net.server(1)
    net.server(2)
    connection = await world.connect(first.url)
    first.info["connect_urls"] = ["localhost:2"]
    first.session.send(first.greeting(), first.greeting())
    await clock.settle()
    assert len(world.events.of(ServersDiscovered)) == 1
    assert sorted(address.port for address in connection.servers) == [1, 2]


async def test_discovery_may_be_switched_off(world: World, net: MemoryNetwork, clock: Clock) -> None:
    first = net.server(1)
    first.info["connect_urls"] = ["localhost:2"]
    connection = await world.connect(first.url, discover_servers=False)
    assert [address.port for address in connection.servers] == [1]


async def test_the_lame_duck_is_reported_once_and_left_when_it_closes(
    world: World, net: MemoryNetwork, clock: Clock
) -> None:
    first, second = net.server(1), net.server(2)
    connection = await world.connect([first.url, second.url], randomize=False)
    first.info["ldm"] = True
    first.session.send(first.greeting(), first.greeting())
    await clock.settle()
    assert len(world.events.of(LameDuck)) == 1
    assert connection.connected
    first.down()
    await clock.settle()
    assert connection.address is not None
    assert connection.address.port == 2
