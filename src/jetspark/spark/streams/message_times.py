"""When a stream stored a message: what tells the stream that was read from an older state of it, restored and refilled.

Not every account may ask for the single messages of a stream. Where the stream answers and its messages do not, a query
goes on without knowing, and says so once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from jetspark.flow.ranges import is_passing
from jetspark.jetstream.api import MessageGetRequest, StreamInfoRequest
from jetspark.jetstream.errors import Error, MessageNotFoundError, StreamNotFoundError
from jetspark.spark.connections import asking
from jetspark.spark.options.server import ServerOptions

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["MessageTimes"]

_log: Final = logging.getLogger(__name__)


class _UnreachableError(Error, PermissionError):
    """A subject at which nobody answers although the stream is there: no permission, no export, no import of it."""


class MessageTimes:
    """See the module."""

    def __init__(self, server: ServerOptions) -> None:
        self._server = server
        self._unavailable: set[str] = set()  # streams whose messages cannot be asked for

    def of(self, stream: str, sequence: int, patience: float) -> int | None:
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
            The server is still away, or does not know the stream this time: not knowing the time, what replaced lost
            messages would be skipped for good.
        """
        if sequence < 1 or stream in self._unavailable:
            return None
        try:
            return self._patiently(stream, sequence, patience)
        except Error as error:
            if is_passing(error) or isinstance(error, StreamNotFoundError):
                raise
            self._unavailable.add(stream)
            _log.warning(
                "stream %s: whether an older state of it was restored since it was read cannot be told: %s",
                stream,
                error,
            )
            return None

    def _patiently(self, stream: str, sequence: int, patience: float) -> int | None:
        from jetspark.bulk.patience import retrying

        def ask() -> int | None:
            return asking(self._server.connect, lambda connection: self._ask(connection, stream, sequence), 0.0)

        try:
            return retrying(ask, is_passing, patience)
        except Error as error:
            if not is_passing(error):
                raise
            return asking(self._server.connect, lambda connection: self._ask_last(connection, stream, sequence), 0.0)

    def _ask_last(self, connection: Connection, stream: str, sequence: int) -> int | None:
        """Ask between two answers about the stream: where it is silent even then, it cannot be asked for at all."""
        self._server.request(connection, StreamInfoRequest(stream))
        try:
            return self._ask(connection, stream, sequence)
        except Error as error:
            if not is_passing(error):
                raise
            self._server.request(connection, StreamInfoRequest(stream))
            raise _UnreachableError(str(error)) from error

    def _ask(self, connection: Connection, stream: str, sequence: int) -> int | None:
        try:
            request = MessageGetRequest(stream, seq=sequence, no_headers=True)
            return self._server.request(connection, request).timestamp_ns
        except MessageNotFoundError:
            return None
