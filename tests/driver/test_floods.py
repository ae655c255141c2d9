"""A server that sends without an end, or reads nothing, delays no call and fills no memory."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import pytest
from tests.driver.frames import Pong
from tests.driver.jetstream import ConsumerScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio import Connection
from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.errors import Error, FlushTimeoutError

LIMIT: Final = 1.0
TURN: Final = 0.05
"""Seconds of virtual time that one turn of the event loop takes."""
INFO: Final = b'INFO {"server_id":"X","headers":true,"max_payload":1048576}\r\n'
FLOODS: Final = {
    "PING": b"PING\r\n" * 2000,
    "PONG": b"PONG\r\n" * 2000,
    "+OK": b"+OK\r\n" * 2000,
    "INFO": INFO * 500,
    "refusals": b"-ERR 'Permissions Violation for Subscription to \"x\"'\r\n" * 40,
    "messages for nobody": b"MSG a 99 1\r\nx\r\n" * 1000,
    "messages on the inbox of requests": b"MSG a 1 1\r\nx\r\n" * 1000,
    "a line without an end": b"x" * 100,
}


@asynccontextmanager
async def flooding(server: MemoryServer, clock: Clock, sent: bytes) -> AsyncIterator[None]:
    """In each turn of the event loop, the server sends, and time passes."""

    async def flood() -> None:
        while True:
            clock.block(TURN)
            if server.sessions and server.session.transport.is_reading():
                server.session.send(sent)
            await asyncio.sleep(0)

    task = asyncio.create_task(flood())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def request(connection: Connection) -> object:
    return await connection.request("orders", b"", timeout=LIMIT)


async def flush(connection: Connection) -> None:
    await connection.flush(LIMIT)


async def drain(connection: Connection) -> None:
    await connection.drain(LIMIT)


async def next_msg(connection: Connection) -> object:
    return await (await connection.subscribe("quiet")).next_msg(LIMIT)


async def stream_info(connection: Connection) -> object:
    return await connection.jetstream().stream("ORDERS", timeout=LIMIT)


async def publish(connection: Connection) -> object:
    return await connection.jetstream().publish("orders", b"", timeout=LIMIT)


async def publish_async(connection: Connection) -> object:
    return await (
        await connection.jetstream(publishing=AsyncPublishOptions(ack_timeout=LIMIT)).publish_async("orders", b"")
    )


CALLS: Final[tuple[Callable[[Connection], Awaitable[object]], ...]] = (
    request,
    flush,
    drain,
    next_msg,
    stream_info,
    publish,
    publish_async,
)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_call_ends_at_its_deadline_while_the_server_sends(
    world: World, server: MemoryServer, clock: Clock, flood: str, call: Callable[[Connection], Awaitable[object]]
) -> None:
    server.answers_pings = server.routes = False
    connection = await world.connect(reconnect=False)
    began = clock.now
    async with flooding(server, clock, FLOODS[flood]):
        with suppress(Error):
            await call(connection)
        assert clock.now - began < LIMIT + 1


@pytest.mark.parametrize("flood", FLOODS)
async def test_connecting_ends_at_its_deadline_while_the_server_sends(
    world: World, server: MemoryServer, clock: Clock, flood: str
) -> None:
    server.answers_connect = False
    async with flooding(server, clock, FLOODS[flood].replace(b"PONG", b"+OK")):
        with pytest.raises(Error):
            await world.connect(connect_timeout=LIMIT)
        assert clock.now < LIMIT + 1


@pytest.mark.parametrize("flood", FLOODS)
async def test_closing_ends_in_time_while_the_server_sends(
    world: World, server: MemoryServer, clock: Clock, flood: str
) -> None:
    server.answers_pings = False
    connection = await world.connect()
    async with flooding(server, clock, FLOODS[flood].replace(b"PONG", b"+OK")):
        began = clock.now
        await connection.close()
        assert clock.now - began < 3


async def test_pings_of_a_server_that_reads_nothing_get_few_answers(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    transport = server.session.transport
    transport.stop_taking()
    for _ in range(500):
        server.session.send(b"PING\r\n" * 100)
        await clock.settle()
    assert transport.get_write_buffer_size() + connection.buffered < 70_000
    transport.take_again()
    await clock.settle()
    before = len(server.session.of(Pong))
    server.session.send(b"PING\r\n")
    await clock.settle()
    assert len(server.session.of(Pong)) == before + 1


async def test_other_work_is_done_between_many_frames_that_came_together(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.answers_pings = False
    flushes = [asyncio.create_task(connection.flush()) for _ in range(1000)]
    await clock.settle()
    server.session.send(b"PONG\r\n" * 1000)
    done = []
    while not all(each.done() for each in flushes):
        await asyncio.sleep(0)
        done.append(sum(each.done() for each in flushes))
    assert max(later - earlier for earlier, later in itertools.pairwise(done)) < 300
    assert await asyncio.gather(*flushes) == [None] * 1000


async def test_messages_after_many_other_frames_arrive_in_order(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    subscription = await connection.subscribe("a")
    await clock.settle()
    sid = next(iter(server.session.subs)).encode()
    for number in range(3):
        server.session.send(b"+OK\r\n" * 700, b"MSG a %b 1\r\n%d\r\n" % (sid, number))
    server.session.send(b"MSG a %b 1\r\n3\r\n" % sid)
    assert [(await subscription.next_msg(1)).payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]


async def test_errors_that_a_server_sends_without_an_end_fill_no_log(
    world: World, server: MemoryServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await world.connect()
    caplog.clear()
    for _ in range(100):
        server.session.send(b"-ERR 'Permissions Violation for Subscription to \"a\"'\r\n" * 10)
        await clock.settle()
    assert 1 <= len(caplog.records) <= 20
    before = len(caplog.records)
    await clock.advance(11)
    server.session.send(b"-ERR 'Permissions Violation for Subscription to \"a\"'\r\n")
    await clock.settle()
    assert "more of this class were not logged" in caplog.records[before].getMessage()


@pytest.mark.parametrize("call", ["publish", "respond", "ack", "nak", "in_progress", "publish_async"])
async def test_a_call_ends_while_the_server_reads_nothing(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock, call: str
) -> None:
    connection = await world.connect(ping_interval=600)
    js = connection.jetstream()
    fetching = asyncio.create_task((await js.consumer("ORDERS", "worker")).fetch(1))
    await clock.settle()
    worker.pull.fill(1)
    [message] = await fetching
    server.session.transport.stop_taking()
    connection._core.queue_publish("much", bytes(200_000), "", None)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "publish": lambda: connection.publish("a", bytes(100_000)),
        "respond": lambda: message.respond(bytes(100_000)),
        "ack": message.ack,
        "nak": message.nak,
        "in_progress": message.in_progress,
        "publish_async": lambda: js.publish_async("orders.a"),
    }
    began = clock.now
    with pytest.raises(FlushTimeoutError, match="the server has read nothing for 10 s"):
        await calls[call]()
    assert clock.now == began + 10
    server.session.transport.take_again()
