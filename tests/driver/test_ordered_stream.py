"""Ordered readers whose stream is deleted and created again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.driver.jetstream import SILENCE, JetStreamScript, StreamScript
from tests.driver.pushing import errors, take
from tests.driver.reading import alive, handle, reading, starts
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream import PushSubscription
from jetspark.errors import MissedHeartbeatError, RequestTimeoutError, StreamRecreatedError, StreamUncheckedError
from jetspark.events import ErrorOccurred, StreamRecreated

RECREATED = "stream 'ORDERS' was deleted and created again at 2026-01-02T04:00:00"


async def subscribed(world: World, **more: Any) -> PushSubscription:
    connection = await world.connect()
    subscription = await connection.jetstream().subscribe(
        "orders.>", stream="ORDERS", ordered_consumer=True, idle_heartbeat=5, **more
    )
    await world.clock.settle()
    return subscription


async def test_the_first_consumer_is_read_without_waiting_for_the_streams_info(
    world: World, script: JetStreamScript, stream: StreamScript, clock: Clock
) -> None:
    script.answer("STREAM.INFO.>", SILENCE)
    read = await reading(world)
    subscription = await subscribed(world)
    pulled, pushed = script.created
    pulled.pull.fill(1)
    pushed.push(b"1")
    assert await read.take(1) == await take(subscription, 1) == [b"1"]
    assert (len(script.asked("STREAM.INFO.>")), clock.now) == (2, 0.0)
    other = await handle(world)
    fetching = asyncio.create_task(other.next())
    await clock.settle()
    script.created[-1].pull.fill(1)
    assert (await fetching).payload == b"1"


async def test_a_consume_ends_with_an_error_and_an_event(
    world: World, script: JetStreamScript, stream: StreamScript, server: MemoryServer, clock: Clock
) -> None:
    read = await reading(world)
    script.created[0].pull.fill(3)
    assert await read.take(3) == [b"1", b"2", b"3"]
    stream.recreate(last=50)
    server.session.reset()
    with pytest.raises(StreamRecreatedError, match=RECREATED) as caught:
        await read.take(1)
    assert (caught.value.stream, caught.value.last_sequence) == ("ORDERS", 3)
    await clock.settle()
    assert world.events.of(StreamRecreated) == [StreamRecreated("ORDERS", caught.value, restarted=False)]
    assert alive(script) == []
    with pytest.raises(StreamRecreatedError):  # the handle stays at the former stream
        await read.consumer.next()
    with pytest.raises(StreamRecreatedError):
        async with read.consumer.consume() as messages:
            await anext(messages)


@pytest.mark.parametrize("last", [3, 50])
@pytest.mark.parametrize("sign", ["missed heartbeats", "409 Consumer Deleted", "503", "session"])
async def test_a_consume_sees_at_each_sign_of_a_lost_consumer_that_its_stream_is_another(
    world: World,
    script: JetStreamScript,
    stream: StreamScript,
    server: MemoryServer,
    clock: Clock,
    sign: str,
    last: int,
) -> None:
    read = await reading(world, timeout=10, idle_heartbeat=5)
    script.created[0].pull.fill(3)
    assert await read.take(3) == [b"1", b"2", b"3"]
    pull = script.created[0].pull
    stream.recreate(last=last)
    if sign == "session":
        server.session.reset()
    elif sign != "missed heartbeats":
        pull.status(sign)
    with pytest.raises(StreamRecreatedError, match=RECREATED):
        await read.take(1)
    assert clock.now <= 10


async def test_a_consume_restarts_at_the_beginning(
    world: World, script: JetStreamScript, stream: StreamScript, server: MemoryServer, clock: Clock
) -> None:
    ordered = await handle(world, on_stream_recreated="restart")
    warnings: list[Exception] = []
    context = await ordered.consume(on_error=warnings.append)
    await clock.settle()
    script.created[0].pull.fill(3)
    assert [(await anext(context)).payload for _ in range(2)] == [b"1", b"2"]
    stream.recreate(last=50)
    server.session.reset()
    await clock.until(5)
    assert starts(script) == [None, 4, None]
    assert [type(warning) for warning in warnings] == [StreamRecreatedError]
    [event] = world.events.of(StreamRecreated)
    assert event.restarted
    assert "it starts again at the beginning of the present one" in str(event.error)
    script.created[-1].pull.fill(1)
    assert [(await anext(context)).payload for _ in range(2)] == [b"3", b"1"]
    assert ordered.last_sequence == 1
    await context.stop()


async def test_a_subscription_ends_with_an_error_and_an_event(
    world: World, script: JetStreamScript, stream: StreamScript, clock: Clock
) -> None:
    subscription = await subscribed(world)
    script.created[0].push(b"1", b"2")
    assert await take(subscription, 2) == [b"1", b"2"]
    stream.recreate(last=50)
    await clock.until(16)  # the alarm after three missed heartbeats
    with pytest.raises(StreamRecreatedError, match=RECREATED):
        await subscription.next_msg(1)
    [event] = world.events.of(StreamRecreated)
    assert not event.restarted
    assert errors(world) == [StreamRecreatedError]
    await clock.settle()
    assert alive(script) == []


async def test_a_subscription_restarts_at_the_beginning(
    world: World, script: JetStreamScript, stream: StreamScript, clock: Clock
) -> None:
    subscription = await subscribed(world, on_stream_recreated="restart")
    script.created[0].push(b"1", b"2")
    assert await take(subscription, 2) == [b"1", b"2"]
    stream.recreate(last=50)
    await clock.until(16)
    assert starts(script) == [None, 3, None]
    script.created[1].push(b"skipped")  # of the consumer that was deleted again
    script.created[2].push(b"1", b"2")
    assert await take(subscription, 2) == [b"1", b"2"]
    [event] = world.events.of(StreamRecreated)
    assert event.restarted
    assert errors(world) == []


@pytest.mark.parametrize("choice", ["error", "restart"])
async def test_a_fetch_compares_the_stream_with_that_of_the_former_fetch(
    world: World, script: JetStreamScript, stream: StreamScript, clock: Clock, choice: Any
) -> None:
    ordered = await handle(world, on_stream_recreated=choice)

    async def fetch() -> list[bytes]:
        fetching = asyncio.create_task(ordered.fetch(2, timeout=5))
        await clock.settle()
        if not fetching.done():
            script.created[-1].pull.fill(2)
        return [message.payload for message in await fetching]

    assert await fetch() == [b"1", b"2"]
    assert await fetch() == [b"3", b"4"]
    stream.recreate(last=50)
    if choice == "error":
        with pytest.raises(StreamRecreatedError, match=RECREATED):
            await fetch()
        assert ordered.last_sequence == 4
    else:
        assert await fetch() == [b"1", b"2"]
        assert starts(script) == [None, 3, 5, None]
        assert ordered.last_sequence == 2
    await clock.settle()
    assert alive(script) == []
    assert [event.restarted for event in world.events.of(StreamRecreated)] == [choice == "restart"]


async def test_a_fetch_asks_again_if_the_stream_lacks_messages_that_were_read(
    world: World, script: JetStreamScript, stream: StreamScript, clock: Clock
) -> None:
    ordered = await handle(world)
    fetching = asyncio.create_task(ordered.next())
    await clock.settle()
    script.created[-1].pull.fill(1)
    await fetching
    stream.recreate(stream.created)
    with pytest.raises(StreamRecreatedError, match="ends at sequence 0: it lost messages"):
        await ordered.next(timeout=10)
    assert clock.now == 2.0
    stream.last = 1
    asyncio.get_running_loop().call_later(1, lambda: script.created[-1].pull.fill(1))
    assert (await ordered.next()).payload == b"2"


async def test_without_permission_for_the_streams_info_everything_is_read_and_one_event_says_so(
    world: World, script: JetStreamScript, stream: StreamScript, server: MemoryServer, clock: Clock
) -> None:
    script.answer("STREAM.INFO.>", lambda pub: _forbid(script, pub.subject))
    read = await reading(world)
    for _ in range(3):
        script.created[-1].pull.fill(2)
        await clock.settle()
        server.session.reset()
        await clock.until(clock.now + 5)
    assert await read.take(6) == [b"%d" % number for number in range(1, 7)]
    said = [event.error for event in world.events.of(ErrorOccurred) if isinstance(event.error, StreamUncheckedError)]
    assert len(said) == len(script.asked("STREAM.INFO.>")) == 1
    assert "Allow the request $JS.API.STREAM.INFO.ORDERS" in str(said[0])


def _forbid(script: JetStreamScript, subject: str) -> str:
    script.session.error(f'Permissions Violation for Publish to "{subject}"')
    return SILENCE


async def test_an_info_that_does_not_come_delays_the_next_consumer_and_does_not_end_the_reading(
    world: World, script: JetStreamScript, stream: StreamScript, server: MemoryServer, clock: Clock
) -> None:
    read = await reading(world)
    script.created[0].pull.fill(1)
    await clock.settle()
    script.answer("STREAM.INFO.>", SILENCE)
    server.session.reset()
    await clock.until(25)
    assert [kind for kind in read.kinds if kind is not MissedHeartbeatError] == [RequestTimeoutError] * 2
    script.created[-1].pull.fill(1)
    assert await read.take(2) == [b"1", b"2"]
    assert len(alive(script)) == 1
