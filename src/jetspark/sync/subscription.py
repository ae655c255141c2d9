"""A subscription of the blocking front. The reader's thread takes the messages from the queue.

The loop's thread appends and the reader's thread takes. The queue is a deque, and each counter has one writer, so only
readers need a lock. Before it sleeps, a reader sets a flag and checks the queue again; the loop appends and then
checks the flag. So one of the two always notices the other. A reader also checks the queue after the end.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from jetspark.aio.subscription_info import SubscriptionInfo
from jetspark.sync.message import Msg
from jetspark.wire.errors import (
    ConnectionClosedError,
    DisconnectedError,
    DrainTimeoutError,
    FlushTimeoutError,
    NoMessageError,
    SubscriptionClosedError,
)
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.subscriptions import SubscriptionState

if TYPE_CHECKING:
    from jetspark.sync.connection import Connection

__all__ = ["Callback", "Subscription"]

Callback = Callable[[Msg], None]
"""Called with each message, in order and one at a time, in a thread of its own."""


class Subscription(SubscriptionInfo):
    """A subscription, created by `Connection.subscribe`; an iterator. As in the asyncio front, but blocking."""

    def __init__(self, connection: Connection, sub: SubscriptionState, callback: Callback | None) -> None:
        self._connection = connection
        self._sub = sub
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        sub.wake = partial(_wake, weakref.ref(self))  # weak: the two must not keep each other alive
        if callback is not None:
            self._thread = threading.Thread(
                target=self._run, args=(callback,), name=f"jetspark subscription {self.sid}", daemon=True
            )
            self._thread.start()

    def __repr__(self) -> str:
        return f"<Subscription {self.sid} to {self.subject!r}{', closed' if self.closed else ''}>"

    @property
    def sid(self) -> int:
        """Subscription id on the connection, never used twice."""
        return self._sub.sid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.closed and not self._connection.closed:
            self.unsubscribe()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Msg:
        message = self._take(None)
        if message is None:
            if self._sub.error is not None:
                raise self._sub.error
            raise StopIteration
        return message

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
        message = self._take(timeout)
        if message is not None:
            return message
        if self._sub.error is not None:
            raise self._sub.error
        self._connection._check_open()
        raise SubscriptionClosedError(f"the subscription to {self.subject!r} has ended")

    def _take(self, timeout: float | None) -> Msg | None:
        """Take the next message; return None if the subscription has ended."""
        sub = self._sub
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                over = sub.ended  # read before the queue: messages from before the end are taken first
                try:
                    message = sub.pending.popleft()
                    break
                except IndexError:  # also if the loop's thread ends the subscription and discards the message now
                    pass
                if over:
                    return None
                if not sub.waiting:
                    sub.waiting = True
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise NoMessageError(f"no message on {self.subject!r} within {timeout:g} s")
                self._changed.wait(left)
            sub.taken_bytes += len(message.raw_header) + len(message.payload)
            if sub.notify_on_take:
                self._on_consumed()
        return cast("Msg", message)

    def unsubscribe(self, max_msgs: int = 0) -> None:
        """End the subscription.

        Parameters
        ----------
        max_msgs
            End after that many messages, counted from the start; 0 ends it now and drops the messages that wait.
        """
        self._connection._check_open()
        self._connection._unsubscribe(self._sub, max_msgs)

    def drain(self, timeout: float | None = None) -> None:
        """End the subscription without losing a message: messages that the server has sent can still be taken (R44).

        Without a callback, another part of the program must take them.

        Parameters
        ----------
        timeout
            Seconds until all must be taken; None takes the connection's `drain_timeout`.

        Raises
        ------
        DrainTimeoutError
            It took too long; the remaining messages were dropped.
        """
        self._connection._check_open()
        seconds = self._connection.options.drain_timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        self._stop_receiving()
        with suppress(DisconnectedError, ConnectionClosedError, FlushTimeoutError):  # no more can come, or time is up
            self._connection._ping_roundtrip(seconds)
        if not self._wait_drained(deadline):
            left = len(self._sub.pending)
            self._connection._unsubscribe(self._sub, 0)
            raise DrainTimeoutError(
                f"the subscription to {self.subject!r} was not drained within {seconds:g} s; {left} messages dropped"
            )

    def _stop_receiving(self) -> None:
        """Ask the server to send nothing more."""
        self._connection._stop_receiving(self._sub)

    def _wait_drained(self, deadline: float) -> bool:
        """Wait until all received messages were taken and handled; return whether that was in time."""
        self._connection._remove_subscription(self._sub)
        if self._thread is not None:
            if self._thread is not threading.current_thread():
                self._thread.join(max(deadline - time.monotonic(), 0))
                return not self._thread.is_alive()
            return True
        with self._changed:
            self._sub.notify_on_take = True
            return self._changed.wait_for(lambda: not self._sub.pending, max(deadline - time.monotonic(), 0))

    def _join(self, timeout: float) -> None:
        """Wait for the end of the callback's thread, unless called in that thread."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    # -- inner ---------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Wake the readers: messages came, the subscription ended, or messages were discarded. In the loop's thread."""
        with self._changed:
            self._changed.notify_all()

    def _on_consumed(self) -> None:
        """Note that a message was taken while the subscription was watched."""
        if self._sub.over_limit and self._sub.below_resume_level:
            self._connection._on_consumed(self._sub)
        if not self._sub.pending:
            self._changed.notify_all()

    def _run(self, callback: Callback) -> None:
        while True:
            try:
                message = self._take(None)
                if message is None:
                    return
                callback(message)
            except Exception as error:  # noqa: BLE001 - a callback may raise anything; continue with the next message
                self._connection._emit(ErrorOccurred(error))


def _wake(subscription: weakref.ref[Subscription]) -> None:
    if (found := subscription()) is not None:
        found._wake()
