"""The part of Spark's progress of a streaming query that concerns JetStream.

Spark has no metrics for Python sources. But its progress contains the offsets at which a micro-batch began and ended,
and the ends of the streams, with the lag and the filters (`spark.streams.lag`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.untrusted import decode_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

__all__ = ["QueryProgress", "StreamProgress", "progress_of"]

_decoder: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """One stream of a micro-batch.

    Spark reports no ends of the streams for the first micro-batch of a run that repeats one of the run before. Then
    `latest`, `lag`, `bytes_behind` and `seconds_behind` are None.

    Attributes
    ----------
    start, end
        Sequences that the batch read, from `start` (included) to `end` (excluded). `start` is None
        for the first batch of a query, because Spark does not report it.
    latest
        End of the stream (excluded) when the batch was planned: one above its last sequence.
    lag
        Sequences that are not read yet: those from `end` on.
    bytes_behind
        Their bytes, estimated: the bytes of the stream times their share of its sequences.
    seconds_behind
        Seconds between the times at which the server stored the last message before `end` and the newest message of
        the stream. 0 if nothing is left to read. If the stream has no message before `end`, its first one counts
        instead. None also if the message before `end` was deleted, because its time is not known then.
    subjects
        Subject filters that the server applies; empty for all subjects.
    """

    start: int | None
    end: int
    latest: int | None
    lag: int | None
    bytes_behind: int | None = None
    seconds_behind: float | None = None
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One micro-batch of a query.

    The lag is measured when the batch is planned. It does not count the batch itself. See
    `StreamProgress` for when it is None.

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
    min_lag, max_lag, avg_lag
        The smallest, the largest and the average lag of a stream.
    bytes_behind
        Their bytes, estimated, of all streams.
    seconds_behind
        The largest of all streams for which it is known.
    dead_letters
        Messages on the subject of option `deadLetterSubject` when the batch was planned, whichever query they are of.
        None without this option, or if the server did not say.
    streams
        Progress of each stream, by its name. If several sources read a stream, the one with the larger lag.
    """

    query_id: str
    run_id: str
    name: str
    batch_id: int
    rows: int
    seconds: float
    rows_per_second: float
    lag: int | None
    min_lag: int | None
    max_lag: int | None
    avg_lag: float | None
    bytes_behind: int | None
    seconds_behind: float | None
    dead_letters: int | None
    streams: Mapping[str, StreamProgress]

    def __str__(self) -> str:
        streams = ", ".join(
            f"{name} up to {each.end - 1} ({_lag_text(each.lag)})" for name, each in self.streams.items()
        )
        letters = "" if self.dead_letters is None else f", {self.dead_letters} dead letters on their subject"
        return (
            f"query {self.name or self.query_id} batch {self.batch_id}: {self.rows} rows in {self.seconds:.3f} s "
            f"({self.rows_per_second:.0f}/s), {_lag_text(self.lag)}: {streams}{letters}"
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
    letters: dict[str, int] = {}
    rows = 0
    for source in progress.sources:
        found = _streams_of(source)
        rows += source.numInputRows if found else 0
        letters |= _dead_letters_of(source) if found else {}
        for name, each in found.items():
            if name not in streams or (each.lag or 0) > (streams[name].lag or 0):
                streams[name] = each
    if not streams:
        return None
    seconds = progress.durationMs.get("triggerExecution", progress.batchDuration) / 1000
    lags = [each.lag for each in streams.values() if each.lag is not None]
    sizes = [each.bytes_behind for each in streams.values() if each.bytes_behind is not None]
    return QueryProgress(
        query_id=str(progress.id),
        run_id=str(progress.runId),
        name=progress.name or "",
        batch_id=progress.batchId,
        rows=rows,
        seconds=seconds,
        rows_per_second=rows / seconds if seconds else 0.0,
        lag=sum(lags) if lags else None,
        min_lag=min(lags, default=None),
        max_lag=max(lags, default=None),
        avg_lag=sum(lags) / len(lags) if lags else None,
        bytes_behind=sum(sizes) if sizes else None,
        seconds_behind=max(
            (each.seconds_behind for each in streams.values() if each.seconds_behind is not None), default=None
        ),
        dead_letters=sum(letters.values()) if letters else None,
        streams=streams,
    )


def _streams_of(source: SourceProgress) -> dict[str, StreamProgress]:
    """Return the streams of a source; empty if it does not read JetStream."""
    start, end, latest = (_entries(text) for text in (source.startOffset, source.endOffset, source.latestOffset))
    streams = {}
    for stream, entry in end.items():
        newest = latest.get(stream, {})
        behind = max(newest["next"] - entry["next"], 0) if newest else None
        lag, size, seconds, subjects = (newest.get(key) for key in ("lag", "bytesBehind", "secondsBehind", "subjects"))
        streams[stream] = StreamProgress(
            start=start[stream]["next"] if stream in start else None,
            end=entry["next"],
            latest=newest.get("next"),
            lag=lag if type(lag) is int else behind,
            bytes_behind=size if type(size) is int else None,
            seconds_behind=float(seconds) if isinstance(seconds, int | float) else None,
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


def _dead_letters_of(source: SourceProgress) -> dict[str, int]:
    """Return the number of dead letters by subject; empty if it is not known."""
    try:
        found = decode_json(_decoder, source.latestOffset or "").get("deadLetters")
    except msgspec.DecodeError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(subject): count for subject, count in found.items() if type(count) is int}


def _lag_text(lag: int | None) -> str:
    return "lag unknown" if lag is None else f"lag {lag}"
