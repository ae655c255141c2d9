"""The state of a query's streams, as the server reported it last.

The source process keeps one connection for its requests. It waits for the end of a transient fault (a silent server, a
restart, an election, a lost connection). Only a connection that is refused before the first answer fails at once,
because the address is probably wrong then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from jetspark.jetstream import StreamInfo
from jetspark.jetstream.errors import StreamNotFoundError
from jetspark.jetstream.times import time_ns
from jetspark.spark.connections import call_with_connection
from jetspark.spark.options.stream_read import StreamReadOptions
from jetspark.spark.streams.buckets import request_info
from jetspark.spark.streams.listing import StreamListing
from jetspark.spark.streams.message_times import MessageTimes
from jetspark.spark.streams.offsets import StreamExtent, StreamOffset, has_replicas
from jetspark.spark.streams.resume import Truncation

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["StreamStates", "has_stale_leader"]

T = TypeVar("T")


class StreamStates:
    """The state of a query's streams.

    Attributes
    ----------
    infos
        The last info of each stream, by its name; empty before the first refresh.
    extents
        Extents of the streams by these infos; None before the first refresh.
    """

    def __init__(self, options: StreamReadOptions) -> None:
        self._options = options
        self.infos: dict[str, StreamInfo] = {}
        self.extents: dict[str, StreamExtent] | None = None
        self._times = MessageTimes(options.read.server)
        pattern = options.read.stream_pattern
        self._listing = None if pattern is None else StreamListing(options.read.server, pattern, options.poll_interval)

    def end_listing(self) -> None:
        """Look for no more streams that match the pattern."""
        if self._listing is not None:
            self._listing.end()

    def refresh(self, reached: Mapping[str, StreamOffset] | None = None) -> Mapping[str, StreamExtent]:
        """Ask the server for the state of all streams. Raises StreamNotFoundError, ConnectError, ...

        Parameters
        ----------
        reached
            Offsets that were reached. A leader that was just elected may not know them yet; then it is asked again.
            Their streams are included, unless they do not exist and the options do not name them.
        """
        from jetspark.bulk.retry import RetryTimer

        timer = RetryTimer(self._options.read.retry_timeout)
        offsets = reached or {}
        self.infos = self._call_with_connection(partial(self._request_infos, offsets))
        while (
            any(has_stale_leader(info, offsets[stream]) for stream, info in self.infos.items() if stream in offsets)
            and timer.wait()
        ):
            self.infos = self._call_with_connection(partial(self._request_infos, offsets))
        read = self._options.read
        self.extents = {stream: StreamExtent.of(info, read.subjects) for stream, info in self.infos.items()}
        if read.objects is not None:  # chunks and descriptions are purged with each change of an object
            self.extents = {name: replace(each, drops_single_messages=True) for name, each in self.extents.items()}
        return self.extents

    def sequence_at(self, stream: str, ns: int) -> int:
        """Return the first sequence stored at or after a time, one above the last if there is none."""
        server = self._options.read.server
        return self._call_with_connection(lambda connection: server.first_sequence_at(connection, stream, ns))

    def time_before(self, stream: str, sequence: int) -> int | None:
        """Return when the message before a sequence was stored; None if there is none, or it cannot be requested."""
        extent = (self.extents or {}).get(stream)
        if extent is not None and extent.end == sequence:
            return extent.last_ns  # known from the last refresh
        return self._times.time_of(stream, sequence - 1, self._options.read.retry_timeout)

    def truncation(self, extent: StreamExtent, reached: StreamOffset) -> Truncation | None:
        """Return the truncation of a stream; None if it still has the messages that were read up to an offset.

        If the last message that was read was deleted or has expired, no truncation is assumed.
        """
        time = None
        if extent.created_ns != reached.created_ns or reached.ahead:
            return None  # it is another stream, or nothing of it was read
        if extent.end >= reached.next:
            time = (
                None
                if reached.time_ns is None
                else self._times.time_of(extent.stream, reached.next - 1, self._options.read.retry_timeout)
            )
            if time is None or time == reached.time_ns:
                return None
        since = extent.end if reached.time_ns is None else self.sequence_at(extent.stream, reached.time_ns + 1)
        return Truncation(max(min(since, extent.end, reached.next - 1), extent.first), time)

    def _request_infos(self, others: Iterable[str], connection: Connection) -> dict[str, StreamInfo]:
        read = self._options.read
        names = read.streams if self._listing is None else self._listing.names(connection)
        infos = {}
        for stream in dict.fromkeys((*names, *others)):
            try:
                infos[stream] = request_info(connection, read, stream)
            except StreamNotFoundError:
                if stream in read.streams:
                    raise
        return infos

    def _call_with_connection(self, ask: Callable[[Connection], T]) -> T:
        read = self._options.read
        return call_with_connection(read.server.connect, ask, read.retry_timeout, first_contact=self.extents is None)


def has_stale_leader(info: StreamInfo, reached: StreamOffset) -> bool:
    """Whether a stream with replicas ends before an offset that was reached in it."""
    return has_replicas(info) and reached.is_past_end(time_ns(info.created), info.state.last_sequence)
