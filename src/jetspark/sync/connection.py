"""The blocking connection: the asyncio one, on an event loop in a thread of its own.

There is one source of behaviour: this module only carries calls over to the loop and waits. Two paths are shorter,
because they are the busy ones: a publish is encoded and checked by the caller and left in a list that the loop takes
over in one go, and messages are taken out of a subscription's queue by the thread that wants them. PINGs are answered
and sessions are restored while the program does something else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar, cast
from weakref import WeakSet

from jetspark.aio import connection as aio
from jetspark.flow.publish_window import PublishSettings
from jetspark.sync.callbacks import CALLBACK_THREADS, CallbackThread, on_thread
from jetspark.sync.jetstream.context import JetStream
from jetspark.sync.message import Msg
from jetspark.sync.runner import Runner
from jetspark.sync.subscription import Callback, Subscription
from jetspark.wire.client import Status
from jetspark.wire.errors import ConnectionClosedError, DrainTimeoutError, OutboundBufferLimitError
from jetspark.wire.events import Event
from jetspark.wire.headers import HeadersLike
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Payload
from jetspark.wire.routes import Overflow, Route
from jetspark.wire.session import ServerInfo

__all__ = ["Connection", "EventHandler"]

T = TypeVar("T")

EventHandler = Callable[[Event], None]
"""Takes each event."""

_STAGED: Final = 1 << 20
_JOIN_PATIENCE: Final = 5.0


class Drainable(Protocol):
    """What receives messages, as a subscription does."""

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes."""

    def retire(self) -> None:
        """Let the server send nothing more."""

    def emptied(self, deadline: float) -> bool:
        """Wait until all that came was taken and handled; whether it was in time."""

    def join(self, timeout: float) -> None:
        """Wait for the callback's thread to end, unless this is it."""


