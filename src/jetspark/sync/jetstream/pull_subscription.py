"""A pull subscription: pulls from a consumer when `fetch` is called (ADR-13).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.pull_subscription`: change that, then `make sync`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, cast

from jetspark.aio.jetstream import pull_subscription as aio
from jetspark.jetstream.info import ConsumerInfo
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg
from jetspark.wire.argument_types import checks_arguments

__all__ = ["PullSubscription"]


@checks_arguments()
class PullSubscription(LoopProxy):
    """A pull subscription. Created by `JetStream.pull_subscribe` and `pull_subscribe_bind`.

        for message in subscription.fetch(10, timeout=1):
            message.ack()

    As a context manager it unsubscribes at the end.
    """

    _inner: aio.PullSubscription

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._inner.stream

    @property
    def consumer(self) -> str:
        """Name of the consumer."""
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
    def closed(self) -> bool:
        """Whether it has ended; nothing more is pulled."""
        return self._inner.closed

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait for the next fetch, and their bytes."""
        return self._inner.pending

    @property
    def pending_msgs(self) -> int:
        """Messages that came too late for their fetch; the next fetch returns them."""
        return self._inner.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payload of those messages."""
        return self._inner.pending_bytes

    @property
    def delivered(self) -> int:
        """Messages returned so far."""
        return self._inner.delivered

    def __enter__(self) -> Self:
        self._call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._inner.__aexit__(kind, error, trace))

    def fetch(self, batch: int = 1, timeout: float | None = 5.0, idle_heartbeat: float | None = None) -> list[Msg]:
        """Fetch messages that are available, or else wait for a first one (ADR-13).

        It returns as soon as it has a message, so often fewer than `batch`. Calls may run concurrently.

        Parameters
        ----------
        batch
            Most messages.
        timeout
            Seconds to wait for the first message; None means no limit, with one pull after the other.
        idle_heartbeat
            Seconds of silence after which the server sends a heartbeat; less than half of `timeout`. If none came for
            two intervals, the server or the consumer is considered gone.

        Raises
        ------
        ConfigError
            The arguments are not valid. Nothing was sent.
        NoMessageError
            No message came in time.
        StatusError
            The consumer is gone (ConsumerDeletedError, NoConsumerResponseError), has no leader or JetStream is
            unavailable (ConsumerUnavailableError), it is a push consumer (ConsumerIsPushError), or allows less than
            that (PullLimitExceededError, which names the limit). If an error comes after messages, the next call raises
            it.
        MissedHeartbeatError
            Neither a message nor a heartbeat came.
        DisconnectedError
            The session was lost before a message came.
        SubscriptionClosedError, ConnectionClosedError
            The subscription or the connection is closed.
        """
        return cast("list[Msg]", self._call(self._inner.fetch(batch, timeout, idle_heartbeat)))

    def consumer_info(self, *, timeout: float | None = None) -> ConsumerInfo:
        """Return configuration and state of the consumer.

        Raises
        ------
        ConsumerNotFoundError
            The consumer does not exist any more (10014).
        """
        return self._call(self._inner.consumer_info(timeout=timeout))

    def unsubscribe(self) -> None:
        """End the subscription now. A consumer that it created is deleted (UNS-01). Open fetches return what they have.

        Raises
        ------
        SubscriptionClosedError
            The subscription has already ended.
        ConsumerNotFoundError, APIError, RequestTimeoutError, DisconnectedError
            The consumer could not be deleted. The subscription has ended anyway. After DisconnectedError, the consumer
            is deleted when there is a session again.
        """
        self._call(self._inner.unsubscribe())

    def drain(self, timeout: float | None = None) -> None:
        """Pull no more, and end when the waiting messages were fetched. Then a consumer that it created is deleted.

        If the deletion fails, an event reports that (UNS-04). Open fetches return what they have.

        Parameters
        ----------
        timeout
            Seconds until all must be fetched; None takes the connection's `drain_timeout`.

        Raises
        ------
        SubscriptionClosedError
            The subscription has already ended.
        DrainTimeoutError
            It took too long; the remaining messages were dropped.
        """
        self._call(self._inner.drain(timeout))
