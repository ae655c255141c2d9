"""A push subscription: returns the messages that a consumer pushes (ADR-15)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jetspark.aio.jetstream.feed import PushFeed
from jetspark.aio.message import Msg
from jetspark.aio.subscription import Subscription
from jetspark.flow.subscribing import ACK_PATIENCE, Step, drain, unsubscribe
from jetspark.jetstream.ack import ACK
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import (
    ConnectionClosedError,
    ConsumerResettingError,
    DisconnectedError,
    DrainTimeoutError,
    Error,
    SubscriptionClosedError,
)
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.events import ErrorOccurred

if TYPE_CHECKING:
    from jetspark.aio.jetstream.api import JetStreamAPI

__all__ = ["PushCallback", "PushSubscription"]


PushCallback = Callable[[Msg], Awaitable[None] | None]
"""Called with each message, in order and one at a time."""


class PushSubscription(Subscription):
    """A push subscription. Created by `JetStream.subscribe` and `subscribe_bind`.

        async for message in subscription:
            await message.ack()

    Heartbeats, flow control, gaps and other statuses are handled here. Problems are reported as events of the
    connection. As a context manager it unsubscribes at the end.
    """

    def __init__(self, js: JetStreamAPI, feed: PushFeed, callback: PushCallback | None, *, auto_ack: bool) -> None:
        self._js = js
        self._feed = feed
        self._retired = self._over = False
        self._asked: asyncio.Future[None] | None = None
        self._reading: asyncio.Future[None] | None = None
        self._auto_ack = auto_ack
        self._direct: Callable[[Msg], object] | None = getattr(callback, "direct", None)
        if self._direct is not None:  # the blocking front calls it, in a thread that takes the messages itself
            self._reading = asyncio.get_running_loop().create_future()
            callback = None
        super().__init__(js.connection, feed.route, _acking(js, callback) if callback and auto_ack else callback)
        js.connection._enlist(self)

    def __repr__(self) -> str:
        return f"<PushSubscription to {self.consumer!r} of {self.stream!r}{', closed' if self.closed else ''}>"

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._feed.binding.stream

    @property
    def consumer(self) -> str:
        """Name of the consumer; for an ordered subscription, of the present one."""
        return self._feed.binding.consumer

    @property
    def created(self) -> bool:
        """Whether this subscription created the consumer; then it deletes the consumer at its end."""
        return self._feed.binding.created

    @property
    def initial_pending(self) -> int:
        """Messages that the consumer had to deliver when the subscription began (CRE-09)."""
        return self._feed.binding.pending

    @property
    def sid(self) -> int:
        """Subscription id on the connection; an ordered subscription gets a new one with each consumer."""
        return self._feed.sid

    @property
    def pending_msgs(self) -> int:
        """Messages that wait."""
        return len(self._route.pending)

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payload of the messages that wait."""
        return self._route.pending_bytes

    @property
    def delivered(self) -> int:
        """Messages received so far, without statuses and without messages that an ordered subscription dropped."""
        return self._route.received - self._route.dropped

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.closed and not self._connection.closed:
            await self.unsubscribe()

    async def consumer_info(self, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Return configuration and state of the consumer.

        Raises
        ------
        ConsumerNotFoundError
            The consumer does not exist any more (10014).
        ConsumerResettingError
            The ordered subscription is between two consumers; call it again.
        """
        if self._feed.resetting:
            raise ConsumerResettingError(f"{self!r} is making its next consumer; ask again")
        return await self._js.request(ConsumerInfoRequest(self.stream, self.consumer), timeout)

    async def unsubscribe(self, max_msgs: int = 0) -> None:
        """End the subscription now and drop waiting messages. A consumer that it created is deleted (UNS-01).

        Parameters
        ----------
        max_msgs
            End after that many messages in total instead. The consumer then stays until its `inactive_threshold`.

        Raises
        ------
        SubscriptionClosedError
            The subscription has already ended.
        ConsumerNotFoundError, APIError, RequestTimeoutError
            The consumer could not be deleted. The subscription has ended anyway.
        """
        self._check(self._over)
        if max_msgs:
            self._feed.limit(max_msgs)
        else:
            await self._feed.run(unsubscribe(self._feed.binding), act=self._end)

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
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
        self._check(self._retired)
        if self._task is not None and self._task is asyncio.current_task():
            self._drain_soon(timeout)
            return
        seconds = self._connection.options.drain_timeout if timeout is None else timeout
        self._retire()
        try:
            async with asyncio.timeout(seconds):
                await self._emptied(confirm=True)
        except TimeoutError:
            left = len(self._route.pending)
            try:
                await self._feed.run(unsubscribe(self._feed.binding), act=self._end)
            except Error as error:
                self._connection._tell(ErrorOccurred(error))
            raise DrainTimeoutError(
                f"the subscription to {self.subject!r} was not drained within {seconds:g} s; {left} messages dropped"
            ) from None
        except BaseException:
            self._retired = self._over  # it can be drained or unsubscribed again
            raise

    def _retire(self) -> None:
        """Ask the server to send nothing more."""
        self._retired = True
        self._feed.retire()

    async def _emptied(self, *, confirm: bool) -> None:
        """Wait until all received messages were taken and handled; then delete a consumer that this one created."""
        if self._over:
            return

        async def handled(_: Step) -> None:
            if confirm:
                with suppress(DisconnectedError, ConnectionClosedError):  # then nothing more can come
                    await self._connection._confirm(None)
            await self._handed_out()
            self._feed.finish()
            if self._reading is not None:
                await asyncio.wait([self._reading])
            await super(PushSubscription, self)._emptied(confirm=False)
            self._over = True

        problem = await self._feed.run(drain(self._feed.binding), act=handled)
        if problem is not None:
            self._connection._tell(ErrorOccurred(problem))

    async def _handed_out(self) -> None:
        """Wait until a reader has taken the waiting messages and asks for more: then it has acknowledged the last one.

        If the reader does not ask again, the wait is short.
        """
        self._feed.absorb()
        route = self._route
        if self._task is None and self._reading is None and route.pending:
            loop = asyncio.get_running_loop()
            self._empty, self._asked = loop.create_future(), loop.create_future()
            route.watched = True
            self._look_empty()  # another thread may have taken all before `watched` was set
            await self._empty
            self._empty = None
            await asyncio.wait([self._asked], timeout=ACK_PATIENCE)
            self._asked = None

    async def _end(self, _: Step) -> None:
        """End now and drop the waiting messages."""
        self._retired = self._over = True
        self._feed.close()
        self._route.discard()

    def _check(self, over: bool) -> None:
        self._connection._check_loop()
        self._connection._check_open()
        if over or self.closed:
            raise SubscriptionClosedError(f"the subscription to {self.subject!r} has ended")

    # -- for the blocking front ----------------------------------------------------------------------------------

    def _drain_soon(self, timeout: float | None) -> None:
        """Drain in a task of its own: for a callback, which cannot wait for its own end."""

        async def run() -> None:
            try:
                await self.drain(timeout)
            except Error as error:
                self._connection._tell(ErrorOccurred(error))

        self._connection._adopt(asyncio.create_task(run()))

    @property
    def _wants_taken(self) -> bool:
        """Whether `_tell_taken` has something to do. May be read from any thread."""
        route, mark = self._route, self._feed.mark
        return (
            (mark is not None and self._feed.handed_out >= mark)
            or (route.slow and route.relaxed)
            or ((route.ended or self._retired) and not route.pending)
        )

    def _tell_taken(self) -> None:
        """Note that a message was taken while the route was watched."""
        self._feed.taken()
        super()._taken()
        if self._retired:
            self._look_empty()

    def _reader_ended(self) -> None:
        """Note that the thread of the callback has handled the last message."""
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    @property
    def _awaits_asking(self) -> bool:
        """Whether `_asked_again` has something to do. May be read from any thread."""
        return self._asked is not None

    def _asked_again(self) -> None:
        """Note that a reader asks for a message and none waits."""
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)

    def _taken(self) -> None:
        route, mark = self._route, self._feed.mark
        if mark is None or route.slow or self._retired or self._feed.handed_out >= mark:
            self._tell_taken()

    async def _wait(self) -> None:
        self._asked_again()
        await super()._wait()


def _acking(js: JetStreamAPI, callback: PushCallback) -> PushCallback:
    """Return the callback with an ack after it; without an ack if it raises or has settled the message."""

    async def call(message: Msg) -> None:
        result = callback(message)
        if result is not None:
            await result
        if not message.settled:
            message._check_ackable()
            js.connection._answer(message.raw_reply, ACK)
            message._settle()

    return call
