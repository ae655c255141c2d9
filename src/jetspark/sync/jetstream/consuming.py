"""Consuming from a pull consumer: fetch, fetch_bytes, fetch_no_wait, next and consume (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.consuming`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack, cast

from jetspark.aio.jetstream import consuming as aio
from jetspark.engine.pull import (
    MessageBatch,
    PriorityFields,
)
from jetspark.sync._handwritten.consume_context import ConsumeMixin
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg

__all__ = ["Consuming"]


class Consuming(ConsumeMixin, LoopProxy):
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
    ) -> MessageBatch[Msg]:
        """Pull once, and wait until `max_messages` or `max_bytes` came or `expires` has passed.

        Parameters
        ----------
        max_messages
            Most messages.
        max_bytes
            Most bytes in total, as the server counts them: subject, ack subject, headers and payload.
        expires
            Seconds that the server keeps the pull open. None waits without a limit, with one pull after the other.
        idle_heartbeat
            Seconds of silence after which the server sends a heartbeat, at most half of `expires`. The fetch ends if no
            heartbeat comes within twice that time. Default: 5 if `expires` is above 30, otherwise none (FET-03).
        group, min_pending, min_ack_pending, priority
            Priority group, and the priority within it (ADR-42).

        Returns
        -------
        Batch
            The messages; empty if none came. If the fetch ended early with messages, `error` is set, and the iteration
            raises it after the last message.

        Raises
        ------
        ConfigError
            Neither `max_messages` nor `max_bytes` is given, or the server would refuse a value.
        ConsumerDeletedError, ConsumerIsPushError
            The consumer is deleted, or is a push consumer.
        NoConsumerResponseError
            Nobody answers: the consumer is gone, or has no leader now.
        MissedHeartbeatError, DisconnectedError, LeadershipChangeError, PullLimitExceededError, StatusError
            The pull has failed.
        ConnectionClosedError
            The connection is closed.
        """
        return cast(
            "MessageBatch[Msg]",
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
    ) -> MessageBatch[Msg]:
        """As `fetch`, limited by bytes only (FET-02). A next message that does not fit ends it, even if it is empty."""
        return cast(
            "MessageBatch[Msg]",
            self._call(self._inner.fetch_bytes(max_bytes, expires=expires, idle_heartbeat=idle_heartbeat, **priority)),
        )

    def fetch_no_wait(
        self, max_messages: int | None = None, *, max_bytes: int | None = None, **priority: Unpack[PriorityFields]
    ) -> MessageBatch[Msg]:
        """As `fetch`, for messages that are available now (FET-08)."""
        return cast(
            "MessageBatch[Msg]", self._call(self._inner.fetch_no_wait(max_messages, max_bytes=max_bytes, **priority))
        )

    def next(
        self, timeout: float | None = 30.0, *, idle_heartbeat: float | None = None, **priority: Unpack[PriorityFields]
    ) -> Msg:
        """Return the next message; its pull is sent now (FET-09).

        Parameters
        ----------
        timeout
            Seconds; None means no limit.

        Raises
        ------
        NoMessageError
            No message came in time.
        Error
            As for `fetch`.
        """
        return cast("Msg", self._call(self._inner.next(timeout, idle_heartbeat=idle_heartbeat, **priority)))

    def ack_all(self, messages: Iterable[Msg]) -> None:
        """Acknowledge many messages, as the consumer's ack policy allows.

        With policy `all` one acknowledgement is sent, for the message with the highest sequence; it covers the earlier
        ones. With `explicit` one is sent for each message; with `none` nothing. Errors are those of `Msg.ack`.
        """
        self._call(self._inner.ack_all(cast(Any, messages)))
