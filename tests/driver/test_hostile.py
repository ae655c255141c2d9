"""Messages and answers that no good server sends: what the program sees of them."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.fetching import handle, payloads
from tests.driver.frames import message
from tests.driver.jetstream import ConsumerScript
from tests.driver.pushing import bound
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import InvalidAckError, InvalidReplyError, NoMessageError, ProtocolError
from jetspark.wire.events import Disconnected, ErrorOccurred, Reconnected

DEEP = b'{"x":' * 100_000
ODD_TOKENS = ["", "x", "0", "+1", "1_0", " 1", "\u0661", "9" * 5000, "-1", "1.2", "18446744073709551616", "99"]


@pytest.mark.parametrize("token", ODD_TOKENS, ids=range(len(ODD_TOKENS)))
@pytest.mark.parametrize("status", ["409 Consumer Deleted", "408 Request Timeout", "100 Idle Heartbeat", "503"])
async def test_a_status_on_another_token_does_not_end_a_fetch(
    world: World, worker: ConsumerScript, clock: Clock, status: str, token: str
) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(2, timeout=5))
    await clock.until(1)
    inbox = worker.pull.request.reply.rpartition(".")[0]
    sid = next(sub.sid for sub in worker.pull.session.subs.values() if sub.subject == f"{inbox}.*")
    subject = f"{inbox}.{token}".replace(" ", "\t")
    worker.pull.session.send(message(subject, sid, b"", "", f"NATS/1.0 {status}\r\n\r\n".encode()))
    await clock.until(2)
    worker.pull.fill(2)
    assert payloads(await fetching) == [b"1", b"2"]
    assert world.events.of(ErrorOccurred) == []
    assert world.events.of(Disconnected) == []


@pytest.mark.parametrize("reply", ["", "orders.a", "$JS.ACKS.S.c.1.1.1.1.1", "$js.ack.S.c.1.1.1.1.1"])
@pytest.mark.parametrize("early", [True, False])
async def test_a_message_that_no_consumer_delivered_is_dropped_and_reported(
    world: World, worker: ConsumerScript, clock: Clock, reply: str, *, early: bool
) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(3, timeout=5))
    await clock.until(1)
    if not early:
        worker.pull.fill(1)
    worker.pull.session.deliver(worker.pull.request.reply, b"forged", reply=reply)
    worker.pull.fill(3 if early else 2)
    assert payloads(await fetching) == [b"1", b"2", b"3"]
    [event] = world.events.of(ErrorOccurred)
    assert isinstance(event.error, InvalidAckError)
    assert "no consumer delivered it" in str(event.error)
    assert "'worker' of stream 'ORDERS'" in str(event.error)


async def test_a_pull_subscription_skips_a_message_that_no_consumer_delivered(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    connection = await world.connect()
    subscription = await connection.jetstream().pull_subscribe_bind("worker", "ORDERS")
    fetching = asyncio.create_task(subscription.fetch(2, timeout=5))
    await clock.until(1)
    worker.pull.session.deliver(worker.pull.request.reply, b"forged", reply="a.b")
    worker.pull.fill(2)
    assert [each.payload for each in await fetching] == [b"1", b"2"]


async def test_consumed_messages_are_only_those_that_a_consumer_delivered(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    warnings: list[Exception] = []
    async with consumer.consume(max_messages=10, on_error=warnings.append) as messages:
        await clock.settle()
        worker.pull.session.deliver(worker.pull.request.reply, b"forged", reply="a.b")
        worker.pull.fill(1)
        assert (await anext(messages)).payload == b"1"
    assert [type(warning) for warning in warnings] == [InvalidAckError]


ANSWERS = {
    "nested deeply": DEEP,
    "not UTF-8": b'{"config": {"name": "\xff"}}',
    "thousands of digits": b'{"created": ' + b"9" * 5000 + b"}",
    "over 64 bits": b'{"state": {"last_seq": 18446744073709551616}}',
    "a list": b"[]",
    "a duration out of range": b'{"config": {"name": "ORDERS", "max_age": 18446744073709551615}}',
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
@pytest.mark.usefixtures("stream", "worker")
async def test_a_broken_answer_of_the_api_fails_its_call_only(
    world: World, server: MemoryServer, answer: bytes
) -> None:
    connection = await world.connect()
    js = connection.jetstream()
    server.respond("$JS.API.>", answer)
    calls = [
        js.stream("ORDERS"),
        js.consumer("ORDERS", "worker"),
        js.create_stream(name="ORDERS"),
        js.delete_stream("ORDERS"),
        js.create_consumer("ORDERS", name="c"),
        js.delete_consumer("ORDERS", "worker"),
    ]
    for call in calls:
        with pytest.raises(InvalidReplyError) as caught:
            await call
        assert len(str(caught.value)) < 1000
    assert connection.connected
    assert world.events.of(Disconnected) == []


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_broken_acknowledgement_fails_its_publish_only(
    world: World, server: MemoryServer, answer: bytes
) -> None:
    connection = await world.connect()
    js = connection.jetstream()
    server.respond("orders.>", answer)
    with pytest.raises(InvalidAckError):
        await js.publish("orders.a", b"x")
    publish = await js.publish_async("orders.a", b"x")
    with pytest.raises(InvalidAckError):
        await publish
    assert connection.connected


@pytest.mark.parametrize("info", [DEEP, b'{"max_payload":' + b"9" * 5000 + b"}", b'{"host":"\xff"}', b"[]"])
async def test_a_broken_info_ends_the_session_and_another_one_is_opened(
    world: World, server: MemoryServer, clock: Clock, info: bytes
) -> None:
    await world.connect()
    server.session.send(b"INFO " + info + b"\r\n")
    await clock.advance(5)
    [lost] = world.events.of(Disconnected)
    assert isinstance(lost.error, ProtocolError)
    assert "INFO" in str(lost.error)
    assert len(world.events.of(Reconnected)) == 1


@pytest.mark.parametrize("status", ["100 Idle Heartbeat", "100 FlowControl Request"])
@pytest.mark.parametrize("number", ["+5", "1_000", "\u0661", "9" * 5000, "-1", "", " 5"])
async def test_an_odd_number_in_a_heartbeat_is_ignored(
    world: World, pusher: ConsumerScript, clock: Clock, status: str, number: str
) -> None:
    subscription = await bound(world)
    pusher.push(b"1")
    pusher.js.session.deliver(pusher.deliver_subject, status=status, headers={"Nats-Last-Consumer": number})
    pusher.push(b"2")
    assert [(await subscription.next_msg(1)).payload for _ in range(2)] == [b"1", b"2"]
    assert world.events.of(ErrorOccurred) == []
    with pytest.raises(NoMessageError):
        await subscription.next_msg(1)
    assert world.events.of(Disconnected) == []
