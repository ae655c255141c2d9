"""Acknowledgements of messages: the data that is sent, and a session that cannot take it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.fetching import handle
from tests.driver.frames import Pub
from tests.driver.jetstream import ConsumerScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark import aio
from jetspark.aio.jetstream import Consumer
from jetspark.errors import (
    ConnectionClosedError,
    DisconnectedError,
    InvalidAckError,
    NoRespondersError,
    OutboundBufferLimitError,
    RequestTimeoutError,
)


async def fetched(clock: Clock, consumer: Consumer, worker: ConsumerScript, count: int = 1) -> list[aio.Msg]:
    """Fetch messages."""
    fetching = asyncio.create_task(consumer.fetch(count))
    await clock.settle()
    worker.pull.fill(count)
    return list(await fetching)


@pytest.mark.conformance("ACK-01")
@pytest.mark.parametrize(
    ("settle", "payload"),
    [
        (lambda message: message.ack(), b"+ACK"),
        (lambda message: message.nak(), b"-NAK"),
        (lambda message: message.nak(2.5), b'-NAK {"delay": 2500000000}'),
        (lambda message: message.term(), b"+TERM"),
        (lambda message: message.term("no use"), b"+TERM no use"),
        (lambda message: message.in_progress(), b"+WPI"),
    ],
)
async def test_each_kind_of_acknowledgement_goes_to_the_reply_subject(
    world: World,
    worker: ConsumerScript,
    clock: Clock,
    settle: Callable[[aio.Msg], Coroutine[Any, Any, None]],
    payload: bytes,
) -> None:
    [message] = await fetched(world.clock, await handle(world), worker)
    await settle(message)
    await clock.settle()
    assert [(pub.subject, pub.payload) for pub in worker.js.acks] == [(message.reply, payload)]


@pytest.mark.conformance("ACK-04")
async def test_later_acknowledgements_do_nothing_after_a_terminal_one(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    [message] = await fetched(world.clock, await handle(world), worker)
    await message.nak()
    await message.ack()
    await message.term()
    await message.in_progress()
    await message.ack_sync()
    await clock.settle()
    assert [pub.payload for pub in worker.js.acks] == [b"-NAK"]


@pytest.mark.conformance("ACK-05")
async def test_in_progress_can_be_repeated_and_is_not_terminal(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    [message] = await fetched(world.clock, await handle(world), worker)
    await message.in_progress()
    await message.in_progress()
    await message.ack()
    await clock.settle()
    assert [pub.payload for pub in worker.js.acks] == [b"+WPI", b"+WPI", b"+ACK"]


@pytest.mark.conformance("ACK-07")
async def test_ack_sync_waits_for_the_answer(world: World, worker: ConsumerScript, clock: Clock) -> None:
    world.net.latency = 0.1
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(1))
    await clock.advance(1)
    worker.pull.fill(1)
    [message] = await fetching
    began = clock.now
    await message.ack_sync()
    assert round(clock.now - began, 3) == 0.2
    assert message.settled


async def test_ack_sync_without_an_answer_can_be_sent_again(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    [message] = await fetched(world.clock, await handle(world), worker)
    server.on("$JS.ACK.>", lambda session, pub: None)
    with pytest.raises(RequestTimeoutError):
        await message.ack_sync(2)
    assert clock.now == 2.0
    assert not message.settled
    server.handlers.pop()
    await message.ack_sync()
    assert message.settled


async def test_ack_sync_reports_a_missing_consumer(world: World, server: MemoryServer, worker: ConsumerScript) -> None:
    [message] = await fetched(world.clock, await handle(world), worker)
    server.on("$JS.ACK.>", lambda session, pub: _nobody(session.deliver, pub))
    with pytest.raises(NoRespondersError):
        await message.ack_sync()
    assert not message.settled


async def test_ack_sync_in_flight_fails_with_the_session(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    [message] = await fetched(world.clock, await handle(world), worker)
    server.on("$JS.ACK.>", lambda session, pub: None)
    asking = asyncio.create_task(message.ack_sync(30))
    await clock.until(1)
    server.session.reset()
    with pytest.raises(DisconnectedError):
        await asking
    assert clock.now == 1.0
    assert not message.settled


async def test_an_acknowledgement_without_a_session_is_sent_in_the_next(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    [message] = await fetched(world.clock, await handle(world, reconnect_wait=1), worker)
    server.down()
    await clock.settle()
    await message.ack()
    server.up()
    await clock.until(2)
    assert [pub.payload for pub in worker.js.acks] == [b"+ACK"]


@pytest.mark.conformance("ACK-06")
async def test_an_acknowledgement_that_cannot_be_sent_leaves_the_message_unacknowledged(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    [message] = await fetched(world.clock, await handle(world, reconnect_wait=1, reconnect_buffer_size=0), worker)
    server.down()
    await clock.settle()
    with pytest.raises(OutboundBufferLimitError):
        await message.ack()
    assert not message.settled
    server.up()
    await clock.until(2)
    await message.ack()
    await clock.settle()
    assert [pub.payload for pub in worker.js.acks] == [b"+ACK"]


async def test_an_acknowledgement_after_close_is_an_error(world: World, worker: ConsumerScript) -> None:
    consumer = await handle(world)
    [message] = await fetched(world.clock, consumer, worker)
    await consumer._core.connection.close()
    with pytest.raises(ConnectionClosedError):
        await message.ack()


async def test_a_message_without_a_consumer_cannot_be_acknowledged(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    subscription = await (await world.connect()).subscribe("a")
    await clock.settle()
    server.session.deliver("a", reply="somewhere")
    message = await subscription.next_msg(1)
    with pytest.raises(InvalidAckError):
        await message.ack()


@pytest.mark.conformance("ACK-08")
async def test_with_ack_policy_none_acknowledgements_do_nothing(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    worker.config["ack_policy"] = "none"
    [message] = await fetched(world.clock, await handle(world), worker)
    await message.ack()
    await message.nak()
    await message.ack_sync()
    await clock.settle()
    assert worker.js.acks == []


async def test_with_ack_policy_all_one_acknowledgement_is_sent_for_many(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    worker.config["ack_policy"] = "all"
    consumer = await handle(world)
    messages = await fetched(world.clock, consumer, worker, 5)
    await consumer.ack_all(messages)
    await clock.settle()
    assert [pub.subject for pub in worker.js.acks] == [messages[-1].reply]
    assert all(message.settled for message in messages)


async def test_with_ack_policy_explicit_each_acknowledgement_is_sent_once(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    messages = await fetched(world.clock, consumer, worker, 3)
    await messages[1].term()
    await consumer.ack_all(messages)
    await clock.settle()
    assert [pub.payload for pub in worker.js.acks] == [b"+TERM", b"+ACK", b"+ACK"]


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize("kind", ["ack", "nak", "ack_sync"])
async def test_an_acknowledgement_that_is_cancelled_anywhere_is_sent_once_or_can_be_sent(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock, kind: str, moment: Moment
) -> None:
    consumer = await handle(world)
    message: aio.Msg

    async def fetch() -> None:
        nonlocal message
        [message] = await fetched(world.clock, consumer, worker)
        worker.js.acks.clear()
        consumer._core.connection.queue_publish("much", bytes(60_000), "", None)  # so that an acknowledgement must wait
        consumer._core.connection.queue_publish("much", bytes(5_400), "", None)

    async def settle() -> None:
        await {"ack": message.ack, "nak": message.nak, "ack_sync": message.ack_sync}[kind]()

    async def check() -> None:
        await message.ack()
        await clock.settle()
        assert message.settled
        assert len(worker.js.acks) == (2 if len(worker.js.acks) > 1 and kind == "ack_sync" else 1)

    await cancel_everywhere(settle, check, moment, before=fetch)


@pytest.mark.parametrize("policy", ["explicit", "all"])
async def test_ack_all_acknowledges_the_others_if_some_messages_cannot_be(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock, policy: str
) -> None:
    worker.config["ack_policy"] = policy
    consumer = await handle(world)
    messages = await fetched(clock, consumer, worker, 3)
    sub = await aio.Connection(consumer._core.connection).subscribe("a")
    await clock.settle()
    server.session.deliver("a", reply="elsewhere")
    server.session.deliver("a", reply="$JS.ACK.S.>")
    strange = [await sub.next_msg(1) for _ in range(2)]
    worker.js.acks.clear()
    with pytest.raises(InvalidAckError, match=r"2 of \d messages could not be acknowledged, the others were"):
        await consumer.ack_all([strange[0], messages[0], strange[1], *messages[1:]])
    await clock.settle()
    assert len(worker.js.acks) == (3 if policy == "explicit" else 1)
    assert all(message.settled for message in messages)


def _nobody(deliver: Callable[..., int], pub: Pub) -> None:
    deliver(pub.reply, status="503")
