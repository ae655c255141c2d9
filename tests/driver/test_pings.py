"""Whether the server is alive: PINGs of the client and of the server."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.frames import Ping, Pong
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import FlushTimeoutError, StaleConnectionError
from jetspark.wire.events import Disconnected


async def test_a_ping_is_sent_every_interval(world: World, server: MemoryServer, clock: Clock) -> None:
    await world.connect(ping_interval=10)
    await clock.until(35)
    assert [ping.at for ping in server.session.of(Ping)] == [0.0, 10.0, 20.0, 30.0]


async def test_a_server_that_answers_is_kept_for_hours(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    await clock.until(7200)
    assert connection.connected
    assert world.events.names == ["Connected"]
    assert len(server.session.of(Ping)) == 1 + 60


@pytest.mark.conformance("REC-01")
@pytest.mark.parametrize("most", [1, 2, 5])
async def test_a_silent_server_is_given_up_after_the_maximum_of_pings(
    world: World, server: MemoryServer, clock: Clock, most: int
) -> None:
    connection = await world.connect(ping_interval=10, max_outstanding_pings=most)
    server.answers_pings = False
    await clock.until(10 * most + 9.999)
    assert connection.connected
    await clock.until(10 * most + 10)
    [event] = world.events.of(Disconnected)
    assert isinstance(event.error, StaleConnectionError)
    assert f"{most} PINGs without an answer" in str(event.error)
    assert server.sessions[0].transport.aborted
    assert connection.connected  # to the next session


async def test_a_server_that_sends_data_is_alive_although_it_answers_no_ping(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(ping_interval=10, max_outstanding_pings=1)
    server.answers_pings = False
    for second in range(5, 100, 10):
        await clock.until(second)
        server.session.send(b"+OK\r\n")
    await clock.settle()
    assert connection.connected
    assert len(server.sessions) == 1


async def test_one_answer_resets_the_count(world: World, server: MemoryServer, clock: Clock) -> None:
    await world.connect(ping_interval=10, max_outstanding_pings=2)
    server.answers_pings = False
    await clock.until(25)
    server.session.send(b"PONG\r\n")
    await clock.until(49.999)
    assert not world.events.of(Disconnected)
    await clock.until(50)
    assert world.events.of(Disconnected)


async def test_pings_continue_in_the_next_session(world: World, server: MemoryServer, clock: Clock) -> None:
    await world.connect(ping_interval=10)
    await clock.until(5)
    server.session.reset()
    await clock.until(21)
    assert [ping.at for ping in server.session.of(Ping)] == [5.0, 10.0, 20.0]


async def test_a_ping_of_the_server_is_answered(world: World, server: MemoryServer, clock: Clock) -> None:
    await world.connect()
    server.session.send(b"PING\r\n", b"PING\r\n")
    await clock.settle()
    assert len(server.session.of(Pong)) == 2


async def test_no_ping_is_sent_while_reading_is_paused(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect(ping_interval=10, max_outstanding_pings=2)
    subscription = await connection.subscribe("full", pending_msgs_limit=2, overflow="pause")
    await clock.settle()
    for _ in range(4):
        server.session.deliver("full")
    await clock.until(100)
    assert len(server.session.of(Ping)) == 1
    assert len(server.sessions) == 1
    for _ in range(4):
        await subscription.next_msg(1)
    await clock.until(110)
    assert len(server.session.of(Ping)) == 2


async def test_a_flush_is_confirmed_by_its_own_pong(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.answers_pings = False
    first, second = (asyncio.create_task(connection.flush()) for _ in range(2))
    await clock.settle()
    server.session.send(b"PONG\r\n")
    await clock.settle()
    assert (first.done(), second.done()) == (True, False)
    server.session.send(b"PONG\r\n")
    await second


@pytest.mark.parametrize("seconds", [0.25, 10.0])
async def test_a_flush_times_out(world: World, server: MemoryServer, clock: Clock, seconds: float) -> None:
    connection = await world.connect()
    server.answers_pings = False
    with pytest.raises(FlushTimeoutError, match=f"not confirmed within {seconds:g} s"):
        await connection.flush(seconds)
    assert clock.now == seconds


async def test_a_pong_after_the_timeout_of_its_flush_confirms_no_other_flush(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.answers_pings = False
    with pytest.raises(FlushTimeoutError):
        await connection.flush(1)
    second = asyncio.create_task(connection.flush())
    await clock.settle()
    server.session.send(b"PONG\r\n")  # for the first one
    await clock.settle()
    assert not second.done()
    server.session.send(b"PONG\r\n")
    await second


async def test_an_extra_pong_does_no_harm(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.session.send(b"PONG\r\n" * 3)
    await clock.settle()
    await connection.flush()
    assert len(server.sessions) == 1
