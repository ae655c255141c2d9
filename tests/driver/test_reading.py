"""Reading: frames that are split anywhere, large messages, headers, and other frames of the server."""

from __future__ import annotations

import pytest
from tests.driver.frames import header_block, message
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import MaxPayloadError, ProtocolError
from jetspark.wire.events import Disconnected, ErrorOccurred


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
async def test_frames_can_be_split_anywhere(world: World, server: MemoryServer, clock: Clock, size: int) -> None:
    subscription = await (await world.connect()).subscribe("a")
    await clock.settle()
    [sid] = server.session.subs
    frames = b"".join(
        message("a", sid, b"%d" % number, "reply.here", header_block("", {"N": str(number)}) if number % 2 else b"")
        for number in range(20)
    )
    for start in range(0, len(frames), size):
        server.session.send(frames[start : start + size])
    await clock.settle()
    got = [await subscription.next_msg(0) for _ in range(20)]
    assert [int(each.payload) for each in got] == list(range(20))
    assert [each.headers.get("N") for each in got] == [str(n) if n % 2 else None for n in range(20)]
    assert {each.reply for each in got} == {"reply.here"}


async def test_a_message_larger_than_one_read_arrives_whole(world: World, server: MemoryServer, clock: Clock) -> None:
    subscription = await (await world.connect()).subscribe("a")
    await clock.settle()
    payload = bytes(range(256)) * 4000
    server.session.deliver("a", payload)
    server.session.deliver("a", b"next")
    assert (await subscription.next_msg(1)).payload == payload
    assert (await subscription.next_msg(1)).payload == b"next"


async def test_thousands_of_messages_in_one_read_arrive_in_order(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    subscription = await (await world.connect()).subscribe("a")
    await clock.settle()
    [sid] = server.session.subs
    server.session.send(b"".join(message("a", sid, b"%d" % number) for number in range(5000)))
    await clock.settle()
    assert [int((await subscription.next_msg(0)).payload) for _ in range(5000)] == list(range(5000))


async def test_a_message_without_subscription_is_dropped(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.session.send(message("a", "999", b"x"))
    await connection.flush()
    assert len(server.sessions) == 1


async def test_an_ok_is_ignored(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.session.send(b"+OK\r\n")
    await connection.flush()
    assert len(server.sessions) == 1


async def test_an_error_of_the_server_is_reported_and_the_session_continues(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.session.error("Invalid Subject")
    await clock.settle()
    [event] = world.events.of(ErrorOccurred)
    assert isinstance(event.error, ProtocolError)
    assert "Invalid Subject" in str(event.error)
    await connection.flush()
    assert len(server.sessions) == 1


async def test_a_fault_on_the_read_path_ends_the_session_and_the_next_one_works(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()

    def fault(_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    connection._core.client.subscribe("fault").handler = fault
    connection._core.flush_soon()
    await clock.settle()
    server.session.deliver("fault")
    await clock.settle()
    [event] = world.events.of(Disconnected)
    assert isinstance(event.error, ProtocolError)
    assert "ZeroDivisionError" in str(event.error)
    await connection.flush()


async def test_a_new_payload_limit_applies_from_then_on(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    await connection.publish("a", bytes(1000))
    server.info["max_payload"] = 100
    server.session.send(server.greeting())
    await clock.settle()
    with pytest.raises(MaxPayloadError):
        await connection.publish("a", bytes(101))
    await connection.publish("a", bytes(100))
