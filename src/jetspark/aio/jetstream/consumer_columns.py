"""Fetching from a consumer as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from jetspark.aio.jetstream.arrow import FetchReader, fetch_consumer
from jetspark.aio.jetstream.consuming import Consuming
from jetspark.engine.pull import PriorityFields

__all__ = ["ConsumerColumns"]


class ConsumerColumns(Consuming):
    """Fetching into columns."""

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
        return fetch_consumer(
            self._js,
            self._info.stream_name,
            self._info.name,
            max_messages=max_messages,
            max_bytes=max_bytes,
            expires=expires,
            no_wait=no_wait,
            idle_heartbeat=idle_heartbeat,
            columns=columns,
            **priority,
        )
