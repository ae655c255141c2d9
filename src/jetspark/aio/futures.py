"""Functions that settle futures: on a PONG, an answer, the end of a subscription or a timer.

Each ignores a future that is already done, as its waiter may have been cancelled in the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from jetspark.wire.errors import DisconnectedError, Error, RequestTimeoutError
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import SubscriptionState

__all__ = [
    "expire_request",
    "retrieve_error",
    "set_done",
    "settle_better_request",
    "settle_ended",
    "settle_ping",
    "settle_request",
]


def settle_ping(answered: asyncio.Future[None], error: Error | None) -> None:
    if not answered.done():
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(error)


def settle_request(answered: asyncio.Future[Message], outcome: Message | Error) -> None:
    if not answered.done():
        if isinstance(outcome, Error):
            answered.set_exception(outcome)
        else:
            answered.set_result(outcome)


def settle_better_request(
    answered: asyncio.Future[Message], seconds_for_better: Callable[[Message], float], outcome: Message | Error
) -> bool:
    """Settle a request; return True to wait for a better reply, for which the present one is kept."""
    seconds = 0.0 if isinstance(outcome, Error) else seconds_for_better(outcome)
    if seconds:
        timer = answered.get_loop().call_later(seconds, settle_request, answered, outcome)
        answered.add_done_callback(lambda _: timer.cancel())
        return True
    settle_request(answered, outcome)
    return False


def settle_ended(sub: SubscriptionState, answered: asyncio.Future[Message]) -> None:
    if sub.ended and not answered.done():
        answered.set_exception(sub.error or DisconnectedError("the connection was closed before the answer came"))


def expire_request(answered: asyncio.Future[Message], subject: str, timeout: float) -> None:
    if not answered.done():
        answered.set_exception(RequestTimeoutError(f"no answer on {subject!r} within {timeout:g} s"))


def set_done(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def retrieve_error(call: asyncio.Future[Any]) -> None:
    """Retrieve the error of a call, because the caller that would get it may be gone."""
    if not call.cancelled():
        call.exception()
