"""The core of the asyncio connection, for the modules of `jetspark.aio`. Users call `jetspark.aio.connection`.

Outgoing frames wait in one queue. It is sent to the socket once in each turn of the event loop, or as soon as it holds
`FLUSH_THRESHOLD` bytes. Callers wait only while the socket takes no more.
"""

from __future__ import annotations

import asyncio
import weakref
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, cast

from jetspark.aio._interfaces import Cancellable, RequestTimer
from jetspark.aio.drain import ConnectionDrain, down_error
from jetspark.aio.futures import expire_request, settle_better_request, settle_ping, settle_request
from jetspark.aio.message import Msg
from jetspark.aio.reader_threads import ReaderThreads
from jetspark.aio.requests import request_with_own_inbox
from jetspark.aio.server_check import CallWatch, ServerCheck
from jetspark.aio.supervisor import Supervisor
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.connection_status import ConnectionStatus
from jetspark.wire.errors import ConnectError, DisconnectedError, Error, FlushTimeoutError, WrongEventLoopError
from jetspark.wire.events import Event
from jetspark.wire.headers import HeadersLike
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Payload
from jetspark.wire.reply_mux import ReplyCallback
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["ConnectionCore", "EventHandler"]

EventHandler = Callable[[Event], Awaitable[None] | None]
"""Receives each event; a coroutine function or a plain function."""

FLUSH_THRESHOLD: Final = 64 << 10
_CLOSE_TIMEOUT: Final = 2.0


