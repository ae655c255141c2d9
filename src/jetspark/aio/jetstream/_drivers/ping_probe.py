"""A PING shortly before the timeout of a publish: does the server answer although the stream does not?"""

from __future__ import annotations

from jetspark.aio.core import ConnectionCore
from jetspark.jetstream.publish import PING_AT
from jetspark.wire.errors import Error

__all__ = ["PingProbe"]


class PingProbe:
    """Sends a PING when most of the timeout has passed.

    Attributes
    ----------
    answered
        Whether the server has answered it.
    """

    def __init__(self, connection: ConnectionCore, timeout: float) -> None:
        self.answered = False
        self._connection = connection
        self._timer = connection.loop.call_later(timeout * PING_AT, self._send)

    def cancel(self) -> None:
        """Send no PING: there is an answer."""
        self._timer.cancel()

    def _send(self) -> None:
        if self._connection.connected:
            self._connection.client.ping(self._on_answer)
            self._connection.flush_soon()

    def _on_answer(self, error: Error | None) -> None:
        self.answered = error is None
