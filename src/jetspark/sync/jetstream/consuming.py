"""Consuming from a pull consumer: fetch, fetch_bytes, fetch_no_wait, next and consume (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.consuming`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack, cast

from jetspark.aio.jetstream import consuming as aio
from jetspark.flow.pull import (
    Batch,
    PriorityFields,
)
from jetspark.sync.blocking import Blocking
from jetspark.sync.jetstream.consume_context import StartConsume
from jetspark.sync.message import Msg

__all__ = ["Consuming"]


class Consuming(StartConsume, Blocking):
    """The consuming calls of a consumer's handle."""

    _inner: aio.Consuming

    def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        expires: float | None = 30.0,
        idle_heartbeat: float | None = None,
        **priority: Unpack[PriorityFields],
    ) -> Batch[Msg]:
        """Pull once, and wait until so many messages came or the time is up.

        Parameters
        ----------
        max_messages
            Most messages.
        max_bytes
            Most bytes of all of them, as the server counts: subject, ack subject, headers and payload.
        expires
            Seconds that the server keeps the pull open. None waits without a limit, by one pull after the other.
        idle_heartbeat
            Seconds of silence after which the server sends a heartbeat, at most half of `expires`; the fetch ends when
            none comes in twice that time. By default 5 for an `expires` above 30, and none for the rest (FET-03).
        group, min_pending, min_ack_pending, priority
            Priority group, and the place within it (ADR-42).

        Returns
        -------
        Batch
            The messages. Empty when none came; with `error`, and raising it behind the last message, where the fetch
            ended early but not empty-handed.

        Raises
        ------
        ConfigError
            Neither `max_messages` nor `max_bytes` is given, or the server would refuse a value.
        ConsumerDeletedError, ConsumerIsPushError
            It cannot be pulled from.
        NoConsumerResponseError
            Nobody answers: the consumer is gone, or has no leader now.
        MissedHeartbeatError, DisconnectedError, LeadershipChangeError, PullLimitExceededError, StatusError
            The pull came to nothing.
        ConnectionClosedError
            The connection is closed.
        """
        return cast(
            "Batch[Msg]",
            self._call(
                self._inner.fetch(
                    max_messages, max_bytes=max_bytes, expires=expires, idle_heartbeat=idle_heartbeat, **priority
                )
            ),
        )

    def fetch_bytes(
        self,
        max_bytes: int,
        *,
        expires: float | None = 30.0,
        idle_heartbeat: float | None = None,
        **priority: Unpack[PriorityFields],
    ) -> Batch[Msg]:
        """As `fetch`, limited by bytes alone (FET-02). A next message that is larger ends it, also an empty one."""
        return cast(
            "Batch[Msg]",
            self._call(self._inner.fetch_bytes(max_bytes, expires=expires, idle_heartbeat=idle_heartbeat, **priority)),
        )

    def fetch_no_wait(
        self, max_messages: int | None = None, *, max_bytes: int | None = None, **priority: Unpack[PriorityFields]
    ) -> Batch[Msg]:
        """As `fetch`, for what is there now (FET-08)."""
        return cast("Batch[Msg]", self._call(self._inner.fetch_no_wait(max_messages, max_bytes=max_bytes, **priority)))

    def next(
        self, timeout: float | None = 30.0, *, idle_heartbeat: float | None = None, **priority: Unpack[PriorityFields]
    ) -> Msg:
        """The next message; the pull for it goes out now (FET-09).

        Parameters
        ----------
        timeout
            Seconds; None waits without a limit.

        Raises
        ------
        NoMessageError
            None came in time.
        Error
            As `fetch`.
        """
        return cast("Msg", self._call(self._inner.next(timeout, idle_heartbeat=idle_heartbeat, **priority)))

    def ack_all(self, messages: Iterable[Msg]) -> None:
        """Acknowledge many messages at once, as the consumer's ack policy allows it.

        With policy `all` one acknowledgement goes out, for the last of them in the stream, and covers those before it;
        with `explicit` one for each, in one piece; with `none` nothing. Errors are those of `Msg.ack`.
        """
        self._call(self._inner.ack_all(cast(Any, messages)))