class ConnectionCore:
    """A connection and its sessions.

    Attributes
    ----------
    options
        The options that it was opened with.
    loop
        The event loop that it belongs to.
    client
        The state machine of the connection.
    outbound
        The queue of outgoing frames.
    tasks
        The tasks that end with the connection, and those that report errors to the program.
    reader_threads
        The threads of its readers of record batches.
    call_from_thread
        Runs a coroutine for a thread and waits for its result; None in the asyncio front.
    draining
        The objects that drain with the connection.
    server_check
        Leaves a server whose JetStream does not serve.
    """

    def __init__(
        self, options: ConnectOptions, on_event: EventHandler | None = None, *, message_type: type[Message] = Msg
    ) -> None:
        self.options = options
        self.loop = get_running_loop()
        self._supervisor = Supervisor(options, self.loop, on_event, message_type)
        self.client: ConnectionState = self._supervisor.client
        self.client.connection = weakref.proxy(self)  # the event loop must not keep a connection that nobody holds
        self.outbound = self.client.outbound
        self._flush_scheduled = False
        self._next_tick_frames: list[bytes] = []
        self.tasks = self._supervisor.tasks  # a callback that is active keeps its connection
        self.reader_threads = ReaderThreads()
        self.call_from_thread: Callable[[Coroutine[Any, Any, Any]], Any] | None = None
        self.draining = ConnectionDrain()
        self.server_check = ServerCheck(self)

    async def open(self) -> None:
        """Open the first session."""
        await self._supervisor.start()

    def __del__(self) -> None:
        if hasattr(self, "server_check") and not self.closed:
            self._supervisor.abandon(repr(self))

    def __repr__(self) -> str:
        if "client" not in self.__dict__:  # a traceback may show a connection that was not made
            return "<Connection, not open yet>"
        return f"<Connection to {self.address}, {self.status.value}>"

    @property
    def status(self) -> ConnectionStatus:
        """State of the connection."""
        return self.client.status

    @property
    def connected(self) -> bool:
        """Whether there is a session now."""
        return self.outbound.online

    @property
    def closed(self) -> bool:
        """Whether the connection is closed for good."""
        return self.client.closed

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""
        return self.client.server.address if self.client.server is not None else None

    @property
    def buffered(self) -> int:
        """Bytes that were not handed to a socket yet."""
        return self.outbound.size

    def new_inbox(self) -> str:
        """Return a new reply subject below the inbox prefix."""
        return self.client.new_inbox()

    # -- sending -------------------------------------------------------------------------------------------------

    def queue_publish(self, subject: str, payload: Payload, reply: str, headers: HeadersLike | None) -> bool:
        """Queue a publish; return whether to wait for `wait_writable`. Errors are those of `Connection.publish`."""
        if get_running_loop() is not self.loop:
            raise self._wrong_loop_error()
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.loop.call_soon(self._run_scheduled_flush)
        outbound = self.outbound
        return outbound.queue_publish(outbound.encode(subject, payload, reply, headers)) >= FLUSH_THRESHOLD

    def queue_response(self, reply: bytes, payload: Payload, headers: HeadersLike | None) -> bool:
        """Queue a publish to a received subject; see `send_reply`."""
        return self.queue_publish(self.outbound.check_reply(reply).decode(), payload, "", headers)

    def send_frame(self, frame: bytes) -> None:
        """Queue the frame of a publish, encoded by `Outbound.encode`. Check `write_buffer_full` before.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        WrongEventLoopError
            This is another event loop. Checked once for all frames that are sent together.
        """
        if not self._flush_scheduled:
            self.check_loop()
            self._flush_scheduled = True
            self.loop.call_soon(self._run_scheduled_flush)
        self.outbound.queue_publish(frame)

    @property
    def write_buffer_full(self) -> bool:
        """Whether so much is queued that a sender should wait for `wait_writable`."""
        return self.outbound.size >= FLUSH_THRESHOLD and self.outbound.online

    def send_reply(self, reply: bytes, payload: bytes) -> bool:
        """Queue a publish to a reply subject in its received form; returns whether to wait for `wait_writable`.

        Raises
        ------
        ConnectionClosedError, BadSubjectError, MaxPayloadError, OutboundBufferLimitError
        WrongEventLoopError
            As for `send_frame`.
        """
        if not self._flush_scheduled:
            self.check_loop()
            self._flush_scheduled = True
            self.loop.call_soon(self._run_scheduled_flush)
        return self.outbound.queue_ack(reply, payload) >= FLUSH_THRESHOLD

    async def wait_writable(self) -> None:
        """Send the queue, and wait while there is a session whose transport takes no more; see its `wait_writable`."""
        while self.outbound.online and self.outbound.size >= FLUSH_THRESHOLD:
            await self.flush_once()

    async def flush_once(self) -> None:
        """Send the queue and wait until the transport takes more. Other tasks run in between."""
        session = self._supervisor.session
        if session is None or not self.outbound.online:
            return
        session.flush()
        if session.write_paused and not session.lost.done():
            await session.wait_writable()
        else:  # a lost session counts as a session until the supervisor has run
            await asyncio.sleep(0)

    def _run_scheduled_flush(self) -> None:
        self._flush_scheduled = False
        while self._next_tick_frames:
            self.outbound.queue_command(self._next_tick_frames.pop())
        if self._supervisor.session is not None:
            self._supervisor.session.flush()

    def flush_soon(self) -> None:
        """Send the queue at the end of this turn of the event loop."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.loop.call_soon(self._run_scheduled_flush)

    def send_next_tick(self, command: bytes) -> None:
        """Send a command at the end of the next turn of the event loop, together with frames queued until then."""
        self._next_tick_frames.append(command)
        self.flush_soon()

    def flush_now(self) -> None:
        """Send the queue now."""
        self._run_scheduled_flush()

    async def flush(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait until the server has everything that was sent; see `Connection.flush`."""
        self.check_loop()
        if self.client.has_unconfirmed_publishes:
            self.client.has_unconfirmed_publishes = False
            raise DisconnectedError("a session was lost; what was published shortly before may not have arrived")
        await self.ping_roundtrip(timeout)

    async def ping_roundtrip(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """As `flush`, for frames that are sent in the present session."""
        try:
            async with asyncio.timeout(timeout):
                while not self.outbound.online:
                    self.check_open()
                    self.check_reachable()
                    await self._supervisor.wait_state_change()
                answered = self.loop.create_future()
                self.client.ping(partial(settle_ping, answered))
                self.flush_now()
                try:
                    await answered
                except DisconnectedError:
                    self.client.has_unconfirmed_publishes = False  # reported by this error
                    raise
                finally:
                    del answered  # it may hold an exception whose traceback holds this frame
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise FlushTimeoutError(f"{self.address}: not confirmed within {timeout:g} s") from None

    async def leave_session(self, reason: str) -> None:
        """Leave the session and wait until another one is open, or the connection is closed."""
        self.flush_now()
        self._supervisor.leave_session(reason)
        await self._supervisor.wait_state_change()

    async def reconnect(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Leave the session and wait for another one; see `Connection.reconnect`."""
        self.check_loop()
        try:
            async with asyncio.timeout(timeout):
                await self.leave_session("the program called reconnect")
        except TimeoutError:
            text = f"no server has accepted a new session within {timeout:g} s; the connection keeps trying"
            raise ConnectError(text, timed_out=True) from None
        self.check_open()

    # -- requests ------------------------------------------------------------------------------------------------

    async def api_request(self, subject: str, payload: bytes, *, timeout: float) -> Msg:  # noqa: ASYNC109
        """As `request`, for the JetStream API. There a subject may end with a filter that has wildcards (CRE-03)."""
        return await self.request(subject, payload, timeout, wildcards=True)

    async def request(
        self,
        subject: str,
        payload: Payload,
        timeout: float,  # noqa: ASYNC109 (the deadline is part of the call)
        headers: HeadersLike | None = None,
        *,
        own_inbox: bool = False,
        wildcards: bool = False,
        seconds_for_better: Callable[[Message], float] | None = None,
        timer: RequestTimer | None = None,
    ) -> Msg:
        """Send a request and wait for its answer; see `Connection.request`. `wildcards` allows them in the subject.

        `seconds_for_better` says how long to wait for a better answer than the given one; 0 takes it. `timer` ends the
        request instead of a timer of its own.
        """
        if get_running_loop() is not self.loop:
            raise self._wrong_loop_error()
        if self.client.status is ConnectionStatus.DRAINING:
            self.check_reachable()
        answered: asyncio.Future[Any] = self.loop.create_future()
        if timer is None:
            handle: Cancellable = self.loop.call_later(timeout, expire_request, answered, subject, timeout)
        else:
            timer.start(answered, subject, timeout)
            handle = timer
        try:
            if own_inbox:
                inbox_call = request_with_own_inbox(self.client, self.flush_now, subject, payload, headers, answered)
                return cast("Msg", await inbox_call)
            requests = self.client.reply_mux
            requests.ensure_subscribed(self.client.subscribe)
            settle: ReplyCallback = partial(settle_request, answered)
            if seconds_for_better is not None:
                settle = partial(settle_better_request, answered, seconds_for_better)
            token, inbox = requests.add_request(subject, settle)
            frame = b""
            try:
                frame = self.outbound.encode(subject, payload, inbox, headers, wildcards=wildcards)
                self.outbound.queue_publish(frame)
                self.flush_now()
                reply: Msg = await answered
            except BaseException:
                self.outbound.withdraw((frame,))  # nobody waits for the answer: do not send it after a reconnect
                raise
            else:
                return reply
            finally:
                requests.remove_request(token)
                del settle  # it holds `answered`
        finally:
            handle.cancel()
            del answered  # it may hold an exception whose traceback holds this frame

    async def request_ack(self, subject: str, payload: bytes, timeout: float) -> Msg:  # noqa: ASYNC109
        """Send an acknowledgement and wait for its answer. The server is checked if that takes long."""
        with CallWatch(self.server_check):
            return await self.request(subject, payload, timeout)

    # -- receiving -----------------------------------------------------------------------------------------------

    def on_consumed(self, sub: SubscriptionState) -> None:
        """Note that messages were taken from a full subscription; read again if no subscription is too full."""
        self.client.full_subscriptions.resume_if_below(sub)
        if not self.client.full_subscriptions.paused and self._supervisor.session is not None:
            self._supervisor.session.resume_reading()

    def emit(self, event: Event) -> None:
        """Report an event to the handler."""
        self._supervisor.emit(event)

    # -- the end -------------------------------------------------------------------------------------------------

    async def drain(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Drain everything and close; see `Connection.drain`."""
        self.check_loop()
        self.client.drain()
        if not self.outbound.online:  # nobody answers any more
            self.client.reply_mux.fail(down_error())
            self._supervisor.notify_state_change()
        await self.draining.run(self, self.options.drain_timeout if timeout is None else timeout)

    def check_reachable(self) -> None:
        """Raise DisconnectedError if the connection drains while it is down: nothing waits for a new session then."""
        if self.status is ConnectionStatus.DRAINING and not self.outbound.online:
            raise down_error()

    async def close(self, *, wait: bool = True) -> None:
        """Close at once; see `Connection.close`. With `wait` false, do not wait for the server."""
        self.check_loop()
        if self._supervisor.session is not None:
            self._supervisor.session.force_flush()
        self.client.close()
        self._supervisor.shutdown()
        self.reader_threads.close()
        self.tasks.begin_close()
        closed = False
        try:
            try:
                await asyncio.sleep(0)  # tasks of callbacks that wait for a message end by themselves now
            finally:
                others = self.tasks.cancel()
            await self._supervisor.wait_closed(others, _CLOSE_TIMEOUT, server_timeout=_CLOSE_TIMEOUT if wait else 0)
            await self.tasks.wait_handlers(_CLOSE_TIMEOUT)
            closed = True
        finally:
            if self.tasks.end_close() and not closed:  # cancelled, and nobody else would close a silent server's socket
                self._supervisor.abort()

    # -- checks --------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise ConnectionClosedError if the connection is closed."""
        self.client.check_open()

    def check_loop(self) -> None:
        """Raise WrongEventLoopError if this is not the event loop of the connection."""
        if get_running_loop() is not self.loop:
            raise self._wrong_loop_error()

    def _wrong_loop_error(self) -> WrongEventLoopError:
        return WrongEventLoopError(
            "the connection belongs to the event loop it was opened in; open one in each loop, or use jetspark.sync"
        )
