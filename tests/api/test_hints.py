"""Errors that say what to do, on both fronts and in `bulk`, on a real server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.fronts import Ground

from jetspark import bulk
from jetspark.aio.jetstream import Consumer, JetStream, Stream
from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.errors import (
    ConsumerNotFoundError,
    JetStreamNotEnabledError,
    NoConsumerResponseError,
    NoDirectGetError,
    NoRespondersError,
    PublishTimeoutError,
)
from jetspark.jetstream.api import AccountInfoRequest
from jetspark.server import NatsServer

pytestmark = pytest.mark.blocking

_numbers = itertools.count(1)
GONE = r"no such consumer: it was removed after inactive_threshold without a pull \(5 s by default"


async def new_stream(js: JetStream, **fields: Any) -> Stream:
    name = f"HINT{next(_numbers)}"
    return await js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory", **fields)


async def gone_consumer(stream: Stream) -> Consumer:
    """Return the handle of a consumer that the server has removed because nobody pulled."""
    consumer = await stream.create_consumer(inactive_threshold=timedelta(milliseconds=50))
    assert consumer.cached_info.config.durable_name is None
    await until_gone(consumer)
    return consumer


async def until_gone(consumer: Consumer) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                await consumer.info()
            except ConsumerNotFoundError:
                return
            await asyncio.sleep(0.02)


CALLS: dict[str, Callable[[Consumer], Awaitable[object]]] = {
    "fetch": lambda consumer: consumer.fetch(1, timeout=5),
    "fetch_no_wait": lambda consumer: consumer.fetch_no_wait(1),
    "next": lambda consumer: consumer.next(5),
}


async def test_every_call_to_a_removed_consumer_says_why_it_is_gone(js: JetStream) -> None:
    consumer = await gone_consumer(await new_stream(js))
    for call in CALLS.values():
        with pytest.raises(NoConsumerResponseError, match=GONE):
            await call(consumer)
    with pytest.raises(ConsumerNotFoundError, match=r"without durable_name, inactive_threshold \(5 s by default\)"):
        await consumer.info()


async def test_a_consume_of_a_removed_consumer_warns_why_it_is_gone(js: JetStream) -> None:
    consumer = await gone_consumer(await new_stream(js))
    warnings: asyncio.Queue[Exception] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    context = consumer.consume(on_error=lambda error: _hand_over(loop, warnings, error))
    warning = await asyncio.wait_for(warnings.get(), 20)
    await context.stop()
    assert isinstance(warning, NoConsumerResponseError)
    assert "no such consumer: it was removed after inactive_threshold" in str(warning)


def _hand_over(loop: asyncio.AbstractEventLoop, warnings: asyncio.Queue[Exception], error: Exception) -> None:
    loop.call_soon_threadsafe(warnings.put_nowait, error)


async def test_an_ack_for_a_removed_consumer_says_why_it_is_gone(js: JetStream) -> None:
    stream = await new_stream(js)
    consumer = await stream.create_consumer()
    await js.publish(f"{stream.name}.a")
    message = await consumer.next(5)
    await consumer.delete()  # the server keeps a consumer that waits for an ack
    with pytest.raises(NoRespondersError, match=f"{stream.name}/{consumer.name}: nobody takes .*: no such consumer: "):
        await message.ack_sync()


@pytest.mark.parametrize("front", ["aio"], indirect=True)
async def test_a_bulk_fetch_from_a_removed_consumer_says_why_it_is_gone(js: JetStream, server: NatsServer) -> None:
    stream = await new_stream(js)
    consumer = await gone_consumer(stream)

    def read() -> None:
        with bulk.connect(server.url) as connection:
            list(bulk.fetch(connection, stream.name, consumer.name, max_messages=1, timeout=5))

    with pytest.raises(NoConsumerResponseError, match=GONE):
        await asyncio.to_thread(read)


async def test_a_consumer_with_a_durable_name_is_kept(js: JetStream) -> None:
    consumer = await (await new_stream(js)).create_consumer(durable_name="kept")
    assert not consumer.cached_info.config.inactive_threshold


async def test_a_publish_that_is_not_acknowledged_says_that_the_stream_cannot_store(ground: Ground) -> None:
    stream = await ground.stream(no_ack=True)
    text = "the server answers PING, so the stream cannot store: its disk may be full"
    with pytest.raises(PublishTimeoutError, match=text):
        await ground.js.publish(f"{stream.name}.a", timeout=0.4)
    js = ground.nc.jetstream(publishing=AsyncPublishOptions(ack_timeout=0.4))
    with pytest.raises(PublishTimeoutError, match=text):
        await (await js.publish_async(f"{stream.name}.a"))


CAUSES = (
    r"no server answers the JetStream API: JetStream is not enabled on the server \(nats-server -js\) or for the "
    "account, or the domain or API prefix is wrong"
)


async def test_a_wrong_domain_names_the_two_usual_causes(ground: Ground) -> None:
    js = ground.nc.jetstream(domain="nowhere")
    with pytest.raises(JetStreamNotEnabledError, match=CAUSES):
        await js.account_info()
    with pytest.raises(JetStreamNotEnabledError, match=CAUSES):
        await js.create_stream(name="ANY", subjects=["any"])


@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_a_bulk_request_to_a_wrong_domain_names_the_two_usual_causes(server: NatsServer) -> None:
    def ask() -> None:
        with bulk.connect(server.url) as connection:
            connection.request(AccountInfoRequest(), prefix="$JS.nowhere.API.")

    with pytest.raises(JetStreamNotEnabledError, match=CAUSES):
        await asyncio.to_thread(ask)


async def test_a_direct_get_without_allow_direct_names_it(js: JetStream) -> None:
    stream = await new_stream(js, allow_direct=False)
    await js.publish(f"{stream.name}.a")
    text = f"{stream.name}.*set allow_direct on the stream"
    with pytest.raises(NoDirectGetError, match=text):
        await stream.get_msg(1, direct=True)
    with pytest.raises(NoDirectGetError, match=text):
        await stream.get_last_msg(f"{stream.name}.a", direct=True)
    with pytest.raises(NoDirectGetError, match=text):
        [message async for message in stream.get_last_msgs_for([f"{stream.name}.>"])]
