"""Takes the messages of a push subscription in the thread that wants them, as for any subscription of this front.

And lets the connection drain what was subscribed, push and pull.
"""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jetspark.aio.jetstream.pull_subscription import PullSubscription
from jetspark.aio.jetstream.push_subscription import PushSubscription
from jetspark.sync.blocking import Blocking
from jetspark.sync.callbacks import CALLBACK_THREADS
from jetspark.sync.message import Msg
from jetspark.sync.subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jetspark.sync.connection import Connection

__all__ = ["PullDraining", "PushReading"]


class PushReading(Blocking):
    """What of a push subscription is not carried over to the event loop."""

    _inner: PushSubscription

    def __init__(self, connection: Connection, inner: Any) -> None:
        super().__init__(connection, inner)
        self._reader = None if self._inner.called_back else _Reader(connection, self._inner)
        self._drained = _Drained(connection, self._inner)
        connection.enlist(self._drained)

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
        if self._reader is None and threading.current_thread().name.startswith(CALLBACK_THREADS):
            self._connection.soon(partial(self._inner.drain_soon, timeout))
        else:
            self._call(self._inner.drain(timeout))

    def __iter__(self) -> Iterator[Msg]:
        return self if self._reader is None else self._reader

    def __next__(self) -> Msg:
        if self._reader is not None:
            return next(self._reader)
        try:
            return cast("Msg", self._call(self._inner.__anext__()))
        except StopAsyncIteration:
            raise StopIteration from None

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
        if self._reader is None:
            return cast("Msg", self._call(self._inner.next_msg(timeout)))
        return self._reader.next_msg(timeout)


class PullDraining(Blocking):
    """What of a pull subscription its connection has to know."""

    _inner: PullSubscription

    def __init__(self, connection: Connection, inner: Any) -> None:
        super().__init__(connection, inner)
        self._drained = _Drained(connection, self._inner)
        connection.enlist(self._drained)


class _Reader(Subscription):
    """The subscription that the messages are taken from. What happens to it is told to the one on the event loop."""

    def __init__(self, connection: Connection, inner: PushSubscription) -> None:
        super().__init__(connection, inner.route, None)
        self._inner = inner

    def wake(self) -> None:
        super().wake()
        self._inner.look_empty()

    def _take(self, timeout: float | None) -> Msg | None:
        if self._inner.awaits_asking and not self._inner.route.pending:
            self._connection.soon(self._inner.asked_again)
        return super()._take(timeout)

    def _taken(self) -> None:
        if self._inner.wants_taken:
            self._connection.soon(self._inner.taken)


class _Drained:
    """What a connection knows of a subscription when it drains."""

    def __init__(self, connection: Connection, inner: PushSubscription | PullSubscription) -> None:
        self._connection = connection
        self._inner = inner

    @property
    def pending(self) -> tuple[int, int]:
        return self._inner.pending

    def retire(self) -> None:
        self._connection.run(self._inner.retire)

    def emptied(self, deadline: float) -> bool:
        left = max(deadline - time.monotonic(), 0)
        try:
            self._connection.call(asyncio.wait_for(self._inner.emptied(confirm=False), left))
        except TimeoutError:
            return False
        return True

    def join(self, timeout: float) -> None:
        """The callback's thread is the connection's business."""
