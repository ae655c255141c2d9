"""The effect of a lost session on subscriptions, publishes, requests and flushes."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.frames import Pub, Sub, Unsub
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import DisconnectedError, OutboundBufferLimitError
from jetspark.wire.events import Disconnected, Reconnected


@pytest.mark.conformance("REC-02")
async def test_subscriptions_are_restored_before_buffered_publishes_are_sent(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=1)
    _plain = await connection.subscribe("plain")
    _work = await connection.subscribe("work", queue="workers")
    few = await connection.subscribe("few", max_msgs=5)
    gone = await connection.subscribe("gone")
    await gone.unsubscribe()
    await clock.settle()
    server.session.deliver("few")
    await few.next_msg()
    server.down()
    await clock.settle()
    await connection.publish("plain", b"kept")
    server.up()
    await clock.advance(1)
    frames = [frame for frame in server.session.frames if isinstance(frame, Sub | Unsub | Pub)]
    assert [frame.subject if isinstance(frame, Sub | Pub) else frame.most for frame in frames] == [
        "plain",
        "work",
        "few",
        4,
        "plain",
    ]
    assert [frame.queue for frame in frames if isinstance(frame, Sub)] == ["", "workers", ""]


@pytest.mark.conformance("REC-02")
async def test_publishes_without_a_session_are_sent_in_their_order_after_the_reconnect(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=1)
    server.down()
    await clock.settle()
    for number in range(100):
        await connection.publish("kept", b"%d" % number)
    server.up()
    await clock.advance(1)
    assert [int(pub.payload) for pub in server.session.published("kept")] == list(range(100))
    assert connection.buffered == 0


@pytest.mark.conformance("REC-02")
async def test_the_buffer_accepts_its_limit_and_not_a_byte_more(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    frame = len(b"PUB kept 100\r\n") + 100 + 2
    connection = await world.connect(reconnect_buffer_size=3 * frame)
    server.down()
    await clock.settle()
    for _ in range(3):
        await connection.publish("kept", bytes(100))
    assert connection.buffered == 3 * frame
    with pytest.raises(OutboundBufferLimitError, match=f"reconnect_buffer_size is {3 * frame}"):
        await connection.publish("kept")
    server.up()
    await clock.advance(1)
    assert len(server.session.published("kept")) == 3


async def test_a_buffer_of_zero_bytes_refuses_to_publish_without_a_session(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_buffer_size=0)
    server.down()
    await clock.settle()
    with pytest.raises(OutboundBufferLimitError):
        await connection.publish("a")
    server.up()
    await clock.advance(1)
    await connection.publish("a")


async def test_requests_and_flushes_in_flight_fail_when_the_session_is_lost(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.answers_pings = False
    server.on("silent", lambda session, pub: None)
    request = asyncio.create_task(connection.request("silent", timeout=60))
    flush = asyncio.create_task(connection.flush(60))
    await clock.until(7)
    server.session.reset()
    with pytest.raises(DisconnectedError, match="the connection was lost"):
        await request
    with pytest.raises(DisconnectedError):
        await flush
    assert clock.now == 7.0


async def test_a_reply_to_an_own_inbox_can_arrive_in_the_next_session(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    asked: list[Pub] = []
    server.on("slow", lambda session, pub: asked.append(pub))
    request = asyncio.create_task(connection.request("slow", timeout=60, own_inbox=True))
    await clock.settle()
    server.session.reset()
    await clock.settle()
    server.session.deliver(asked[0].reply, b"late")
    assert (await request).payload == b"late"


async def test_a_request_without_a_session_is_sent_after_the_reconnect(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=1)
    server.respond("ask", b"answer")
    server.down()
    await clock.settle()
    request = asyncio.create_task(connection.request("ask", timeout=60))
    await clock.settle()
    server.up()
    assert (await request).payload == b"answer"


async def test_a_request_that_timed_out_without_a_session_is_never_sent(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=10, reconnect_wait_max=10)
    server.down()
    await clock.settle()
    with pytest.raises(TimeoutError):
        await connection.request("ask", timeout=2)
    assert clock.now == 2.0
    server.up()
    await clock.until(30)
    assert connection.connected
    assert not server.session.published("ask")


async def test_a_flush_without_a_session_waits_for_the_next_one(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=1)
    server.down()
    await clock.settle()
    await connection.publish("kept")
    flush = asyncio.create_task(connection.flush(60))
    await clock.settle()
    server.up()
    await flush
    assert server.session.published("kept")


async def test_a_loss_with_unconfirmed_publishes_is_reported_to_one_flush(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    await connection.publish("a")
    await clock.settle()
    server.session.reset()
    await clock.settle()
    with pytest.raises(DisconnectedError, match="may not have arrived"):
        await connection.flush()
    await connection.flush()


async def test_a_loss_without_publishes_since_the_last_is_not_reported_again(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    await connection.publish("a")
    await clock.settle()
    server.session.reset()
    await clock.settle()
    with pytest.raises(DisconnectedError):
        await connection.flush()
    server.session.reset()
    await clock.settle()
    await connection.flush()


async def test_expired_credentials_end_the_session_at_once(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect(token="t")
    server.session.error("User Authentication Expired")
    await clock.settle()
    assert server.sessions[0].transport.aborted
    assert connection.connected
    assert len(server.sessions) == 2
    assert world.events.names == ["Connected", "ErrorOccurred", "Disconnected", "Reconnected"]


async def test_bytes_that_are_no_frame_end_the_session_and_the_next_one_works(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.session.send(b"WHAT IS THIS\r\n")
    await clock.settle()
    assert world.events.names == ["Connected", "Disconnected", "Reconnected"]
    await connection.flush()


async def test_a_write_that_raises_ends_the_session_and_the_next_one_works(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.session.transport.write_error = OSError("no buffers")
    await connection.publish("a")
    await clock.settle()
    assert "no buffers" in str(world.events.of(Disconnected)[0].error)
    assert world.events.of(Reconnected)
    with pytest.raises(DisconnectedError):  # the publish was lost with that write
        await connection.flush()
    await connection.flush()


async def test_a_supervisor_that_is_cancelled_is_started_again(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    task = connection._core._supervisor._task
    assert task is not None
    task.cancel()
    await clock.settle()
    assert connection.connected
    assert len(server.sessions) == 2
    await connection.flush()
