"""The metrics of the running queries, whoever collects them.

The progress of a query is kept until the next one, or until the query ends. Collectors read it from other threads. The
names are those of Prometheus. OpenTelemetry has them with dots; they become the same names in Prometheus.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from jetspark.spark.progress import QueryProgress, StreamProgress

__all__ = ["METRICS", "Metric", "QueryMetrics", "QuerySums", "Sample"]

_log: Final = logging.getLogger(__name__)

MAX_QUERIES: Final = 100
"""Number of queries that have metrics. If there are more, those that have reported last have them."""
MAX_STREAMS: Final = 200
"""Number of streams of a query that have metrics. If there are more, those with the largest lag have them."""


@dataclass(frozen=True, slots=True)
class QuerySums:
    """The last progress of a query, and the sums since the first one that was reported.

    Attributes
    ----------
    label
        Value of the label `query`.
    progress
        The last progress.
    streams
        Its streams that have metrics, by name.
    rows, batches, seconds
        Sums of all micro-batches: their rows, their number and their durations.
    reported_at
        When the query last reported a micro-batch, or that nothing is new; seconds since 1970.
    """

    label: str
    progress: QueryProgress
    streams: dict[str, StreamProgress]
    rows: int
    batches: int
    seconds: float
    reported_at: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of a metric for these values of its labels."""

    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes
    ----------
    name
        Its name. Prometheus adds the suffix "_total" to that of a counter.
    meaning
        One sentence for its readers.
    unit
        Unit in the words of OpenTelemetry (UCUM).
    samples_of
        Returns its values for a query.
    labels
        Names of its labels.
    is_counter
        Whether it only grows while the query runs.
    """

    name: str
    meaning: str
    unit: str
    samples_of: Callable[[QuerySums], list[Sample]]
    labels: tuple[str, ...]
    is_counter: bool = False


def _of_query(
    name: str, meaning: str, unit: str, value: Callable[[QuerySums], float], *, counter: bool = False
) -> Metric:
    return Metric(name, meaning, unit, lambda query: [Sample((query.label,), value(query))], ("query",), counter)


def _of_stream(name: str, meaning: str, unit: str, value: Callable[[StreamProgress], float | None]) -> Metric:
    def samples_of(query: QuerySums) -> list[Sample]:
        found = {stream: value(progress) for stream, progress in query.streams.items()}
        return [Sample((query.label, stream), each) for stream, each in found.items() if each is not None]

    return Metric(name, meaning, unit, samples_of, ("query", "stream"))


METRICS: Final = (
    _of_query("jetspark_query_rows", "Rows read from JetStream.", "{row}", lambda query: query.rows, counter=True),
    _of_query(
        "jetspark_query_batches", "Micro-batches completed.", "{batch}", lambda query: query.batches, counter=True
    ),
    _of_query(
        "jetspark_query_batch_seconds", "Duration of all micro-batches.", "s", lambda query: query.seconds, counter=True
    ),
    _of_query(
        "jetspark_query_last_batch_seconds",
        "Duration of the last micro-batch.",
        "s",
        lambda query: query.progress.seconds,
    ),
    _of_query(
        "jetspark_query_last_batch_rows", "Rows of the last micro-batch.", "{row}", lambda query: query.progress.rows
    ),
    _of_query(
        "jetspark_query_last_report_timestamp_seconds",
        "When the query last reported a micro-batch, or that nothing is new; since 1970.",
        "s",
        lambda query: query.reported_at,
    ),
    _of_stream(
        "jetspark_stream_lag_messages", "Messages (sequences) not read yet.", "{message}", lambda stream: stream.lag
    ),
    _of_stream("jetspark_stream_lag_bytes", "Bytes not read yet, estimated.", "By", lambda stream: stream.bytes_behind),
    _of_stream(
        "jetspark_stream_lag_seconds",
        "Time from the last message that was read to the newest one, as the server stored them.",
        "s",
        lambda stream: stream.seconds_behind,
    ),
    _of_stream("jetspark_stream_read_sequence", "Last sequence read.", "{sequence}", lambda stream: stream.end - 1),
    _of_stream(
        "jetspark_stream_last_sequence",
        "Last sequence of the stream when the last micro-batch was planned.",
        "{sequence}",
        lambda stream: None if stream.latest is None else stream.latest - 1,
    ),
)
"""All metrics, in their order."""


class QueryMetrics:
    """The metrics of the running queries. Base of `PrometheusMetrics` and `OpenTelemetryMetrics`.

    A `JetStreamListener` reports to it. At most 100 queries have metrics, those that have reported last, and at most
    200 streams of each, those with the largest lag. A query that has ended has none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, QuerySums] = {}  # by id; the one that has reported last is the last
        self._warned = False

    def report(self, progress: QueryProgress) -> None:
        """Take the progress of a query."""
        streams = dict(heapq.nlargest(MAX_STREAMS, progress.streams.items(), key=lambda item: item[1].lag or 0))
        with self._lock:
            before = self._queries.pop(progress.query_id, None)
            self._queries[progress.query_id] = QuerySums(
                self._label(progress) if before is None else before.label,
                progress,
                streams,
                progress.rows + (before.rows if before else 0),
                1 + (before.batches if before else 0),
                progress.seconds + (before.seconds if before else 0.0),
                time.time(),
            )
            is_over = len(self._queries) > MAX_QUERIES
            if is_over:
                del self._queries[next(iter(self._queries))]
        if (is_over or len(progress.streams) > MAX_STREAMS) and not self._warned:
            self._warned = True
            _log.warning(
                "more than %d queries, or more than %d streams in a query: the others have no metrics",
                MAX_QUERIES,
                MAX_STREAMS,
            )

    def report_idle(self, query_id: str) -> None:
        """Note that a query runs, and has nothing new to read."""
        with self._lock:
            if (query := self._queries.get(query_id)) is not None:
                self._queries[query_id] = replace(query, reported_at=time.time())

    def remove(self, query_id: str) -> None:
        """Remove the metrics of a query that has ended."""
        with self._lock:
            self._queries.pop(query_id, None)

    def _label(self, progress: QueryProgress) -> str:
        """Return the name of a query; its id if it has none, or a query of another session has the name."""
        taken = {query.label for query in self._queries.values()}
        return progress.query_id if progress.name in {"", *taken} else progress.name

    def _samples(self, metric: Metric) -> list[Sample]:
        """Return the values of a metric now."""
        with self._lock:
            queries = list(self._queries.values())
        return [sample for query in queries for sample in metric.samples_of(query)]
