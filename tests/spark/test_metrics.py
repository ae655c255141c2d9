"""Metrics of streaming queries for Prometheus and OpenTelemetry, and the dashboard that shows them."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)
from tests.pages import DOCS, examples

from jetspark.errors import ConfigError
from jetspark.spark import JetStreamListener, OpenTelemetryMetrics, PrometheusMetrics
from jetspark.spark.metrics.query_metrics import MAX_QUERIES, MAX_STREAMS, METRICS

DASHBOARD = DOCS.parent / "examples" / "grafana" / "jetspark.json"
NAMES = {metric.name + "_total" * metric.is_counter for metric in METRICS}
RUN = "5f2d5c1e-0000-4000-8000-000000000002"


def query_id(number: int) -> str:
    return f"5f2d5c1e-0000-4000-8000-{number:012}"


def event(
    name: str | None = "orders", number: int = 1, lags: dict[str, int] | None = None, *, reports_ends: bool = True
) -> QueryProgressEvent:
    """Return the report of a micro-batch of ten rows in half a second, which ends before sequence 101."""
    lags = {"ORDERS": 7} if lags is None else lags
    end = {stream: {"next": 101} for stream in lags}
    latest = {
        stream: {"next": 101 + lag, "lag": lag, "bytesBehind": 10 * lag, "secondsBehind": lag / 2}
        for stream, lag in lags.items()
    }
    rates = {"numInputRows": 10, "inputRowsPerSecond": 1, "processedRowsPerSecond": 1}
    document: dict[str, Any] = {
        "id": query_id(number),
        "runId": RUN,
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 3,
        "batchDuration": 500,
        "durationMs": {"triggerExecution": 500},
        "stateOperators": [],
        "sources": [
            {
                "description": "x",
                "startOffset": None,
                "endOffset": {"streams": end},
                "latestOffset": {"streams": latest} if reports_ends else None,
            }
            | rates
        ],
        "sink": {"description": "y", "numOutputRows": -1},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson(document))


def end(listener: JetStreamListener, number: int = 1) -> None:
    document = {"id": query_id(number), "runId": RUN, "exception": None, "errorClassOnException": None}
    listener.onQueryTerminated(QueryTerminatedEvent.fromJson(document))


def values(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by its labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


class Session(SimpleNamespace):
    """The part of a session that the examples of the page use."""

    def __init__(self) -> None:
        self.listeners: list[JetStreamListener] = []
        super().__init__(streams=SimpleNamespace(addListener=self.listeners.append))


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def listener(registry: CollectorRegistry) -> JetStreamListener:
    return JetStreamListener(metrics=[PrometheusMetrics(registry)])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_prometheus_scrapes_the_driver_as_the_page_shows() -> None:
    session, names = Session(), dict[str, Any]()
    exec(examples("monitoring.md")[2].replace("9108", f"{free_port()}, '127.0.0.1'"), names | {"spark": session}, names)
    try:
        (listener,) = session.listeners
        listener.onQueryProgress(event())
        listener.onQueryProgress(event(lags={"ORDERS": 3, "JOBS": 0}))
        with urllib.request.urlopen(f"http://127.0.0.1:{names['server'].server_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    finally:
        names["server"].shutdown()
        names["server"].server_close()
        names["metrics"].close()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("jetspark_")
    }
    assert {name for name, *_ in found} == NAMES
    assert found.pop(("jetspark_query_last_report_timestamp_seconds", "orders")) > 1e9
    assert found == {
        ("jetspark_query_rows_total", "orders"): 20.0,
        ("jetspark_query_batches_total", "orders"): 2.0,
        ("jetspark_query_batch_seconds_total", "orders"): 1.0,
        ("jetspark_query_last_batch_seconds", "orders"): 0.5,
        ("jetspark_query_last_batch_rows", "orders"): 10.0,
        ("jetspark_stream_lag_messages", "orders", "ORDERS"): 3.0,
        ("jetspark_stream_lag_messages", "orders", "JOBS"): 0.0,
        ("jetspark_stream_lag_bytes", "orders", "ORDERS"): 30.0,
        ("jetspark_stream_lag_bytes", "orders", "JOBS"): 0.0,
        ("jetspark_stream_lag_seconds", "orders", "ORDERS"): 1.5,
        ("jetspark_stream_lag_seconds", "orders", "JOBS"): 0.0,
        ("jetspark_stream_read_sequence", "orders", "ORDERS"): 100.0,
        ("jetspark_stream_read_sequence", "orders", "JOBS"): 100.0,
        ("jetspark_stream_last_sequence", "orders", "ORDERS"): 103.0,
        ("jetspark_stream_last_sequence", "orders", "JOBS"): 100.0,
    }


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A collector of OTLP: its address, and the bodies of the requests that it got."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def test_opentelemetry_exports_by_otlp_as_the_page_shows(collector: tuple[str, list[bytes]]) -> None:
    url, bodies = collector
    session, names = Session(), dict[str, Any]()
    exec(examples("monitoring.md")[3].replace("http://localhost:4318", url), names | {"spark": session}, names)
    try:
        (listener,) = session.listeners
        listener.onQueryProgress(event())
        names["provider"].force_flush()
    finally:
        names["provider"].shutdown()
    request = ExportMetricsServiceRequest.FromString(bodies[0])
    (scope,) = request.resource_metrics[0].scope_metrics
    assert scope.scope.name == "jetspark"
    units = {metric.name: metric.unit for metric in scope.metrics}
    assert units == {metric.name.replace("_", "."): metric.unit for metric in METRICS}
    (lag,) = next(metric for metric in scope.metrics if metric.name == "jetspark.stream.lag.bytes").gauge.data_points
    assert {each.key: each.value.string_value for each in lag.attributes} == {"query": "orders", "stream": "ORDERS"}
    assert lag.as_int == 70
    (rows,) = next(metric for metric in scope.metrics if metric.name == "jetspark.query.rows").sum.data_points
    assert rows.as_int == 10


def test_a_query_that_ends_has_no_metrics_any_more(registry: CollectorRegistry) -> None:
    reader = InMemoryMetricReader()
    listener = JetStreamListener(
        metrics=[PrometheusMetrics(registry), OpenTelemetryMetrics(MeterProvider(metric_readers=[reader]))]
    )
    listener.onQueryProgress(event())
    listener.onQueryProgress(event("jobs", number=2, lags={"JOBS": 2}))
    assert set(values(registry, "jetspark_query_rows_total")) == {("orders",), ("jobs",)}
    end(listener)
    assert values(registry, "jetspark_query_rows_total") == {("jobs",): 10.0}
    assert values(registry, "jetspark_stream_lag_messages") == {("jobs", "JOBS"): 2.0}
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    points = [dict(point.attributes or {}) for metric in scope.metrics for point in metric.data.data_points]
    assert {point["query"] for point in points} == {"jobs"}
    end(listener, 2)
    end(listener, 2)  # Spark may report an end for which no progress came
    assert not any(family.samples for family in registry.collect())


def test_a_stream_that_a_query_reads_no_more_has_no_metrics(
    registry: CollectorRegistry, listener: JetStreamListener
) -> None:
    listener.onQueryProgress(event(lags={"A": 1, "B": 2}))
    listener.onQueryProgress(event(lags={"B": 2}))
    assert values(registry, "jetspark_stream_lag_messages") == {("orders", "B"): 2.0}


def test_queries_without_a_name_or_with_the_same_name_are_labelled_by_their_id(
    registry: CollectorRegistry, listener: JetStreamListener
) -> None:
    listener.onQueryProgress(event())
    listener.onQueryProgress(event(number=2))
    listener.onQueryProgress(event(None, number=3))
    for _ in range(2):  # a label stays, whoever ends
        found = values(registry, "jetspark_query_batches_total")
        assert set(found) == {("orders",), (query_id(2),), (query_id(3),)}
        listener.onQueryProgress(event(number=2))
    end(listener, 1)
    listener.onQueryProgress(event(number=2))
    assert values(registry, "jetspark_query_batches_total") == {(query_id(2),): 4.0, (query_id(3),): 1.0}


def test_the_number_of_labels_is_bounded(
    registry: CollectorRegistry, listener: JetStreamListener, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MAX_QUERIES):
        listener.onQueryProgress(event(f"q{number}", number))
    listener.onQueryProgress(event("q0", 0))
    assert not caplog.records
    listener.onQueryProgress(event("one more", MAX_QUERIES, {f"S{lag}": lag for lag in range(MAX_STREAMS + 2)}))
    listener.onQueryProgress(event("one more", MAX_QUERIES, {f"S{lag}": lag for lag in range(MAX_STREAMS + 2)}))
    queries = {query for (query,) in values(registry, "jetspark_query_rows_total")}
    assert len(queries) == MAX_QUERIES
    assert {"q0", "q2", "one more"} < queries  # q1 has reported before all others
    streams = {stream for query, stream in values(registry, "jetspark_stream_lag_messages") if query == "one more"}
    assert streams == {f"S{lag}" for lag in range(2, MAX_STREAMS + 2)}
    assert [record.getMessage() for record in caplog.records] == [
        f"more than {MAX_QUERIES} queries, or more than {MAX_STREAMS} streams in a query: the others have no metrics"
    ]


def test_an_idle_query_still_reports(
    registry: CollectorRegistry, listener: JetStreamListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("jetspark.spark.metrics.query_metrics.time.time", lambda: now[0])
    listener.onQueryProgress(event())
    for number, expected in ((2, 1000.0), (1, 1010.0)):  # an idle query that has not read anything yet is unknown
        now[0] = 1010.0
        idle = {"id": query_id(number), "runId": RUN, "timestamp": ""}
        listener.onQueryIdle(QueryIdleEvent.fromJson(idle))
        assert values(registry, "jetspark_query_last_report_timestamp_seconds") == {("orders",): expected}
    assert values(registry, "jetspark_query_batches_total") == {("orders",): 1.0}


def test_a_value_that_is_not_known_is_left_out(registry: CollectorRegistry, listener: JetStreamListener) -> None:
    listener.onQueryProgress(event(reports_ends=False))
    assert values(registry, "jetspark_stream_read_sequence") == {("orders", "ORDERS"): 100.0}
    for name in ("lag_messages", "lag_bytes", "lag_seconds", "last_sequence"):
        assert values(registry, f"jetspark_stream_{name}") == {}


def test_a_registry_takes_the_metrics_once(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    with pytest.raises(ConfigError, match="the registry has the metrics of jetspark already"):
        PrometheusMetrics(registry)
    metrics.close()
    PrometheusMetrics(registry)


def dashboard() -> Any:
    return json.loads(Path(DASHBOARD).read_text(encoding="utf-8"))


def queries() -> list[str]:
    """Return all queries of the dashboard, also those of its variables."""
    found = dashboard()
    panels = [target["expr"] for panel in found["panels"] for target in panel.get("targets", ())]
    return panels + [each["definition"] for each in found["templating"]["list"] if each["type"] == "query"]


def test_the_dashboard_queries_the_metrics_that_there_are() -> None:
    named = {name for query in queries() for name in re.findall(r"\bjetspark_\w+", query)}
    assert named == NAMES


def test_the_dashboard_uses_the_labels_that_its_metrics_have() -> None:
    labels = {metric.name + "_total" * metric.is_counter: set(metric.labels) for metric in METRICS}
    selections = [found for query in queries() for found in re.findall(r"(jetspark_\w+)(?:\{(.*?)\})?", query)]
    assert len(selections) > len(NAMES)
    for name, selection in selections:
        assert set(re.findall(r"(\w+)=~", selection)) <= labels[name]
    for query in queries():
        for label in re.findall(r"sum by \((\w+)\)", query):
            assert all(label in labels[name] for name in re.findall(r"\bjetspark_\w+", query))


def test_the_dashboard_works_with_any_data_source() -> None:
    found = dashboard()
    variables = {each["name"]: each for each in found["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    graphs = [panel for panel in found["panels"] if panel["type"] != "row"]
    sources = [each["datasource"]["uid"] for panel in graphs for each in (panel, *panel["targets"])]
    assert set(sources) == {"${datasource}"}
    assert (
        set(re.findall(r"\$(\w+)", " ".join(queries())))
        == {"query", "stream", "__rate_interval"}
        <= {
            *variables,
            "__rate_interval",
        }
    )
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["title"] and panel["fieldConfig"]["defaults"]["unit"] for panel in graphs)


def test_the_table_of_the_page_names_every_metric() -> None:
    page = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(jetspark_\w+)`", page)) == NAMES
