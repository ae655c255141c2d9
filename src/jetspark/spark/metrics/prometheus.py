"""Metrics of streaming queries for Prometheus, with the package `prometheus-client`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.metrics.query_metrics import METRICS, Metric, QueryMetrics, Sample

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector, CollectorRegistry

__all__ = ["PrometheusMetrics"]


class PrometheusMetrics(QueryMetrics):
    """Metrics of streaming queries in a registry of `prometheus-client`.

        from prometheus_client import start_http_server

        spark.streams.addListener(JetStreamListener(metrics=[PrometheusMetrics()]))
        start_http_server(9108)

    The labels are `query` (its name, else its id) and `stream`. At most 100 queries have metrics, those that have
    reported last, and at most 200 streams of each, those with the largest lag. A query that ends has none.

    Parameters
    ----------
    registry
        The registry; None takes the default one of `prometheus-client`.

    Raises
    ------
    ModuleNotFoundError
        The package `prometheus-client` is missing.
    ConfigError
        The registry has these metrics already.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        try:
            from prometheus_client import REGISTRY
        except ModuleNotFoundError as error:
            problem = "PrometheusMetrics needs prometheus-client: pip install 'jetspark[metrics]'"
            raise ModuleNotFoundError(problem, name=error.name) from None
        super().__init__()
        self._registry = REGISTRY if registry is None else registry
        try:
            self._registry.register(cast("Collector", self))
        except ValueError:
            problem = "the registry has the metrics of jetspark already: give one PrometheusMetrics to all listeners"
            raise ConfigError(problem) from None

    def close(self) -> None:
        """Remove the metrics from the registry."""
        self._registry.unregister(cast("Collector", self))

    def describe(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metrics without values; `prometheus-client` calls it to see whether a name is taken."""
        for metric in METRICS:
            yield _family(metric, [])

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metrics with their values; `prometheus-client` calls it for each scrape."""
        for metric in METRICS:
            yield _family(metric, self._samples(metric))


def _family(metric: Metric, samples: list[Sample]) -> CounterMetricFamily | GaugeMetricFamily:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    family = (CounterMetricFamily if metric.is_counter else GaugeMetricFamily)(
        metric.name, metric.meaning, labels=metric.labels
    )
    for sample in samples:
        family.add_metric(sample.labels, sample.value)
    return family
