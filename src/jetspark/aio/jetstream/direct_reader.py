"""Drives `flow.direct_read` over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from jetspark.aio.jetstream.asking import Replies
from jetspark.flow.backoff import Backoff
from jetspark.flow.direct_read import DirectRead, DirectReadRequest
from jetspark.jetstream.direct import read_batch_reply
from jetspark.jetstream.errors import DisconnectedError, Error, NoDirectGetError, RequestTimeoutError
from jetspark.jetstream.stored import StoredMessage

if TYPE_CHECKING:
    from jetspark.aio.jetstream.api import JetStreamAPI

__all__ = ["read_direct"]


async def read_direct(
    js: JetStreamAPI,
    request: DirectReadRequest,
    limit: int | None,
    timeout: float,  # noqa: ASYNC109 (of silence)
) -> AsyncGenerator[list[StoredMessage], None]:
    """Yield the messages, in lists of those available at the time. One request at a time, and only as needed."""
    read = DirectRead(request, limit)
    backoff = Backoff(timeout)
    replies = Replies(js.connection)
    try:
        while (asked := read.request) is not None:
            replies.ask(asked.subject(js.prefix), asked.payload())
            while read.request is asked:
                found, error = await _take(read, replies, timeout)
                if found:
                    backoff.reset()
                    yield found
                if error is not None:
                    await _again(read, error, backoff)
    finally:
        replies.close()


async def _take(read: DirectRead, replies: Replies, timeout: float) -> tuple[list[StoredMessage], Error | None]:  # noqa: ASYNC109
    """Wait for a reply and take all available ones; return the messages, and the error that came after them."""
    asked = read.request
    assert asked is not None
    where = f"direct get from stream {asked.stream!r}"
    found: list[StoredMessage] = []
    try:
        while read.request is asked and (replies.waiting or not found):
            reply = await replies.next(timeout)
            message = read.take(read_batch_reply(reply.status, reply.headers, reply.payload, where))
            if message is not None:
                found.append(message)
    except Error as error:  # return the messages before it, too
        return found, error
    return found, None


async def _again(read: DirectRead, error: Error, backoff: Backoff) -> None:
    """Let the read continue after the received messages, or raise the error."""
    if isinstance(error, NoDirectGetError):  # during a read: the stream elects a leader, or is restarting
        delay = backoff.next_delay(asyncio.get_running_loop().time())
        if delay is None:
            raise error
        read.repeat(error)
        await asyncio.sleep(delay)
    elif isinstance(error, (RequestTimeoutError, DisconnectedError)):
        read.interrupted(error)
    else:
        raise error
