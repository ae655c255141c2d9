"""The core of a blocking subscription: threads take the messages that the event loop has received.

The loop's thread appends and the readers' threads take. Each counter has one writer, so only readers need a lock.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import cast

from jetspark.aio import subscription_core as aio
from jetspark.sync.core import ConnectionCore
from jetspark.sync.handoff_queue import HandoffQueue
from jetspark.sync.message import Msg
from jetspark.wire.errors import NoMessageError, SubscriptionClosedError
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import Overflow, SubscriptionState

__all__ = ["Callback", "SubscriptionCore", "open_subscription"]

Callback = Callable[[Msg], None]
"""Called with each message, in order and one at a time, in a thread of its own."""


class SubscriptionCore:
    """The reading side of a subscription on the event loop.

    Attributes
    ----------
    connection
        The core of its connection.
    inner
        The subscription on the event loop.
    sub
        Its state.
    """

    def __init__(self, connection: ConnectionCore, inner: aio.SubscriptionCore) -> None:
        self.connection = connection
        self.inner = inner
        self.sub = sub = inner.sub
        self._counting = threading.Lock()
        self._queue: HandoffQueue[Message] = HandoffQueue(sub.pending, lambda: sub.ended, partial(_request_wake, sub))
        self._thread: threading.Thread | None = None
        sub.wake = partial(_wake, weakref.ref(self))  # weak: the two must not keep each other alive
        connection.register_reader(self)
        if inner.thread_callback is not None:
            callback = cast("Callback", inner.thread_callback)
            self._thread = threading.Thread(
                target=self._run, args=(callback,), name=f"jetspark subscription {sub.sid}", daemon=True
            )
            self._thread.start()

    # -- taking messages -----------------------------------------------------------------------------------------

    def take(self) -> Msg:
        """Take a message that waits. If another thread was faster, wait for the next one."""
        message: Message | None
        try:
            message = self.sub.pending.popleft()
        except IndexError:
            message = None
        if message is None:  # not in the handler, as IndexError would be the context of other errors
            return self.take_next()
        return self._count(message)

    def take_next(self) -> Msg:
        """Wait for the next message and take it. Raises StopIteration, or the error of the subscription."""
        message = self._take(None)
        if message is None:
            if self.sub.error is not None:
                raise self.sub.error
            raise StopIteration
        return message

    def next_msg(self, timeout: float | None) -> Msg:
        """Return the next message; see `Subscription.next_msg`."""
        message = self._take(timeout)
        if message is not None:
            return message
        if self.sub.error is not None:
            raise self.sub.error
        self.connection.check_open()
        raise SubscriptionClosedError(f"the subscription to {self.inner.subject!r} has ended")

    def _take(self, timeout: float | None) -> Msg | None:
        """Take the next message; return None if the subscription has ended."""
        sub, inner = self.sub, self.inner
        if inner.awaits_next_request and not sub.pending:
            self.connection.call_soon(inner.on_next_requested)
        try:
            message = self._queue.take(timeout)
        except TimeoutError:
            raise NoMessageError(f"no message on {inner.subject!r} within {timeout or 0:g} s") from None
        if message is None:
            return None
        return self._count(message)

    def _count(self, message: Message) -> Msg:
        sub = self.sub
        with self._counting:
            sub.taken_bytes += len(message.raw_header) + len(message.payload)
        if sub.notify_on_take and self.inner.needs_consumed_report:
            self.connection.call_soon(self.inner.report_consumed)
        return cast("Msg", message)

    def wake(self) -> None:
        """On the loop: messages came, the subscription ended, or messages were discarded."""
        self.inner.check_drained()
        self._queue.wake()

    # -- the end -------------------------------------------------------------------------------------------------

    def unsubscribe(self, max_msgs: int) -> None:
        """End the subscription; see `Subscription.unsubscribe`."""
        self.connection.call(self.inner.unsubscribe(max_msgs))

    def drain(self, timeout: float | None) -> None:
        """End the subscription without losing a message; see `Subscription.drain`."""
        self.connection.call(self.inner.drain(timeout, in_callback=self.in_callback))

    @property
    def in_callback(self) -> bool:
        """Whether this is the thread of the callback."""
        return self._thread is threading.current_thread()

    def on_drain_in_callback(self) -> None:
        """On the loop: note that the callback drains the connection, which cannot wait for it."""
        self.inner.on_reader_done()

    def join(self, timeout: float) -> None:
        """Wait for the end of the callback's thread, unless called in that thread."""
        if self._thread is not None and not self.in_callback:
            self._thread.join(timeout)

    # -- callback ------------------------------------------------------------------------------------------------

    def _run(self, callback: Callback) -> None:
        try:
            while (message := self._take(None)) is not None:
                try:
                    callback(message)
                    if self.inner.auto_ack:
                        message.ack()  # does nothing if the message is settled
                except BaseException as error:  # noqa: BLE001 - also of sys.exit(); continue with the next message
                    report = partial(self.inner.report_callback_error, callback, error, message)
                    self.connection.call_soon(report)
        finally:
            self.connection.call_soon(self.inner.on_reader_done)


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
    threaded = None if callback is None else connection.in_callback_thread(callback)
    inner = connection.run(
        lambda: aio.open_subscription(
            connection.inner, threaded, subject, queue, max_msgs, pending_msgs_limit, pending_bytes_limit, overflow
        )
    )
    return SubscriptionCore(connection, inner)


def _request_wake(sub: SubscriptionState) -> None:
    sub.waiting = True


def _wake(subscription: weakref.ref[SubscriptionCore]) -> None:
    if (found := subscription()) is not None:
        found.wake()
