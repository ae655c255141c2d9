"""A word of warning where a stream forgets message ids sooner than a micro-batch may be run again.

Said once for each stream and process: on the driver where the options tell the stream, else by the first task that has
stored something there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jetspark.flow.ranges import is_passing
from jetspark.jetstream.api import StreamInfoRequest, StreamNamesRequest
from jetspark.jetstream.errors import Error
from jetspark.jetstream.times import format_go_duration
from jetspark.spark.stream_write_options import StreamWriteOptions

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["WindowCheck"]

_log: Final = logging.getLogger(__name__)

_checked: set[tuple[StreamWriteOptions, str]] = set()
_SERVERS_DEFAULT: Final = timedelta(minutes=2)


class WindowCheck:
    """Compares the duplicate window of streams with the option `maxReplayDelay`."""

    def __init__(self, options: StreamWriteOptions) -> None:
        self._options = options

    def is_due(self) -> bool:
        """Whether there is a stream to look at before a task runs, that was not looked at."""
        return self._is_wanted() and self._target() is not None and (self._options, self._target()) not in _checked

    def before(self, connection: Connection) -> None:
        """Look at the stream that the options name, or that takes the subject they name."""
        target = self._target()
        if not self.is_due() or target is None:
            return
        if self._options.write.expected_stream is not None:
            self.after(connection, [target])
            return
        _checked.add((self._options, target))
        server = self._options.write.server
        try:
            request = StreamNamesRequest(subject_filter=target)
            found = connection.request(request, timeout=server.request_timeout, prefix=server.api)
        except Error as error:
            self._unknown(target, error)
        else:
            self.after(connection, found.items)

    def after(self, connection: Connection, streams: Iterable[str]) -> None:
        """Look at streams that rows are stored in."""
        for stream in streams if self._is_wanted() else ():
            if (self._options, stream) in _checked:
                continue
            _checked.add((self._options, stream))
            server = self._options.write.server
            try:
                info = connection.request(StreamInfoRequest(stream), timeout=server.request_timeout, prefix=server.api)
            except Error as error:
                self._unknown(stream, error)
            else:
                self._compare(stream, info.config.duplicate_window or _SERVERS_DEFAULT)

    def _is_wanted(self) -> bool:
        return self._options.write.dedup and self._options.progress_stream is None

    def _target(self) -> str | None:
        return self._options.write.expected_stream or self._options.write.subject

    def _compare(self, stream: str, window: timedelta) -> None:
        delay = timedelta(seconds=self._options.max_replay_delay)
        if window < delay:
            _log.warning(
                "stream %s recognises repeats for %s (duplicate_window), and a micro-batch may be run again up to %s "
                "later (option maxReplayDelay): one that is run again later than the window stores rows twice. Set "
                "option progressStream, or raise the stream's duplicate_window",
                stream,
                format_go_duration(window),
                format_go_duration(delay),
            )

    def _unknown(self, what: str, error: Error) -> None:
        if is_passing(error):  # the next micro-batch asks again
            _checked.discard((self._options, what))
        else:
            _log.warning("for how long %s recognises repeats is not known: %s", what, error)
