"""A push subscription: returns the messages that a consumer pushes (ADR-15).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.push_subscription`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from jetspark.aio.jetstream import push_subscription as aio
from jetspark.jetstream.info import ConsumerInfo
from jetspark.sync._handwritten.push import PushReadMixin
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg
from jetspark.wire.argument_types import checks_arguments

__all__ = ["PushCallback", "PushSubscription"]

PushCallback = Callable[[Msg], None]
"""Called with each message, in order and one at a time."""


@checks_arguments()
class PushSubscription(PushReadMixin, LoopProxy):
    """A push subscription. Created by `JetStream.subscribe` and `subscribe_bind`.

        for message in subscription:
            message.ack()

    Heartbeats, flow control, gaps and other statuses are handled here. Problems are reported as events of the
    connection. As a context manager it unsubscribes at the end.
    """

    _inner: aio.PushSubscription

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._inner.stream

    @property
    def consumer(self) -> str:
        """Name of the consumer; for an ordered subscription, of the present one."""
        return self._inner.consumer

    @property
    def created(self) -> bool:
        """Whether this subscription created the consumer; then it deletes the consumer at its end."""
        return self._inner.created

    @property
    def initial_pending(self) -> int:
        """Messages that the consumer had to deliver when the subscription began (CRE-09)."""
        return self._inner.initial_pending

    @property
    def sid(self) -> int:
        """Subscription id on the connection; an ordered subscription gets a new one with each consumer."""
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
        """Messages received so far, without statuses and without messages that an ordered subscription dropped."""
        return self._inner.delivered

    def __enter__(self) -> Self:
        self._call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._inner.__aexit__(kind, error, trace))

    def consumer_info(self, *, timeout: float | None = None) -> ConsumerInfo:
        """Return configuration and state of the consumer.

        Raises
        ------
        ConsumerNotFoundError
            The consumer does not exist any more (10014).
        ConsumerResettingError
            The ordered subscription is between two consumers; call it again.
        """
        return self._call(self._inner.consumer_info(timeout=timeout))

    def unsubscribe(self, max_msgs: int = 0) -> None:
        """End the subscription now and drop waiting messages. A consumer that it created is deleted (UNS-01).

        Parameters
        ----------
        max_msgs
            End after that many messages in total instead. The consumer then stays until its `inactive_threshold`.

        Raises
        ------
        SubscriptionClosedError
            The subscription has already ended.
        ConsumerNotFoundError, APIError, RequestTimeoutError, DisconnectedError
            The consumer could not be deleted. The subscription has ended anyway. After DisconnectedError, the consumer
            is deleted when there is a session again.
        """
        self._call(self._inner.unsubscribe(max_msgs))

    def drain(self, timeout: float | None = None) -> None:
        """End the subscription without losing a message: received messages are still returned, and can be acked.

        A consumer that it created is deleted after the last message (UNS-03). If the deletion fails, an event reports
        that. Without a callback another task must take the messages. In its own callback this returns at once, because
        it cannot wait for its own end.

        Parameters
        ----------
        timeout
            Seconds until all must be taken; None takes the connection's `drain_timeout`.

        Raises
        ------
        SubscriptionClosedError
            The subscription has already ended.
        DrainTimeoutError
            It took too long; the remaining messages were dropped.
        """
        self._drain(timeout)
