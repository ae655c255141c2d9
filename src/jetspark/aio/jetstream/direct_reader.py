"""Drives `flow.direct_read` over a connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from jetspark.aio.jetstream.asking import Replies
from jetspark.flow.direct_read import DirectRead, DirectReadRequest
from jetspark.jetstream.direct import read_batch_reply
from jetspark.jetstream.errors import DisconnectedError, RequestTimeoutError
from jetspark.jetstream.stored import StoredMessage
from jetspark.wire.messages import Message

if TYPE_CHECKING:
    from jetspark.aio.jetstream.api import JetStreamAPI

__all__ = ["read_direct"]


async def read_direct(
    js: JetStreamAPI,
    request: DirectReadRequest,
    limit: int | None,
    timeout: float,  # noqa: ASYNC109 (of silence)
) -> AsyncGenerator[list[StoredMessage], None]:
    """The messages, in lists of what was there at the time. One request is under way, and only while it is read."""
    read = DirectRead(request, limit)
    replies = Replies(js.connection)
    try:
        while (asked := read.request) is not None:
            replies.ask(asked.subject(js.prefix), asked.payload())
            while read.request is asked:
                try:
                    first = await replies.next(timeout)
                except (RequestTimeoutError, DisconnectedError) as error:
                    read.interrupted(error)
                    continue
                found = [_take(read, first)]
                while replies.waiting and read.request is asked:
                    found.append(_take(read, await replies.next(timeout)))
                if some := [message for message in found if message is not None]:
                    yield some
    finally:
        replies.close()


def _take(read: DirectRead, message: Message) -> StoredMessage | None:
    assert read.request is not None
    where = f"direct get from stream {read.request.stream!r}"
    return read.take(read_batch_reply(message.status, message.headers, message.payload, where))
