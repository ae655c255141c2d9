"""A subscription of the blocking front. Messages are taken from the queue by the thread that wants them.

The loop's thread appends, ours takes: the queue is a deque, and the counters have one writer each, so the only lock is
ours. Before it sleeps, a reader raises the flag and looks at the queue once more; the loop appends and then looks at
the flag. So one of the two always sees the other. And it looks at the queue once more behind the end.
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

from jetspark.aio.received import Received
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
from jetspark.wire.routes import Route

if TYPE_CHECKING:
    from jetspark.sync.connection import Connection

__all__ = ["Callback", "Subscription"]

Callback = Callable[[Msg], None]
"""Takes each message. They run one after the other, in order, on a thread of their own."""


class Subscription(Received):
    """Made by `Connection.subscribe`; an iterator. As the asyncio one, only blocking."""

    def __init__(self, connection: Connection, route: Route, callback: Callback | None) -> None:
        self._connection = connection
        self._route = route
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        route.wake = partial(_wake, weakref.ref(self))  # weak: the two must not keep each other alive
        if callback is not None:
            self._thread = threading.Thread(
                target=self._run, args=(callback,), name=f"jetspark subscription {self.sid}", daemon=True
            )
            self._thread.start()

    def __repr__(self) -> str:
        return f"<Subscription {self.sid} to {self.subject!r}{', closed' if self.closed else ''}>"

    @property
    def sid(self) -> int:
        """Its id on the connection, never used twice."""
        return self._route.sid

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
            if self._route.error is not None:
                raise self._route.error
            raise StopIteration
        return message

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
        message = self._take(timeout)
        if message is not None:
            return message
        if self._route.error is not None:
            raise self._route.error
        self._connection._check_open()
        raise SubscriptionClosedError(f"the subscription to {self.subject!r} has ended")

    def _take(self, timeout: float | None) -> Msg | None:
        """The next message; None when the subscription has ended."""
        route = self._route
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                over = route.ended  # before the look: what came before the end is taken first
                try:
                    message = route.pending.popleft()
                    break
                except IndexError:  # also when the loop's thread, which ends the subscription, discards it right now
                    pass
                if over:
                    return None
                if not route.waiting:
                    route.waiting = True
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise NoMessageError(f"no message on {self.subject!r} within {timeout:g} s")
                self._changed.wait(left)
            route.taken_bytes += len(message.raw_header) + len(message.payload)
            if route.watched:
                self._taken()
        return cast("Msg", message)

    def unsubscribe(self, max_msgs: int = 0) -> None:
        """End the subscription.

        Parameters
        ----------
        max_msgs
            After that many messages in all, counted from its begin; 0 ends it now and drops what waits.
        """
        self._connection._check_open()
        self._connection._unsubscribe(self._route, max_msgs)

    def drain(self, timeout: float | None = None) -> None:
        """End the subscription without losing a message: those that the server sent are still to be taken (R44).

        Without a callback somebody else has to take them meanwhile.

        Parameters
        ----------
        timeout
            Seconds until all must be taken; None is the connection's `drain_timeout`.

        Raises
        ------
        DrainTimeoutError
            The rest was dropped.
        """
        self._connection._check_open()
        seconds = self._connection.options.drain_timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        self._retire()
        with suppress(DisconnectedError, ConnectionClosedError, FlushTimeoutError):  # then nothing more can come
            self._connection._confirm(seconds)
        if not self._emptied(deadline):
            left = len(self._route.pending)
            self._connection._unsubscribe(self._route, 0)
            raise DrainTimeoutError(
                f"the subscription to {self.subject!r} was not drained within {seconds:g} s; {left} messages dropped"
            )

    def _retire(self) -> None:
        """Tell the server to send nothing more."""
        self._connection._retire(self._route)

    def _emptied(self, deadline: float) -> bool:
        """Wait until all that came was taken and handled; whether it was in time."""
        self._connection._forget(self._route)
        if self._thread is not None:
            if self._thread is not threading.current_thread():
                self._thread.join(max(deadline - time.monotonic(), 0))
                return not self._thread.is_alive()
            return True
        with self._changed:
            self._route.watched = True
            return self._changed.wait_for(lambda: not self._route.pending, max(deadline - time.monotonic(), 0))

    def _join(self, timeout: float) -> None:
        """Wait for the callback's thread to end, unless this is it."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    # -- inner ---------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Messages came, or the end, or what waited was discarded. On the loop's thread."""
        with self._changed:
            self._changed.notify_all()

    def _taken(self) -> None:
        """A message was taken while somebody wanted to know."""
        if self._route.slow and self._route.relaxed:
            self._connection._relax(self._route)
        if not self._route.pending:
            self._changed.notify_all()

    def _run(self, callback: Callback) -> None:
        while True:
            try:
                message = self._take(None)
                if message is None:
                    return
                callback(message)
            except Exception as error:  # noqa: BLE001 - a callback may raise anything; the next message is not its business
                self._connection._tell(ErrorOccurred(error))


def _wake(subscription: weakref.ref[Subscription]) -> None:
    if (found := subscription()) is not None:
        found._wake()
