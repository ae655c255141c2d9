"""One try of a publish that waits for its answer: its timeout, and a PING shortly before.

The PING shows whether the server answers although the stream does not.
"""

from __future__ import annotations

import asyncio

from jetspark.aio.core import ConnectionCore
from jetspark.aio.futures import expire_request
from jetspark.aio.server_check import CallWatch
from jetspark.jetstream.publish import PING_AT
from jetspark.wire.errors import Error
from jetspark.wire.messages import Message

__all__ = ["PublishCall"]


class PublishCall(CallWatch):
    """A context manager for the try, and the timer of its request.

    Attributes
    ----------
    answered
        Whether the server has answered the PING.
    """

    __slots__ = ("_connection", "_deadline", "_expired", "_timer", "answered")

    _timer: asyncio.TimerHandle

    def __init__(self, connection: ConnectionCore) -> None:
        CallWatch.__init__(self, connection.server_check)
        self.answered = False
        self._connection = connection
        self._expired: tuple[asyncio.Future[Message], str, float] | None = None

    def start(self, answered: asyncio.Future[Message], subject: str, timeout: float) -> None:
        """Let the request fail after so many seconds. There is one timer at a time: a cancelled one costs time, too."""
        self._deadline = self.began + timeout
        self._expired = answered, subject, timeout
        self._timer = self._connection.loop.call_at(self.began + timeout * PING_AT, self._send)

    def cancel(self) -> None:
        """Do nothing more: the request has ended."""
        self._timer.cancel()
        self._expired = None  # the future may hold an exception whose traceback holds this object

    def _send(self) -> None:
        assert self._expired is not None
        connection = self._connection
        self._timer = connection.loop.call_at(self._deadline, expire_request, *self._expired)
        if connection.connected:
            connection.client.ping(self._on_answer)
            connection.flush_soon()

    def _on_answer(self, error: Error | None) -> None:
        self.answered = error is None
