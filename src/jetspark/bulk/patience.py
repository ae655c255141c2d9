"""Asking again while a cluster elects a leader or a connection comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from jetspark.bulk.connection import Connection
from jetspark.flow.backoff import Backoff
from jetspark.flow.ranges import is_passing
from jetspark.jetstream.errors import Error, JetStreamUnavailableError, RequestTimeoutError

__all__ = ["may_answer_later", "patiently"]

T = TypeVar("T")


def may_answer_later(connection: Connection, error: Error) -> bool:
    """Whether a question that failed may be answered at another try, when nothing is known of the stream yet.

    After the loss of the connection it may, and in a cluster: nobody answers for a stream that elects its leader. A
    single server that is silent has stopped.
    """
    if connection.closed:
        return is_passing(error)
    return isinstance(error, RequestTimeoutError | JetStreamUnavailableError) and bool(connection.server_info.cluster)


def patiently(connection: Connection, ask: Callable[[], T], retry_timeout: float) -> T:
    """What `ask` returns; it is called again, on a new session if needed, while that may help.

    Parameters
    ----------
    ask
        Asks over the connection. Only for questions that may be repeated.
    retry_timeout
        Seconds from the first failure to the last try.
    """
    backoff = Backoff(retry_timeout)
    while True:
        try:
            if connection.closed:
                connection.reconnect()
            return ask()
        except Error as error:
            delay = backoff.next_delay(time.monotonic()) if may_answer_later(connection, error) else None
            if delay is None:
                raise
            time.sleep(delay)  # nothing to wait for: the server is away
