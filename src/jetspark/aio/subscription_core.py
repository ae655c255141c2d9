"""The core of a subscription: the messages that wait, the callback, and the end.

Messages wait in one queue. A message is removed in the same step in which it is returned, so a wait that is cancelled
or times out cannot lose one. A waiter that was woken and then cancelled wakes the next waiter.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import cast

from jetspark.aio.callbacks import CALLBACK_ERRORS, callback_task_ended, check_own_cancellation
from jetspark.aio.core import ConnectionCore
from jetspark.aio.loop_end import call_unless_loop_ends
from jetspark.aio.message import Msg
from jetspark.wire.errors import (
    ConnectionClosedError,
    DisconnectedError,
    DrainTimeoutError,
    Error,
    NoMessageError,
    SubscriptionClosedError,
)
from jetspark.wire.events import ErrorOccurred, callback_failed
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import Overflow, SubscriptionState, drop_all

__all__ = ["Callback", "SubscriptionCore", "open_subscription", "report_ended_task"]

Callback = Callable[[Msg], Awaitable[None] | None]
"""Called with each message, in order and one at a time; a coroutine function or a plain function."""


class SubscriptionCore:
    """The messages of a subscription, and its end.

    Attributes
    ----------
    connection
        The core of its connection.
    sub
        Its state.
    thread_callback
        The callback, if the blocking front calls it, in a thread that takes the messages itself; otherwise None.
    auto_ack
        Whether a message is acknowledged after its callback.
    """

    auto_ack = False

    def __init__(self, connection: ConnectionCore, sub: SubscriptionState, callback: Callback | None) -> None:
        self.connection = connection
        self.sub = sub
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._drained_waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self.thread_callback: Callable[[Msg], object] | None = getattr(callback, "thread_callback", None)
        self._reader_done = None if self.thread_callback is None else asyncio.get_running_loop().create_future()
        sub.wake = partial(_wake, weakref.ref(self))  # weak: the two must not keep each other alive
        connection.draining.drainables.add(self)
        if callback is not None and self.thread_callback is None:
            self._start(callback)

    def __del__(self) -> None:
        """End a subscription that nobody can read any more; in any thread. One with a callback has a task."""
        if "_waiters" not in self.__dict__ or self.sub.ended or self.connection.closed or sys.is_finalizing():
            return
        with suppress(RuntimeError):  # the event loop has ended
            self.connection.loop.call_soon_threadsafe(self._make_ending())
        name = f"<Subscription {self.sub.sid} to {self.subject!r}>"
        warnings.warn(f"unclosed {name}: unsubscribe, or use it in a `with` block", ResourceWarning, stacklevel=2)

    def _make_ending(self) -> Callable[[], object]:
        """Return a function that ends the subscription and does not refer to this object."""
        return partial(_end, weakref.ref(self.connection), self.sub)

    @property
    def subject(self) -> str:
        """Subject that it listens to."""
        return self.sub.subject.decode()

    @property
    def sid(self) -> int:
        """Id of the subscription on the connection."""
        return self.sub.sid

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes."""
        return len(self.sub.pending), self.sub.pending_bytes

    # -- taking messages -----------------------------------------------------------------------------------------

    def take(self) -> Msg:
        """Take the next message that waits."""
        sub = self.sub
        message = sub.pending.popleft()
        sub.taken_bytes += len(message.raw_header) + len(message.payload)
        if sub.notify_on_take:
            self.on_consumed()
        return cast("Msg", message)

    async def take_next(self) -> Msg:
        """Wait for the next message and take it. Raises StopAsyncIteration, or the error of the subscription."""
        sub = self.sub
        while not sub.pending:
            if sub.ended:
                if sub.error is not None:
                    raise sub.error
                raise StopAsyncIteration
            await self.wait()
        return self.take()

    async def next_msg(self, timeout: float | None) -> Msg:  # noqa: ASYNC109 (the deadline is part of the call)
        """Return the next message; see `Subscription.next_msg`."""
        self.connection.check_loop()
        if timeout is not None and timeout <= 0 and not self.sub.pending and not self.sub.ended:
            raise self._no_message(timeout)
        try:
            if timeout is None or self.sub.pending:
                return await self.take_next()
            async with asyncio.timeout(timeout):
                return await self.take_next()
        except StopAsyncIteration:
            self.connection.check_open()
            raise SubscriptionClosedError(f"the subscription to {self.subject!r} has ended") from None
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise self._no_message(timeout) from None

    def _no_message(self, timeout: float | None) -> NoMessageError:
        return NoMessageError(f"no message on {self.subject!r} within {timeout or 0:g} s")

    async def wait(self) -> None:
        """Wait for a message, or for the end."""
        self.connection.check_loop()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.sub.waiting = True
        try:
            await waiter
        except BaseException:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self.sub.pending:
                self.wake()
            raise
        if len(self.sub.pending) > 1 and self._waiters:
            self.wake()

    def wake(self) -> None:
        """Wake a waiter: messages came, the subscription ended, or the waiting messages were discarded."""
        self.check_drained()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                if not self.sub.ended:
                    break
        self.sub.waiting = bool(self._waiters)

    def on_consumed(self) -> None:
        """Note that a message was taken while `notify_on_take` was set."""
        sub = self.sub
        if sub.over_limit:
            self.connection.on_consumed(sub)
        if sub.ended:
            self.check_drained()

    # -- the end -------------------------------------------------------------------------------------------------

    async def unsubscribe(self, max_msgs: int) -> None:
        """End the subscription; see `Subscription.unsubscribe`."""
        self.connection.check_loop()
        self.connection.check_open()
        if max_msgs:
            self.connection.client.auto_unsubscribe(self.sub, max_msgs)
        else:
            self.connection.client.unsubscribe(self.sub)
        self.connection.flush_soon()

    async def drain(self, timeout: float | None, *, in_callback: bool = False) -> None:  # noqa: ASYNC109
        """End the subscription without losing a message; see `Subscription.drain`.

        `in_callback` says that its callback calls this in a thread. A callback does not wait for its own end.
        """
        self.connection.check_loop()
        self.connection.check_open()
        seconds = self.connection.options.drain_timeout if timeout is None else timeout
        self.stop_receiving()
        try:
            async with asyncio.timeout(seconds):
                await self._wait_stopped(confirm=True)
                if not in_callback:
                    await self._wait_handled()
        except TimeoutError:
            late = f"the subscription to {self.subject!r} was not drained within {seconds:g} s"
            dropped = self.discard(DrainTimeoutError(late))
            raise DrainTimeoutError(f"{late}; {dropped} messages dropped") from None

    def stop_receiving(self) -> None:
        """Ask the server to send nothing more."""
        if self.connection.client.stop_delivery(self.sub):
            self.connection.flush_soon()

    async def wait_drained(self, *, confirm: bool) -> None:
        """Wait until the server has confirmed (with `confirm`), and all received messages were taken and handled."""
        await self._wait_stopped(confirm=confirm)
        await self._wait_handled()

    async def _wait_stopped(self, *, confirm: bool) -> None:
        if confirm and not self.sub.ended and self.connection.connected:
            with suppress(DisconnectedError, ConnectionClosedError):  # then nothing more can come
                await self.connection.ping_roundtrip(None)
        self.connection.client.subscriptions.remove(self.sub)

    async def _wait_handled(self) -> None:
        if self._reader_done is not None:
            await asyncio.wait([self._reader_done])
        elif self._task is not None:
            if not self.in_callback:
                await asyncio.wait([self._task])
        elif self.sub.pending:
            self.sub.notify_on_take = True
            if self._drained_waiter is None:
                self._drained_waiter = asyncio.get_running_loop().create_future()
            self.check_drained()  # another thread may have taken all before `notify_on_take` was set
            await asyncio.shield(self._drained_waiter)

    def check_drained(self) -> None:
        """Finish a drain if no messages wait any more."""
        if self._drained_waiter is not None and not self.sub.pending and not self._drained_waiter.done():
            self._drained_waiter.set_result(None)

    def discard(self, error: Error) -> int:  # noqa: ARG002 (for ordered subscriptions)
        """End now and drop the messages that wait; return their number."""
        dropped = drop_all(self.sub.pending)
        self.connection.client.unsubscribe(self.sub)
        return dropped

    # -- for the blocking front, which takes the messages in other threads -----------------------------------------

    @property
    def needs_consumed_report(self) -> bool:
        """Whether `report_consumed` has something to do. May be read from any thread."""
        return (self.sub.over_limit and self.sub.below_resume_level) or not self.sub.pending

    def report_consumed(self) -> None:
        """Note that another thread took a message while `notify_on_take` was set."""
        self.on_consumed()
        self.check_drained()

    @property
    def awaits_next_request(self) -> bool:
        """Whether `on_next_requested` has something to do. May be read from any thread."""
        return False

    def on_next_requested(self) -> None:
        """Note that a reader asks for a message and none waits."""

    def on_reader_done(self) -> None:
        """Note that the thread of the callback has handled the last message, or does not wait for its own end."""
        if self._reader_done is not None and not self._reader_done.done():
            self._reader_done.set_result(None)

    # -- callback ------------------------------------------------------------------------------------------------

    @property
    def in_callback(self) -> bool:
        """Whether this is the task of the callback."""
        return self._task is not None and self._task is asyncio.current_task()

    def _start(self, callback: Callback) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._run(callback), name=f"jetspark subscription {self.sub.sid} to {self.subject}"
        )
        self.connection.tasks.track(self._task)
        self._task.add_done_callback(self._on_task_done)

    async def _run(self, callback: Callback) -> None:
        sub = self.sub
        while True:
            while sub.pending:
                message = self.take()
                try:
                    result = callback(message)
                    if result is not None:
                        await result
                except CALLBACK_ERRORS as error:  # continue with the next message
                    check_own_cancellation(error)
                    self.report_callback_error(callback, error, message)
            if sub.ended:
                return
            await self.wait()

    def report_callback_error(self, callback: object, error: BaseException, message: Message) -> None:
        """Report that the callback raised at this message."""
        subscription = f"subscription {self.sid} to {self.subject!r}"
        self.connection.emit(callback_failed(callback, error, subject=message.subject, subscription=subscription))

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Handle the end of the callback's task; it is an error unless the subscription has ended."""
        if self.sub.ended or self.connection.closed:
            return
        error = callback_task_ended(f"the subscription to {self.subject!r}", task)
        self.connection.client.unsubscribe(self.sub, error)
        self.connection.flush_soon()
        report_ended_task(self.connection, task, partial(self.connection.emit, ErrorOccurred(error)))


