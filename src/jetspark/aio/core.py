"""The inside of the asyncio connection: what its parts say to it. Users call `jetspark.aio.connection`.

What is to be sent waits in one queue, which goes to the socket once for each turn of the event loop, or as soon as
enough has come together.
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
"""Takes each event; a coroutine function or a plain one."""

SEND_AT: Final = 64 << 10


class Drainable(Protocol):
    """What receives messages, as a subscription does."""

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes."""

    def _retire(self) -> None:
        """Let the server send nothing more."""

    async def _emptied(self, *, confirm: bool) -> None:
        """Wait until all that came was taken and handled."""


class ConnectionCore:
    """What the parts of the asyncio front need of a connection."""

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
        self._closers = 0  # calls of `close` under way
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
        """There is a session now."""
        return self._outbound.online

    @property
    def closed(self) -> bool:
        """The connection is closed for good."""
        return self._client.closed

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""
        return self._client.server.address if self._client.server is not None else None

    # -- sending -------------------------------------------------------------------------------------------------

    def _post(self, frame: bytes) -> None:
        """Queue the frame of a publish, which `Outbound.encode` made. Who sends many looks at `crowded` before.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        WrongEventLoopError
            This is another loop. Looked at once for all that is sent together.
        """
        if not self._scheduled:
            self._check_loop()
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)
        self._outbound.publish(frame)

    @property
    def _crowded(self) -> bool:
        """So much waits to be handed over that a sender should wait for `room`."""
        return self._outbound.size >= SEND_AT and self._outbound.online

    def _answer(self, reply: bytes, payload: bytes) -> bool:
        """Queue a publish to a reply subject as it was received; returns whether to wait for `room`.

        Raises
        ------
        ConnectionClosedError, MaxPayloadError, OutboundBufferLimitError
        WrongEventLoopError
            As `post`.
        """
        if not self._scheduled:
            self._check_loop()
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)
        return self._outbound.answer(reply, payload) >= SEND_AT

    async def _room(self) -> None:
        """Hand over what waits, and wait while there is a session that takes no more."""
        while self._outbound.online and self._outbound.size >= SEND_AT:
            await self._send()

    async def _send(self) -> None:
        """Hand over what waits, and wait until the transport takes more; the others get their turn too."""
        link = self._supervisor.link
        if link is None or not self._outbound.online:
            return
        link.flush()
        if link.choked and not link.lost.done():
            await link.room()
        else:  # a session that is lost counts as one until the supervisor has had its turn
            await asyncio.sleep(0)

    def _send_scheduled(self) -> None:
        self._scheduled = False
        while self._late:
            self._outbound.command(self._late.pop())
        if self._supervisor.link is not None:
            self._supervisor.link.flush()

    def _send_soon(self) -> None:
        """Hand over what waits at the end of this turn of the event loop."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)

    def _send_late(self, command: bytes) -> None:
        """Send a command at the end of the next turn of the event loop, together with what is sent until then."""
        self._late.append(command)
        self._send_soon()

    def _send_now(self) -> None:
        """Hand over what waits."""
        self._send_scheduled()

    async def _confirm(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """As `flush`, for what is sent in the present session."""
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
                    self._client.unconfirmed = False  # told now
                    raise
                finally:
                    del answered  # it may hold an exception whose traceback holds this frame
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise FlushTimeoutError(f"{self.address}: not confirmed within {timeout:g} s") from None

    async def _acknowledged(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait until every `publish_async`, of whichever context, is settled. Raises PublishTimeoutError."""
        await asyncio.gather(*(publisher.completed(timeout) for publisher in list(self._publishers)))

    # -- asking --------------------------------------------------------------------------------------------------

    async def _api_request(self, subject: str, payload: bytes, *, timeout: float) -> Msg:  # noqa: ASYNC109
        """As `request`, for the JetStream API, where a subject may end with a filter that has wildcards (CRE-03)."""
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
                self._outbound.withdraw((frame,))  # nobody waits for it: it is not to be sent after a reconnect
        finally:
            timer.cancel()
            del answered  # it may hold an exception whose traceback holds this frame

    # -- receiving -----------------------------------------------------------------------------------------------

    def _relax(self, route: Route) -> None:
        """Messages were taken from a subscription that was full; read again if that was the reason not to."""
        self._client.relax(route)
        if not self._client.congested and self._supervisor.link is not None:
            self._supervisor.link.resume()

    def _enlist(self, subscription: Drainable) -> None:
        """What has to be drained when the connection is; forgotten with its last reference."""
        self._subscriptions.add(subscription)

    def _adopt(self, task: asyncio.Task[None]) -> None:
        """A task that must end with the connection."""
        self._callbacks.add(task)
        task.add_done_callback(self._callbacks.discard)

    def _tell(self, event: Event) -> None:
        """Tell an event to the handler."""
        self._supervisor.tell(event)

    # -- whether it may be used ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        """Raise ConnectionClosedError when the connection is closed."""
        self._client.check_open()

    def _check_loop(self) -> None:
        """Raise WrongEventLoopError when this is not the event loop of the connection."""
        if get_running_loop() is not self._loop:
            raise self._foreign()

    def _foreign(self) -> WrongEventLoopError:
        return WrongEventLoopError(
            "the connection belongs to the event loop it was opened in; open one in each loop, or use jetspark.sync"
        )
