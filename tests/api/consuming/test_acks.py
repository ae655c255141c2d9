"""Acknowledgements and metadata of messages on real servers, on both fronts."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from datetime import UTC, timedelta

import pytest
from tests.api.consuming.support import consumer_of
from tests.fronts import Ground, eventually

from jetspark import aio, sync
from jetspark.aio import Msg
from jetspark.errors import (
    ConnectionClosedError,
    InvalidAckError,
    NoMessageError,
    NoRespondersError,
    RequestTimeoutError,
)
from jetspark.jetstream.ack import parse_ack_subject
from jetspark.jetstream.times import time_ns


@pytest.mark.conformance("ACK-01")
@pytest.mark.profiles
async def test_each_acknowledgement_goes_to_the_exact_reply_subject(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=4)
    batch = await consumer.fetch(4)
    spy = await ground.spy("$JS.ACK.>")
    await batch[0].ack()
    await batch[1].nak()
    await batch[2].term()
    await batch[3].in_progress()
    seen = [(message.subject, message.payload) for message in await spy.settled()]
    words = (b"+ACK", b"-NAK", b"+TERM", b"+WPI")
    assert seen == [(message.reply, word) for message, word in zip(batch, words, strict=True)]


@pytest.mark.conformance("ACK-02")
async def test_a_nak_with_a_delay_delays_the_redelivery(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    message = await consumer.next()
    spy = await ground.spy("$JS.ACK.>")
    begin = time.monotonic()
    await message.nak(0.3)
    again = await consumer.next(5)
    assert time.monotonic() - begin > 0.28
    assert again.metadata.num_delivered == 2
    await again.nak(delay=0)
    assert (await consumer.next(5)).metadata.num_delivered == 3
    assert [each.payload for each in await spy.settled()] == [b'-NAK {"delay": 300000000}', b"-NAK"]
    with pytest.raises(ValueError, match="negative"):
        await again.nak(-1)


@pytest.mark.conformance("ACK-03")
async def test_term_reports_its_reason_and_ends_redelivery(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, ack_wait=timedelta(seconds=0.2))
    subject = f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{consumer.stream_name}.{consumer.name}"
    spy = await ground.spy(subject)
    await (await consumer.next()).term("not an order")
    [advisory] = await spy.wait(1)
    assert json.loads(advisory.payload)["reason"] == "not an order"
    with pytest.raises(NoMessageError):
        await consumer.next(0.4)


@pytest.mark.conformance("ACK-04")
async def test_later_acknowledgements_do_nothing_after_a_terminal_one(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3)
    spy = await ground.spy("$JS.ACK.>")
    first, second, third = await consumer.fetch(3)
    await first.ack()
    await second.nak(1)
    await third.term()
    for message in (first, second, third):
        assert message.settled
        await message.ack()
        await message.ack_sync(0.1)
        await message.nak()
        await message.term()
        await message.in_progress()
        await message.respond(b"anything")
    assert len(await spy.settled()) == 3


@pytest.mark.conformance("ACK-05")
async def test_in_progress_may_be_sent_repeatedly_and_is_not_terminal(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, ack_wait=timedelta(seconds=1.2))
    message = await consumer.next()
    for _ in range(3):  # longer than `ack_wait`
        with pytest.raises(NoMessageError):
            await consumer.next(0.5)
        await message.in_progress()
    assert not message.settled
    await message.ack_sync()
    info = await consumer.info()
    assert (info.num_ack_pending, info.num_redelivered, info.ack_floor.stream_sequence) == (0, 0, 1)


@pytest.mark.conformance("ACK-06")
async def test_an_acknowledgement_that_cannot_be_sent_raises_and_leaves_the_message_unacknowledged(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=1)
    message = await consumer.next()
    await ground.nc.close()
    for call in (message.ack, message.nak, message.term, message.in_progress, message.ack_sync):
        with pytest.raises(ConnectionClosedError):
            await call()
    assert not message.settled


@pytest.mark.conformance("ACK-07")
@pytest.mark.blocking
async def test_a_synchronous_acknowledgement_waits_for_the_server(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2)
    first, second = await consumer.fetch(2)
    await first.ack_sync()
    assert (await consumer.info()).ack_floor.stream_sequence == 1
    assert first.settled
    holder = await ground.admin.request(first.reply, b"+ACK")  # by another client that holds the message too
    assert holder.payload == b""
    await ground.admin_js.delete_consumer(consumer.stream_name, consumer.name)
    with pytest.raises(NoRespondersError):
        await second.ack_sync()
    assert not second.settled


@pytest.mark.conformance("ACK-07")
@pytest.mark.parametrize("kind", [aio.Msg, sync.Msg])
def test_a_synchronous_acknowledgement_waits_five_seconds_by_default(kind: type[aio.Msg | sync.Msg]) -> None:
    assert inspect.signature(kind.ack_sync).parameters["timeout"].default == 5.0


@pytest.mark.conformance("ACK-07")
async def test_a_synchronous_acknowledgement_has_a_deadline(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    message = await consumer.next()
    await ground.admin_js.delete_consumer(consumer.stream_name, consumer.name)
    await ground.spy(message.reply)  # the server counts the spy as a responder
    with pytest.raises(RequestTimeoutError, match=r"within 0\.1 s"):
        await message.ack_sync(0.1)
    assert not message.settled


@pytest.mark.conformance("ACK-08")
@pytest.mark.blocking
async def test_with_ack_policy_none_nothing_is_sent(ground: Ground) -> None:
    made = await consumer_of(ground, messages=3, ack_policy="none", durable_name="d")
    bound = await ground.js.consumer(made.stream_name, "d")  # without an ack policy
    spy = await ground.spy("$JS.ACK.>")
    messages = [*await made.fetch(1), await bound.next()]
    async with bound.consume() as context:
        messages.append(await anext(context))
    for message in messages:
        assert message.settled
        await message.ack()
        await message.ack_sync(0.1)
        await message.nak()
        await message.term()
        await message.in_progress()
    await made.ack_all(messages)
    assert await spy.settled() == []


@pytest.mark.conformance("JSA-03")
async def test_a_message_without_a_consumer_has_no_metadata_and_cannot_be_acknowledged(ground: Ground) -> None:
    subscription = await ground.nc.subscribe(ground.nc.new_inbox())
    await ground.nc.flush()
    await ground.admin.publish(subscription.subject, b"x", reply="somewhere")
    message = await subscription.next_msg(5)
    with pytest.raises(InvalidAckError):
        message.metadata  # noqa: B018 - reading it is the test
    for call in (message.ack, message.nak, message.term, message.in_progress, message.ack_sync):
        with pytest.raises(InvalidAckError):
            await call()
    await subscription.unsubscribe()


@pytest.mark.conformance("JSA-01", "JSA-02", "JSA-05", "JSA-06")
@pytest.mark.profiles
async def test_r6_metadata_has_place_time_and_delivery_count(ground: Ground) -> None:
    """Checks nine tokens, and the eleven tokens of `js_ack_fc_v2`, with and without a domain (R6)."""
    consumer = await consumer_of(ground, messages=3)
    before = time.time_ns()
    first, _ = await consumer.fetch(2)
    metadata = first.metadata
    assert (metadata.stream, metadata.consumer) == (consumer.stream_name, consumer.name)
    assert (metadata.num_delivered, metadata.stream_sequence, metadata.consumer_sequence) == (1, 1, 1)
    assert metadata.num_pending == 2
    assert metadata.domain == ground.profile.domain
    tokens = first.reply.split(".")
    assert len(tokens) == (11 if ground.profile.domain else 9)
    assert abs(metadata.timestamp_ns - before) < 60 * 10**9
    assert metadata.timestamp.tzinfo == UTC
    assert metadata.timestamp.microsecond == metadata.timestamp_ns % 10**9 // 1000
    stored = (await (await ground.admin_js.stream(consumer.stream_name)).info()).state.first_ts
    assert stored is not None
    assert metadata.timestamp_ns == time_ns(stored)
    assert parse_ack_subject(first.reply) == metadata
    assert first.metadata is metadata
    await first.ack_sync()
    assert (await consumer.info()).ack_floor.stream_sequence == 1


@pytest.mark.blocking
@pytest.mark.parametrize(("policy", "sent"), [("all", 1), ("explicit", 50)])
async def test_one_acknowledgement_covers_many_messages_if_the_policy_allows(
    ground: Ground, policy: str, sent: int
) -> None:
    consumer = await consumer_of(ground, messages=50, ack_policy=policy)
    batch = await consumer.fetch(50)
    spy = await ground.spy("$JS.ACK.>")
    await consumer.ack_all(reversed(batch))
    assert len(await spy.settled()) == sent
    assert all(message.settled for message in batch)
    await settled(ground, consumer.stream_name, consumer.name)
    await consumer.ack_all(batch)
    await consumer.ack_all([])
    assert len(await spy.settled()) == sent


@pytest.mark.blocking
async def test_a_callback_can_acknowledge(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=20)
    seen: list[Msg] = []

    async def handle(message: Msg) -> None:
        await message.ack()
        seen.append(message)

    context = consumer.consume(handle)
    await eventually(lambda: len(seen) == 20)
    await settled(ground, consumer.stream_name, consumer.name)
    await context.stop()


async def settled(ground: Ground, stream: str, consumer: str) -> None:
    """Wait until no message of the consumer waits for an acknowledgement."""
    deadline = asyncio.get_running_loop().time() + 10
    while (info := await ground.admin_js.consumer_info(stream, consumer)).num_ack_pending:
        assert asyncio.get_running_loop().time() < deadline, f"{info.num_ack_pending} are not acknowledged"
        await asyncio.sleep(0.01)
    assert info.ack_floor.stream_sequence > 0
