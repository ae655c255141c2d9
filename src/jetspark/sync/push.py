"""Takes the messages of a push subscription in the thread that wants them, as for any subscription of this front.

And lets the connection drain what was subscribed, push and pull.
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
from jetspark.aio.received import Received
from jetspark.sync.blocking import Blocking
from jetspark.sync.message import Msg
from jetspark.sync.subscription import Callback, Subscription

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jetspark.sync.connection import Connection

__all__ = ["PullDraining", "PushReading"]


class PushReading(Blocking, Received):
    """What of a push subscription is not carried over to the event loop."""

    _inner: PushSubscription

    def __init__(self, connection: Connection, inner: Any) -> None:
        super().__init__(connection, inner)
        self._route = self._inner._route
        self._reader = _Reader(connection, self._inner)

    def __iter__(self) -> Iterator[Msg]:
        return self._reader

    def __next__(self) -> Msg:
        return next(self._reader)

    def next_msg(self, timeout: float | None = None) -> Msg:
        """The next message, in the order of arrival.

        Parameters
        ----------
        timeout
            Seconds to wait; None waits for ever, 0 takes only what is there.

        Raises
        ------
        NoMessageError
            None came in time.
        SubscriptionClosedError, ConnectionClosedError, PermissionsViolationError
            None will come any more.
        """
        return self._reader.next_msg(timeout)

    def drain(self, timeout: float | None = None) -> None:
        """End the subscription without losing a message: those that came are still handed out, and can be acked.

        A consumer that it made is deleted when the last one was (UNS-03). Should that fail, it is told as an event.
        Without a callback somebody else has to take the messages meanwhile. In a callback, which cannot wait for its
        own end, this returns at once.

        Parameters
        ----------
        timeout
            Seconds until all must be taken; None is the connection's `drain_timeout`.

        Raises
        ------
        SubscriptionClosedError
            It has ended before.
        DrainTimeoutError
            The rest was dropped.
        """
        if self._reader.is_current:
            self._connection._soon(partial(self._inner._drain_soon, timeout))
        else:
            self._call(self._inner.drain(timeout))


class PullDraining(Blocking):
    """What of a pull subscription its connection has to know."""

    _inner: PullSubscription

    def __init__(self, connection: Connection, inner: Any) -> None:
        super().__init__(connection, inner)
        self._drained = _Drained(connection, self._inner)
        connection._enlist(self._drained)


class _Reader(Subscription):
    """The subscription that the messages are taken from. What happens to it is told to the one on the event loop."""

    def __init__(self, connection: Connection, inner: PushSubscription) -> None:
        self._inner = inner
        callback = cast("Callback | None", inner._direct)
        super().__init__(connection, inner._route, _acking(callback) if callback and inner._auto_ack else callback)
        self.drained = _Drained(connection, inner, self)  # lives as long as somebody reads, a thread for one
        connection._enlist(self.drained)

    @property
    def is_current(self) -> bool:
        """Whether this is the thread that calls the callback."""
        return self._thread is threading.current_thread()

    def _run(self, callback: Callback) -> None:
        try:
            super()._run(callback)
        finally:
            self._connection._soon(self._inner._reader_ended)

    def _wake(self) -> None:
        super()._wake()
        self._inner._look_empty()

    def _take(self, timeout: float | None) -> Msg | None:
        if self._inner._awaits_asking and not self._inner._route.pending:
            self._connection._soon(self._inner._asked_again)
        return super()._take(timeout)

    def _taken(self) -> None:
        if self._inner._wants_taken:
            self._connection._soon(self._inner._tell_taken)


class _Drained:
    """What a connection knows of a subscription when it drains."""

    def __init__(
        self, connection: Connection, inner: PushSubscription | PullSubscription, reader: _Reader | None = None
    ) -> None:
        self._connection = connection
        self._inner = inner
        self._reader = None if reader is None else weakref.ref(reader)  # no cycle: who stops reading is not waited for

    @property
    def pending(self) -> tuple[int, int]:
        return self._inner.pending

    def _retire(self) -> None:
        self._connection._run(self._inner._retire)

    def _emptied(self, deadline: float) -> bool:
        left = max(deadline - time.monotonic(), 0)
        try:
            self._connection._call(asyncio.wait_for(self._inner._emptied(confirm=False), left))
        except TimeoutError:
            return False
        return True

    def _join(self, timeout: float) -> None:
        reader = None if self._reader is None else self._reader()
        if reader is not None:
            reader._join(timeout)


def _acking(callback: Callback) -> Callback:
    """The callback, and an acknowledgement when it returns; not when it raises, nor when it has settled the message."""

    def call(message: Msg) -> None:
        callback(message)
        message.ack()  # does nothing when it was settled

    return call
