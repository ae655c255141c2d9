"""Runs one fetch of a consumer: messages of other calls first, then those of its own pull."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from jetspark.aio.core import ConnectionCore
from jetspark.aio.jetstream._drivers.carry_over import CarryOver, move_within_limits
from jetspark.aio.jetstream._drivers.pull import PullDriver
from jetspark.aio.message import Msg
from jetspark.engine.pull import MessageBatch, PullOptions
from jetspark.jetstream.errors import Error

__all__ = ["fetch_messages"]

MakeDriver = Callable[[PullOptions, Callable[[], None], deque[Msg]], PullDriver]
"""Creates the driver of a pull, with these options, the call when it has messages or ends, and the messages so far."""


async def fetch_messages(
    connection: ConnectionCore, carry_over: CarryOver, options: PullOptions, make_driver: MakeDriver
) -> MessageBatch[Msg]:
    """Return the messages of a fetch. An error that came after messages is in the batch; another one is raised."""
    connection.check_loop()
    loop = asyncio.get_running_loop()
    began = None  # None: now, unless it must wait before it can pull
    if carry_over:
        began = loop.time()
        await carry_over.wait_quiet(options.wait_limit)
    ready: deque[Msg] = deque()  # the messages of the fetch, from other calls and from its own pull
    wanted = move_within_limits(carry_over.messages, ready, options)
    if wanted is None:
        return MessageBatch(ready)
    ended = loop.create_future()
    full = False  # it has all that it wants, or the next message of other calls does not fit

    def on_ready() -> None:
        nonlocal full
        if ended.done():
            return
        if carry_over.messages or len(ready) > driver.received:  # else its own pull decides when it ends
            rest = move_within_limits(carry_over.messages, ready, options)
            full = rest is None or rest.no_timeout != options.no_timeout  # endless until the first message
        if full or driver.ended:
            ended.set_result(None)

    driver = make_driver(wanted, on_ready, ready)
    try:
        with carry_over.listening(on_ready):
            driver.start(began)
            await ended
    except BaseException:
        driver.detach()
        raise
    if not full:
        return _finish_batch(connection, MessageBatch(ready), driver.error)
    batch = MessageBatch[Msg]()
    move_within_limits(ready, batch, options)
    driver.detach()
    return _finish_batch(connection, batch, None)


def _finish_batch(connection: ConnectionCore, batch: MessageBatch[Msg], error: Error | None) -> MessageBatch[Msg]:
    if not batch:
        if error is not None:
            raise error
        connection.check_open()
    batch.error = error
    return batch
