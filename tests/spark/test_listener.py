"""The summary of the listener of Spark's progress, and that its own failures do not disturb a query."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)
from tests.spark.support import Nats

from jetspark.errors import ArgumentError, BadSubjectError, ConfigError
from jetspark.spark import JetStreamListener, QueryMetrics, QueryProgress, StreamProgress, progress_of
from jetspark.spark.streams.lag import encode_ends
from jetspark.spark.streams.offsets import StreamExtent, StreamOffset, encode_offsets

QUERY = "5f2d5c1e-0000-4000-8000-000000000001"
RUN = "5f2d5c1e-0000-4000-8000-000000000002"


def offset(**nexts: int) -> dict[str, object]:
    return encode_offsets({stream: StreamOffset(7, at) for stream, at in nexts.items()})


def source(start: object, end: object, latest: object, rows: int = 5) -> dict[str, object]:
    offsets = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    return {"description": "x", **offsets, "numInputRows": rows, "inputRowsPerSecond": 1, "processedRowsPerSecond": 1}


def progress(*sources: dict[str, object], **changes: object) -> StreamingQueryProgress:
    document: dict[str, Any] = {
        "id": QUERY,
        "runId": RUN,
        "name": "orders",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 3,
        "batchDuration": 600,
        "durationMs": {"triggerExecution": 500},
        "stateOperators": [],
        "sources": list(sources),
        "sink": {"description": "y", "numOutputRows": -1},
        **changes,
    }
    return StreamingQueryProgress.fromJson(document)


OURS = source(offset(A=3, B=9), offset(A=6, B=11), offset(A=8, B=11))


def test_lag_and_rate_are_computed_from_the_offsets() -> None:
    found = progress_of(progress(OURS))
    assert found == QueryProgress(
        query_id=QUERY,
        run_id=RUN,
        name="orders",
        batch_id=3,
        rows=5,
        seconds=0.5,
        rows_per_second=10.0,
        lag=2,
        min_lag=0,
        max_lag=2,
        avg_lag=1.0,
        bytes_behind=None,
        seconds_behind=None,
        dead_letters=None,
        streams={"A": StreamProgress(3, 6, 8, 2), "B": StreamProgress(9, 11, 11, 0)},
    )
    assert str(found) == (
        "query orders batch 3: 5 rows in 0.500 s (10/s), lag 2: A up to 5 (lag 2), B up to 10 (lag 0)"
    )


def test_the_number_of_dead_letters_is_reported() -> None:
    def latest(count: object, subject: str = "dlq") -> dict[str, object]:
        return source(offset(A=3), offset(A=6), {**offset(A=8), "deadLetters": {subject: count}})

    found = progress_of(progress(latest(3), latest(3), latest(4, "other")))
    assert found is not None
    assert found.dead_letters == 7  # a subject counts once
    assert str(found).endswith(", 7 dead letters on their subject")
    wrongs: tuple[object, ...] = ("3", None, [], True)
    for wrong in wrongs:
        found = progress_of(progress(latest(wrong)))
        assert found is not None
        assert found.dead_letters is None


def test_a_query_with_several_sources_has_one_summary() -> None:
    other = source({"topic": {"0": 1}}, {"topic": {"0": 2}}, {"topic": {"0": 2}}, rows=100)
    second = source(None, offset(C=5), offset(C=4), rows=4)
    found = progress_of(progress(OURS, other, second, name=None))
    assert found is not None
    assert (found.rows, found.lag, found.name) == (9, 2, "")
    assert found.streams["C"] == StreamProgress(None, 5, 4, 0)
    assert str(found).startswith(f"query {QUERY} batch 3")


def test_the_progress_shows_the_filters_and_what_is_left_of_a_stream_that_was_made_again() -> None:
    extents = {
        name: StreamExtent(name, 7, 3, 11, 100, first_ns=10**9, last_ns=4 * 10**9, stored_bytes=800) for name in "AB"
    }
    reached = {"A": StreamOffset(7, 9, time_ns=35 * 10**8), "B": StreamOffset(6, 9)}
    ends = encode_ends(extents, reached, ["x.a", "x.b"])
    found = progress_of(progress(source(None, encode_offsets(reached), ends)))
    assert found is not None
    assert found.streams == {
        "A": StreamProgress(None, 9, 11, 2, 200, 0.5, ("x.a", "x.b")),
        "B": StreamProgress(None, 9, 11, 8, 800, 3.0, ("x.a", "x.b")),
    }
    assert (found.lag, found.min_lag, found.max_lag, found.avg_lag) == (10, 2, 8, 5.0)
    assert (found.bytes_behind, found.seconds_behind) == (1000, 3.0)


def test_the_lag_is_unknown_in_a_micro_batch_that_is_repeated_after_a_restart() -> None:
    """Spark does not ask for the ends of the streams then."""
    found = progress_of(progress(source(offset(A=3), offset(A=6), None)))
    assert found is not None
    assert found.streams == {"A": StreamProgress(3, 6, None, None)}
    assert (found.lag, found.min_lag, found.max_lag, found.avg_lag) == (None,) * 4
    assert (found.bytes_behind, found.seconds_behind) == (None, None)
    assert str(found).endswith("lag unknown: A up to 5 (lag unknown)")


def test_of_two_sources_of_a_stream_the_one_with_the_larger_lag_counts() -> None:
    near, far = source(None, offset(A=7), offset(A=8)), source(None, offset(A=2), offset(A=8))
    for sources in ((near, far), (far, near)):
        found = progress_of(progress(*sources))
        assert found is not None
        assert (found.rows, found.lag, found.streams["A"].end) == (10, 6, 2)


def test_the_offset_of_an_unknown_source_does_not_disturb_a_listener() -> None:
    ends = {"streams": {"A": {"next": 8, "lag": "many", "subjects": 5, "bytesBehind": True, "secondsBehind": {}}}}
    found = progress_of(progress(source(None, offset(A=6), ends)))
    assert found is not None
    assert found.streams["A"] == StreamProgress(None, 6, 8, 2)


def test_a_query_without_progress_has_no_summary() -> None:
    assert progress_of(None) is None


@pytest.mark.parametrize("end", [None, "-", 7, "17", {"streams": 3}, {"streams": {"A": 3}}, {"topic": {"0": 1}}])
def test_a_query_without_jetstream_is_ignored(end: object) -> None:
    assert progress_of(progress(source(end, end, end))) is None
    reported: list[QueryProgress] = []
    JetStreamListener(reported.append).onQueryProgress(QueryProgressEvent(progress(source(end, end, end))))
    assert reported == []


def test_progress_goes_to_the_log_and_to_the_callable(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reported: list[QueryProgress] = []
    JetStreamListener(reported.append).onQueryProgress(QueryProgressEvent(progress(OURS)))
    JetStreamListener(reported.append, log=False).onQueryProgress(QueryProgressEvent(progress(OURS)))
    assert [each.batch_id for each in reported] == [3, 3]
    assert caplog.text.count("query orders batch 3: 5 rows") == 1


def test_failures_of_a_report_are_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(found: QueryProgress) -> None:
        raise ZeroDivisionError("in the callable")

    event = QueryProgressEvent(progress(OURS))
    JetStreamListener(fail).onQueryProgress(event)
    assert "cannot report the progress of query orders: in the callable" in caplog.text
    away = JetStreamListener(subject="a.b", options={"servers": "nats://127.0.0.1:1"})
    away.onQueryProgress(event)
    assert "cannot report the progress of query orders: nats://127.0.0.1:1: cannot connect" in caplog.text


@pytest.mark.parametrize("end", ["idle", "terminated", "close"])
def test_a_listener_leaves_no_connection_open(nats: Nats, end: str) -> None:
    """Nobody would answer the PINGs of the server."""

    def connected() -> int:
        found = nats.server.monitor("/connz")["connections"]
        assert isinstance(found, list)
        return sum(each.get("name") == f"listener-{end}" for each in found)

    options = {"servers": nats.url, "connectionName": f"listener-{end}"}
    listener = JetStreamListener(subject="reported", options=options, log=False)
    document = {"id": QUERY, "runId": RUN, "timestamp": "", "exception": None, "errorClassOnException": None}
    for _ in range(2):
        listener.onQueryProgress(QueryProgressEvent(progress(OURS)))
        listener.onQueryProgress(QueryProgressEvent(progress(OURS)))
        assert connected() == 1
        if end == "idle":
            listener.onQueryIdle(QueryIdleEvent.fromJson(document))
        elif end == "terminated":
            listener.onQueryTerminated(QueryTerminatedEvent.fromJson(document))
        else:
            listener.close()
        deadline = time.monotonic() + 10.0
        while connected() and time.monotonic() < deadline:
            time.sleep(0.01)  # the server notices
        assert connected() == 0


def test_a_failed_query_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    listener = JetStreamListener()
    document = {"id": QUERY, "runId": RUN, "errorClassOnException": None}
    listener.onQueryTerminated(QueryTerminatedEvent.fromJson({**document, "exception": "first line\nsecond"}))
    listener.onQueryTerminated(QueryTerminatedEvent.fromJson({**document, "exception": None}))
    listener.onQueryStarted(QueryStartedEvent.fromJson({**document, "name": "", "timestamp": ""}))
    listener.onQueryIdle(QueryIdleEvent.fromJson({**document, "timestamp": ""}))
    assert [record.getMessage() for record in caplog.records] == [f"query {QUERY} failed: first line"]


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ({"on_progress": 5}, "on_progress takes a function or None, not int: 5"),
        ({"metrics": QueryMetrics()}, "metrics takes a list of QueryMetrics, not QueryMetrics"),
        ({"metrics": [print]}, "metrics takes a list of QueryMetrics, not list of builtin_function_or_method"),
        ({"metrics": None}, "metrics takes a list of QueryMetrics, not None"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(argument: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentError, match=f"^JetStreamListener: {problem}$"):
        JetStreamListener(**argument)


def test_a_wrong_subject_or_option_is_refused_at_once() -> None:
    with pytest.raises(BadSubjectError):
        JetStreamListener(subject="a.*")
    with pytest.raises(ConfigError, match="did you mean servers"):
        JetStreamListener(subject="a", options={"server": "x"})
