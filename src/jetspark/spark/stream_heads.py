"""What the streams of a query hold, as the server said when it was asked last.

The source process asks over one connection that it keeps. Once the server was reached, a fault that may go away by
itself (a restart, an election, a cut) is waited for; the first question fails at once, because then it is the address
that is wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from jetspark.flow.ranges import is_passing
from jetspark.jetstream import StreamInfo
from jetspark.jetstream.api import MessageGetRequest, Request, StreamInfoRequest
from jetspark.jetstream.errors import Error, MessageNotFoundError, StreamNotFoundError
from jetspark.jetstream.times import time_ns
from jetspark.spark.connections import lend
from jetspark.spark.stream_offsets import Held, Rewound, StreamOffset, has_replicas
from jetspark.spark.stream_options import StreamReadOptions

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["StreamHeads", "asking", "lags"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


class _UnreachableError(Error, PermissionError):
    """A subject at which nobody answers although the stream is there: no permission, no export, no import of it."""


def asking(options: StreamReadOptions, ask: Callable[[Connection], T], retry_timeout: float) -> T:
    """Return what a question gives that may be repeated; it is, on new connections, for so many seconds."""
    from jetspark.bulk.patience import patiently

    with lend(options.read.server.connect, retry_timeout) as connection:
        return patiently(connection, lambda: ask(connection), retry_timeout)


class StreamHeads:
    """See the module.

    Attributes
    ----------
    infos
        What the server said last, by the stream's name; empty before the first look.
    seen
        What that means; None before the first look.
    """

    def __init__(self, options: StreamReadOptions) -> None:
        self._options = options
        self.infos: dict[str, StreamInfo] = {}
        self.seen: dict[str, Held] | None = None
        self._untold: set[str] = set()  # streams whose messages cannot be asked for

    def look(self, reached: Mapping[str, StreamOffset] | None = None) -> Mapping[str, Held]:
        """Ask the server. Raises StreamNotFoundError, ConnectError, ... as the server, or its absence, says.

        Parameters
        ----------
        reached
            Places that were reached. A leader that was just elected may not know of them yet, and is asked again.
        """
        from jetspark.bulk.patience import Patience

        patience = Patience(self._options.read.retry_timeout)
        self.infos = asking(self._options, self._ask, self._patience)
        while any(lags(self.infos[stream], offset) for stream, offset in (reached or {}).items()) and patience.wait():
            self.infos = asking(self._options, self._ask, self._patience)
        self.seen = {stream: Held.of(info, self._options.read.subjects) for stream, info in self.infos.items()}
        return self.seen

    def sequence_at(self, stream: str, ns: int) -> int:
        """Return the first sequence stored at or after a time, one above the last if there is none."""
        from jetspark.bulk import first_sequence_at

        server = self._options.read.server

        def ask(connection: Connection) -> int:
            return first_sequence_at(connection, stream, ns, timeout=server.request_timeout, prefix=server.api)

        return asking(self._options, ask, self._patience)

    def time_before(self, stream: str, sequence: int) -> int | None:
        """Return when the message before a sequence was stored; None when there is none, or that cannot be asked."""
        held = (self.seen or {}).get(stream)
        if held is not None and held.behind == sequence:
            return held.last_ns  # which came with the last look
        return self._time_of(stream, sequence - 1)

    def rewound(self, held: Held, reached: StreamOffset) -> Rewound | None:
        """Find out whether a stream still holds what was read up to a place.

        It does as far as can be told where the last message of that was deleted or has expired.
        """
        time = None
        if held.created_ns != reached.created_ns:
            return None  # it is another stream
        if held.behind >= reached.next:
            time = None if reached.time_ns is None else self._time_of(held.stream, reached.next - 1)
            if time is None or time == reached.time_ns:
                return None
        since = held.behind if reached.time_ns is None else self.sequence_at(held.stream, reached.time_ns + 1)
        return Rewound(max(min(since, held.behind, reached.next - 1), held.first), time)

    def _time_of(self, stream: str, sequence: int) -> int | None:
        from jetspark.bulk.patience import retrying

        def ask(connection: Connection) -> int | None:
            try:
                return self._request(connection, MessageGetRequest(stream, seq=sequence, no_headers=True)).timestamp_ns
            except MessageNotFoundError:
                return None

        def ask_once_more(connection: Connection) -> int | None:
            """Between two answers about the stream: where it is silent even then, this cannot be asked for at all."""
            self._request(connection, StreamInfoRequest(stream))
            try:
                return ask(connection)
            except Error as error:
                if is_passing(error):
                    self._request(connection, StreamInfoRequest(stream))
                    raise _UnreachableError(str(error)) from error
                raise

        def ask_patiently() -> int | None:
            try:
                return retrying(lambda: asking(self._options, ask, 0.0), is_passing, self._patience)
            except Error as error:
                if is_passing(error):
                    return asking(self._options, ask_once_more, 0.0)
                raise

        if sequence < 1 or stream in self._untold:
            return None
        try:
            return ask_patiently()
        except Error as error:
            if is_passing(error) or isinstance(error, StreamNotFoundError):
                raise  # not knowing it this time, what replaced lost messages would be skipped for good
            self._untold.add(stream)
            _log.warning(
                "stream %s: whether an older state of it was restored since it was read cannot be told: %s",
                stream,
                error,
            )
            return None

    @property
    def _patience(self) -> float:
        return 0.0 if self.seen is None else self._options.read.retry_timeout

    def _ask(self, connection: Connection) -> dict[str, StreamInfo]:
        return {stream: self._request(connection, StreamInfoRequest(stream)) for stream in self._options.read.streams}

    def _request(self, connection: Connection, request: Request[T]) -> T:
        server = self._options.read.server
        return connection.request(request, timeout=server.request_timeout, prefix=server.api)


def lags(info: StreamInfo, reached: StreamOffset) -> bool:
    """Whether a replicated stream ends before a place that was reached in it."""
    return has_replicas(info) and reached.is_behind(time_ns(info.created), info.state.last_seq)
