"""A push subscription: a consumer sends its messages, this hands them out (ADR-15).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.push_subscription`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from jetspark.aio.jetstream import push_subscription as aio
from jetspark.jetstream.info import ConsumerInfo
from jetspark.sync.blocking import Blocking
from jetspark.sync.message import Msg
from jetspark.sync.push import PushReading

__all__ = ["PushCallback", "PushSubscription"]

PushCallback = Callable[[Msg], None]
"""Takes each message. They run one after the other, in order."""


class PushSubscription(PushReading, Blocking):
    """Made by `JetStream.subscribe` and `subscribe_bind`.

        for message in subscription:
            message.ack()

    Heartbeats, flow control, gaps and other statuses are taken care of; what the user should know of them is told as an
    event of the connection. A context manager unsubscribes at its end.
    """

    _inner: aio.PushSubscription

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._inner.stream

    @property
    def consumer(self) -> str:
        """Name of the consumer; of an ordered subscription, of the present one."""
        return self._inner.consumer

    @property
    def created(self) -> bool:
        """The consumer was made by this subscription, and is deleted with it."""
        return self._inner.created

    @property
    def initial_pending(self) -> int:
        """Messages that the consumer had to deliver when the subscription began (CRE-09)."""
        return self._inner.initial_pending

    @property
    def sid(self) -> int:
        """Its id on the connection; an ordered subscription gets another one with each consumer."""
        return self._inner.sid

    @property
    def pending_msgs(self) -> int:
        """Messages that wait."""
        return self._inner.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payload of the messages that wait."""
        return self._inner.pending_bytes

    @property
    def delivered(self) -> int:
        """Messages that came so far. Statuses are none, and messages that an ordered subscription skipped neither."""
        return self._inner.delivered

    def __enter__(self) -> Self:
        self._call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._inner.__aexit__(kind, error, trace))

    def consumer_info(self, *, timeout: float | None = None) -> ConsumerInfo:
        """Configuration and state of the consumer.

        Raises
        ------
        ConsumerNotFoundError
            It is gone (10014).
        ConsumerResettingError
            The ordered subscription is between two consumers; ask again.
        """
        return self._call(self._inner.consumer_info(timeout=timeout))

    def unsubscribe(self, max_msgs: int = 0) -> None:
        """End the subscription now and drop what waits. A consumer that it made is deleted (UNS-01).

        Parameters
        ----------
        max_msgs
            End after that many messages in all instead. The consumer then stays, until its `inactive_threshold`.

        Raises
        ------
        SubscriptionClosedError
            It has ended before.
        ConsumerNotFoundError, APIError, RequestTimeoutError
            The consumer could not be deleted. The subscription has ended all the same.
        """
        self._call(self._inner.unsubscribe(max_msgs))
