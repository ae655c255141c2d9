"""A pull subscription: asks a consumer for messages when it is asked for some (ADR-13).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.pull_subscription`: change that, then `make sync`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, cast

from jetspark.aio.jetstream import pull_subscription as aio
from jetspark.jetstream.info import ConsumerInfo
from jetspark.sync.blocking import Blocking
from jetspark.sync.message import Msg
from jetspark.sync.push import PullDraining

__all__ = ["PullSubscription"]


class PullSubscription(PullDraining, Blocking):
    """Made by `JetStream.pull_subscribe` and `pull_subscribe_bind`.

        for message in subscription.fetch(10, timeout=1):
            message.ack()

    A context manager unsubscribes at its end.
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
        """The consumer was made by this subscription, and is deleted with it."""
        return self._inner.created

    @property
    def initial_pending(self) -> int:
        """Messages that the consumer had to deliver when the subscription began (CRE-09)."""
        return self._inner.initial_pending

    @property
    def closed(self) -> bool:
        """It has ended; nothing more is pulled."""
        return self._inner.closed

    @property
    def pending_msgs(self) -> int:
        """Messages that came too late for their fetch, and wait for the next one."""
        return self._inner.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payload of those messages."""
        return self._inner.pending_bytes

    @property
    def delivered(self) -> int:
        """Messages handed out so far."""
        return self._inner.delivered

    def __enter__(self) -> Self:
        self._call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._inner.__aexit__(kind, error, trace))

    def fetch(self, batch: int = 1, timeout: float | None = 5.0, heartbeat: float | None = None) -> list[Msg]:
        """Fetch messages: what is there already, or else wait for something (ADR-13).

        It returns as soon as it has anything, so mostly not the whole batch. Calls may run side by side.

        Parameters
        ----------
        batch
            Most messages.
        timeout
            Seconds to wait for the first one; None waits for ever, by one pull after the other.
        heartbeat
            Let the server give a sign of life after so many seconds of silence; less than half of `timeout`. Then a
            server, or consumer, that is gone is noticed after two of them.

        Raises
        ------
        ConfigError
            The arguments make no sense; nothing was sent.
        NoMessageError
            No message in time.
        StatusError
            The consumer is gone (ConsumerDeletedError, NoConsumerResponseError), pushes (ConsumerIsPushError), or
            allows less than that (PullLimitExceededError, which names the limit). An error that came behind messages
            is raised by the next call.
        MissedHeartbeatError
            Neither a message nor a heartbeat came.
        DisconnectedError
            The session was lost before a message came.
        SubscriptionClosedError, ConnectionClosedError
            It has ended.
        """
        return cast("list[Msg]", self._call(self._inner.fetch(batch, timeout, heartbeat)))

    def consumer_info(self, *, timeout: float | None = None) -> ConsumerInfo:
        """Configuration and state of the consumer.

        Raises
        ------
        ConsumerNotFoundError
            It is gone (10014).
        """
        return self._call(self._inner.consumer_info(timeout=timeout))

    def unsubscribe(self) -> None:
        """End the subscription now. A consumer that it made is deleted (UNS-01). Open fetches return what they have.

        Raises
        ------
        SubscriptionClosedError
            It has ended before.
        ConsumerNotFoundError, APIError, RequestTimeoutError
            The consumer could not be deleted. The subscription has ended all the same.
        """
        self._call(self._inner.unsubscribe())

    def drain(self, timeout: float | None = None) -> None:
        """Pull no more, and end when the messages that wait were fetched. A consumer that it made is deleted then.

        Should that fail, it is told as an event (UNS-04). Open fetches return what they have.

        Parameters
        ----------
        timeout
            Seconds until all must be fetched; None is the connection's `drain_timeout`.

        Raises
        ------
        SubscriptionClosedError
            It has ended before.
        DrainTimeoutError
            The rest was dropped.
        """
        self._call(self._inner.drain(timeout))

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait for the next fetch, and their bytes."""
        return self._inner.pending
