"""Close of a connection to servers that answer, do not answer, or die meanwhile."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.frames import Ping, Unsub
from tests.driver.server import MemoryNetwork, MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark import aio
from jetspark.errors import ConnectionClosedError, DisconnectedError, DrainTimeoutError
from jetspark.wire.events import Closed, Disconnected


async def test_close_waits_for_the_answer_to_the_final_ping(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    await connection.publish("last", b"word")
    server.answers_pings = False
    closing = asyncio.create_task(connection.close())
    await clock.until(1)
    assert not closing.done()
    assert server.session.published("last")
    assert len(server.session.of(Ping)) == 2
    server.session.send(b"PONG\r\n")
    await closing
    assert clock.now == 1.0
    assert not server.session.transport.aborted
    assert world.events.names == ["Connected", "Disconnected", "Closed"]
    assert [event.error for event in world.events.of(Closed)] == [None]


async def test_close_gives_a_silent_server_two_seconds(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.answers_pings = False
    await connection.close()
    assert clock.now == 2.0
    assert server.session.transport.aborted


async def test_close_does_not_wait_for_a_server_that_dies(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.answers_pings = False
    closing = asyncio.create_task(connection.close())
    await clock.until(0.5)
    server.down()
    await closing
    assert clock.now == 0.5


async def test_close_of_a_lost_connection_ends_at_once(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect(reconnect_wait=10)
    server.down()
    await clock.until(1)
    await connection.close()
    assert clock.now == 1.0
    assert world.events.names[-1] == "Closed"


async def test_close_during_a_pending_connect_ends_at_once(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.greets = False
    server.session.reset()
    await clock.until(1)
    await connection.close()
    assert clock.now == 1.0


async def test_a_second_close_does_nothing(world: World, server: MemoryServer) -> None:
    connection = await world.connect()
    await connection.close()
    frames = len(server.session.frames)
    await connection.close()
    assert len(server.session.frames) == frames
    assert world.events.names.count("Closed") == 1


async def test_two_concurrent_closes_end_together(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.answers_pings = False
    closings = [asyncio.create_task(connection.close()) for _ in range(2)]
    await clock.until(0.5)
    server.session.send(b"PONG\r\n")
    await asyncio.gather(*closings)
    assert clock.now == 0.5


async def test_a_cancelled_close_leaves_another_close_its_full_timeout(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.answers_pings = False
    first, second = (asyncio.create_task(connection.close()) for _ in range(2))
    await clock.until(0.5)
    first.cancel()
    await clock.until(1)
    assert not second.done()
    assert not server.session.transport.aborted
    server.session.send(b"PONG\r\n")
    await second
    assert clock.now == 1.0


async def test_pending_calls_fail_with_the_close(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.on("silent", lambda session, pub: None)
    subscription = await connection.subscribe("a")
    waiting = [
        asyncio.create_task(connection.request("silent")),
        asyncio.create_task(connection.request("silent", own_inbox=True)),
        asyncio.create_task(subscription.next_msg()),
    ]
    await clock.settle()
    await connection.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in outcomes] == [ConnectionClosedError, DisconnectedError, ConnectionClosedError]
    assert clock.now == 0.0


async def test_close_cancels_a_callback_that_does_not_end(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    cancelled: list[float] = []

    async def hang(_: aio.Msg) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(clock.now)
            raise

    await connection.subscribe("a", callback=hang)
    await clock.settle()
    server.session.deliver("a")
    await clock.until(1)
    await connection.close()
    assert cancelled == [1.0]


async def test_a_callback_can_close_the_connection(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    closed: list[float] = []

    async def close(_: aio.Msg) -> None:
        await connection.close()
        closed.append(clock.now)

    await connection.subscribe("a", callback=close)
    await clock.settle()
    server.session.deliver("a")
    await clock.settle()
    assert connection.closed
    assert closed == [0.0]


async def test_the_event_handler_can_close_the_connection(world: World, server: MemoryServer, clock: Clock) -> None:
    connections: list[aio.Connection] = []
    seen: list[str] = []

    async def handle(event: object) -> None:
        seen.append(type(event).__name__)
        if isinstance(event, Disconnected) and event.error is not None:
            await connections[0].close()

    connections.append(await world.connect(on_event=handle, reconnect_wait=10))
    server.down()
    await clock.settle()
    assert connections[0].closed
    assert seen == ["Connected", "Disconnected", "Closed"]


async def test_bytes_that_wait_for_the_transport_are_sent_before_the_close(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    transport = server.session.transport
    transport.stop_taking()
    for number in range(3):
        await connection.publish("much", bytes(40_000))
        await clock.settle()
        assert transport.get_write_buffer_size() > 40_000 * number
    closing = asyncio.create_task(connection.close())
    await clock.until(1)
    assert not closing.done()
    transport.take_again()
    await closing
    assert clock.now == 1.0
    assert len(server.session.published("much")) == 3


async def test_close_resumes_paused_reading(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    subscription = await connection.subscribe("a", pending_msgs_limit=2, overflow="pause")
    await clock.settle()
    for _ in range(4):
        server.session.deliver("a")
    await clock.settle()
    assert not server.session.transport.is_reading()
    await connection.close()
    assert clock.now == 0.0  # the answer to the final PING was read
    assert subscription.closed


async def test_a_context_manager_drains_and_after_an_error_closes(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    async with await world.connect() as connection:
        subscription = await connection.subscribe("a")
        await clock.settle()
        server.session.deliver("a")
        taking = asyncio.create_task(subscription.next_msg())
    assert (await taking).subject == "a"
    second = await world.connect()
    with pytest.raises(ZeroDivisionError):
        async with second:
            raise ZeroDivisionError
    assert second.closed
    assert not server.session.of(Unsub)


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("how", ["close", "drain"])
async def test_a_close_or_drain_that_is_cancelled_anywhere_still_closes(
    world: World, net: MemoryNetwork, server: MemoryServer, clock: Clock, how: str, answers: bool, moment: Moment
) -> None:
    connection: aio.Connection

    async def renew() -> None:
        nonlocal connection
        server.answers_pings = True
        connection = await world.connect()
        await connection.subscribe("a", callback=lambda message: None)
        await clock.settle()
        server.answers_pings = answers

    async def operation() -> None:
        with contextlib.suppress(DrainTimeoutError):
            await (connection.close() if how == "close" else connection.drain(1))

    async def check() -> None:
        await clock.settle()
        assert connection.closed
        assert not net.open_transports
        assert not world.left()

    awaits = await cancel_everywhere(operation, check, moment, before=renew)
    assert awaits >= 2
