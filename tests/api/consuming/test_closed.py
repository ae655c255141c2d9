"""The end of an ordered reader when its connection closes for good, and of the handler of errors."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.consuming.support import consumer_of, numbered, payloads, take
from tests.fronts import FrontName, Ground, Profile, eventually, open_ground

from jetspark.aio import Subscription
from jetspark.aio.jetstream import ConsumeContext
from jetspark.errors import ConnectionClosedError
from jetspark.server import NatsServer

pytestmark = [
    pytest.mark.blocking,
    pytest.mark.parametrize("profile", ["default"], indirect=True),  # does not depend on the profile
]


async def check_raises(context: ConsumeContext, errors: list[Exception]) -> None:
    """Check that the end is an error in the iteration, in `wait_closed` and for the handler of errors."""
    with pytest.raises(ConnectionClosedError):
        await take(context, 1)
    with pytest.raises(ConnectionClosedError):
        await context.wait_closed(5)
    await eventually(lambda: bool(errors))
    assert [type(error) for error in errors] == [ConnectionClosedError]


@pytest.mark.parametrize("callback", [False, True])
async def test_an_ordered_consume_raises_after_the_close_of_its_connection(ground: Ground, callback: bool) -> None:
    consumer = await consumer_of(ground, messages=3)
    connection = await ground.connect()
    errors: list[Exception] = []
    got: list[bytes] = []
    ordered = connection.jetstream().ordered_consumer(consumer.stream_name)
    handle = (lambda message: got.append(message.payload)) if callback else None
    context = await ordered.consume(handle, on_error=errors.append)
    await eventually(lambda: len(got) == 3 if callback else context.pending[0] == 3)
    await connection.close()
    if not callback:
        assert payloads(await take(context, 3)) == numbered(0, 3)
    await check_raises(context, errors)


async def test_an_ordered_reader_raises_if_no_server_comes_back(front: FrontName, profile: Profile) -> None:
    with NatsServer() as server:
        async with open_ground(front, profile, server) as ground:
            consumer = await consumer_of(ground, messages=3)
            connection = await ground.connect(max_reconnects=1)
            js = connection.jetstream()
            errors: list[Exception] = []
            ordered = js.ordered_consumer(consumer.stream_name)
            context = await ordered.consume(on_error=errors.append, until_caught_up=True, max_messages=2)
            subscription = await js.subscribe(f"{consumer.stream_name}.>", ordered_consumer=True)
            await eventually(lambda: context.pending[0] == 2 and subscription.received == 3)
            server.kill()
            await eventually(lambda: connection.closed)
            assert payloads(await take(context, 2)) == numbered(0, 2)
            await check_raises(context, errors)
            with pytest.raises(ConnectionClosedError):
                await asyncio.wait_for(_read_all(subscription), 10)


async def _read_all(subscription: Subscription) -> None:
    async for _ in subscription:
        pass
