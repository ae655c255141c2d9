"""A request on an inbox of its own: a subscription for one message, which is always removed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from jetspark.aio.futures import settle_ended, settle_request
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.errors import NoRespondersError
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.outbound import Payload
from jetspark.wire.reply_mux import is_no_responders

__all__ = ["request_with_own_inbox"]


async def request_with_own_inbox(
    client: ConnectionState,
    flush: Callable[[], None],
    subject: str,
    payload: Payload,
    headers: HeadersLike | None,
    answered: asyncio.Future[Message],
) -> Message:
    """Send a request with an inbox of its own and return the answer. Others, such as a timer, may fail `answered`."""
    inbox = client.new_inbox()
    frame = client.outbound.encode(subject, payload, inbox.encode(), headers)
    sub = client.subscribe(inbox, max_msgs=1)
    sub.handler = partial(settle_request, answered)
    sub.wake = partial(settle_ended, sub, answered)
    sub.waiting = True
    try:
        client.outbound.queue_publish(frame)
        flush()
        message = await answered
    finally:
        sub.wake = sub.handler = None
        client.outbound.withdraw((frame,))
        client.unsubscribe(sub)
        flush()
        del answered
    if is_no_responders(message):
        raise NoRespondersError(f"nobody listens on {subject!r}")
    return message
