"""Drives `engine.direct_read` over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.jetstream.requests import ReplyStream
from jetspark.engine.direct_read import DirectRead, DirectReadRequest
from jetspark.engine.retry import ExponentialBackoff, request_backoff
from jetspark.jetstream.direct_get import read_batch_reply
from jetspark.jetstream.errors import Error, NoDirectGetError
from jetspark.jetstream.stored_message import StoredMessage

__all__ = ["direct_get_batches"]


async def direct_get_batches(
    js: JetStreamCore,
    request: DirectReadRequest,
    limit: int | None,
    timeout: float,  # noqa: ASYNC109 (of silence)
) -> AsyncGenerator[list[StoredMessage], None]:
    """Yield the messages, in lists of those available at the time. One request at a time, and only as needed."""
    read = DirectRead(request, limit)
    backoff = request_backoff(timeout)
    replies = ReplyStream(js.connection)
    try:
        while (asked := read.request) is not None:
            replies.request(asked.subject(js.prefix), asked.payload())
            while read.request is asked:
                found, error = await _receive_available(read, replies, timeout)
                if found:
                    backoff.reset()
                    yield found
                if error is not None:
                    await _retry_or_raise(read, error, backoff)
    finally:
        replies.close()


async def _receive_available(
    read: DirectRead,
    replies: ReplyStream,
    timeout: float,  # noqa: ASYNC109 (of silence)
) -> tuple[list[StoredMessage], Error | None]:
    """Wait for a reply and take all available ones; return the messages, and the error that came after them."""
    asked = read.request
    assert asked is not None
    where = f"direct get from stream {asked.stream!r}"
    found: list[StoredMessage] = []
    try:
        while read.request is asked and (replies.available or not found):
            reply = await replies.next(timeout)
            message = read.handle_reply(read_batch_reply(reply.status, reply.headers, reply.payload, where))
            if message is not None:
                found.append(message)
    except Error as error:  # return the messages before it, too
        return found, error
    return found, None


async def _retry_or_raise(read: DirectRead, error: Error, backoff: ExponentialBackoff) -> None:
    """Let the read continue after the received messages, or raise the error."""
    if isinstance(error, NoDirectGetError):  # during a read: the stream elects a leader, or is restarting
        delay = backoff.next_delay(asyncio.get_running_loop().time())
        if delay is None:
            raise error
        read.retry(error)
        await asyncio.sleep(delay)
    elif error.outcome_unknown:
        read.interrupted(error)
    else:
        raise error
