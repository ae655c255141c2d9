"""Errors: nats-py's names for jetspark's classes. Where it has one name for several of them, the name is a tuple."""

import asyncio

from jetspark import errors as js

__all__ = [
    "BadSubscriptionError",
    "Error",
    "MsgAlreadyAckdError",
    "NoRespondersError",
    "SlowConsumerError",
    "TimeoutError",
]

Error = js.Error
TimeoutError = asyncio.TimeoutError  # noqa: A001 - nats-py's name
NoRespondersError = js.NoRespondersError
BadSubscriptionError = js.SubscriptionClosedError
SlowConsumerError = js.SlowConsumerError


class MsgAlreadyAckdError(js.Error):
    """Never raised: a second acknowledgement is left out silently (ADR-15)."""
