"""Fetching from a consumer as Arrow columns.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.consumer_columns`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from jetspark.aio.jetstream import consumer_columns as aio
from jetspark.engine.pull import PriorityFields
from jetspark.sync._handwritten.arrow import FetchReader
from jetspark.sync.jetstream.consuming import Consuming

__all__ = ["ConsumerColumns"]


class ConsumerColumns(Consuming):
    """Fetching into columns."""

    _inner: aio.ConsumerColumns

    def fetch_arrow(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        expires: float | None = 30.0,
        no_wait: bool = False,
        idle_heartbeat: float | None = None,
        columns: Sequence[str] | None = None,
        **priority: Unpack[PriorityFields],
    ) -> FetchReader:
        """Pull once, into Arrow record batches, which pandas, polars and DuckDB accept.

        It pulls over a connection of its own. `ack` of the returned object acknowledges all returned messages. Needs
        the `arrow` extra.

        Parameters
        ----------
        max_messages, max_bytes, expires, idle_heartbeat, group, min_pending, min_ack_pending, priority
            As for `fetch`.
        no_wait
            Take only messages that are available now.
        columns
            Any of `subject`, `data`, `headers`, `stream`, `sequence`, `timestamp` and `timestamp_ns`; None means all.

        Raises
        ------
        ConfigError, StatusError, ConnectError, MissedHeartbeatError, DisconnectedError
            While reading; see `jetspark.bulk.fetch`.
        """
        return FetchReader(
            self._connection,
            self._run(
                lambda: self._inner.fetch_arrow(
                    max_messages,
                    max_bytes=max_bytes,
                    expires=expires,
                    no_wait=no_wait,
                    idle_heartbeat=idle_heartbeat,
                    columns=columns,
                    **priority,
                )
            ),
        )
