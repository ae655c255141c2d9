"""Helpers for the tests of consuming."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.api.sieve import Sieve
from tests.connection.support import TEST_TIMEOUT, Proxy
from tests.fronts import Ground, Spy, connect, eventually

import jetspark
from jetspark.aio import Msg
from jetspark.aio.jetstream import ConsumeContext, Consumer, JetStream, Stream
from jetspark.jetstream.ack import parse_ack_subject
from jetspark.wire.frames import MessageLine

__all__ = [
    "LONG",
    "PINNED",
    "Warnings",
    "consumer_of",
    "cut_off",
    "dropping_context",
    "filled_stream",
    "max_refused_pulls",
    "numbered",
    "payloads",
    "publish_while_blocked",
    "pull_bodies",
    "spy_on_pulls",
    "take",
    "wait_for_deliveries",
    "wait_for_open_pulls",
]

PINNED: dict[str, Any] = {"priority_groups": ["g"], "priority_policy": "pinned_client"}
"""Configuration fields of a consumer that pins one client."""
LONG = 300.0
"""The expiry in seconds of a pull that a test sees end early. It is longer than any test waits."""
UNWELCOME = {"Nats-Expected-Stream": "another"}
"""Headers of a publish that the stream refuses."""


async def consumer_of(ground: Ground, *, messages: int = 0, size: int = 0, **fields: Any) -> Consumer:
    """Return a pull consumer of a new stream with `messages` messages, `0`, `1`, ..., or of `size` bytes each."""
    stream = await ground.stream()
    subject = f"{stream.name}.a"
    await ground.fill(subject, *(bytes(size) if size else b"%d" % number for number in range(messages)))
    return await stream.create_consumer(**fields)


async def spy_on_pulls(ground: Ground, consumer: Consumer | None = None) -> Spy:
    """Observe the pulls of one consumer or of all consumers. While the spy exists, the server answers no pull with 503.

    The server removes the domain from their subjects.
    """
    whose = ">" if consumer is None else f"{consumer.stream_name}.{consumer.name}"
    return await ground.spy(f"$JS.API.CONSUMER.MSG.NEXT.{whose}")


def pull_bodies(spy: Spy) -> list[dict[str, Any]]:
    """Return the bodies of the pulls."""
    return [json.loads(message.payload) for message in spy.messages]


def payloads(messages: list[Msg]) -> list[bytes]:
    return [message.payload for message in messages]


def numbered(first: int, end: int) -> list[bytes]:
    """Return the payloads `first` to `end - 1`."""
    return [b"%d" % number for number in range(first, end)]


def max_refused_pulls(begin: float) -> float:
    """The maximum number of refused pulls since a consume started, with waits of 0.25 s, 0.5 s, 1 s and 2 s."""
    return 3 + time.monotonic() - begin


async def take(context: ConsumeContext, count: int, timeout: float = 20.0) -> list[Msg]:  # noqa: ASYNC109
    """Return the next messages of a consume."""
    taken: list[Msg] = []
    async with asyncio.timeout(timeout):
        while len(taken) < count:
            taken.append(await anext(context))
    return taken


def publish_while_blocked(ground: Ground, stream: str, *payloads: bytes) -> None:
    """Publish while the event loop is blocked. The deliveries of the only consumer of the stream stay in the socket."""

    def publish() -> None:
        with jetspark.sync.connect(ground.server.url, **ground.profile.admin_options) as connection:
            js = connection.jetstream(domain=ground.profile.domain)
            [name] = js.consumer_names(stream)
            before = js.consumer_info(stream, name).delivered.consumer_sequence
            for payload in payloads:
                connection.request(f"{stream}.a", payload)
            deadline = time.monotonic() + TEST_TIMEOUT
            while js.consumer_info(stream, name).delivered.consumer_sequence < before + len(payloads):
                assert time.monotonic() < deadline, "it was not delivered"
                time.sleep(0.005)  # the consumer has no event for a delivery
            assert connection.request(f"{stream}.a", headers=UNWELCOME).payload

    with ThreadPoolExecutor(1) as pool:
        pool.submit(publish).result()


async def wait_for_deliveries(ground: Ground, consumer: Consumer, count: int, js: JetStream | None = None) -> None:
    """Wait until a number of deliveries of a consumer has arrived.

    The server counts a delivery before it sends it. But it sends the data of a stream in order. When it has answered a
    later publish, it has written the deliveries, and they arrive before the answer to a later request.
    """

    async def delivered() -> bool:
        info = await ground.admin_js.consumer_info(consumer.stream_name, consumer.name)
        return info.delivered.consumer_sequence >= count

    await eventually(delivered, what=f"{count} deliveries")
    assert (await ground.admin.request(f"{consumer.stream_name}.a", headers=UNWELCOME)).payload
    await (js or ground.js).account_info()


async def wait_for_open_pulls(ground: Ground, consumer: Consumer, count: int) -> None:
    """Wait until the consumer has a number of open pulls. Messages may come later: `wait_for_deliveries`."""

    async def held() -> bool:
        return (await ground.admin_js.consumer_info(consumer.stream_name, consumer.name)).num_waiting == count

    await eventually(held, what=f"{count} open pulls")


async def cut_off(ground: Ground, proxy: Proxy, consumer: Consumer) -> None:
    """Cut the sessions at a proxy and allow no other session until the server has dropped their pulls.

    Until the server notices the loss, it sends messages to closed sessions.
    """
    proxy.open = False
    proxy.cut()
    await wait_for_open_pulls(ground, consumer, 0)
    proxy.open = True


class Warnings:
    """A handler that keeps the errors that it gets."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def add(self, error: Exception) -> None:
        self.errors.append(error)

    def of(self, kind: type[Exception]) -> list[Exception]:
        return [error for error in self.errors if isinstance(error, kind)]

    async def wait(self, kind: type[Exception], count: int = 1, timeout: float = 10.0) -> None:  # noqa: ASYNC109
        """Wait until the handler has `count` errors of a type."""
        await eventually(lambda: len(self.of(kind)) >= count, timeout, f"{count} x {kind.__name__} in {self.errors}")


@contextlib.asynccontextmanager
async def dropping_context(ground: Ground, drop: Callable[[int], bool], *, of_each: bool = False) -> AsyncIterator[Any]:
    """Open a context of the front under test through a proxy that drops the n-th deliveries for which `drop` is true.

    Deliveries are counted over all consumers, or separately for each consumer with `of_each`.
    """
    delivered = 0

    def loses(line: MessageLine, _content: bytes) -> bool:
        nonlocal delivered
        delivery = line.reply.startswith(b"$JS.ACK.")
        delivered += delivery
        if not delivery:
            return False
        return drop(parse_ack_subject(line.reply.decode()).consumer_sequence if of_each else delivered)

    async with Sieve(ground.server.port, loses) as proxy:
        connection = await connect(ground.front, proxy.url, **ground.profile.options)
        try:
            yield connection.jetstream(domain=ground.profile.domain)
        finally:
            await connection.close()


async def filled_stream(ground: Ground, count: int, **fields: Any) -> Stream:
    """Return a stream with the messages `0`, `1`, ..."""
    stream = await ground.stream(**fields)
    await ground.fill(f"{stream.name}.a", *numbered(0, count))
    return stream
