"""The asyncio connection: what the user calls. The sessions below it are the supervisor's business.

A publish is encoded, checked and queued in one step; the queue goes to the socket once for each turn of the event loop,
or as soon as enough has come together. Callers wait only where the server is slower than they are.
"""

from __future__ import annotations

import asyncio
import weakref
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self, cast

from jetspark.aio.asking import ask_alone
from jetspark.aio.jetstream.context import JetStream
from jetspark.aio.jetstream.publisher import Publisher
from jetspark.aio.message import Msg
from jetspark.aio.subscription import Callback, Subscription
from jetspark.aio.supervisor import Supervisor
from jetspark.aio.waiting import expire, settle_ping, settle_request
from jetspark.flow.publish_window import PublishSettings
from jetspark.jetstream.names import api_prefix
from jetspark.wire.client import Client, Status
from jetspark.wire.errors import (
    DisconnectedError,
    DrainTimeoutError,
    Error,
    FlushTimeoutError,
    WrongEventLoopError,
)
from jetspark.wire.events import Event
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Payload
from jetspark.wire.routes import Overflow, Route
from jetspark.wire.session import ServerInfo

__all__ = ["Connection", "EventHandler"]

EventHandler = Callable[[Event], Awaitable[None] | None]
"""Takes each event; a coroutine function or a plain one."""

_SEND_AT: Final = 64 << 10
_CLOSE_PATIENCE: Final = 2.0


