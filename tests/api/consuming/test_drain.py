"""The end of a consume has a timeout, for a drain without confirmation and for messages that nobody takes."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.consuming.support import consumer_of, numbered, payloads, take
from tests.fronts import FrontName, Ground, Profile, eventually, open_ground

from jetspark.aio import Msg
from jetspark.errors import DrainTimeoutError
from jetspark.server import NatsServer


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
@pytest.mark.parametrize("ordered", [False, True])
async def test_a_drain_without_confirmation_of_the_server_ends_after_the_received_messages(
    front: FrontName, profile: Profile, ordered: bool
) -> None:
    with NatsServer() as server:
        async with open_ground(front, profile, server) as ground:
            consumer = await consumer_of(ground, messages=3)
            source = ground.js.ordered_consumer(consumer.stream_name) if ordered else consumer
            messages = await source.consume(max_messages=10)
            await eventually(lambda: messages.pending[0] == 3)
            server.pause()
            try:
                await messages.drain(0.2)
                assert payloads(await take(messages, 3)) == numbered(0, 3)
                with pytest.raises(DrainTimeoutError, match=r"not drained within 0\.2 s"):
                    await take(messages, 1)
                with pytest.raises(DrainTimeoutError):
                    await messages.wait_closed(5)
            finally:
                server.resume()


@pytest.mark.parametrize("handled", [False, True])
async def test_wait_closed_of_a_consume_has_a_timeout_and_does_not_end_the_consume(
    ground: Ground, handled: bool
) -> None:
    consumer = await consumer_of(ground, messages=1)
    begun, gate = asyncio.Event(), asyncio.Event()

    async def handle(message: Msg) -> None:
        begun.set()
        await gate.wait()

    context = consumer.consume(handle if handled else None)
    await eventually(lambda: begun.is_set() or (not handled and context.pending[0]))
    with pytest.raises(DrainTimeoutError, match="not drained within"):
        await context.wait_closed(0.05)
    assert not context.closed
    await context.drain()
    gate.set()
    if not handled:
        await take(context, 1)
    await context.wait_closed(10)
    assert context.error is None


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # does not depend on the profile
@pytest.mark.blocking
async def test_a_drained_ordered_consume_ends_with_the_session(front: FrontName, profile: Profile) -> None:
    """No new consumer is created, and received messages are delivered."""
    with NatsServer() as server:
        async with open_ground(front, profile, server, reconnect_wait=0.05) as ground:
            stream = await ground.stream(storage="file")
            await ground.fill(f"{stream.name}.a", *numbered(0, 20))
            messages = await stream.ordered_consumer().consume(max_messages=10)
            await eventually(lambda: messages.pending[0] == 10)
            server.pause()
            await messages.drain()
            server.kill()
            server.start()
            assert payloads(await take(messages, 10)) == numbered(0, 10)
            with pytest.raises(StopAsyncIteration):
                await take(messages, 1)
