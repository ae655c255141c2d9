"""The streams whose names match a pattern, as the server lists them.

A streaming query asks again while it runs, to find new streams: at most once a second, and at most once in
`pollInterval`. A list has pages of 1,024 names. A stream that is created or deleted while the pages are requested may
be missing from a list; the next list has it. So a stream counts as deleted only if the server says so when it is asked
for that stream.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jetspark.jetstream.api import StreamNamesRequest, pages
from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.options.server import ServerOptions
from jetspark.spark.options.stream_pattern import StreamPattern
from jetspark.spark.streams.membership import check_named

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["StreamListing", "list_streams", "streams_of"]

_log: Final = logging.getLogger(__name__)

_MAX_NAMES: Final = 100_000
"""Maximum number of names of an account that are looked at."""
_MIN_INTERVAL: Final = 1.0
"""Shortest time in seconds between two lists."""


def list_streams(connection: Connection, server: ServerOptions, pattern: StreamPattern) -> tuple[str, ...]:
    """Return the names of the streams that match, sorted.

    Raises
    ------
    ConfigError
        Too many streams match, or the account has too many streams.
    APIError, TimeoutError, ...
        The server refuses the request.
    """
    names: list[str] = []
    requests = pages(StreamNamesRequest())
    request = next(requests)
    while True:
        page = server.request(connection, request)
        names += page.items
        if len(names) > _MAX_NAMES:
            raise ConfigError(
                f"option streamPattern = {pattern}: the account has more than {_MAX_NAMES} streams; name the streams "
                "in option stream"
            )
        try:
            request = requests.send(page)
        except StopIteration:
            return pattern.select(names)


def streams_of(connection: Connection, options: ReadOptions) -> tuple[str, ...]:
    """Return the streams of a batch read. With a pattern that matches none, there are none, as in Spark's Kafka source.

    Raises
    ------
    ConfigError
        As `list_streams`, or an option gives a position for a stream that does not exist.
    APIError, TimeoutError, ...
        The server refuses the request.
    """
    if options.stream_pattern is None:
        return options.streams
    found = list_streams(connection, options.server, options.stream_pattern)
    check_named((*options.starts, *options.ends), found)
    if not found:
        _log.warning("no stream matches option streamPattern = %s; the read has no rows", options.stream_pattern)
    return found


class StreamListing:
    """The streams of a query by a pattern. New ones are found while the query runs.

    Parameters
    ----------
    server
        How to reach JetStream.
    pattern
        The pattern.
    interval
        Shortest time in seconds between two lists, if it is longer than a second.
    """

    def __init__(self, server: ServerOptions, pattern: StreamPattern, interval: float) -> None:
        self._server = server
        self._pattern = pattern
        self._interval = max(interval, _MIN_INTERVAL)
        self._listed: float | None = None
        self._names: Sequence[str] = ()
        self._ended = False
        self._waits = False

    def end(self) -> None:
        """Look for no more streams: the run reads those of the last list."""
        self._ended = True

    def names(self, connection: Connection) -> Sequence[str]:
        """Return the streams of the last list, or of a new one if that is old enough. Raises as `list_streams`."""
        now = time.monotonic()
        if self._listed is not None and (self._ended or now - self._listed < self._interval):
            return self._names
        self._names = list_streams(connection, self._server, self._pattern)
        self._listed = now
        if not self._names and not self._waits:
            _log.warning("no stream matches option streamPattern = %s; the query waits for one", self._pattern)
        self._waits = not self._names
        return self._names
