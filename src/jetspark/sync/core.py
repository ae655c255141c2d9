"""The internal part of the blocking connection, used by the other modules of `jetspark.sync`.

Users call `jetspark.sync.connection`. The caller's thread encodes and checks a publish, and appends it to a list that
the loop takes over in one step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet

from jetspark.aio import connection as aio
from jetspark.sync.callback_thread import CallbackThread
from jetspark.sync.loop_thread import EventLoopThread
from jetspark.sync.message import Msg
from jetspark.wire.connection_state import ConnectionStatus
from jetspark.wire.errors import OutboundBufferLimitError
from jetspark.wire.events import Event
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["ConnectionCore", "Drainable", "EventHandler", "snapshot"]

T = TypeVar("T")

EventHandler = Callable[[Event], None]
"""Receives each event."""

_STAGED_LIMIT: Final = 1 << 20


class Drainable(Protocol):
    """An object that receives messages and can be drained, such as a subscription."""

    @property
    def pending(self) -> tuple[int, int]:
        """Messages that wait, and their bytes."""

    def _stop_receiving(self) -> None:
        """Ask the server to send nothing more."""

    def _wait_drained(self, deadline: float) -> bool:
        """Wait until all received messages were taken and handled; return whether that was in time."""

    def _join(self, timeout: float) -> None:
        """Wait for the end of the callback's thread, unless called in that thread."""


def snapshot(objects: WeakSet[T]) -> list[T]:
    """Return the objects in the set, while other threads may add some."""
    while True:
        try:
            return list(objects)
        except RuntimeError:  # another thread added one during the copy
            continue


