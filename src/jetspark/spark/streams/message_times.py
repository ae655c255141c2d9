"""When a stream stored a message. The times show whether an older state of the stream was restored and filled again.

Not every account may ask for single messages of a stream. If requests about the stream are answered and requests for
its messages are not, a query continues without the times, and logs one warning.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from jetspark.engine.retry import can_resume
from jetspark.jetstream.api import MessageGetRequest, StreamInfoRequest
from jetspark.jetstream.errors import Error, MessageNotFoundError, StreamNotFoundError
from jetspark.spark.connections import call_with_connection
from jetspark.spark.options.server import ServerOptions

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["MessageTimes"]

_log: Final = logging.getLogger(__name__)


class _UnreachableError(Error, PermissionError):
    """Nobody answers at a subject although the stream exists: a missing permission, export or import."""


class MessageTimes:
    """Asks for the times of messages."""

    def __init__(self, server: ServerOptions) -> None:
        self._server = server
        self._unavailable: set[str] = set()  # streams that do not answer requests for messages

    def time_of(self, stream: str, sequence: int, retry_timeout: float) -> int | None:
        """Return the time in ns since the epoch; None when there is no such message, or it cannot be asked for.

        Parameters
        ----------
        stream, sequence
            The message.
        patience
            Seconds to go on asking when the server is away.

        Raises
        ------
        Error
            The server is still away, or does not know the stream this time. To continue without the time would skip the
            messages that replaced lost ones.
        """
        if sequence < 1 or stream in self._unavailable:
            return None
        try:
            return self._request_with_retry(stream, sequence, retry_timeout)
        except Error as error:
            if can_resume(error) or isinstance(error, StreamNotFoundError):
                raise
            self._unavailable.add(stream)
            _log.warning(
                "stream %s: cannot read the times of messages, so a restored older state may go unnoticed: %s",
                stream,
                error,
            )
            return None

    def _request_with_retry(self, stream: str, sequence: int, retry_timeout: float) -> int | None:
        from jetspark.bulk.retry import call_with_retry

        def ask() -> int | None:
            return call_with_connection(
                self._server.connect, lambda connection: self._request_time(connection, stream, sequence), 0.0
            )

        try:
            return call_with_retry(ask, can_resume, retry_timeout)
        except Error as error:
            if not can_resume(error):
                raise
            return call_with_connection(
                self._server.connect,
                lambda connection: self._request_time_or_give_up(connection, stream, sequence),
                0.0,
            )

    def _request_time_or_give_up(self, connection: Connection, stream: str, sequence: int) -> int | None:
        """Ask between two answers about the stream. If there is no answer even then, messages cannot be asked for."""
        self._server.request(connection, StreamInfoRequest(stream))
        try:
            return self._request_time(connection, stream, sequence)
        except Error as error:
            if not can_resume(error):
                raise
            self._server.request(connection, StreamInfoRequest(stream))
            raise _UnreachableError(str(error)) from error

    def _request_time(self, connection: Connection, stream: str, sequence: int) -> int | None:
        try:
            request = MessageGetRequest(stream, seq=sequence, no_headers=True)
            return self._server.request(connection, request).timestamp_ns
        except MessageNotFoundError:
            return None
