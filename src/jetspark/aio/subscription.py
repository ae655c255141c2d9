"""A subscription of the asyncio front: an iterator, a call for the next message, or a callback on a task of its own.

Messages wait in one queue and leave it in the same step in which they are handed out, so a wait that is cancelled or
times out cannot lose one. A waiter that was woken and then cancelled passes the word on.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from jetspark.aio.message import Msg
from jetspark.aio.received import Received
from jetspark.wire.errors import (
    ConnectionClosedError,
    DisconnectedError,
    DrainTimeoutError,
    Error,
    NoMessageError,
    SubscriptionClosedError,
)
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.routes import Route

if TYPE_CHECKING:
    from jetspark.aio.connection import Connection

__all__ = ["Callback", "Subscription"]

Callback = Callable[[Msg], Awaitable[None] | None]
"""Takes each message; a coroutine function or a plain one. They run one after the other, in order."""


class Subscription(Received):
    """Made by `Connection.subscribe`.

        async for message in subscription:
            ...

    The iteration ends when the subscription does: after `unsubscribe`, `drain`, `max_msgs` or the connection's close;
    it raises when the server ended it (REC-09). A context manager unsubscribes at its end.
    """

    def __init__(self, connection: Connection, route: Route, callback: Callback | None) -> None:
        self._connection = connection
        self._route = route
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._empty: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        route.wake = partial(_wake, weakref.ref(self))  # weak: the two must not keep each other alive
        if callback is not None:
            self._start(callback)

    def __repr__(self) -> str:
        return f"<Subscription {self.sid} to {self.subject!r}{', closed' if self.closed else ''}>"

    @property
    def sid(self) -> int:
        """Its id on the connection, never used twice."""
        return self._route.sid

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.closed and not self._connection.closed:
            await self.unsubscribe()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Msg:
        route = self._route
        while not route.pending:
            if route.ended:
                if route.error is not None:
                    raise route.error
                raise StopAsyncIteration
            await self._wait()
        return self._take()

    def _take(self) -> Msg:
        """The next message that waits."""
        route = self._route
        message = route.pending.popleft()
        route.taken_bytes += len(message.raw_header) + len(message.payload)
        if route.watched:
            self._taken()
        return cast("Msg", message)

    async def next_msg(self, timeout: float | None = None) -> Msg:  # noqa: ASYNC109 (the deadline is part of the call)
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
        self._connection._check_loop()
        if timeout is not None and timeout <= 0 and not self._route.pending and not self._route.ended:
            raise self._no_message(timeout)
        try:
            if timeout is None or self._route.pending:
                return await self.__anext__()
            async with asyncio.timeout(timeout):
                return await self.__anext__()
        except StopAsyncIteration:
            self._connection._check_open()
            raise SubscriptionClosedError(f"the subscription to {self.subject!r} has ended") from None
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise self._no_message(timeout) from None

    def _no_message(self, timeout: float | None) -> NoMessageError:
        return NoMessageError(f"no message on {self.subject!r} within {timeout or 0:g} s")

    async def unsubscribe(self, max_msgs: int = 0) -> None:
        """End the subscription.

        Parameters
        ----------
        max_msgs
            After that many messages in all, counted from its begin; 0 ends it now and drops what waits.
        """
        self._connection._check_loop()
        self._connection._check_open()
        if max_msgs:
            self._connection._client.limit(self._route, max_msgs)
        else:
            self._connection._client.unsubscribe(self._route)
        self._connection._send_soon()

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
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
        self._connection._check_loop()
        self._connection._check_open()
        seconds = self._connection.options.drain_timeout if timeout is None else timeout
        self._retire()
        try:
            async with asyncio.timeout(seconds):
                await self._emptied(confirm=True)
        except TimeoutError:
            left = len(self._route.pending)
            self._connection._client.unsubscribe(self._route)
            raise DrainTimeoutError(
                f"the subscription to {self.subject!r} was not drained within {seconds:g} s; {left} messages dropped"
            ) from None

    def _retire(self) -> None:
        """Tell the server to send nothing more."""
        if self._connection._client.retire(self._route):
            self._connection._send_soon()

    async def _emptied(self, *, confirm: bool) -> None:
        """Wait until the server has confirmed (if so asked), and all that came was taken and handled."""
        if confirm and not self._route.ended:
            with suppress(DisconnectedError, ConnectionClosedError):  # then nothing more can come
                await self._connection._confirm(None)
        self._connection._client.routes.remove(self._route)
        if self._task is not None:
            if self._task is not asyncio.current_task():
                await asyncio.wait([self._task])
        elif self._route.pending:
            self._route.watched = True
            if self._empty is None:
                self._empty = asyncio.get_running_loop().create_future()
            self._look_empty()  # another thread may have taken all before it could know
            await asyncio.shield(self._empty)

    # -- inner ---------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Messages came, or the end, or what waited was discarded."""
        self._look_empty()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                if not self._route.ended:
                    break
        self._route.waiting = bool(self._waiters)

    async def _wait(self) -> None:
        self._connection._check_loop()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._route.waiting = True
        try:
            await waiter
        except BaseException:
            waiter.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self._route.pending:
                self._wake()
            raise
        if len(self._route.pending) > 1 and self._waiters:
            self._wake()

    def _taken(self) -> None:
        """A message was taken while somebody wanted to know."""
        route = self._route
        if route.slow:
            self._connection._relax(route)
        if route.ended:
            self._look_empty()

    def _look_empty(self) -> None:
        """What waited may have been taken or discarded."""
        if self._empty is not None and not self._route.pending and not self._empty.done():
            self._empty.set_result(None)

    def _start(self, callback: Callback) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._run(callback), name=f"jetspark subscription {self.sid} to {self.subject}"
        )
        self._connection._adopt(self._task)
        self._task.add_done_callback(self._finished)

    async def _run(self, callback: Callback) -> None:
        route = self._route
        while True:
            while route.pending:
                message = self._take()
                try:
                    result = callback(message)
                    if result is not None:
                        await result
                except Exception as error:  # noqa: BLE001 - it may raise anything; the next message is not its business
                    self._connection._tell(ErrorOccurred(error))
            if route.ended:
                return
            await self._wait()

    def _finished(self, task: asyncio.Task[None]) -> None:
        """The callback's task has ended; unless the subscription has too, that is an error."""
        if self.closed or self._connection.closed:
            return
        error = SubscriptionClosedError(f"the callback's task of the subscription to {self.subject!r} was cancelled")
        if not task.cancelled():
            error.__cause__ = task.exception()
        self._connection._client.unsubscribe(self._route, error)
        self._connection._send_soon()
        self._connection._tell(ErrorOccurred(error))


def _wake(subscription: weakref.ref[Subscription]) -> None:
    if (found := subscription()) is not None:
        found._wake()
