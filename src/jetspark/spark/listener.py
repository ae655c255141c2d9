"""Reports on the streaming queries of a session: log lines, a callable, a subject, metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from jetspark.jetstream.names import check_publish_subject
from jetspark.spark.connections import borrow_connection, close_idle
from jetspark.spark.metrics.query_metrics import QueryMetrics
from jetspark.spark.options.parsed import RedactedOptions
from jetspark.spark.options.server import ServerOptions, server_options
from jetspark.spark.progress import QueryProgress, progress_of
from jetspark.wire.argument_types import kind_of, wrong_type

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["JetStreamListener"]

_log: Final = logging.getLogger(__name__)


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
    metrics
        `PrometheusMetrics` and `OpenTelemetryMetrics` that get every progress. They forget a query that has ended.

    Raises
    ------
    ConfigError, BadSubjectError
        An option or the subject is wrong.
    ArgumentError
        `on_progress` is no function, or `metrics` no list.
    """

    def __init__(
        self,
        on_progress: Callable[[QueryProgress], None] | None = None,
        *,
        log: bool = True,
        subject: str | None = None,
        options: Mapping[str, str] | None = None,
        metrics: Sequence[QueryMetrics] = (),
    ) -> None:
        if on_progress is not None and not callable(on_progress):
            raise wrong_type("JetStreamListener", "on_progress", "a function or None", on_progress)
        if not kind_of(Sequence[QueryMetrics]).fits(metrics):
            raise wrong_type("JetStreamListener", "metrics", "a list of QueryMetrics", metrics)
        self._on_progress = on_progress
        self._log_enabled = log
        self._metrics = tuple(metrics)
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
            for metrics in self._metrics:
                metrics.report(progress)
            if self._subject is not None:
                self._publish(self._subject, progress)
            if self._on_progress is not None:
                self._on_progress(progress)
        except Exception as error:  # noqa: BLE001 - the callable may raise anything
            _log.warning("cannot report the progress of query %s: %s", progress.name or progress.query_id, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Report it, and close the connection, because nothing answers the server's PINGs while the query is idle."""
        for metrics in self._metrics:
            metrics.report_idle(str(event.id))
        self.close()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Log why a query failed, remove its metrics, and close the connection."""
        for metrics in self._metrics:
            metrics.remove(str(event.id))
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
