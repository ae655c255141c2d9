"""Retries while a cluster elects a leader, or while a server or a connection comes back.

`engine.retry` computes the delays; this module has the clock and the wait for all blocking code.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from jetspark.bulk.connection import Connection
from jetspark.engine.retry import can_resume, request_backoff
from jetspark.jetstream.errors import Error, JetStreamNotEnabledError, StreamOfflineError

__all__ = ["RetryTimer", "call_with_retry", "is_retryable", "request_with_retry"]

T = TypeVar("T")


class RetryTimer:
    """Waits between retries when nothing reports the end of the cause, such as a server that is away or an election.

    Parameters
    ----------
    retry_timeout
        Seconds from the first failure to the last try; 0 means no retry.
    """

    def __init__(self, retry_timeout: float) -> None:
        self._backoff = request_backoff(retry_timeout)

    @property
    def retries(self) -> int:
        """Total number of retries that were waited for."""
        return self._backoff.retries

    def reset(self) -> None:
        """Note a success: the next failure counts as the first one."""
        self._backoff.reset()

    def wait(self, before_wait: Callable[[], object] | None = None, *, min_delay: float = 0.0) -> bool:
        """Wait until the next try is due; return False at once if the time is up.

        Parameters
        ----------
        before_wait
            Called before the wait, if there is one. It closes an object that the next try opens again, such as a
            connection that may be dead without a sign of it.
        min_delay
            Least seconds to wait, even if the next try is due at once.
        """
        delay = self._backoff.next_delay(time.monotonic())
        if delay is None:
            return False
        if before_wait is not None:
            before_wait()
        time.sleep(max(delay, min_delay))  # nothing reports that the next try would succeed
        return True


def is_retryable(connection: Connection, error: Error) -> bool:
    """Whether a request that failed may succeed later, when nothing is known of the stream yet.

    A server that is silent or restarts answers later, and so does a stream that elects its leader. If nobody listens on
    the subject of the request, the API's prefix may be wrong. That passes only where JetStream was there before.
    """
    if connection.interrupted:
        return False
    server = connection.server_info
    if isinstance(error, JetStreamNotEnabledError):
        return error.transient and (connection.closed or connection.jetstream_answered or server.lame_duck)
    if isinstance(error, StreamOfflineError) and not server.cluster:
        return False  # this server cannot serve the stream, and there is no other one
    return can_resume(error)


def call_with_retry(
    call: Callable[[], T],
    should_retry: Callable[[Error], bool],
    retry_timeout: float,
    on_error: Callable[[Error], Callable[[], object] | None] = lambda _: None,
) -> T:
    """Return the result of `call`; repeat it for `retry_timeout` seconds while `should_retry` accepts its errors.

    `on_error` is called with each error; what it returns is called before the wait, see `RetryTimer.wait`.
    """
    retry = RetryTimer(retry_timeout)
    while True:
        try:
            return call()
        except Error as error:
            if not (should_retry(error) and retry.wait(on_error(error))):
                raise


def request_with_retry(connection: Connection, request: Callable[[], T], retry_timeout: float) -> T:
    """Return the result of `request`; repeat it, on a new session if needed, while that may help.

    Parameters
    ----------
    request
        Sends a request over the connection. Only for requests that may be repeated.
    retry_timeout
        Seconds from the first failure to the last try.
    """

    def connected() -> T:
        if connection.closed:
            connection.reconnect()
        return request()

    return call_with_retry(
        connected, lambda error: is_retryable(connection, error), retry_timeout, connection.note_error
    )
