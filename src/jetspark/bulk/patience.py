"""Trying again while a cluster elects a leader, or while a server or a connection comes back.

`flow.backoff` says how long; here are the clock and the wait, which all blocking code shares.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from jetspark.bulk.connection import Connection
from jetspark.flow.backoff import Backoff
from jetspark.flow.ranges import is_passing
from jetspark.jetstream.errors import Error, JetStreamUnavailableError, RequestTimeoutError

__all__ = ["Patience", "may_answer_later", "patiently", "retrying"]

T = TypeVar("T")


class Patience:
    """Waits between the tries of something that nothing tells the end of: a server that is away, an election.

    Parameters
    ----------
    retry_timeout
        Seconds from the first failure to the last try; 0 never tries again.
    """

    def __init__(self, retry_timeout: float) -> None:
        self._backoff = Backoff(retry_timeout)

    @property
    def tries(self) -> int:
        """Tries in all that were waited for."""
        return self._backoff.tries

    def reset(self) -> None:
        """Something worked: the next failure is the first one."""
        self._backoff.reset()

    def wait(self, first: Callable[[], object] | None = None, *, at_least: float = 0.0) -> bool:
        """Wait until the next try is due; False, at once, when the time is up.

        Parameters
        ----------
        first
            Called before the wait, if there is one: closes what the next try makes anew, such as a connection that
            may be dead without our knowing.
        at_least
            Seconds to wait also where the next try is due at once.
        """
        delay = self._backoff.next_delay(time.monotonic())
        if delay is None:
            return False
        if first is not None:
            first()
        time.sleep(max(delay, at_least))
        return True


def may_answer_later(connection: Connection, error: Error) -> bool:
    """Whether a question that failed may be answered at another try, when nothing is known of the stream yet.

    After the loss of the connection it may, and in a cluster: nobody answers for a stream that elects its leader. A
    single server that is silent has stopped.
    """
    if connection.closed:
        return is_passing(error)
    return isinstance(error, RequestTimeoutError | JetStreamUnavailableError) and bool(connection.server_info.cluster)


def retrying(ask: Callable[[], T], may_pass: Callable[[Error], bool], retry_timeout: float) -> T:
    """What `ask` returns; it is called again for so many seconds, as long as its errors may pass."""
    patience = Patience(retry_timeout)
    while True:
        try:
            return ask()
        except Error as error:
            if not (may_pass(error) and patience.wait()):
                raise


def patiently(connection: Connection, ask: Callable[[], T], retry_timeout: float) -> T:
    """What `ask` returns; it is called again, on a new session if needed, while that may help.

    Parameters
    ----------
    ask
        Asks over the connection. Only for questions that may be repeated.
    retry_timeout
        Seconds from the first failure to the last try.
    """

    def connected() -> T:
        if connection.closed:
            connection.reconnect()
        return ask()

    return retrying(connected, lambda error: may_answer_later(connection, error), retry_timeout)
