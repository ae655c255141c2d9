"""Warns if a stream drops message ids before a micro-batch may be run again.

The tasks know in which streams rows are stored, so they check the streams, once for each run of a query in a process.
They send the warnings to the driver with their counts. The driver logs each warning once in a run, so that it is not
repeated by every process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jetspark.engine.retry import can_resume
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.errors import Error
from jetspark.jetstream.times import format_go_duration
from jetspark.spark.options.stream_write import StreamWriteOptions
from jetspark.spark.write.commit_message import TaskCommitMessage, duplicates_warning, left_out_warning

if TYPE_CHECKING:
    from jetspark.bulk import Connection

__all__ = ["warn_once", "window_warnings"]

_log: Final = logging.getLogger(__name__)

_DEFAULT_WINDOW: Final = timedelta(minutes=2)
_MAX_REMEMBERED: Final = 10_000
_DUPLICATES: Final = " duplicates"  # no stream has a name with a space

_checked: Final[set[tuple[str, str]]] = set()  # in a process of tasks: run and stream
_warned: Final[set[tuple[str, str]]] = set()  # in the driver's process


def window_warnings(
    connection: Connection, streams: Iterable[str], run_id: str, options: StreamWriteOptions
) -> dict[str, str]:
    """Compare the duplicate windows of streams with the times after which rows may be sent again.

    Without a ledger, a repeated micro-batch sends them up to `maxReplayDelay` later. And each task sends rows again
    during `retryTimeout` and `ackTimeout`.

    Parameters
    ----------
    connection
        Connection for the requests. Each stream is checked once in a run by each process.
    streams
            Streams that store the rows.
        run_id
        Id of the run of the query.
    options
        Options of the write.

    Returns
    -------
    dict[str, str]
        The warnings, by the stream's name.
    """
    found: dict[str, str] = {}
    if not options.write.dedup:
        return found
    server = options.write.server
    delay = timedelta(seconds=options.max_replay_delay if options.ledger_stream is None else 0.0)
    outage = timedelta(seconds=options.write.retry_timeout + options.write.ack_timeout)
    for stream in streams:
        if not _is_new(_checked, run_id, stream):
            continue
        try:
            info = server.request(connection, StreamInfoRequest(stream))
        except Error as error:
            if can_resume(error):
                _checked.discard((run_id, stream))  # the next micro-batch checks again
            else:
                found[stream] = f"stream {stream}: cannot read its duplicate window; rows may be stored twice: {error}"
        else:
            window = info.config.duplicate_window or _DEFAULT_WINDOW
            if window < delay:
                found[stream] = _too_short(stream, window, delay)
            elif window < outage:
                found[stream] = _short_for_outages(stream, window, outage)
    return found


def warn_once(rows: TaskCommitMessage) -> None:
    """Log on the driver the warnings of a micro-batch's tasks, each once in a run."""
    for stream, text in sorted(rows.warnings.items()):
        if _is_new(_warned, rows.run_id or "", stream):
            _log.warning("%s", text)
    if rows.left_out and _is_new(_warned, rows.run_id or "", ""):  # no stream has the empty name
        _log.warning("%s", left_out_warning(rows.left_out))
    if (repeats := duplicates_warning(rows)) and _is_new(_warned, rows.run_id or "", _DUPLICATES):
        _log.warning("%s", repeats)


def _is_new(remembered: set[tuple[str, str]], run: str, stream: str) -> bool:
    """Remember a stream of a run. Return whether it is new."""
    if (run, stream) in remembered:
        return False
    if len(remembered) >= _MAX_REMEMBERED:  # limits the memory of a process with many queries
        remembered.clear()
    remembered.add((run, stream))
    return True


def _too_short(stream: str, window: timedelta, delay: timedelta) -> str:
    return (
        f"stream {stream} recognises duplicates for {format_go_duration(window)} (duplicate_window), but a micro-batch "
        f"may be run again up to {format_go_duration(delay)} later (option maxReplayDelay) and then store rows twice; "
        "set option ledgerStream, or raise the stream's duplicate_window"
    )


def _short_for_outages(stream: str, window: timedelta, outage: timedelta) -> str:
    return (
        f"stream {stream} recognises duplicates for {format_go_duration(window)} (duplicate_window), but a task "
        f"may send rows again up to {format_go_duration(outage)} later (options retryTimeout and ackTimeout); then it "
        "reads the stream to find those that are stored, and a row that was removed meanwhile is stored twice; raise "
        "the stream's duplicate_window"
    )
