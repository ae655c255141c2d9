"""A push subscription: returns the messages that a consumer pushes (ADR-15)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from jetspark.aio.jetstream._drivers.push import PushDriver
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.message import Msg
from jetspark.aio.subscription import Subscription
from jetspark.aio.subscription_core import SubscriptionCore
from jetspark.engine.subscribe import LAST_ACK_TIMEOUT, Step, drain, unsubscribe
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
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.callbacks import callback_name
from jetspark.wire.events import ErrorOccurred

__all__ = ["PushCallback", "PushSubscription"]


PushCallback = Callable[[Msg], Awaitable[None] | None]
"""Called with each message, in order and one at a time."""


class PushSubscriptionCore(SubscriptionCore):
    """The messages of a push subscription, and its end.

    Attributes
    ----------
    driver
        Receives the messages from the server.
    """

    def __init__(self, js: JetStreamCore, driver: PushDriver, callback: PushCallback | None, *, auto_ack: bool) -> None:
        self.driver = driver
        self.auto_ack = auto_ack
        self._receiving_stopped = self._finished_draining = False
        self._next_requested: asyncio.Future[None] | None = None
        in_thread = hasattr(callback, "thread_callback")  # then the blocking front acknowledges
        super().__init__(
            js.connection, driver.sub, _with_ack(callback) if callback and auto_ack and not in_thread else callback
        )

    def _make_ending(self) -> Callable[[], object]:
        return self.driver.close

    @property
    def sid(self) -> int:
        """Id of the present subscription on the connection."""
        return self.driver.sid

    async def unsubscribe(self, max_msgs: int) -> None:
        """End the subscription; see `PushSubscription.unsubscribe`."""
        self._check_not_ended(self._finished_draining)
        if max_msgs:
            self.driver.limit(max_msgs)
        else:
            await self.driver.run(unsubscribe(self.driver.binding), perform_step=self._end)

    async def drain(self, timeout: float | None, *, in_callback: bool = False) -> None:  # noqa: ASYNC109
        """End the subscription without losing a message; see `PushSubscription.drain`."""
        self._check_not_ended(self._receiving_stopped)
        if in_callback or self.in_callback:
            self.drain_soon(timeout)
            return
        seconds = self.connection.options.drain_timeout if timeout is None else timeout
        self.stop_receiving()
        try:
            async with asyncio.timeout(seconds):
                await self.wait_drained(confirm=True)
        except TimeoutError:
            late = f"the subscription to {self.subject!r} was not drained within {seconds:g} s"
            dropped = self.discard(DrainTimeoutError(late))
            self._finish()
            self.driver.delete_later()
            raise DrainTimeoutError(f"{late}; {dropped} messages dropped") from None
        except BaseException:
            self._receiving_stopped = self._finished_draining  # it can be drained or unsubscribed again
            raise

    def stop_receiving(self) -> None:
        """Ask the server to send nothing more."""
        self._receiving_stopped = True
        self.driver.stop_receiving()

    async def wait_drained(self, *, confirm: bool) -> None:
        """Wait until all received messages were taken and handled; then delete a consumer that this one created."""
        if self._finished_draining:
            return

        async def handled(_: Step) -> None:
            if confirm and self.connection.connected:
                with suppress(DisconnectedError, ConnectionClosedError):  # then nothing more can come
                    await self.connection.ping_roundtrip(None)
            await self._wait_consumed()
            self.driver.finish()
            await super(PushSubscriptionCore, self).wait_drained(confirm=False)
            self._finished_draining = True

        problem = await self.driver.run(drain(self.driver.binding), perform_step=handled)
        if problem is not None:
            self.connection.emit(ErrorOccurred(problem))

    def discard(self, error: Error) -> int:
        """End now and drop the messages that wait; return their number. The iteration of an ordered reader raises."""
        self.driver.collect()
        ordered = self.driver.binding.ordered is not None
        if ordered and self.sub.pending:
            self.sub.error = error  # also if it has ended already
        self.driver.close(error if ordered else None)
        return super().discard(error)

    async def _wait_consumed(self) -> None:
        """Wait until a reader has taken the waiting messages and asks for more: then it has acknowledged the last one.

        If the reader does not ask again, the wait is short.
        """
        self.driver.collect()
        sub = self.sub
        if self._task is None and self._reader_done is None and sub.pending:
            loop = asyncio.get_running_loop()
            self._drained_waiter, self._next_requested = loop.create_future(), loop.create_future()
            sub.notify_on_take = True
            self.check_drained()  # another thread may have taken all before `notify_on_take` was set
            await self._drained_waiter
            self._drained_waiter = None
            await asyncio.wait([self._next_requested], timeout=LAST_ACK_TIMEOUT)
            self._next_requested = None

    async def _end(self, _: Step) -> None:
        self._finish()

    def _finish(self) -> None:
        """End now and drop the waiting messages."""
        self._receiving_stopped = self._finished_draining = True
        self.driver.close()
        self.sub.discard_pending()

    def _check_not_ended(self, over: bool) -> None:
        self.connection.check_loop()
        self.connection.check_open()
        if over or self.sub.ended:
            raise SubscriptionClosedError(f"the subscription to {self.subject!r} has ended")

    def drain_soon(self, timeout: float | None) -> None:
        """Drain in a task of its own: for a callback, which cannot wait for its own end."""

        async def run() -> None:
            try:
                await self.drain(timeout)
            except Error as error:
                self.connection.emit(ErrorOccurred(error))

        self.connection.tasks.track(asyncio.create_task(run(), name="jetspark drain"))

    # -- taking messages -----------------------------------------------------------------------------------------

    @property
    def needs_consumed_report(self) -> bool:
        """Whether `report_consumed` has something to do. May be read from any thread."""
        sub, mark = self.sub, self.driver.flow_reply_at
        return (
            (mark is not None and self.driver.taken_count >= mark)
            or (sub.over_limit and sub.below_resume_level)
            or ((sub.ended or self._receiving_stopped) and not sub.pending)
        )

    def report_consumed(self) -> None:
        """Note that a message was taken while `notify_on_take` was set."""
        self.driver.on_consumed()
        super().on_consumed()
        if self._receiving_stopped:
            self.check_drained()

    def on_consumed(self) -> None:
        sub, mark = self.sub, self.driver.flow_reply_at
        if mark is None or sub.over_limit or self._receiving_stopped or self.driver.taken_count >= mark:
            self.report_consumed()

    @property
    def awaits_next_request(self) -> bool:
        """Whether `on_next_requested` has something to do. May be read from any thread."""
        return self._next_requested is not None

    def on_next_requested(self) -> None:
        """Note that a reader asks for a message and none waits."""
        if self._next_requested is not None and not self._next_requested.done():
            self._next_requested.set_result(None)

    async def wait(self) -> None:
        self.on_next_requested()
        await super().wait()


@checks_arguments()
class PushSubscription(Subscription):
    """A push subscription. Created by `JetStream.subscribe` and `subscribe_bind`.

        async for message in subscription:
            await message.ack()

    Heartbeats, flow control, gaps and other statuses are handled here. Problems are reported as events of the
    connection. As a context manager it unsubscribes at the end.
    """

    _core: PushSubscriptionCore

    def __init__(self, js: JetStreamCore, core: PushSubscriptionCore) -> None:
        super().__init__(core)
        self._js = js

    def __repr__(self) -> str:
        return f"<PushSubscription to {self.consumer!r} of {self.stream!r}{', closed' if self.closed else ''}>"

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._core.driver.binding.stream

    @property
    def consumer(self) -> str:
        """Name of the consumer; for an ordered subscription, of the present one."""
        return self._core.driver.binding.consumer

    @property
    def created(self) -> bool:
        """Whether this subscription created the consumer; then it deletes the consumer at its end."""
        return self._core.driver.binding.created

    @property
    def initial_pending(self) -> int:
        """Messages that the consumer had to deliver when the subscription began (CRE-09)."""
        return self._core.driver.binding.pending

    @property
    def sid(self) -> int:
        """Subscription id on the connection; an ordered subscription gets a new one with each consumer."""
        return self._core.driver.sid

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
        if not self.closed and not self._core.connection.closed:
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
        if self._core.driver.resetting:
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
        ConsumerNotFoundError, APIError, RequestTimeoutError, DisconnectedError
            The consumer could not be deleted. The subscription has ended anyway. After DisconnectedError, the consumer
            is deleted when there is a session again.
        """
        await self._core.unsubscribe(max_msgs)

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
        await self._core.drain(timeout)


def _with_ack(callback: PushCallback) -> PushCallback:
    """Return the callback with an ack after it; without an ack if it raises or has settled the message."""

    async def call(message: Msg) -> None:
        result = callback(message)
        if result is not None:
            await result
        await message.ack()  # does nothing if the message is settled

    call.__qualname__ = callback_name(callback)  # for the event of an exception
    return call
