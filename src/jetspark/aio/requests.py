"""A request on an inbox of its own: a subscription for one message, which is always removed at the end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from jetspark.aio.futures import settle_ended, settle_request
from jetspark.wire.errors import NoRespondersError
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.outbound import Payload
from jetspark.wire.reply_mux import is_no_responders

if TYPE_CHECKING:
    from jetspark.aio.core import ConnectionCore

__all__ = ["request_with_own_inbox"]


async def request_with_own_inbox(
    connection: ConnectionCore,
    subject: str,
    payload: Payload,
    headers: HeadersLike | None,
    answered: asyncio.Future[Message],
) -> Message:
    """Send a request with an inbox of its own and return the answer. Others, such as a timer, may fail `answered`."""
    client = connection._client
    inbox = client.new_inbox()
    frame = client.outbound.encode(subject, payload, inbox.encode(), headers)
    sub = client.subscribe(inbox, max_msgs=1)
    sub.handler = partial(settle_request, answered)
    sub.wake = partial(settle_ended, sub, answered)
    sub.waiting = True
    try:
        client.outbound.queue_publish(frame)
        connection._flush_now()
        message = await answered
    finally:
        sub.wake = sub.handler = None
        client.outbound.withdraw((frame,))
        client.unsubscribe(sub)
        connection._flush_soon()
        del answered
    if is_no_responders(message):
        raise NoRespondersError(f"nobody listens on {subject!r}")
    return message
