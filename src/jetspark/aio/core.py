"""The internal part of the asyncio connection, used by the other modules of `jetspark.aio`.

Users call `jetspark.aio.connection`. Outgoing frames wait in one queue. It is sent to the socket once in each turn of
the event loop, or as soon as it holds `FLUSH_THRESHOLD` bytes.
"""

from __future__ import annotations

import asyncio
import weakref
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, cast

from jetspark.aio.futures import expire_request, settle_ping, settle_request
from jetspark.aio.jetstream.async_publisher import AsyncPublisher
from jetspark.aio.message import Msg
from jetspark.aio.requests import request_with_own_inbox
from jetspark.aio.supervisor import Supervisor
from jetspark.wire.connection_state import ConnectionState, ConnectionStatus
from jetspark.wire.errors import (
    DisconnectedError,
    Error,
    FlushTimeoutError,
    WrongEventLoopError,
)
from jetspark.wire.events import Event
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Payload
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["FLUSH_THRESHOLD", "ConnectionCore", "Drainable", "EventHandler"]

EventHandler = Callable[[Event], Awaitable[None] | None]
"""Receives each event; a coroutine function or a plain function."""

FLUSH_THRESHOLD: Final = 64 << 10


class Drainable(Protocol):
    """An object that receives messages and can be drained, such as a subscription."""

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes."""

    def _stop_receiving(self) -> None:
        """Ask the server to send nothing more."""

    async def _wait_drained(self, *, confirm: bool) -> None:
        """Wait until all received messages were taken and handled."""


class ConnectionCore:
    """The calls of a connection that the other parts of `jetspark.aio` use."""

    def __init__(
        self, options: ConnectOptions, on_event: EventHandler | None = None, *, message_type: type[Message] = Msg
    ) -> None:
        self.options = options
        self._loop = get_running_loop()
        self._supervisor = Supervisor(options, self._loop, on_event, message_type)
        self._client: ConnectionState = self._supervisor.client
        self._client.connection = self
        self._outbound = self._client.outbound
        self._flush_scheduled = False
        self._next_tick_frames: list[bytes] = []
        self._tracked_tasks: set[asyncio.Task[None]] = set()
        self._close_calls = 0  # calls of `close` in progress
        self._drainables: weakref.WeakSet[Drainable] = weakref.WeakSet()
        self._publishers: weakref.WeakSet[AsyncPublisher] = weakref.WeakSet()  # of the contexts, for `drain`

    async def _open(self) -> None:
        """Open the first session; `connect` calls it."""
        await self._supervisor.start()

    def __repr__(self) -> str:
        return f"<Connection to {self.address}, {self.status.value}>"

    @property
    def status(self) -> ConnectionStatus:
        """State of the connection."""
        return self._client.status

    @property
    def connected(self) -> bool:
        """Whether there is a session now."""
        return self._outbound.online

    @property
    def closed(self) -> bool:
        """Whether the connection is closed for good."""
        return self._client.closed

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""
        return self._client.server.address if self._client.server is not None else None

    # -- sending -------------------------------------------------------------------------------------------------

    def _send_frame(self, frame: bytes) -> None:
        """Queue the frame of a publish, encoded by `Outbound.encode`. Bulk senders must check `_write_buffer_full`
        first.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        WrongEventLoopError
            This is another event loop. Checked once for all frames that are sent together.
        """
        if not self._flush_scheduled:
            self._check_loop()
            self._flush_scheduled = True
            self._loop.call_soon(self._run_scheduled_flush)
        self._outbound.queue_publish(frame)

    @property
    def _write_buffer_full(self) -> bool:
        """Whether so much is queued that a sender should wait for `_wait_writable`."""
        return self._outbound.size >= FLUSH_THRESHOLD and self._outbound.online

    def _send_reply(self, reply: bytes, payload: bytes) -> bool:
        """Queue a publish to a reply subject in its received form; returns whether to wait for `_wait_writable`.

        Raises
        ------
        ConnectionClosedError, MaxPayloadError, OutboundBufferLimitError
        WrongEventLoopError
            As for `_send_frame`.
        """
        if not self._flush_scheduled:
            self._check_loop()
            self._flush_scheduled = True
            self._loop.call_soon(self._run_scheduled_flush)
        return self._outbound.queue_ack(reply, payload) >= FLUSH_THRESHOLD

    async def _wait_writable(self) -> None:
        """Send the queue, and wait while there is a session whose transport takes no more."""
        while self._outbound.online and self._outbound.size >= FLUSH_THRESHOLD:
            await self._flush_once()

    async def _flush_once(self) -> None:
        """Send the queue and wait until the transport takes more. Other tasks run in between."""
        session = self._supervisor.session
        if session is None or not self._outbound.online:
            return
        session.flush()
        if session.write_paused and not session.lost.done():
            await session.wait_writable()
        else:  # a lost session counts as a session until the supervisor has run
            await asyncio.sleep(0)

    def _run_scheduled_flush(self) -> None:
        self._flush_scheduled = False
        while self._next_tick_frames:
            self._outbound.queue_command(self._next_tick_frames.pop())
        if self._supervisor.session is not None:
            self._supervisor.session.flush()

    def _flush_soon(self) -> None:
        """Send the queue at the end of this turn of the event loop."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._run_scheduled_flush)

    def _send_next_tick(self, command: bytes) -> None:
        """Send a command at the end of the next turn of the event loop, together with frames queued until then."""
        self._next_tick_frames.append(command)
        self._flush_soon()

    def _flush_now(self) -> None:
        """Send the queue now."""
        self._run_scheduled_flush()

    async def _ping_roundtrip(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """As `flush`, for frames that are sent in the present session."""
        try:
            async with asyncio.timeout(timeout):
                while not self._outbound.online:
                    self._check_open()
                    await self._supervisor.wait_state_change()
                answered = self._loop.create_future()
                self._client.ping(partial(settle_ping, answered))
                self._flush_now()
                try:
                    await answered
                except DisconnectedError:
                    self._client.has_unconfirmed_publishes = False  # reported by this error
                    raise
                finally:
                    del answered  # it may hold an exception whose traceback holds this frame
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise FlushTimeoutError(f"{self.address}: not confirmed within {timeout:g} s") from None

    async def _wait_publish_acks(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait until every `publish_async` of every context is settled. Raises PublishTimeoutError."""
        await asyncio.gather(*(publisher.wait_completed(timeout) for publisher in list(self._publishers)))

    # -- asking --------------------------------------------------------------------------------------------------

    async def _api_request(self, subject: str, payload: bytes, *, timeout: float) -> Msg:  # noqa: ASYNC109
        """As `request`, for the JetStream API. There a subject may end with a filter that has wildcards (CRE-03)."""
        return await self._request(subject, payload, timeout, None, wildcards=True)

    async def _request(
        self,
        subject: str,
        payload: Payload,
        timeout: float,  # noqa: ASYNC109 (the deadline is part of the call)
        headers: HeadersLike | None,
        *,
        own_inbox: bool = False,
        wildcards: bool = False,
    ) -> Msg:
        self._check_loop()
        answered: asyncio.Future[Message] = self._loop.create_future()
        timer = self._loop.call_later(timeout, expire_request, answered, subject, timeout)
        try:
            if own_inbox:
                return cast("Msg", await request_with_own_inbox(self, subject, payload, headers, answered))
            requests = self._client.ensure_reply_mux()
            token, reply = requests.add_request(subject, partial(settle_request, answered))
            frame = b""
            try:
                frame = self._outbound.encode(subject, payload, reply, headers, wildcards=wildcards)
                self._outbound.queue_publish(frame)
                self._flush_now()
                return cast("Msg", await answered)
            finally:
                requests.remove_request(token)
                self._outbound.withdraw((frame,))  # nobody waits for the answer: do not send it after a reconnect
        finally:
            timer.cancel()
            del answered  # it may hold an exception whose traceback holds this frame

    # -- receiving -----------------------------------------------------------------------------------------------

    def _on_consumed(self, sub: SubscriptionState) -> None:
        """Note that messages were taken from a full subscription; read again if no subscription is too full."""
        self._client.resume_if_below(sub)
        if not self._client.paused_subscriptions and self._supervisor.session is not None:
            self._supervisor.session.resume_reading()

    def _register_drainable(self, subscription: Drainable) -> None:
        """Register a subscription to drain with the connection. The reference to it is weak."""
        self._drainables.add(subscription)

    def _track_task(self, task: asyncio.Task[None]) -> None:
        """Register a task that must end with the connection."""
        self._tracked_tasks.add(task)
        task.add_done_callback(self._tracked_tasks.discard)

    def _emit(self, event: Event) -> None:
        """Report an event to the handler."""
        self._supervisor.emit(event)

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        """Raise ConnectionClosedError if the connection is closed."""
        self._client.check_open()

    def _check_loop(self) -> None:
        """Raise WrongEventLoopError if this is not the event loop of the connection."""
        if get_running_loop() is not self._loop:
            raise self._wrong_loop_error()

    def _wrong_loop_error(self) -> WrongEventLoopError:
        return WrongEventLoopError(
            "the connection belongs to the event loop it was opened in; open one in each loop, or use jetspark.sync"
        )
