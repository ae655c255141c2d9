"""A whole asyncio connection on a transport in memory, whose server sends hostile bytes.

The connection is busy in every way: a request, publishes, a fetch, a consume, a push subscription, an ordered consumer
and a plain subscription wait for something. Time is virtual. Nothing but errors of the library may come out, in the
calls, in the events and in callbacks of the loop, and nothing may be left at the end.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final

from tests.driver.jetstream import JetStreamScript
from tests.driver.virtual_time import VirtualTimeLoop
from tests.driver.world import World
from tests.fuzz.frames import FrameMaker

from jetspark import aio
from jetspark.aio.jetstream import Consumer, OrderedConsumer
from jetspark.errors import Error
from jetspark.wire.events import Event

__all__ = ["PLACES", "ForeignError", "play"]

PLACES: Final = tuple(b"@%d." % sid for sid in range(1, 9))
"""Stands for the subject of a subscription, by its id, without its last token."""
_PLACE: Final = re.compile(rb"@([1-8])\.")
_SECONDS: Final = 2.0
"""Virtual time for the client to react."""


class ForeignError(Exception):
    """Something else than an error of the library came out."""


def play(data: bytes) -> None:
    """Send bytes to a new connection that is busy. Raises ForeignError."""
    loop = VirtualTimeLoop()
    faults: list[object] = []
    loop.set_exception_handler(lambda _, context: faults.append(context.get("exception") or context["message"]))
    try:
        loop.run_until_complete(_play(data, faults))
    finally:
        loop.close()
    for fault in faults:
        raise ForeignError(f"{fault!r}") from (fault if isinstance(fault, BaseException) else None)


async def _play(data: bytes, faults: list[object]) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    world = World(loop)
    script = JetStreamScript(world.server)
    script.stream().answers = "hold"
    script.consumer("worker", ack_wait=9_000_000_000)
    script.consumer("pusher", deliver_subject="deliver.pusher", idle_heartbeat=5_000_000_000, flow_control=True)
    script.answer("STREAM.MSG.GET.>", {"error": {"code": 404, "err_code": 10037, "description": "no message found"}})
    connection = await world.connect()
    uses = [loop.create_task(_kept(use, faults)) for use in await _uses(connection)]
    await world.clock.settle()
    session = world.server.session
    subjects = {b"%d" % int(sub.sid): sub.subject.rpartition(".")[0].encode() for sub in session.subs.values()}
    real = _PLACE.sub(lambda found: subjects.get(found[1], b"a") + b".", data)
    for piece in FrameMaker(random.Random(len(data))).pieces(real):
        session.send(piece)
    await world.clock.advance(_SECONDS)
    for use in uses:
        use.cancel()
    await asyncio.gather(*uses, return_exceptions=True)
    await world.close()
    faults += [error for error in map(_error_of, world.events.events) if error is not None]
    faults += [f"left: {each!r}" for each in world.left()]


def _error_of(event: Event) -> BaseException | None:
    """Return the error of an event if it is not of the library, or hides one of a handler."""
    error: BaseException | None = getattr(event, "error", None)
    if error is None or (isinstance(error, Error) and "cannot go on reading" not in str(error)):
        return None
    return error.__cause__ or error


async def _kept(use: Coroutine[Any, Any, object], faults: list[object]) -> None:
    """Wait for the end of a use."""
    try:
        await use
    except Error:
        pass
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        faults.append(error)


async def _uses(connection: aio.Connection) -> list[Coroutine[Any, Any, object]]:
    """Return what the program does at the same time. Each use has its subscription."""
    js = connection.jetstream()
    worker = await js.consumer("ORDERS", "worker")
    plain = await connection.subscribe("plain.*")
    push = await js.subscribe_bind("ORDERS", None, "pusher")
    publishes = [await js.publish_async("orders.a", b"x") for _ in range(3)]
    return [
        _take(plain),
        _take(push),
        _fetch(worker),
        _consume(worker),
        _consume(js.ordered_consumer("ORDERS")),
        connection.request("svc.a", b"x", timeout=5),
        js.publish("orders.a", b"x"),
        _results(publishes),
        (await js.stream("ORDERS")).info(timeout=5),
    ]


async def _fetch(consumer: Consumer) -> None:
    for message in await consumer.fetch(20, timeout=1):
        await _use(message)


async def _consume(consumer: Consumer | OrderedConsumer) -> None:
    async with consumer.consume(max_messages=50, on_error=_ignore) as messages:
        await _take(messages)


def _ignore(_: Exception) -> None:
    """Do nothing with a warning."""


async def _take(messages: AsyncIterator[Any]) -> None:
    async for message in messages:
        await _use(message)


async def _use(message: aio.Msg) -> None:
    """Read everything of a message, and acknowledge it."""
    try:
        _ = message.subject, message.reply, message.headers.to_dict(), message.status, repr(message)
        await message.ack()
        _ = message.metadata.timestamp
    except Error:
        pass  # it has no ack subject


async def _results(publishes: list[Any]) -> None:
    for publish in publishes:
        await publish
