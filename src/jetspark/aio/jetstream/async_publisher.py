"""Publishes whose acknowledgements are awaited later: the window of `engine.publish_window` over a connection.

A publish needs no task and no timer. Its frame is sent with the connection's queue in the next turn of the event loop.
A token assigns its acknowledgement, and one timer watches the oldest publish.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, cast
from weakref import finalize

from jetspark.aio.callbacks import CALLBACK_ERRORS, check_own_cancellation
from jetspark.aio.core import ConnectionCore
from jetspark.aio.server_check import ApiPrefix
from jetspark.aio.weak_calls import weakly
from jetspark.engine.publish_window import AsyncPublishOptions, PendingPublish, PublishStats, PublishWindow
from jetspark.engine.server_health import SUSPECT_AFTER
from jetspark.jetstream.errors import Error, PublishTimeoutError, TooManyStalledError
from jetspark.jetstream.info import PubAck
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.events import callback_failed
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.outbound import Payload
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["AsyncPublisher", "PubAckFuture"]

_INFINITE: Final = float("inf")
_own_handlers: ContextVar[set[asyncio.Task[None]] | None] = ContextVar("_own_handlers", default=None)
"""In a handler of a failed publish, and in what it calls: the running handlers of its publisher."""


@checks_arguments()
class PubAckFuture(PendingPublish, gc=False, eq=False):
    """The result of `publish_async`: await it for the acknowledgement, any number of times."""

    def __await__(self) -> Generator[Any, None, PubAck]:
        """Wait for the acknowledgement. Cancelling the wait does not cancel the publish."""
        if not self.done():
            yield from asyncio.shield(self._future()).__await__()
        return self._outcome()

    def result(self) -> PubAck:
        """Return the acknowledgement.

        Raises
        ------
        asyncio.InvalidStateError
            It has not come yet: await the future, or `publish_async_completed`.
        APIError, NoStreamResponseError, PublishTimeoutError, DisconnectedError
            The publish has failed for that reason.
        """
        if self._reply is None and self._error is None:
            raise asyncio.InvalidStateError(f"the publish to {self.subject!r} is not acknowledged yet")
        return self._outcome()

    def exception(self) -> Error | None:
        """Return why the publish failed, None if it did not. Raises asyncio.InvalidStateError while it is open."""
        if not self.done():
            raise asyncio.InvalidStateError(f"the publish to {self.subject!r} is not acknowledged yet")
        return self._failure()

    def add_done_callback(self, callback: Callable[[PubAckFuture], object]) -> None:
        """Call `callback` with the future soon after it is done."""
        if self.done():
            asyncio.get_running_loop().call_soon(callback, self)
        else:
            self._future().add_done_callback(lambda _: callback(self))

    def _wake(self) -> None:
        waiter = cast("asyncio.Future[None]", self._waiter)
        self._waiter = None
        if not waiter.done():
            waiter.set_result(None)

    def _future(self) -> asyncio.Future[None]:
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        return cast("asyncio.Future[None]", self._waiter)


class AsyncPublisher:
    """The `publish_async` of one context. It ends with its last reference: the context's or an open future's."""

    future_type: type[PendingPublish] = PubAckFuture

    def __init__(
        self, connection: ConnectionCore, options: AsyncPublishOptions, api_prefix: ApiPrefix | None = None
    ) -> None:
        client = connection.client
        self._api_prefix = api_prefix
        self._connection = connection
        self._options = options
        self._outbound = client.outbound
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time  # the clock of the deadlines; asyncio's is `time.monotonic`
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # time of the timer
        self._oldest: tuple[bytes, float] = (b"", 0.0)  # token of the oldest pending publish, and since when it is that
        self._below_limit_waiter: asyncio.Future[None] | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        inbox = client.new_inbox()
        self._window: PublishWindow[Any] = PublishWindow(inbox, self.future_type, options)
        self._window.on_other_reply = weakly(self._on_unusual_reply)
        self._window.on_below_limit = weakly(self._on_below_limit)
        self._sub = client.subscribe(f"{inbox}.*")
        self._window.set_sid(self._sub.sid)
        self._sub.handler = self._window.deliver
        self._sub.on_following_frames = self._window.deliver_ack_run
        self._sub.wake = weakly(self._on_subscription_ended)
        self._sub.waiting = True
        client.reply_listeners.add(self)
        client.timed_senders.add(self)
        connection.draining.publishes.add(self)
        finalize(self, _unsubscribe, self._loop, client, self._sub).atexit = False

    @property
    def ended(self) -> bool:
        """Whether it is unusable: the server ended its subscription, or the connection is closed."""
        return self._sub.ended

    @property
    def pending(self) -> int:
        """Number of publishes that are not answered yet."""
        return len(self._window.pending)

    @property
    def stats(self) -> PublishStats:
        """Counts until now."""
        return self._window.stats

    async def wait_writable(self) -> None:
        """Wait until a message may be sent. If the wait is cancelled, nothing was sent."""
        if self._window.full:
            await self.wait_below_limit()
        if self._connection.write_buffer_full:
            await self._connection.wait_writable()

    def send(
        self, subject: str, payload: Payload, headers: HeadersLike | None, expected_stream: str | None
    ) -> PubAckFuture | None:
        """Send a message; return None if the caller must wait for `wait_writable` first."""
        window = self._window
        if len(window.pending) >= window.limit or self._connection.write_buffer_full:
            return None
        token = window.next_token()
        frame = self._outbound.encode(subject, payload, window.prefix + token, headers)
        self._connection.send_frame(frame)
        future: PubAckFuture = window.add(subject, token, frame, self._now(), self, expected_stream)
        if self._timer is None:
            self._set_next_timer()
        if self._sub.ended:  # the subscription ended while the caller waited
            self._on_subscription_ended()
        return future

    async def wait_below_limit(self) -> None:
        """Wait until a quarter of the window is free, or until `stall_wait` has passed and at least one place is free.

        Raises
        ------
        TooManyStalledError
            No publish was acknowledged meanwhile.
        """
        window, options = self._window, self._options
        while True:
            settled = window.settled
            try:
                async with asyncio.timeout(options.stall_wait):
                    await self._wait_pending_at_most(window.limit * 3 // 4)
            except TimeoutError:
                if not window.full:
                    return
                if window.settled == settled:
                    raise TooManyStalledError(
                        f"{window.limit} publishes (max_pending) are not acknowledged, and none was within "
                        f"{options.stall_wait:g} s (stall_wait); wait for some, or set larger AsyncPublishOptions"
                    ) from None
            else:
                return

    async def wait_completed(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait until every publish is settled and the handlers of the failed ones have run. Raises PublishTimeoutError.

        A handler may call this, too. It waits for no handler, as it would wait for itself.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._wait_pending_at_most(0)
                while self._handlers and _own_handlers.get() is not self._handlers:
                    await asyncio.wait(self._handlers)
                    await self._wait_pending_at_most(0)  # a handler may have published again
        except TimeoutError:
            if self.pending:
                text = f"{self.pending} publishes are not acknowledged after {timeout:g} s; they stay under way"
            else:
                text = f"on_error still handles {len(self._handlers)} failed publishes after {timeout:g} s"
            raise PublishTimeoutError(text) from None

    async def _wait_pending_at_most(self, most: int) -> None:
        window = self._window
        while len(window.pending) > most:
            window.notify_at = max(window.notify_at, most)
            if self._below_limit_waiter is None or self._below_limit_waiter.done():
                self._below_limit_waiter = self._loop.create_future()
            await asyncio.shield(self._below_limit_waiter)

    def _on_below_limit(self) -> None:
        if self._below_limit_waiter is not None and not self._below_limit_waiter.done():
            self._below_limit_waiter.set_result(None)

    # -- outcomes ------------------------------------------------------------------------------------------------

    def _on_unusual_reply(self, future: PendingPublish, message: Message) -> None:
        now = self._now()
        if not self._window.handle_reply(future, message, now):
            if message.status is not None:  # no stream has answered
                self._connection.server_check.suspect()
            self._call_on_error(future)
        elif future.done():
            if self._api_prefix is not None:
                self._api_prefix.answered = True
        else:
            self._set_timer(now + self._options.retry.wait)

    def _set_timer(self, when: float) -> None:
        if when == _INFINITE or (self._timer is not None and self._due <= when):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = when
        self._timer = self._loop.call_at(when, weakly(self._tick))

    def expire_late(self) -> None:
        """Do not send publishes whose ack deadline has passed, even if the loop was too busy for the timer."""
        if self._timer is not None and self._due <= self._now():
            self._timer.cancel()
            self._tick()

    def _tick(self) -> None:
        self._timer = None
        now = self._now()
        for frame in self._window.due_retries(now):
            self._connection.send_frame(frame)
        self._check_silence(now)
        self._report_failed(self._window.expire(now))
        if self._window.ping_due(now) and self._connection.connected:
            self._connection.client.ping(partial(weakly(self._on_ping_answer), now))
            self._connection.flush_soon()
        if self._window.pending:
            self._set_next_timer()

    def _set_next_timer(self) -> None:
        when = self._window.next_wakeup()
        soon = self._now() + SUSPECT_AFTER
        self._set_timer(soon if when is None else min(when, soon))

    def _check_silence(self, now: float) -> None:
        """Check the server if the oldest publish waits for long: JetStream may be away on this server."""
        token, since = self._oldest
        oldest = next(iter(list(self._window.pending)), b"")  # a copy, as another thread may add some
        if oldest != token:
            self._oldest = oldest, now
        elif oldest and now >= since + SUSPECT_AFTER:
            self._connection.server_check.suspect(since)

    def _on_ping_answer(self, sent: float, error: Error | None) -> None:
        if error is None:
            self._window.ping_answered(sent)

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Fail publishes: the session was lost (PUB-13), or the user may not publish to the subject."""
        self._report_failed(self._window.fail(error, subject))

    def _on_subscription_ended(self) -> None:
        if self._sub.error is not None:
            self.fail(self._sub.error)

    def _report_failed(self, failed: list[tuple[PendingPublish, bytes]]) -> None:
        self._outbound.withdraw(frame for _, frame in failed)
        for future, _ in failed:
            self._call_on_error(future)

    def _call_on_error(self, future: PendingPublish) -> None:
        if self._options.on_error is not None and not self._loop.is_closed():
            task = self._loop.create_task(self._run_handler(self._options.on_error, future))
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
            self._connection.tasks.track_handler(task)

    async def _run_handler(self, handler: Callable[[Any], Awaitable[None] | None], future: PendingPublish) -> None:
        _own_handlers.set(self._handlers)
        try:
            result = handler(future)
            if inspect.isawaitable(result):
                await result
        except CALLBACK_ERRORS as error:  # the user's code
            check_own_cancellation(error)
            self._connection.emit(callback_failed(handler, error, subject=future.subject))


def _unsubscribe(loop: asyncio.AbstractEventLoop, client: ConnectionState, sub: SubscriptionState) -> None:
    """Unsubscribe after the publisher is gone; may run in any thread."""
    if not sub.ended:
        with suppress(RuntimeError):  # the loop is closed, and the subscription is gone
            loop.call_soon_threadsafe(partial(client.unsubscribe, sub))
