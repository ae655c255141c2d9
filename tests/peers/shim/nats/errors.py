"""Errors: the names of nats-py for the classes of jetspark. One name for several classes is a tuple."""

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
    """Never raised: a second acknowledgement is ignored (ADR-15)."""
