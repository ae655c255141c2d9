"""The times at which a stream stored messages. They show whether an older state of it was restored and filled again.

Not every account may request single messages of a stream. If requests for the stream are answered and requests for its
messages are not, the query continues without the times, and logs one warning.
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
    """No server answers on a subject, although the stream exists: a permission, export or import is missing."""


class MessageTimes:
    """Requests the times of messages."""

    def __init__(self, server: ServerOptions) -> None:
        self._server = server
        self._unavailable: set[str] = set()  # streams that do not answer requests for messages

    def time_of(self, stream: str, sequence: int, retry_timeout: float) -> int | None:
        """Return the time in ns since 1970; None if there is no such message, or it cannot be requested.

        Parameters
        ----------
        stream, sequence
            Stream and sequence of the message.
        retry_timeout
            Seconds to keep trying while the server cannot be reached.

        Raises
        ------
        Error
            The server still cannot be reached, or does not know the stream now. Without the time, the query would skip
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
        """Request the time between two requests for the stream. If only these are answered, messages cannot be read."""
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
            request = MessageGetRequest(stream, sequence=sequence, no_headers=True)
            return self._server.request(connection, request).timestamp_ns
        except MessageNotFoundError:
            return None
