"""Helpers for the tests of subscriptions: a connection that records its events, and checks of the server's state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.api.sieve import Sieve
from tests.connection.support import Recorder, eventually
from tests.fronts import Ground, connect

from jetspark.aio import Connection, Msg
from jetspark.aio.jetstream import JetStream, PullSubscription, PushSubscription
from jetspark.errors import MissedHeartbeatError
from jetspark.events import ErrorOccurred
from jetspark.jetstream.ack import parse_ack_subject
from jetspark.wire.frames import MessageLine

__all__ = [
    "Side",
    "bound",
    "collect",
    "consumers_left",
    "errors",
    "faults",
    "fill",
    "gone",
    "live",
    "loses_every",
    "numbers",
    "open_pulls",
    "reported_error",
    "side",
    "unbound",
]


@dataclass
class Side:
    """A connection for one test."""

    nc: Connection
    js: JetStream
    events: Recorder


@asynccontextmanager
async def side(ground: Ground, url: str | None = None, **options: Any) -> AsyncIterator[Side]:
    """Connect with the front and the profile under test, and record the events."""
    events = Recorder()
    given = {**ground.profile.options, "on_event": events, **options}
    nc = await connect(ground.front, url or ground.server.url, **given)
    try:
        yield Side(nc, nc.jetstream(domain=ground.profile.domain), events)
    finally:
        await nc.close()


def errors(events: Recorder, kind: type[Exception] = Exception) -> list[Exception]:
    """Return the errors of a class that were reported as events."""
    return [event.error for event in events.of(ErrorOccurred) if isinstance(event.error, kind)]


def faults(events: Recorder) -> list[Exception]:
    """Return the reported errors, without missed heartbeats of a server that was slow."""
    return [error for error in errors(events) if not isinstance(error, MissedHeartbeatError)]


async def reported_error(events: Recorder, kind: type[Exception], count: int = 1) -> Any:
    """Wait for the `count`-th error of a class that is reported as an event."""
    await eventually(lambda: len(errors(events, kind)) >= count, what=f"{count} x {kind.__name__}")
    return errors(events, kind)[count - 1]


async def collect(subscription: PushSubscription, count: int) -> list[Msg]:
    """Return the next messages of a subscription."""
    return [await subscription.next_msg(10) for _ in range(count)]


def live(nc: Connection) -> int:
    """Return how many subscriptions a connection has, its shared inbox included."""
    blocking: Any = getattr(nc, "inner", None)  # of a connection in `Carried`
    return len((nc._core if blocking is None else blocking._core.inner).client.subscriptions)


async def gone(ground: Ground, stream: str, consumer: str) -> bool:
    """Return whether the consumer does not exist."""
    return consumer not in await ground.admin_js.consumer_names(stream).all()


async def consumers_left(ground: Ground, stream: str, count: int) -> None:
    """Wait until a stream has at most `count` consumers."""

    async def few() -> bool:
        return len(await ground.admin_js.consumer_names(stream).all()) <= count

    await eventually(few, 30, f"at most {count} consumers")


async def bound(ground: Ground, stream: str, consumer: str) -> None:
    """Wait until the server has noticed that a push consumer has a subscriber."""

    async def taken() -> bool:
        return (await ground.admin_js.consumer_info(stream, consumer)).push_bound

    await eventually(taken, what=f"{consumer} with a listener")


async def unbound(ground: Ground, stream: str, consumer: str) -> None:
    """Wait until a push consumer has no subscriber, after the server had noticed one.

    The server informs a consumer of both in order. A test that does not wait for the first event may mistake the time
    before it for the second.
    """

    async def free() -> bool:
        return not (await ground.admin_js.consumer_info(stream, consumer)).push_bound

    await eventually(free, what=f"{consumer} without a listener")


async def open_pulls(subscription: PullSubscription, count: int) -> None:
    """Wait until the server has `count` open pulls."""

    async def held() -> bool:
        return (await subscription.consumer_info()).num_waiting == count

    await eventually(held, what=f"{count} open pulls")


def numbers(messages: list[Msg]) -> list[int]:
    """Return the payloads as numbers."""
    return [int(message.payload) for message in messages]


async def fill(ground: Ground, subject: str, first: int, last: int) -> None:
    """Publish the numbers `first` to `last`."""
    await ground.fill(subject, *(b"%d" % number for number in range(first, last + 1)))


def loses_every(count: int, sieve: Sieve) -> None:
    """Drop every n-th delivery of each consumer. A count over all consumers could hit the first delivery each time."""

    def loses(line: MessageLine, _content: bytes) -> bool:
        reply = line.reply.decode()
        return reply.startswith("$JS.ACK.") and parse_ack_subject(reply).consumer_sequence % count == 0

    sieve.loses = loses