class Drainable(Protocol):
    """What receives messages, as a subscription does."""

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes."""

    def retire(self) -> None:
        """Let the server send nothing more."""

    async def emptied(self, *, confirm: bool) -> None:
        """Wait until all that came was taken and handled."""


class Connection:
    """Opened by `jetspark.connect`. For the event loop it was opened in; a context manager that drains at its end."""

    def __init__(
        self, options: ConnectOptions, on_event: EventHandler | None = None, *, message_type: type[Message] = Msg
    ) -> None:
        self.options = options
        self._loop = get_running_loop()
        self._supervisor = Supervisor(options, self._loop, on_event, message_type)
        self.client: Client = self._supervisor.client
        self.client.owner = self
        self._outbound = self.client.outbound
        self._scheduled = False
        self._callbacks: set[asyncio.Task[None]] = set()
        self._subscriptions: weakref.WeakSet[Drainable] = weakref.WeakSet()
        self.publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()  # of the contexts, for `drain`

    async def open(self) -> None:
        """Open the first session; `connect` calls it."""
        await self._supervisor.start()

    def __repr__(self) -> str:
        return f"<Connection to {self.address}, {self.status.value}>"

    @property
    def status(self) -> Status:
        """State of the connection."""
        return self.client.status

    @property
    def connected(self) -> bool:
        """There is a session now."""
        return self._outbound.online

    @property
    def closed(self) -> bool:
        """The connection is closed for good."""
        return self.client.closed

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""
        return self.client.server.address if self.client.server is not None else None

    @property
    def server_info(self) -> ServerInfo:
        """What the present server, or the last one, says of itself."""
        return self.client.info

    @property
    def servers(self) -> list[ServerAddress]:
        """The servers that a reconnect tries, discovered ones included."""
        return [server.address for server in self.client.servers.servers]

    @property
    def buffered(self) -> int:
        """Bytes that wait to be handed to a socket."""
        return self._outbound.size

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self.closed:
            await self.drain()
        else:
            await self.close()

    # -- publishing ----------------------------------------------------------------------------------------------

    async def publish(
        self, subject: str, payload: Payload = b"", *, reply: str = "", headers: HeadersLike | None = None
    ) -> None:
        """Send a message. It is queued when this returns; `flush` tells when the server has it.

        Without a session it waits in a buffer of `buffer_limit` bytes, and is sent after the reconnect.

        Raises
        ------
        BadSubjectError, BadHeadersError, MaxPayloadError, TypeError
            It cannot be sent; nothing was.
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        ConnectionClosedError
            The connection is closed.
        """
        if get_running_loop() is not self._loop:
            raise self._foreign()
        outbound = self._outbound
        if outbound.publish(outbound.encode(subject, payload, reply, headers)) >= _SEND_AT:
            await self._send()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)

    def post(self, frame: bytes) -> None:
        """Queue the frame of a publish, which `Outbound.encode` made. Who sends many looks at `crowded` before.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        WrongEventLoopError
            This is another loop. Looked at once for all that is sent together.
        """
        if not self._scheduled:
            self.check_loop()
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)
        self._outbound.publish(frame)

    @property
    def crowded(self) -> bool:
        """So much waits to be handed over that a sender should wait for `room`."""
        return self._outbound.size >= _SEND_AT and self._outbound.online

    def answer(self, reply: bytes, payload: bytes) -> bool:
        """Queue a publish to a reply subject as it was received; returns whether to wait for `room`.

        Raises
        ------
        ConnectionClosedError, MaxPayloadError, OutboundBufferLimitError
        """
        if get_running_loop() is not self._loop:
            raise self._foreign()
        outbound = self._outbound
        if outbound.publish(outbound.encode_answer(reply, payload)) >= _SEND_AT:
            return True
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)
        return False

    async def room(self) -> None:
        """Hand over what waits, and wait while there is a session that takes no more."""
        while self._outbound.online and self._outbound.size >= _SEND_AT:
            await self._send()

    async def _send(self) -> None:
        """Hand over what waits, and wait until the transport takes more; the others get their turn too."""
        link = self._supervisor.link
        if link is None or not self._outbound.online:
            return
        link.flush()
        if link.choked:
            await link.room()
        else:
            await asyncio.sleep(0)

    def _send_scheduled(self) -> None:
        self._scheduled = False
        if self._supervisor.link is not None:
            self._supervisor.link.flush()

    def send_soon(self) -> None:
        """Hand over what waits at the end of this turn of the event loop."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)

    def send_now(self) -> None:
        """Hand over what waits."""
        self._send_scheduled()

    async def acknowledged(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait until every `publish_async`, of whichever context, is settled. Raises PublishTimeoutError."""
        await asyncio.gather(*(publisher.completed(timeout) for publisher in list(self.publishers)))

    async def flush(self, timeout: float | None = 10.0) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait until the server has confirmed that it has all that was sent before.

        Without a session it waits for the next one, and for what waited in the buffer to be confirmed.

        Parameters
        ----------
        timeout
            Seconds; None waits for ever.

        Raises
        ------
        FlushTimeoutError
            Not confirmed in time.
        DisconnectedError
            A session was lost meanwhile, or before it with publishes that nothing had confirmed: they may not have
            arrived. Each loss is told to one flush, so a second call confirms what was sent after it.
        ConnectionClosedError
            The connection is, or was meanwhile, closed.
        """
        self.check_loop()
        if self.client.unconfirmed:
            self.client.unconfirmed = False
            raise DisconnectedError("a session was lost; what was published shortly before may not have arrived")
        await self.confirm(timeout)

    async def confirm(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """As `flush`, for what is sent in the present session."""
        try:
            async with asyncio.timeout(timeout):
                while not self._outbound.online:
                    self.check_open()
                    await self._supervisor.change()
                answered = self._loop.create_future()
                self.client.ping(partial(settle_ping, answered))
                self.send_now()
                try:
                    await answered
                except DisconnectedError:
                    self.client.unconfirmed = False  # told now
                    raise
                finally:
                    del answered  # it may hold an exception whose traceback holds this frame
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise FlushTimeoutError(f"{self.address}: not confirmed within {timeout:g} s") from None

    # -- requests ------------------------------------------------------------------------------------------------

    async def request(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        timeout: float = 5.0,  # noqa: ASYNC109 (the deadline is part of the call)
        headers: HeadersLike | None = None,
        own_inbox: bool = False,
    ) -> Msg:
        """Send a message and wait for the answer to it.

        Parameters
        ----------
        timeout
            Seconds.
        own_inbox
            Listen on an inbox of its own instead of the connection's shared one. Needed where the answer does not
            carry the reply subject, as the messages of a JetStream consumer do not.

        Raises
        ------
        RequestTimeoutError
            No answer in time; whether somebody got the request is not known.
        NoRespondersError
            Nobody listens on the subject (at once, not by time-out).
        DisconnectedError
            The session was lost meanwhile.
        PermissionsViolationError
            The user may not publish to the subject, or not subscribe to the inbox.
        """
        return await self._ask(subject, payload, timeout, headers, own_inbox=own_inbox)

    async def api_request(self, subject: str, payload: bytes, *, timeout: float) -> Msg:  # noqa: ASYNC109
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
        self.check_loop()
        answered: asyncio.Future[Message] = self._loop.create_future()
        timer = self._loop.call_later(timeout, expire, answered, subject, timeout)
        try:
            if own_inbox:
                return cast("Msg", await ask_alone(self, subject, payload, headers, answered))
            requests = self.client.mux()
            token, reply = requests.begin(subject, partial(settle_request, answered))
            frame = b""
            try:
                frame = self._outbound.encode(subject, payload, reply, headers, wildcards=wildcards)
                self._outbound.publish(frame)
                self.send_now()
                return cast("Msg", await answered)
            finally:
                requests.forget(token)
                self._outbound.withdraw((frame,))  # nobody waits for it: it is not to be sent after a reconnect
        finally:
            timer.cancel()
            del answered  # it may hold an exception whose traceback holds this frame

    def new_inbox(self) -> str:
        """A fresh reply subject below the inbox prefix; nobody listens to it yet."""
        return self.client.new_inbox()

    def jetstream(
        self,
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float = 5.0,
        publishing: PublishSettings | None = None,
    ) -> JetStream:
        """JetStream over this connection.

        Parameters
        ----------
        domain
            JetStream domain: requests go to `$JS.<domain>.API.` instead of `$JS.API.`.
        prefix
            Prefix of an API that was imported under another name. Not together with `domain`.
        timeout
            Seconds that a call waits for its answer, unless it says otherwise.
        publishing
            Limits and times of `publish_async`. Its `on_error` is called on a task of its own.

        Raises
        ------
        BadSubjectError
            Domain or prefix cannot stand in a subject.
        """
        return JetStream(self, api_prefix(domain, prefix), timeout, publishing)

    # -- subscriptions -------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: Callback | None = None,
        max_msgs: int = 0,
        pending_messages: int | None = None,
        pending_bytes: int | None = None,
        overflow: Overflow = "drop",
    ) -> Subscription:
        """Listen to a subject.

        Parameters
        ----------
        subject
            May have the wildcards `*` and `>`.
        queue
            Queue group: each message goes to one of its members.
        callback
            Called with each message, one after the other, on a task of its own. What it raises is told as an event.
            Without it, iterate the subscription or call `next_msg`.
        max_msgs
            End after that many messages; 0 does not end.
        pending_messages, pending_bytes
            What may wait here; None takes the connection's options.
        overflow
            When more comes: `drop` drops it and tells `SlowConsumer`, `pause` reads nothing more from the server until
            half of it was taken, for the whole connection.

        Raises
        ------
        BadSubjectError, ConnectionClosedError
        """
        self.check_loop()
        route = self.client.subscribe(
            subject,
            queue,
            max_msgs=max_msgs,
            limit_msgs=pending_messages,
            limit_bytes=pending_bytes,
            overflow=overflow,
        )
        self.send_soon()
        subscription = Subscription(self, route, callback)
        self._subscriptions.add(subscription)
        return subscription

    def relax(self, route: Route) -> None:
        """Messages were taken from a subscription that was full; read again if that was the reason not to."""
        self.client.relax(route)
        if not self.client.congested and self._supervisor.link is not None:
            self._supervisor.link.resume()

    def enlist(self, subscription: Drainable) -> None:
        """What has to be drained when the connection is; forgotten with its last reference."""
        self._subscriptions.add(subscription)

    def adopt(self, task: asyncio.Task[None]) -> None:
        """A task that must end with the connection."""
        self._callbacks.add(task)
        task.add_done_callback(self._callbacks.discard)

    def tell(self, event: Event) -> None:
        """Tell an event to the handler."""
        self._supervisor.tell(event)

    # -- the end -------------------------------------------------------------------------------------------------

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """End all subscriptions without losing a message, send what waits, let streams acknowledge it, close.

        Parameters
        ----------
        timeout
            Seconds for all of it; None is `drain_timeout` of the options.

        Raises
        ------
        DrainTimeoutError
            The rest was dropped. The connection is closed all the same.
        """
        self.check_loop()
        self.check_open()
        seconds = self.options.drain_timeout if timeout is None else timeout
        self.client.status = Status.DRAINING
        subscriptions = list(self._subscriptions)
        try:
            async with asyncio.timeout(seconds):
                for subscription in subscriptions:
                    subscription.retire()
                await self.confirm(None)
                await asyncio.gather(*(subscription.emptied(confirm=False) for subscription in subscriptions))
                await self.confirm(None)
                await self.acknowledged(None)
        except TimeoutError:
            left = sum(subscription.pending[0] for subscription in subscriptions)
            asked = sum(publisher.pending for publisher in self.publishers)
            raise DrainTimeoutError(
                f"not drained within {seconds:g} s; {left} messages dropped, {asked} publishes not acknowledged"
            ) from None
        finally:
            await self.close()

    async def close(self) -> None:
        """Close at once: what was published is still sent, what waits in subscriptions is dropped. May be repeated.

        It may be called from a callback and from the event handler, for whose own end it does not wait.
        """
        self.check_loop()
        if self._supervisor.link is not None:
            self._supervisor.link.flush()
        self.client.close()
        self._supervisor.release()
        try:
            await asyncio.sleep(0)  # callbacks' tasks that wait for a message end by themselves now
        finally:
            others = [task for task in self._callbacks if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
        await self._supervisor.finish(others, _CLOSE_PATIENCE)

    def check_open(self) -> None:
        """Raise ConnectionClosedError when the connection is closed."""
        self.client.check_open()

    def check_loop(self) -> None:
        """Raise WrongEventLoopError when this is not the event loop of the connection."""
        if get_running_loop() is not self._loop:
            raise self._foreign()

    def _foreign(self) -> WrongEventLoopError:
        return WrongEventLoopError(
            "the connection belongs to the event loop it was opened in; open one in each loop, or use jetspark.sync"
        )