class Connection:
    """Opened by `jetspark.sync.connect`. A context manager that drains at its end."""

    def __init__(self, options: ConnectOptions, on_event: EventHandler | None = None) -> None:
        self.options = options
        self.lock = threading.Lock()  # of what is staged for the loop
        self._staged: list[bytes] = []
        self._staged_size = 0
        self._taking = False
        self._subscriptions: WeakSet[Drainable] = WeakSet()
        self._callback_threads: WeakSet[CallbackThread[Any]] = WeakSet()
        self._closing = threading.Lock()
        self._teller = ThreadPoolExecutor(1, "jetspark events") if on_event is not None else None
        self._on_event = on_event
        self._runner = Runner("jetspark connection")
        try:
            self._inner = self._runner.call(self._open())
        except BaseException:
            self._stop_threads()
            raise
        self._outbound = self._inner.client.outbound

    async def _open(self) -> aio.Connection:
        handler = self._tell_on_thread if self._on_event is not None else None
        inner = aio.Connection(self.options, handler, message_type=Msg)
        inner.client.owner = self
        await inner.open()
        return inner

    async def _tell_on_thread(self, event: Event) -> None:
        assert self._teller is not None
        assert self._on_event is not None
        await self._runner.loop.run_in_executor(self._teller, self._on_event, event)

    def __repr__(self) -> str:
        return f"<Connection to {self.address}, {self.status.value}>"

    @property
    def status(self) -> Status:
        """State of the connection."""
        return self._inner.status

    @property
    def connected(self) -> bool:
        """There is a session now."""
        return self._inner.connected

    @property
    def closed(self) -> bool:
        """The connection is closed for good."""
        return self._inner.closed

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""
        return self._inner.address

    @property
    def server_info(self) -> ServerInfo:
        """What the present server, or the last one, says of itself."""
        return self._inner.server_info

    @property
    def servers(self) -> list[ServerAddress]:
        """The servers that a reconnect tries, discovered ones included."""
        return self._inner.servers

    @property
    def buffered(self) -> int:
        """Bytes that wait to be handed to a socket."""
        return self._inner.buffered + self._staged_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self.closed:
            self.drain()
        else:
            self.close()

    # -- publishing ----------------------------------------------------------------------------------------------

    def publish(
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
        self._stage(self._outbound.encode(subject, payload, reply, headers))

    def answer(self, reply: bytes, payload: bytes) -> None:
        """Send a message to a reply subject as it was received. Errors are those of `publish`."""
        self._stage(self._outbound.encode_answer(reply, payload))

    def _stage(self, frame: bytes) -> None:
        with self.lock:
            self.put(frame)
        self.settle()

    def put(self, frame: bytes) -> None:
        """Leave a frame for the loop. With `lock` held, and `settle` behind it.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        """
        outbound = self._outbound
        waiting = self._staged_size + len(frame)
        if not outbound.online and outbound.size + waiting > outbound.limit:
            raise OutboundBufferLimitError(
                f"not connected, and {self.buffered} bytes wait already: buffer_limit is {outbound.limit}"
            )
        if not self._taking:
            self._runner.check()
            self._runner.soon(self.take_over)
            self._taking = True
        self._staged.append(frame)
        self._staged_size = waiting

    def settle(self) -> None:
        """Wait where so much waits that the server has to catch up."""
        if self._staged_size + self._outbound.size > _STAGED and self._outbound.online:
            self._runner.call(self._room())

    def take_over(self) -> None:
        """On the loop: send what the callers left."""
        self.gather()
        self._inner.send_now()

    def gather(self) -> None:
        """On the loop: queue what the callers left, and do not send it yet."""
        with self.lock:
            staged, self._staged = self._staged, []
            size, self._staged_size = self._staged_size, 0
            self._taking = False
        if self._outbound.closed is None:
            self._outbound.chunks.extend(staged)
            self._outbound.size += size

    async def _room(self) -> None:
        self.take_over()
        await self._inner.room()

    def flush(self, timeout: float | None = 10.0) -> None:
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
        self._runner.call(self._inner.flush(timeout))

    def confirm(self, timeout: float) -> None:
        """As `flush`, for what is sent in the present session."""
        self._runner.call(self._inner.confirm(timeout))

    def request(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        timeout: float = 5.0,
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
        answer = self._inner.request(subject, payload, timeout=timeout, headers=headers, own_inbox=own_inbox)
        return cast("Msg", self._runner.call(answer))

    def new_inbox(self) -> str:
        """A fresh reply subject below the inbox prefix; nobody listens to it yet."""
        return self._inner.new_inbox()

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
            Limits and times of `publish_async`. Its `on_error` is called on a thread of its own.

        Raises
        ------
        BadSubjectError
            Domain or prefix cannot stand in a subject.
        """
        if publishing is not None and publishing.on_error is not None:
            publishing = replace(publishing, on_error=on_thread(self, publishing.on_error))
        return JetStream(
            self, self._inner.jetstream(domain=domain, prefix=prefix, timeout=timeout, publishing=publishing)
        )

    # -- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(
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
            Called with each message, one after the other, on a thread of its own. What it raises is told as an event.
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
        limits = (pending_messages, pending_bytes, overflow)
        subscription = self._runner.call(self._subscribe(subject, queue, callback, max_msgs, limits))
        self._subscriptions.add(subscription)
        return subscription

    async def _subscribe(
        self,
        subject: str,
        queue: str,
        callback: Callback | None,
        max_msgs: int,
        limits: tuple[int | None, int | None, Overflow],
    ) -> Subscription:
        messages, size, overflow = limits
        route = self._inner.client.subscribe(
            subject, queue, max_msgs=max_msgs, limit_msgs=messages, limit_bytes=size, overflow=overflow
        )
        self._inner.send_soon()
        return Subscription(self, route, callback)

    def unsubscribe(self, route: Route, max_msgs: int) -> None:
        """End a subscription, now or after so many messages in all."""
        client = self._inner.client
        self.run(partial(client.limit, route, max_msgs) if max_msgs else partial(client.unsubscribe, route))

    def retire(self, route: Route) -> None:
        """Tell the server to send nothing more."""
        self.run(partial(self._inner.client.retire, route))

    def forget(self, route: Route) -> None:
        """The server sends nothing more."""
        if not route.ended:
            self.run(partial(self._inner.client.routes.remove, route))

    def relax(self, route: Route) -> None:
        """Messages were taken from a subscription that was full."""
        self._runner.soon(partial(self._inner.relax, route))

    def enlist(self, subscription: Drainable) -> None:
        """What has to be drained when the connection is; forgotten with its last reference."""
        self._subscriptions.add(subscription)

    def adopt(self, thread: CallbackThread[Any]) -> None:
        """A thread that must end with the connection."""
        self._callback_threads.add(thread)

    def tell(self, event: Event) -> None:
        """Tell an event to the handler."""
        self._runner.soon(partial(self._inner.tell, event))

    def check_open(self) -> None:
        """Raise ConnectionClosedError when the connection is closed."""
        self._inner.check_open()

    @property
    def inner(self) -> aio.Connection:
        """The connection on the event loop; for use on that only."""
        return self._inner

    def soon(self, function: Callable[[], object]) -> None:
        """Run on the loop without waiting."""
        self._runner.soon(function)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the connection's event loop and wait for its result."""
        return self._runner.call(coroutine)

    def run(self, function: Callable[[], T]) -> T:
        """Run a function on the connection's event loop and wait for its result."""

        async def run() -> T:
            result = function()
            self._inner.send_soon()
            return result

        return self._runner.call(run())

    # -- the end -------------------------------------------------------------------------------------------------

    def drain(self, timeout: float | None = None) -> None:
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
        self.check_open()
        seconds = self.options.drain_timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        subscriptions = list(self._subscriptions)
        try:
            self.run(partial(setattr, self._inner.client, "status", Status.DRAINING))
            for subscription in subscriptions:
                subscription.retire()
            self.confirm(seconds)
            late = [each for each in subscriptions if not each.emptied(deadline)]
            if late:
                left = sum(each.pending[0] for each in late)
                raise DrainTimeoutError(f"not drained within {seconds:g} s; {left} messages dropped")
            self.confirm(max(deadline - time.monotonic(), 0.001))
            self._runner.call(self._inner.acknowledged(max(deadline - time.monotonic(), 0.001)))
        except TimeoutError as error:
            if isinstance(error, DrainTimeoutError):
                raise
            raise DrainTimeoutError(f"not drained within {seconds:g} s: {error}") from error
        finally:
            self.close()

    def close(self) -> None:
        """Close at once: what was published is still sent, what waits in subscriptions is dropped. May be repeated.

        It may be called from a callback and from the event handler, for whose own end it does not wait.
        """
        if self._is_inside():
            threading.Thread(target=self._close, name="jetspark close", daemon=True).start()
        else:
            self._close()

    def _close(self) -> None:
        with self._closing:
            try:
                self._runner.call(self._inner.close())
            except ConnectionClosedError:
                return  # closed before
            for subscription in list(self._subscriptions):
                subscription.join(_JOIN_PATIENCE)
            for thread in list(self._callback_threads):
                thread.stop(_JOIN_PATIENCE)
            self._stop_threads()

    def _stop_threads(self) -> None:
        self._runner.stop()
        if self._teller is not None:
            self._teller.shutdown(wait=True, cancel_futures=True)

    def _is_inside(self) -> bool:
        name = threading.current_thread().name
        return name.startswith(("jetspark events", "jetspark subscription", CALLBACK_THREADS))
