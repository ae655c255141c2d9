"""The end of a consume: stop, drain, and errors that end it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.api.consuming.support import (
    consumer_of,
    numbered,
    payloads,
    spy_on_pulls,
    take,
    wait_for_open_pulls,
)
from tests.fronts import Ground, eventually

from jetspark.aio import Msg
from jetspark.errors import (
    BadPullRequestError,
    ConsumerDeletedError,
    ConsumerIsPushError,
)


@pytest.mark.conformance("CNS-05")
@pytest.mark.blocking
async def test_stop_drops_the_buffer_and_pulls_no_more(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=10, ack_wait=timedelta(seconds=0.6))
    spy = await spy_on_pulls(ground)
    async with consumer.consume(max_messages=10) as messages:
        [first] = await take(messages, 1)
        await first.ack_sync()
        await eventually(lambda: messages.pending[0] == 9)
        await messages.stop()
        assert messages.closed
        with pytest.raises(StopAsyncIteration):
            await anext(messages)
    assert (await consumer.info()).num_waiting == 0
    assert len(await spy.settled()) == 1
    again = await consumer.fetch(9, timeout=5)
    assert [message.metadata.num_delivered for message in again] == [2] * 9


@pytest.mark.conformance("CNS-05")
@pytest.mark.blocking
async def test_drain_delivers_buffered_messages_and_then_ends(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=20)
    spy = await spy_on_pulls(ground)
    messages = consumer.consume(max_messages=10)
    await eventually(lambda: messages.pending[0] == 10)
    await messages.drain()
    taken = [message async for message in messages]
    assert payloads(taken) == numbered(0, 10)
    assert messages.closed
    await messages.wait_closed()
    for message in taken:
        await message.ack_sync()
    info = await consumer.info()
    assert (info.num_ack_pending, info.num_pending, info.num_waiting) == (0, 10, 0)
    assert len(await spy.settled()) == 1


@pytest.mark.conformance("CNS-05")
@pytest.mark.blocking
async def test_a_callback_gets_buffered_messages_before_a_drain_ends(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=10)
    seen: list[bytes] = []
    gate = asyncio.Event()

    async def handle(message: Msg) -> None:
        await gate.wait()
        seen.append(message.payload)

    context = consumer.consume(handle, max_messages=10)
    await eventually(lambda: context.pending[0] == 9)
    await context.drain()
    assert not context.closed
    gate.set()
    await context.wait_closed()
    assert seen == numbered(0, 10)


@pytest.mark.conformance("ALG-09", "STA-14")
@pytest.mark.blocking
async def test_a_deleted_consumer_ends_consume_with_its_error(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2)
    async with consumer.consume() as messages:
        assert payloads(await take(messages, 2)) == numbered(0, 2)
        await ground.admin_js.delete_consumer(consumer.stream_name, consumer.name)
        with pytest.raises(ConsumerDeletedError):
            await take(messages, 1)
        assert isinstance(messages.error, ConsumerDeletedError)
        assert messages.closed
        with pytest.raises(ConsumerDeletedError):
            await messages.wait_closed()


@pytest.mark.conformance("ALG-09", "STA-15")
async def test_a_consumer_that_pushes_ends_consume_and_fetch_with_its_error(ground: Ground) -> None:
    consumer = await consumer_of(ground, durable_name="d")
    await ground.admin_js.delete_consumer(consumer.stream_name, "d")
    await ground.admin_js.create_consumer(consumer.stream_name, durable_name="d", deliver_subject="somewhere")
    async with consumer.consume() as messages:
        with pytest.raises(ConsumerIsPushError):
            await take(messages, 1)
    with pytest.raises(ConsumerIsPushError):
        await consumer.fetch(1)


@pytest.mark.conformance("ALG-10", "STA-03")
async def test_a_bad_request_ends_consume(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    spy = await spy_on_pulls(ground)
    async with consumer.consume() as messages:
        [pull] = await spy.wait(1)
        await ground.inject(pull.reply, b"NATS/1.0 400 Bad Request - because\r\n\r\n")
        with pytest.raises(BadPullRequestError, match="because"):
            await take(messages, 1)


@pytest.mark.blocking
async def test_consume_stops_when_its_handle_is_garbage_collected(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1)
    async for message in consumer.consume():
        assert message.payload == b"0"
        break
    await wait_for_open_pulls(ground, consumer, 0)


@pytest.mark.blocking
async def test_draining_the_connection_drains_its_consumes(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=20)
    connection = await ground.connect()
    other = await connection.jetstream(domain=ground.profile.domain).consumer(consumer.stream_name, consumer.name)
    seen: list[bytes] = []
    gate = asyncio.Event()

    async def slow(message: Msg) -> None:
        await gate.wait()
        await asyncio.sleep(0.005)
        await message.ack()
        seen.append(message.payload)

    async def acknowledged() -> bool:
        return (await consumer.info()).num_ack_pending == 0

    context = other.consume(slow, max_messages=20)
    await eventually(lambda: context.pending[0] == 19)  # the whole rest: one message is with the handler
    gate.set()
    await connection.drain()
    assert context.closed
    assert seen == numbered(0, 20)
    await eventually(acknowledged)  # the server processes them after the requests of another connection