class ConnectionCore:
    """The calls of a connection that the other parts of `jetspark.sync` use."""

    def __init__(self, options: ConnectOptions, on_event: EventHandler | None = None) -> None:
        self.options = options
        self._lock = threading.Lock()  # protects the staged frames
        self._staged: list[bytes] = []
        self._staged_size = 0
        self._flush_scheduled = False
        self._drainables: WeakSet[Drainable] = WeakSet()
        self._callback_threads: WeakSet[CallbackThread[Any]] = WeakSet()
        self._closing = threading.Lock()
        self._event_executor = ThreadPoolExecutor(1, "jetspark events") if on_event is not None else None
        self._on_event = on_event
        self._loop_thread = EventLoopThread("jetspark connection")
        try:
            self._inner = self._loop_thread.run_coroutine(self._open())
        except BaseException:
            self._stop_threads()
            raise
        self._outbound = self._inner._client.outbound

    async def _open(self) -> aio.Connection:
        handler = self._handle_event_in_thread if self._on_event is not None else None
        inner = aio.Connection(self.options, handler, message_type=Msg)
        inner._client.connection = self
        await inner._open()
        return inner

    async def _handle_event_in_thread(self, event: Event) -> None:
        assert self._event_executor is not None
        assert self._on_event is not None
        await self._loop_thread.loop.run_in_executor(self._event_executor, self._on_event, event)

    def __repr__(self) -> str:
        return f"<Connection to {self.address}, {self.status.value}>"

    @property
    def status(self) -> ConnectionStatus:
        """State of the connection."""
        return self._inner.status

    @property
    def connected(self) -> bool:
        """Whether there is a session now."""
        return self._inner.connected

    @property
    def closed(self) -> bool:
        """Whether the connection is closed for good."""
        return self._inner.closed

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""
        return self._inner.address

    @property
    def buffered(self) -> int:
        """Bytes that were not handed to a socket yet."""
        return self._inner.buffered + self._staged_size

    # -- sending -------------------------------------------------------------------------------------------------

    def _send_reply(self, reply: bytes, payload: bytes) -> None:
        """Send a message to a reply subject in its received form. Errors are those of `publish`."""
        self._send_frame(self._outbound.encode_ack(reply, payload))

    def _send_frame(self, frame: bytes) -> None:
        with self._lock:
            self._append_frame(frame)
        self._wait_below_limit()

    def _append_frame(self, frame: bytes) -> None:
        """Stage a frame for the loop. The caller must hold `_lock`, and call `_settle` afterwards.

        Raises
        ------
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        """
        outbound = self._outbound
        waiting = self._staged_size + len(frame)
        if not outbound.online and outbound.size + waiting > outbound.limit:
            raise OutboundBufferLimitError(
                f"not connected, and {self.buffered} bytes wait already: reconnect_buffer_size is {outbound.limit}"
            )
        if not self._flush_scheduled:
            self._loop_thread.check_caller()
            self._loop_thread.call_soon(self._flush_staged)
            self._flush_scheduled = True
        self._staged.append(frame)
        self._staged_size = waiting

    def _wait_below_limit(self) -> None:
        """Wait if so much is queued that the server must catch up."""
        if self._staged_size + self._outbound.size > _STAGED_LIMIT and self._outbound.online:
            self._loop_thread.run_coroutine(self._wait_writable())

    def _flush_staged(self) -> None:
        """On the loop: queue and send the staged frames."""
        self._move_to_loop()
        self._inner._flush_now()

    def _move_to_loop(self) -> None:
        """On the loop: queue the staged frames without sending them."""
        with self._lock:
            staged, self._staged = self._staged, []
            size, self._staged_size = self._staged_size, 0
            self._flush_scheduled = False
        if self._outbound.close_reason is None:
            self._outbound.chunks.extend(staged)
            self._outbound.size += size

    async def _wait_writable(self) -> None:
        self._flush_staged()
        await self._inner._wait_writable()

    def _ping_roundtrip(self, timeout: float) -> None:
        """As `flush`, for frames that are sent in the present session."""
        self._loop_thread.run_coroutine(self._inner._ping_roundtrip(timeout))

    # -- receiving -----------------------------------------------------------------------------------------------

    def _unsubscribe(self, sub: SubscriptionState, max_msgs: int) -> None:
        """End a subscription, now or after `max_msgs` messages in total."""
        client = self._inner._client
        self._run(partial(client.auto_unsubscribe, sub, max_msgs) if max_msgs else partial(client.unsubscribe, sub))

    def _stop_receiving(self, sub: SubscriptionState) -> None:
        """Ask the server to send nothing more."""
        self._run(partial(self._inner._client.stop_delivery, sub))

    def _remove_subscription(self, sub: SubscriptionState) -> None:
        """Remove a subscription to which the server sends nothing more."""
        if not sub.ended:
            self._run(partial(self._inner._client.subscriptions.remove, sub))

    def _on_consumed(self, sub: SubscriptionState) -> None:
        """Note that messages were taken from a full subscription."""
        self._loop_thread.call_soon(partial(self._inner._on_consumed, sub))

    def _register_drainable(self, subscription: Drainable) -> None:
        """Register a subscription to drain with the connection. The reference to it is weak."""
        self._drainables.add(subscription)

    def _track_thread(self, thread: CallbackThread[Any]) -> None:
        """Register a thread that must end with the connection."""
        self._callback_threads.add(thread)

    def _emit(self, event: Event) -> None:
        """Report an event to the handler."""
        self._loop_thread.call_soon(partial(self._inner._emit, event))

    # -- the event loop -------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        """Raise ConnectionClosedError if the connection is closed."""
        self._inner._check_open()

    def _call_soon(self, function: Callable[[], object]) -> None:
        """Run a function on the connection's event loop without waiting."""
        self._loop_thread.call_soon(function)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the connection's event loop and wait for its result."""
        return self._loop_thread.run_coroutine(coroutine)

    def _run(self, function: Callable[[], T]) -> T:
        """Run a function on the connection's event loop and wait for its result."""

        async def run() -> T:
            result = function()
            self._inner._flush_soon()
            return result

        return self._loop_thread.run_coroutine(run())

    def _stop_threads(self) -> None:
        self._loop_thread.stop()
        if self._event_executor is not None:
            self._event_executor.shutdown(wait=True, cancel_futures=True)
