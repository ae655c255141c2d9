"""A pull subscription: pulls from a consumer when `fetch` is called (ADR-13)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, cast

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.carry_over import CarryOver
from jetspark.aio.jetstream._drivers.consumer_deletion import delete_later, request_or_delete_later
from jetspark.aio.jetstream._drivers.pull_subscribe import PullSubscribeDriver
from jetspark.aio.jetstream._drivers.workflow import run_workflow
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.message import Msg
from jetspark.engine.pull_subscribe import FetchOptions, fetch
from jetspark.engine.subscribe import LAST_ACK_TIMEOUT, Binding, Step, drain, unsubscribe
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import (
    ConnectionClosedError,
    DisconnectedError,
    DrainTimeoutError,
    Error,
    SubscriptionClosedError,
)
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import drop_all

__all__ = ["PullSubscription"]


class PullSubscriptionCore:
    """The fetches of a pull subscription, its late messages, and its end.

    Attributes
    ----------
    connection
        The core of the connection.
    binding
        Stream and consumer.
    delivered
        Messages returned so far.
    """

    def __init__(self, js: JetStreamCore, binding: Binding) -> None:
        self._js = js
        self._request = partial(request_or_delete_later, js)
        self.connection = js.connection
        self.binding = binding
        self._carry_over = CarryOver()
        self._deferred_error: Error | None = None
        self._drivers: set[PullSubscribeDriver] = set()
        self.delivered = 0
        self._ending = self._ended = False
        self.connection.draining.drainables.add(self)
        self._drained_waiter: asyncio.Future[None] | None = None
        self._next_requested: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<PullSubscription to {self.binding.consumer!r} of {self.binding.stream!r}{closed}>"

    @property
    def closed(self) -> bool:
        """Whether it has ended; nothing more is pulled."""
        return self._ending or self._ended

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait for the next fetch, and their bytes."""
        messages = self._carry_over.messages
        return len(messages), sum(len(message.raw_header) + len(message.payload) for message in messages)

    # -- fetching ------------------------------------------------------------------------------------------------

    async def fetch(self, batch: int, timeout: float | None, heartbeat: float | None) -> list[Msg]:  # noqa: ASYNC109
        """Fetch messages; see `PullSubscription.fetch`."""
        self.connection.check_loop()
        options = FetchOptions(self.binding.stream, self.binding.consumer, batch, timeout, heartbeat)
        if self._next_requested is not None and not self._next_requested.done() and not self._carry_over.messages:
            self._next_requested.set_result(None)
        self._check_fetch()
        got = self._carry_over.take(batch)
        if not (self._ending and got):
            await self._fetch(options, got)
        self.delivered += len(got)
        self._check_drained()
        return cast("list[Msg]", got)

    async def _fetch(self, options: FetchOptions, got: list[Message]) -> None:
        fetcher = PullSubscribeDriver(
            self._js, self.connection.new_inbox, self._carry_over, acks=self.binding.acknowledged
        )
        self._drivers.add(fetcher)
        try:
            problem = await fetcher.run(fetch(options, got, asyncio.get_running_loop().time))
            self._deferred_error = problem or self._deferred_error
        except BaseException:
            self._carry_over.put_back(got)
            raise
        else:
            self._carry_over.put_back(got[options.batch :])  # it may have both its own messages and left ones
            del got[options.batch :]
        finally:
            self._drivers.discard(fetcher)

    def _check_fetch(self) -> None:
        self.connection.check_open()
        if self._ended or (self._ending and not self._carry_over.messages):
            raise SubscriptionClosedError(f"{self!r} has ended")
        if self._deferred_error is not None and not self._carry_over.messages:
            problem, self._deferred_error = self._deferred_error, None
            raise problem

    # -- the end -------------------------------------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """End the subscription now; see `PullSubscription.unsubscribe`."""
        self._check_open(self._ended)
        await run_workflow(unsubscribe(self.binding), self._request, self._end)

    async def drain(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """End when the waiting messages were fetched; see `PullSubscription.drain`."""
        self._check_open(self._ended or self._ending)
        seconds = self.connection.options.drain_timeout if timeout is None else timeout
        self._stop_fetching()
        try:
            async with asyncio.timeout(seconds):
                problem = await run_workflow(drain(self.binding), self._request, self._wait_fetched)
        except TimeoutError:
            late = f"{self!r} was not drained within {seconds:g} s"
            dropped = self.discard(DrainTimeoutError(late))
            await self._end()
            if (request := self.binding.deletion) is not None:
                delete_later(self._js, request)
            raise DrainTimeoutError(f"{late}; {dropped} messages dropped") from None
        await self._end()
        if problem is not None:
            self.connection.emit(ErrorOccurred(problem))

    def stop_receiving(self) -> None:
        """Pull no more."""
        if not self._ending:
            self._stop_fetching()

    async def wait_drained(self, *, confirm: bool) -> None:  # noqa: ARG002 (there is nothing to wait for)
        """Delete the consumer if this subscription created it. Kept messages are dropped: nobody will fetch them."""
        if not self._ended:
            problem = await run_workflow(drain(self.binding), self._request, self._end)
            if problem is not None:
                self.connection.emit(ErrorOccurred(problem))

    def discard(self, error: Error) -> int:  # noqa: ARG002 (a later fetch raises that the subscription has ended)
        """Drop the messages that wait; return their number."""
        return drop_all(self._carry_over.messages)

    def _check_open(self, over: bool) -> None:
        self.connection.check_loop()
        self.connection.check_open()
        if over:
            raise SubscriptionClosedError(f"{self!r} has ended")

    def _stop_fetching(self) -> None:
        self._ending = True
        for fetcher in list(self._drivers):
            fetcher.close()

    async def _end(self, _: Step | None = None) -> None:
        self._stop_fetching()
        self._ended = True
        self._carry_over.close()

    async def _wait_fetched(self, _: Step) -> None:
        """Wait until nothing more can come, and all received messages were fetched."""
        if self.connection.connected:
            with suppress(DisconnectedError, ConnectionClosedError):  # then nothing more can come
                await self.connection.ping_roundtrip(None)
        if self._carry_over.messages:
            loop = asyncio.get_running_loop()
            self._drained_waiter, self._next_requested = loop.create_future(), loop.create_future()
            await self._drained_waiter
            await asyncio.wait(
                [self._next_requested], timeout=LAST_ACK_TIMEOUT
            )  # for the acks of the messages fetched last

    def _check_drained(self) -> None:
        if self._drained_waiter is not None and not self._carry_over.messages and not self._drained_waiter.done():
            self._drained_waiter.set_result(None)


@checks_arguments()
class PullSubscription(HasCore[PullSubscriptionCore]):
    """A pull subscription. Created by `JetStream.pull_subscribe` and `pull_subscribe_bind`.

        for message in await subscription.fetch(10, timeout=1):
            await message.ack()

    As a context manager it unsubscribes at the end.
    """

    def __init__(self, js: JetStreamCore, core: PullSubscriptionCore) -> None:
        super().__init__(core)
        self._js = js

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._core.binding.stream

    @property
    def consumer(self) -> str:
        """Name of the consumer."""
        return self._core.binding.consumer

    @property
    def created(self) -> bool:
        """Whether this subscription created the consumer; then it deletes the consumer at its end."""
        return self._core.binding.created

    @property
    def initial_pending(self) -> int:
        """Messages that the consumer had to deliver when the subscription began (CRE-09)."""
        return self._core.binding.pending

    @property
    def closed(self) -> bool:
        """Whether it has ended; nothing more is pulled."""
        return self._core.closed

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait for the next fetch, and their bytes."""
        return self._core.pending

    @property
    def pending_msgs(self) -> int:
        """Messages that came too late for their fetch; the next fetch returns them."""
        return self._core.pending[0]

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payload of those messages."""
        return self._core.pending[1]

    @property
    def delivered(self) -> int:
        """Messages returned so far."""
        return self._core.delivered

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.closed and not self._core.connection.closed:
            await self.unsubscribe()

    async def fetch(
        self,
        batch: int = 1,
        timeout: float | None = 5.0,  # noqa: ASYNC109 (the deadline is part of the call)
        idle_heartbeat: float | None = None,
    ) -> list[Msg]:
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
        return await self._core.fetch(batch, timeout, idle_heartbeat)

    async def consumer_info(self, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Return configuration and state of the consumer.

        Raises
        ------
        ConsumerNotFoundError
            The consumer does not exist any more (10014).
        """
        return await self._js.request(ConsumerInfoRequest(self.stream, self.consumer), timeout)

    async def unsubscribe(self) -> None:
        """End the subscription now. A consumer that it created is deleted (UNS-01). Open fetches return what they have.

        Raises
        ------
        SubscriptionClosedError
            The subscription has already ended.
        ConsumerNotFoundError, APIError, RequestTimeoutError, DisconnectedError
            The consumer could not be deleted. The subscription has ended anyway. After DisconnectedError, the consumer
            is deleted when there is a session again.
        """
        await self._core.unsubscribe()

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
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
        await self._core.drain(timeout)
