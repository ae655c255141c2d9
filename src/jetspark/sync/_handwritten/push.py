"""Reads push subscriptions: the reader's thread takes the messages, as in any subscription of the blocking front.

Also lets the connection drain push and pull subscriptions.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jetspark.aio.jetstream.pull_subscription import PullSubscription
from jetspark.aio.jetstream.push_subscription import PushSubscription
from jetspark.aio.subscription_info import SubscriptionInfo
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg
from jetspark.sync.subscription import Callback, Subscription

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jetspark.sync.connection import Connection

__all__ = ["PullDrainMixin", "PushReadMixin"]


class PushReadMixin(LoopProxy, SubscriptionInfo):
    """The hand-written part of a push subscription: calls that do not run on the event loop."""

    _inner: PushSubscription

    def __init__(self, connection: Connection, inner: Any) -> None:
        super().__init__(connection, inner)
        self._sub = self._inner._sub
        self._reader = _PushReader(connection, self._inner)

    def __iter__(self) -> Iterator[Msg]:
        return self._reader

    def __next__(self) -> Msg:
        return next(self._reader)

    def next_msg(self, timeout: float | None = None) -> Msg:
        """Return the next message, in the order of arrival.

        Parameters
        ----------
        timeout
            Seconds to wait; None means no limit, 0 takes only a message that is there.

        Raises
        ------
        NoMessageError
            No message came in time.
        SubscriptionClosedError, ConnectionClosedError, PermissionsViolationError
            No message will come any more.
        """
        return self._reader.next_msg(timeout)

    def drain(self, timeout: float | None = None) -> None:
        """End the subscription without losing a message: received messages are still returned, and can be acked.

        A consumer that it created is deleted after the last message (UNS-03). If the deletion fails, an event reports
        that. Without a callback another thread must take the messages. In its own callback this returns at once,
        because it cannot wait for its own end.

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
        if self._reader.in_callback:
            self._connection._call_soon(partial(self._inner._drain_soon, timeout))
        else:
            self._call(self._inner.drain(timeout))


class PullDrainMixin(LoopProxy):
    """The hand-written part of a pull subscription: its registration for the connection's drain."""

    _inner: PullSubscription

    def __init__(self, connection: Connection, inner: Any) -> None:
        super().__init__(connection, inner)
        self._drain_handle = _DrainHandle(connection, self._inner)
        connection._register_drainable(self._drain_handle)


class _PushReader(Subscription):
    """The subscription that the messages are taken from. It reports to the subscription on the event loop."""

    def __init__(self, connection: Connection, inner: PushSubscription) -> None:
        self._inner = inner
        callback = cast("Callback | None", inner._thread_callback)
        super().__init__(connection, inner._sub, _with_ack(callback) if callback and inner._auto_ack else callback)
        self.drain_handle = _DrainHandle(connection, inner, self)  # lives as long as a reader, such as a thread
        connection._register_drainable(self.drain_handle)

    @property
    def in_callback(self) -> bool:
        """Whether this is the thread of the callback."""
        return self._thread is threading.current_thread()

    def _run(self, callback: Callback) -> None:
        try:
            super()._run(callback)
        finally:
            self._connection._call_soon(self._inner._on_reader_ended)

    def _wake(self) -> None:
        super()._wake()
        self._inner._check_drained()

    def _take(self, timeout: float | None) -> Msg | None:
        if self._inner._awaits_next_request and not self._inner._sub.pending:
            self._connection._call_soon(self._inner._on_next_requested)
        return super()._take(timeout)

    def _on_consumed(self) -> None:
        if self._inner._needs_consumed_report:
            self._connection._call_soon(self._inner._report_consumed)


class _DrainHandle:
    """The part of a subscription that a connection uses when it drains."""

    def __init__(
        self, connection: Connection, inner: PushSubscription | PullSubscription, reader: _PushReader | None = None
    ) -> None:
        self._connection = connection
        self._inner = inner
        self._reader = None if reader is None else weakref.ref(reader)  # weak: no wait for a reader that has stopped

    @property
    def pending(self) -> tuple[int, int]:
        return self._inner.pending

    def _stop_receiving(self) -> None:
        self._connection._run(self._inner._stop_receiving)

    def _wait_drained(self, deadline: float) -> bool:
        left = max(deadline - time.monotonic(), 0)
        try:
            self._connection._call(asyncio.wait_for(self._inner._wait_drained(confirm=False), left))
        except TimeoutError:
            return False
        return True

    def _join(self, timeout: float) -> None:
        reader = None if self._reader is None else self._reader()
        if reader is not None:
            reader._join(timeout)


def _with_ack(callback: Callback) -> Callback:
    """Return the callback with an ack after it; without an ack if it raises or has settled the message."""

    def call(message: Msg) -> None:
        callback(message)
        message.ack()  # does nothing if the message is settled

    return call
