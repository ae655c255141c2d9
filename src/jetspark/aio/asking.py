"""A request on an inbox of its own: a subscription for one message, which is always removed at the end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from jetspark.aio.waiting import settle_ended, settle_request
from jetspark.wire.errors import NoRespondersError
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.outbound import Payload
from jetspark.wire.requests import no_responders

if TYPE_CHECKING:
    from jetspark.aio.core import ConnectionCore

__all__ = ["ask_alone"]


async def ask_alone(
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
    route = client.subscribe(inbox, max_msgs=1)
    route.handler = partial(settle_request, answered)
    route.wake = partial(settle_ended, route, answered)
    route.waiting = True
    try:
        client.outbound.publish(frame)
        connection._send_now()
        message = await answered
    finally:
        route.wake = route.handler = None
        client.outbound.withdraw((frame,))
        client.unsubscribe(route)
        connection._send_soon()
        del answered
    if no_responders(message):
        raise NoRespondersError(f"nobody listens on {subject!r}")
    return message
