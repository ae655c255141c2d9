"""Progress of a streaming query: lag, rate and time of each micro-batch, as log lines, to a callable, or to a subject.

Spark has no metrics for Python sources. But its progress contains the offsets at which a micro-batch began and ended,
and the ends of the streams, with the lag and the filters (`encode_ends`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.streaming.listener import StreamingQueryListener

from jetspark.jetstream.names import check_publish_subject
from jetspark.spark.connections import borrow_connection, close_idle
from jetspark.spark.options.parsed import RedactedOptions
from jetspark.spark.options.server import ServerOptions, server_options
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.untrusted import decode_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
        StreamingQueryProgress,
    )

__all__ = ["JetStreamListener", "QueryProgress", "StreamProgress", "progress_of"]

_log: Final = logging.getLogger(__name__)
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """One stream of a micro-batch.

    Attributes
    ----------
    start, end
        Sequences that the batch read, from `start` (included) to `end` (excluded). `start` is None
        for the first batch of a query, because Spark does not report it.
    latest
        End of the stream (excluded) when the batch was planned: one above its last sequence.
    lag
        Sequences that are not read yet.
    subjects
        Subject filters that the server applies; empty for all subjects.
    """

    start: int | None
    end: int
    latest: int
    lag: int
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One micro-batch of a query.

    Attributes
    ----------
    query_id
        Id of the query, the same after a restart.
    run_id
        Id of this run.
    name
        Name of the query, empty when it has none.
    batch_id
        Number of the micro-batch.
    rows
        Rows that it read from JetStream.
    seconds
        Duration of the micro-batch.
    rows_per_second
        Rows divided by `seconds`.
    lag
        Sequences that are not read yet, of all streams.
    streams
        Progress of each stream, by its name.
    """

    query_id: str
    run_id: str
    name: str
    batch_id: int
    rows: int
    seconds: float
    rows_per_second: float
    lag: int
    streams: Mapping[str, StreamProgress]

    def __str__(self) -> str:
        streams = ", ".join(f"{name} up to {each.end - 1} (lag {each.lag})" for name, each in self.streams.items())
        return (
            f"query {self.name or self.query_id} batch {self.batch_id}: {self.rows} rows in {self.seconds:.3f} s "
            f"({self.rows_per_second:.0f}/s), lag {self.lag}: {streams}"
        )


@checks_arguments()
def progress_of(progress: StreamingQueryProgress | None) -> QueryProgress | None:
    """Return the part of Spark's progress that concerns JetStream.

    Parameters
    ----------
    progress
        `query.lastProgress`, or one of `query.recentProgress`.

    Returns
    -------
    QueryProgress | None
        None if the query has no progress yet, or reads no JetStream.
    """
    if progress is None:
        return None
    streams: dict[str, StreamProgress] = {}
    rows = 0
    for source in progress.sources:
        found = _streams_of(source)
        if found:
            streams.update(found)
            rows += source.numInputRows
    if not streams:
        return None
    seconds = progress.durationMs.get("triggerExecution", progress.batchDuration) / 1000
    return QueryProgress(
        query_id=str(progress.id),
        run_id=str(progress.runId),
        name=progress.name or "",
        batch_id=progress.batchId,
        rows=rows,
        seconds=seconds,
        rows_per_second=rows / seconds if seconds else 0.0,
        lag=sum(each.lag for each in streams.values()),
        streams=streams,
    )


class JetStreamListener(StreamingQueryListener):
    """Reports on the queries of a session that read JetStream: `spark.streams.addListener(JetStreamListener())`.

    A listener that publishes keeps a connection from one micro-batch to the next. It is closed when a query is idle or
    ends, and by `close`.

    Parameters
    ----------
    on_progress
        Called with every `QueryProgress`.
    log
        Write a line for every micro-batch, at level INFO, to the logger `jetspark.spark.listener`.
    subject
        Subject to which every progress is published as JSON, without an acknowledgement; None publishes nothing.
    options
        Options of the data source for the connection that publishes: servers, login, TLS.

    Raises
    ------
    ConfigError, BadSubjectError
        An option or the subject is wrong.
    """

    def __init__(
        self,
        on_progress: Callable[[QueryProgress], None] | None = None,
        *,
        log: bool = True,
        subject: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._on_progress = on_progress
        self._log_enabled = log
        self._subject = None if subject is None else check_publish_subject(subject)
        self._server: ServerOptions | None = None if subject is None else server_options(RedactedOptions(options or {}))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to report yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Report a micro-batch. Errors are logged, because a listener must not disturb the query."""
        progress = progress_of(event.progress)
        if progress is None:
            return
        if self._log_enabled:
            _log.info("%s", progress)
        try:
            if self._subject is not None:
                self._publish(self._subject, progress)
            if self._on_progress is not None:
                self._on_progress(progress)
        except Exception as error:  # noqa: BLE001 - the callable may raise anything
            _log.warning("cannot report the progress of query %s: %s", progress.name or progress.query_id, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802, ARG002
        """Close the connection, because nothing answers the server's PINGs while the query is idle."""
        self.close()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Log why a query failed, and close the connection."""
        if self._log_enabled and event.exception:
            _log.warning("query %s failed: %s", event.id, event.exception.splitlines()[0])
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one; the next progress opens another."""
        if self._server is not None:
            close_idle(self._server.connect)

    def _publish(self, subject: str, progress: QueryProgress) -> None:
        assert self._server is not None
        with borrow_connection(self._server.connect) as connection:
            connection.publish(subject, json.dumps(asdict(progress)).encode())


def _streams_of(source: SourceProgress) -> dict[str, StreamProgress]:
    """Return the streams of a source; empty if it does not read JetStream."""
    start, end, latest = (_entries(text) for text in (source.startOffset, source.endOffset, source.latestOffset))
    streams = {}
    for stream, entry in end.items():
        at, newest = entry["next"], latest.get(stream, entry)
        lag, subjects = newest.get("lag"), newest.get("subjects")
        streams[stream] = StreamProgress(
            start=start[stream]["next"] if stream in start else None,
            end=at,
            latest=newest["next"],
            lag=lag if isinstance(lag, int) else max(newest["next"] - at, 0),
            subjects=tuple(map(str, subjects)) if isinstance(subjects, list) else (),
        )
    return streams


def _entries(offset: str | None) -> dict[str, dict[str, Any]]:
    """Return the entry of each stream in an offset; empty if the offset is of another source."""
    try:
        entries = decode_json(_decoder, offset or "")["streams"]
        return entries if all(type(each["next"]) is int for each in entries.values()) else {}
    except (msgspec.DecodeError, TypeError, KeyError, AttributeError):
        return {}
