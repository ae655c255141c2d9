"""Metrics of streaming queries for OpenTelemetry, with the package `opentelemetry-sdk`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from jetspark.spark.metrics.query_metrics import METRICS, Metric, QueryMetrics

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

__all__ = ["OpenTelemetryMetrics"]


class OpenTelemetryMetrics(QueryMetrics):
    """Metrics of streaming queries as instruments of a meter of OpenTelemetry, named `jetspark`.

    They have the names of `PrometheusMetrics` with dots (`jetspark.stream.lag.bytes`), and its labels as attributes.
    The provider decides where they are sent, for example by OTLP.

    Parameters
    ----------
    meter_provider
        The provider; None takes the global one.

    Raises
    ------
    ModuleNotFoundError
        The package `opentelemetry-sdk` is missing.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        try:
            from opentelemetry.metrics import get_meter_provider
        except ModuleNotFoundError as error:
            problem = "OpenTelemetryMetrics needs opentelemetry-sdk: pip install 'jetspark[metrics]'"
            raise ModuleNotFoundError(problem, name=error.name) from None
        super().__init__()
        provider = get_meter_provider() if meter_provider is None else meter_provider
        meter = provider.get_meter("jetspark")
        for metric in METRICS:
            create = meter.create_observable_counter if metric.is_counter else meter.create_observable_gauge
            observe: Callable[[CallbackOptions], Iterable[Observation]] = partial(self._observe, metric)
            create(metric.name.replace("_", "."), [observe], metric.unit, metric.meaning)

    def _observe(self, metric: Metric, options: CallbackOptions) -> list[Observation]:  # noqa: ARG002 - OpenTelemetry's
        from opentelemetry.metrics import Observation

        return [
            Observation(each.value, dict(zip(metric.labels, each.labels, strict=True)))
            for each in self._samples(metric)
        ]
