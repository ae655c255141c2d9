"""A push subscription: returns the messages that a consumer pushes (ADR-15)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jetspark.aio.jetstream._drivers.push import PushDriver
from jetspark.aio.message import Msg
from jetspark.aio.subscription import Subscription
from jetspark.engine.subscribe import LAST_ACK_TIMEOUT, Step, drain, unsubscribe
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

    def __init__(self, js: JetStreamAPI, driver: PushDriver, callback: PushCallback | None, *, auto_ack: bool) -> None:
        self._js = js
        self._driver = driver
        self._receiving_stopped = self._finished_draining = False
        self._next_requested: asyncio.Future[None] | None = None
        self._reader_done: asyncio.Future[None] | None = None
        self._auto_ack = auto_ack
        self._thread_callback: Callable[[Msg], object] | None = getattr(callback, "thread_callback", None)
        if self._thread_callback is not None:  # the blocking front calls it, in a thread that takes the messages itself
            self._reader_done = asyncio.get_running_loop().create_future()
            callback = None
        super().__init__(js.connection, driver.sub, _with_ack(js, callback) if callback and auto_ack else callback)
        js.connection._register_drainable(self)

    def __repr__(self) -> str:
        return f"<PushSubscription to {self.consumer!r} of {self.stream!r}{', closed' if self.closed else ''}>"

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._driver.binding.stream

    @property
    def consumer(self) -> str:
        """Name of the consumer; for an ordered subscription, of the present one."""
        return self._driver.binding.consumer

    @property
    def created(self) -> bool:
        """Whether this subscription created the consumer; then it deletes the consumer at its end."""
        return self._driver.binding.created

    @property
    def initial_pending(self) -> int:
        """Messages that the consumer had to deliver when the subscription began (CRE-09)."""
        return self._driver.binding.pending

    @property
    def sid(self) -> int:
        """Subscription id on the connection; an ordered subscription gets a new one with each consumer."""
        return self._driver.sid

    @property
    def pending_msgs(self) -> int:
        """Messages that wait."""
        return len(self._sub.pending)

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payload of the messages that wait."""
        return self._sub.pending_bytes

    @property
    def delivered(self) -> int:
        """Messages received so far, without statuses and without messages that an ordered subscription dropped."""
        return self._sub.received - self._sub.dropped

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
        if self._driver.resetting:
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
        self._check_open(self._finished_draining)
        if max_msgs:
            self._driver.limit(max_msgs)
        else:
            await self._driver.run(unsubscribe(self._driver.binding), perform_step=self._end)

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
        self._check_open(self._receiving_stopped)
        if self._task is not None and self._task is asyncio.current_task():
            self._drain_soon(timeout)
            return
        seconds = self._connection.options.drain_timeout if timeout is None else timeout
        self._stop_receiving()
        try:
            async with asyncio.timeout(seconds):
                await self._wait_drained(confirm=True)
        except TimeoutError:
            left = len(self._sub.pending)
            try:
                await self._driver.run(unsubscribe(self._driver.binding), perform_step=self._end)
            except Error as error:
                self._connection._emit(ErrorOccurred(error))
            raise DrainTimeoutError(
                f"the subscription to {self.subject!r} was not drained within {seconds:g} s; {left} messages dropped"
            ) from None
        except BaseException:
            self._receiving_stopped = self._finished_draining  # it can be drained or unsubscribed again
            raise

    def _stop_receiving(self) -> None:
        """Ask the server to send nothing more."""
        self._receiving_stopped = True
        self._driver.stop_receiving()

    async def _wait_drained(self, *, confirm: bool) -> None:
        """Wait until all received messages were taken and handled; then delete a consumer that this one created."""
        if self._finished_draining:
            return

        async def handled(_: Step) -> None:
            if confirm:
                with suppress(DisconnectedError, ConnectionClosedError):  # then nothing more can come
                    await self._connection._ping_roundtrip(None)
            await self._wait_consumed()
            self._driver.finish()
            if self._reader_done is not None:
                await asyncio.wait([self._reader_done])
            await super(PushSubscription, self)._wait_drained(confirm=False)
            self._finished_draining = True

        problem = await self._driver.run(drain(self._driver.binding), perform_step=handled)
        if problem is not None:
            self._connection._emit(ErrorOccurred(problem))

    async def _wait_consumed(self) -> None:
        """Wait until a reader has taken the waiting messages and asks for more: then it has acknowledged the last one.

        If the reader does not ask again, the wait is short.
        """
        self._driver.collect()
        sub = self._sub
        if self._task is None and self._reader_done is None and sub.pending:
            loop = asyncio.get_running_loop()
            self._drained_waiter, self._next_requested = loop.create_future(), loop.create_future()
            sub.notify_on_take = True
            self._check_drained()  # another thread may have taken all before `watched` was set
            await self._drained_waiter
            self._drained_waiter = None
            await asyncio.wait([self._next_requested], timeout=LAST_ACK_TIMEOUT)
            self._next_requested = None

    async def _end(self, _: Step) -> None:
        """End now and drop the waiting messages."""
        self._receiving_stopped = self._finished_draining = True
        self._driver.close()
        self._sub.discard_pending()

    def _check_open(self, over: bool) -> None:
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
                self._connection._emit(ErrorOccurred(error))

        self._connection._track_task(asyncio.create_task(run()))

    @property
    def _needs_consumed_report(self) -> bool:
        """Whether `_report_consumed` has something to do. May be read from any thread."""
        sub, mark = self._sub, self._driver.flow_reply_at
        return (
            (mark is not None and self._driver.taken_count >= mark)
            or (sub.over_limit and sub.below_resume_level)
            or ((sub.ended or self._receiving_stopped) and not sub.pending)
        )

    def _report_consumed(self) -> None:
        """Note that a message was taken while the subscription was watched."""
        self._driver.on_consumed()
        super()._on_consumed()
        if self._receiving_stopped:
            self._check_drained()

    def _on_reader_ended(self) -> None:
        """Note that the thread of the callback has handled the last message."""
        if self._reader_done is not None and not self._reader_done.done():
            self._reader_done.set_result(None)

    @property
    def _awaits_next_request(self) -> bool:
        """Whether `_on_next_requested` has something to do. May be read from any thread."""
        return self._next_requested is not None

    def _on_next_requested(self) -> None:
        """Note that a reader asks for a message and none waits."""
        if self._next_requested is not None and not self._next_requested.done():
            self._next_requested.set_result(None)

    def _on_consumed(self) -> None:
        sub, mark = self._sub, self._driver.flow_reply_at
        if mark is None or sub.over_limit or self._receiving_stopped or self._driver.taken_count >= mark:
            self._report_consumed()

    async def _wait(self) -> None:
        self._on_next_requested()
        await super()._wait()


def _with_ack(js: JetStreamAPI, callback: PushCallback) -> PushCallback:
    """Return the callback with an ack after it; without an ack if it raises or has settled the message."""

    async def call(message: Msg) -> None:
        result = callback(message)
        if result is not None:
            await result
        if not message.settled:
            message._check_ackable()
            js.connection._send_reply(message.raw_reply, ACK)
            message._settle()

    return call
