"""A publish that waits for its answer: a request, repeated while no stream takes the subject (PUB-03)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from jetspark.aio.core import ConnectionCore
from jetspark.aio.jetstream._drivers.publish_call import PublishCall
from jetspark.aio.message import Msg
from jetspark.engine.retry import RetryPolicy
from jetspark.jetstream.errors import NoRespondersError, PublishTimeoutError, RequestTimeoutError, StatusError
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import (
    RETRY_ATTEMPTS,
    RETRY_WAIT,
    no_stream_error,
    not_stored_hint,
    read_pub_ack,
    wait_for_expected_stream,
)
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.outbound import Payload

__all__ = ["publish", "publish_request"]

_DEFAULT_RETRY: Final = RetryPolicy(RETRY_ATTEMPTS, RETRY_WAIT)


async def publish(
    connection: ConnectionCore,
    subject: str,
    payload: Payload,
    headers: HeadersLike | None,
    timeout: float,  # noqa: ASYNC109 (the deadline is part of the call)
    retry: RetryPolicy = _DEFAULT_RETRY,
    expected_stream: str | None = None,
) -> PubAck:
    """Publish and return the acknowledgement of the stream. Errors are those of `JetStream.publish`."""
    reply = await publish_request(connection, subject, payload, headers, timeout, retry, expected_stream)
    if (status := reply.status) is not None:
        raise StatusError(status.code, status.description, where=subject)
    return read_pub_ack(reply.payload, subject, expected_stream)


async def publish_request(
    connection: ConnectionCore,
    subject: str,
    payload: Payload,
    headers: HeadersLike | None,
    timeout: float,  # noqa: ASYNC109 (the deadline is part of the call)
    retry: RetryPolicy,
    expected_stream: str | None = None,
) -> Msg:
    """Publish and wait for the answer of the (expected) stream, all within the timeout.

    Raises
    ------
    NoStreamResponseError, PublishTimeoutError, DisconnectedError
        There is no answer. The message will not be sent again.
    """
    clock = connection.loop.time
    deadline = clock() + timeout
    left = timeout
    tries = 0
    seconds_for_better = None
    if expected_stream is not None:
        seconds_for_better = partial(_seconds_for_better, expected_stream, timeout)
    while True:
        call = PublishCall(connection)
        try:
            with call:
                return await connection.request(
                    subject, payload, left, headers, seconds_for_better=seconds_for_better, timer=call
                )
        except NoRespondersError:
            delay = retry.delay(tries, deadline - clock())
            if delay is None:
                raise no_stream_error(subject, tries) from None
        except RequestTimeoutError:
            raise PublishTimeoutError(
                f"{subject}: no acknowledgement within {timeout:g} s; whether it is stored is not known"
                + not_stored_hint(ping_answered=call.answered)
            ) from None
        tries += 1
        await asyncio.sleep(delay)
        left = deadline - clock()


def _seconds_for_better(expected_stream: str, timeout: float, answer: Message) -> float:
    return 0.0 if answer.status is not None else wait_for_expected_stream(answer.payload, expected_stream, timeout)
