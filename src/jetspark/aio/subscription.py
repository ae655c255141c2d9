"""A subscription of the asyncio API: an iterator, a call for the next message, or a callback in a task of its own.

Messages wait in one queue. A message is removed in the same step in which it is returned, so a wait that is cancelled
or times out cannot lose one. A waiter that was woken and then cancelled wakes the next waiter.
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
from jetspark.aio.subscription_info import SubscriptionInfo
from jetspark.wire.errors import (
    ConnectionClosedError,
    DisconnectedError,
    DrainTimeoutError,
    Error,
    NoMessageError,
    SubscriptionClosedError,
)
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.subscriptions import SubscriptionState

if TYPE_CHECKING:
    from jetspark.aio.connection import Connection

__all__ = ["Callback", "Subscription"]

Callback = Callable[[Msg], Awaitable[None] | None]
"""Called with each message, in order and one at a time; a coroutine function or a plain function."""


class Subscription(SubscriptionInfo):
    """A subscription, created by `Connection.subscribe`.

        async for message in subscription:
            ...

    The iteration ends when the subscription does: after `unsubscribe`, `drain`, `max_msgs` or the connection's close.
    It raises if the server ended the subscription (REC-09). As a context manager it unsubscribes at the end.
    """

    def __init__(self, connection: Connection, sub: SubscriptionState, callback: Callback | None) -> None:
        self._connection = connection
        self._sub = sub
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._drained_waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        sub.wake = partial(_wake, weakref.ref(self))  # weak: the two must not keep each other alive
        if callback is not None:
            self._start(callback)

    def __repr__(self) -> str:
        return f"<Subscription {self.sid} to {self.subject!r}{', closed' if self.closed else ''}>"

    @property
    def sid(self) -> int:
        """Subscription id on the connection, never used twice."""
        return self._sub.sid

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
        sub = self._sub
        while not sub.pending:
            if sub.ended:
                if sub.error is not None:
                    raise sub.error
                raise StopAsyncIteration
            await self._wait()
        return self._take()

    def _take(self) -> Msg:
        """Take the next message that waits."""
        sub = self._sub
        message = sub.pending.popleft()
        sub.taken_bytes += len(message.raw_header) + len(message.payload)
        if sub.notify_on_take:
            self._on_consumed()
        return cast("Msg", message)

    async def next_msg(self, timeout: float | None = None) -> Msg:  # noqa: ASYNC109 (the deadline is part of the call)
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
        self._connection._check_loop()
        if timeout is not None and timeout <= 0 and not self._sub.pending and not self._sub.ended:
            raise self._no_message(timeout)
        try:
            if timeout is None or self._sub.pending:
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
            End after that many messages, counted from the start; 0 ends it now and drops the messages that wait.
        """
        self._connection._check_loop()
        self._connection._check_open()
        if max_msgs:
            self._connection._client.auto_unsubscribe(self._sub, max_msgs)
        else:
            self._connection._client.unsubscribe(self._sub)
        self._connection._flush_soon()

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
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
        self._connection._check_loop()
        self._connection._check_open()
        seconds = self._connection.options.drain_timeout if timeout is None else timeout
        self._stop_receiving()
        try:
            async with asyncio.timeout(seconds):
                await self._wait_drained(confirm=True)
        except TimeoutError:
            left = len(self._sub.pending)
            self._connection._client.unsubscribe(self._sub)
            raise DrainTimeoutError(
                f"the subscription to {self.subject!r} was not drained within {seconds:g} s; {left} messages dropped"
            ) from None

    def _stop_receiving(self) -> None:
        """Ask the server to send nothing more."""
        if self._connection._client.stop_delivery(self._sub):
            self._connection._flush_soon()

    async def _wait_drained(self, *, confirm: bool) -> None:
        """Wait until the server has confirmed (with `confirm`), and all received messages were taken and handled."""
        if confirm and not self._sub.ended:
            with suppress(DisconnectedError, ConnectionClosedError):  # then nothing more can come
                await self._connection._ping_roundtrip(None)
        self._connection._client.subscriptions.remove(self._sub)
        if self._task is not None:
            if self._task is not asyncio.current_task():
                await asyncio.wait([self._task])
        elif self._sub.pending:
            self._sub.notify_on_take = True
            if self._drained_waiter is None:
                self._drained_waiter = asyncio.get_running_loop().create_future()
            self._check_drained()  # another thread may have taken all before `watched` was set
            await asyncio.shield(self._drained_waiter)

    # -- inner ---------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Wake a waiter: messages came, the subscription ended, or the waiting messages were discarded."""
        self._check_drained()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                if not self._sub.ended:
                    break
        self._sub.waiting = bool(self._waiters)

    async def _wait(self) -> None:
        self._connection._check_loop()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._sub.waiting = True
        try:
            await waiter
        except BaseException:
            waiter.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self._sub.pending:
                self._wake()
            raise
        if len(self._sub.pending) > 1 and self._waiters:
            self._wake()

    def _on_consumed(self) -> None:
        """Note that a message was taken while `watched` was set."""
        sub = self._sub
        if sub.over_limit:
            self._connection._on_consumed(sub)
        if sub.ended:
            self._check_drained()

    def _check_drained(self) -> None:
        """Finish a drain if no messages wait any more."""
        if self._drained_waiter is not None and not self._sub.pending and not self._drained_waiter.done():
            self._drained_waiter.set_result(None)

    def _start(self, callback: Callback) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._run(callback), name=f"jetspark subscription {self.sid} to {self.subject}"
        )
        self._connection._track_task(self._task)
        self._task.add_done_callback(self._on_task_done)

    async def _run(self, callback: Callback) -> None:
        sub = self._sub
        while True:
            while sub.pending:
                message = self._take()
                try:
                    result = callback(message)
                    if result is not None:
                        await result
                except Exception as error:  # noqa: BLE001 - it may raise anything; continue with the next message
                    self._connection._emit(ErrorOccurred(error))
            if sub.ended:
                return
            await self._wait()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Handle the end of the callback's task; it is an error unless the subscription has ended."""
        if self.closed or self._connection.closed:
            return
        error = SubscriptionClosedError(f"the callback's task of the subscription to {self.subject!r} was cancelled")
        if not task.cancelled():
            error.__cause__ = task.exception()
        self._connection._client.unsubscribe(self._sub, error)
        self._connection._flush_soon()
        self._connection._emit(ErrorOccurred(error))


def _wake(subscription: weakref.ref[Subscription]) -> None:
    if (found := subscription()) is not None:
        found._wake()