def report_ended_task(connection: ConnectionCore, task: asyncio.Task[None], report: Callable[[], object]) -> None:
    """Call `report`, as the task of a callback has ended too early; not if all tasks end with the event loop."""
    if task.cancelled():
        call_unless_loop_ends(connection.loop, lambda: None if connection.closed else report())
    else:
        report()


def open_subscription(
    connection: ConnectionCore,
    callback: Callback | None,
    subject: str,
    queue: str,
    max_msgs: int,
    pending_msgs_limit: int | None,
    pending_bytes_limit: int | None,
    overflow: Overflow,
) -> SubscriptionCore:
    """Subscribe; parameters and errors are those of `Connection.subscribe`."""
    connection.check_loop()
    sub = connection.client.subscribe(
        subject,
        queue,
        max_msgs=max_msgs,
        pending_msgs_limit=pending_msgs_limit,
        pending_bytes_limit=pending_bytes_limit,
        overflow=overflow,
    )
    connection.flush_soon()
    return SubscriptionCore(connection, sub, callback)


def _wake(subscription: weakref.ref[SubscriptionCore]) -> None:
    if (found := subscription()) is not None:
        found.wake()


def _end(connection: weakref.ref[ConnectionCore], sub: SubscriptionState) -> None:
    if (found := connection()) is not None and not found.closed and not sub.ended:
        found.client.unsubscribe(sub)
        found.flush_soon()
