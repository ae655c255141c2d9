"""The internal part of the asyncio connection, used by the other modules of `jetspark.aio`.

Users call `jetspark.aio.connection`. Outgoing frames wait in one queue. It is sent to the socket once in each turn of
the event loop, or as soon as it holds `SEND_AT` bytes.
"""

from __future__ import annotations

import asyncio
import weakref
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, cast

from jetspark.aio.asking import ask_alone
from jetspark.aio.jetstream.publisher import Publisher
from jetspark.aio.message import Msg
from jetspark.aio.supervisor import Supervisor
from jetspark.aio.waiting import expire, settle_ping, settle_request
from jetspark.wire.client import Client, Status
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
from jetspark.wire.routes import Route

__all__ = ["SEND_AT", "ConnectionCore", "Drainable", "EventHandler"]

EventHandler = Callable[[Event], Awaitable[None] | None]
"""Receives each event; a coroutine function or a plain function."""

SEND_AT: Final = 64 << 10


class Drainable(Protocol):
    """An object that receives messages and can be drained, such as a subscription."""

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes."""

    def _retire(self) -> None:
        """Ask the server to send nothing more."""

    async def _emptied(self, *, confirm: bool) -> None:
        """Wait until all received messages were taken and handled."""


class ConnectionCore:
    """The calls of a connection that the other parts of `jetspark.aio` use."""

    def __init__(
        self, options: ConnectOptions, on_event: EventHandler | None = None, *, message_type: type[Message] = Msg
    ) -> None:
        self.options = options
        self._loop = get_running_loop()
        self._supervisor = Supervisor(options, self._loop, on_event, message_type)
        self._client: Client = self._supervisor.client
        self._client.owner = self
        self._outbound = self._client.outbound
        self._scheduled = False
        self._late: list[bytes] = []
        self._callbacks: set[asyncio.Task[None]] = set()
        self._closers = 0  # calls of `close` in progress
        self._subscriptions: weakref.WeakSet[Drainable] = weakref.WeakSet()
        self._publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()  # of the contexts, for `drain`

    async def _open(self) -> None:
        """Open the first session; `connect` calls it."""
        await self._supervisor.start()

    def __repr__(self) -> str:
        return f"<Connection to {self.address}, {self.status.value}>"

    @property
    def status(self) -> Status:
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

    def _post(self, frame: bytes) -> None:
        """Queue the frame of a publish, encoded by `Outbound.encode`. Bulk senders must check `_crowded` first.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        WrongEventLoopError
            This is another event loop. Checked once for all frames that are sent together.
        """
        if not self._scheduled:
            self._check_loop()
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)
        self._outbound.publish(frame)

    @property
    def _crowded(self) -> bool:
        """Whether so much is queued that a sender should wait for `_room`."""
        return self._outbound.size >= SEND_AT and self._outbound.online

    def _answer(self, reply: bytes, payload: bytes) -> bool:
        """Queue a publish to a reply subject in its received form; returns whether to wait for `_room`.

        Raises
        ------
        ConnectionClosedError, MaxPayloadError, OutboundBufferLimitError
        WrongEventLoopError
            As for `_post`.
        """
        if not self._scheduled:
            self._check_loop()
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)
        return self._outbound.answer(reply, payload) >= SEND_AT

    async def _room(self) -> None:
        """Send the queue, and wait while there is a session whose transport takes no more."""
        while self._outbound.online and self._outbound.size >= SEND_AT:
            await self._send()

    async def _send(self) -> None:
        """Send the queue and wait until the transport takes more. Other tasks run in between."""
        link = self._supervisor.link
        if link is None or not self._outbound.online:
            return
        link.flush()
        if link.choked and not link.lost.done():
            await link.room()
        else:  # a lost session counts as a session until the supervisor has run
            await asyncio.sleep(0)

    def _send_scheduled(self) -> None:
        self._scheduled = False
        while self._late:
            self._outbound.command(self._late.pop())
        if self._supervisor.link is not None:
            self._supervisor.link.flush()

    def _send_soon(self) -> None:
        """Send the queue at the end of this turn of the event loop."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)

    def _send_late(self, command: bytes) -> None:
        """Send a command at the end of the next turn of the event loop, together with frames queued until then."""
        self._late.append(command)
        self._send_soon()

    def _send_now(self) -> None:
        """Send the queue now."""
        self._send_scheduled()

    async def _confirm(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """As `flush`, for frames that are sent in the present session."""
        try:
            async with asyncio.timeout(timeout):
                while not self._outbound.online:
                    self._check_open()
                    await self._supervisor.change()
                answered = self._loop.create_future()
                self._client.ping(partial(settle_ping, answered))
                self._send_now()
                try:
                    await answered
                except DisconnectedError:
                    self._client.unconfirmed = False  # reported by this error
                    raise
                finally:
                    del answered  # it may hold an exception whose traceback holds this frame
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise FlushTimeoutError(f"{self.address}: not confirmed within {timeout:g} s") from None

    async def _acknowledged(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait until every `publish_async` of every context is settled. Raises PublishTimeoutError."""
        await asyncio.gather(*(publisher.completed(timeout) for publisher in list(self._publishers)))

    # -- asking --------------------------------------------------------------------------------------------------

    async def _api_request(self, subject: str, payload: bytes, *, timeout: float) -> Msg:  # noqa: ASYNC109
        """As `request`, for the JetStream API. There a subject may end with a filter that has wildcards (CRE-03)."""
        return await self._ask(subject, payload, timeout, None, wildcards=True)

    async def _ask(
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
        timer = self._loop.call_later(timeout, expire, answered, subject, timeout)
        try:
            if own_inbox:
                return cast("Msg", await ask_alone(self, subject, payload, headers, answered))
            requests = self._client.mux()
            token, reply = requests.begin(subject, partial(settle_request, answered))
            frame = b""
            try:
                frame = self._outbound.encode(subject, payload, reply, headers, wildcards=wildcards)
                self._outbound.publish(frame)
                self._send_now()
                return cast("Msg", await answered)
            finally:
                requests.forget(token)
                self._outbound.withdraw((frame,))  # nobody waits for the answer: do not send it after a reconnect
        finally:
            timer.cancel()
            del answered  # it may hold an exception whose traceback holds this frame

    # -- receiving -----------------------------------------------------------------------------------------------

    def _relax(self, route: Route) -> None:
        """Note that messages were taken from a full subscription; read again if no subscription is too full."""
        self._client.relax(route)
        if not self._client.congested and self._supervisor.link is not None:
            self._supervisor.link.resume()

    def _enlist(self, subscription: Drainable) -> None:
        """Register a subscription to drain with the connection. The reference to it is weak."""
        self._subscriptions.add(subscription)

    def _adopt(self, task: asyncio.Task[None]) -> None:
        """Register a task that must end with the connection."""
        self._callbacks.add(task)
        task.add_done_callback(self._callbacks.discard)

    def _tell(self, event: Event) -> None:
        """Report an event to the handler."""
        self._supervisor.tell(event)

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        """Raise ConnectionClosedError if the connection is closed."""
        self._client.check_open()

    def _check_loop(self) -> None:
        """Raise WrongEventLoopError if this is not the event loop of the connection."""
        if get_running_loop() is not self._loop:
            raise self._foreign()

    def _foreign(self) -> WrongEventLoopError:
        return WrongEventLoopError(
            "the connection belongs to the event loop it was opened in; open one in each loop, or use jetspark.sync"
        )
