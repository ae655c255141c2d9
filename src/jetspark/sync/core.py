"""The core of the blocking connection: the asyncio connection on an event loop in a thread of its own.

All behaviour is in the asyncio front: this module runs calls on the loop and waits. Two frequent paths are shorter. A
publish is staged in the caller's thread (`frame_stage`), and the reader's thread takes messages out of the queue
(`handoff_queue`). Meanwhile PINGs are answered and sessions are restored in the background.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final, Protocol, TypeVar, cast
from weakref import WeakSet

from jetspark.aio import core as aio
from jetspark.sync.callback_thread import CALLBACK_THREAD_PREFIX, CallbackThread
from jetspark.sync.frame_stage import FrameStage
from jetspark.sync.loop_thread import EventLoopThread
from jetspark.sync.message import Msg
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.connection_status import ConnectionStatus
from jetspark.wire.errors import ConnectionClosedError
from jetspark.wire.events import Event
from jetspark.wire.headers import HeadersLike
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Payload

__all__ = ["ConnectionCore", "EventHandler", "Reader"]

T = TypeVar("T")

EventHandler = Callable[[Event], None]
"""Receives each event."""

_JOIN_TIMEOUT: Final = 2.0
"""Seconds that a close waits for the threads of all callbacks together."""


class Reader(Protocol):
    """An object that takes messages, perhaps in a thread for a callback."""

    @property
    def in_callback(self) -> bool:
        """Whether this is the thread of its callback."""

    def on_drain_in_callback(self) -> None:
        """On the loop: note that its callback drains the connection, so that the drain does not wait for it."""

    def join(self, timeout: float) -> None:
        """Wait for the end of the callback's thread, unless called in that thread."""


class ConnectionCore:
    """A connection, for the other modules of `jetspark.sync`.

    Attributes
    ----------
    options
        The options that it was opened with.
    inner
        The core of the asyncio connection.
    stage
        The frames that the loop has not taken over yet.
    """

    inner: aio.ConnectionCore
    stage: FrameStage

    def __init__(self, options: ConnectOptions, on_event: EventHandler | None = None) -> None:
        self.options = options
        self._readers: WeakSet[Reader] = WeakSet()
        self._callback_threads: WeakSet[CallbackThread[Any]] = WeakSet()
        self._closing = threading.Lock()
        self._on_event = None if on_event is None else self.in_callback_thread(on_event)
        self._loop_thread = EventLoopThread("jetspark connection")

    def open(self) -> None:
        """Open the first session."""
        try:
            self.inner = self._loop_thread.run_coroutine(self._open())
        except BaseException:
            self._stop_threads(monotonic() + _JOIN_TIMEOUT)
            raise
        self.stage = FrameStage(self._loop_thread, self.inner.outbound, self.inner.flush_now)

    async def _open(self) -> aio.ConnectionCore:
        inner = aio.ConnectionCore(self.options, self._on_event, message_type=Msg)
        inner.client.connection = weakref.proxy(self)  # the loop's thread must not keep a connection that nobody holds
        inner.call_from_thread = self._loop_thread.run_coroutine
        await inner.open()
        return inner

    def __del__(self) -> None:
        loop_thread = self.__dict__.get("_loop_thread")
        if loop_thread is None or loop_thread.stopping or sys.is_finalizing():
            return
        unclosed = "inner" in self.__dict__ and not self.inner.closed
        name = repr(self)
        loop_thread.stop_after(partial(_close_abandoned, self.__dict__.get("inner")))
        if unclosed:
            warnings.warn(f"unclosed {name}: close it, or use it in a `with` block", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return repr(self.inner) if "inner" in self.__dict__ else "<Connection, not open yet>"

    @property
    def client(self) -> ConnectionState:
        """The state machine of the connection; changed on the loop only."""
        return self.inner.client

    @property
    def status(self) -> ConnectionStatus:
        """State of the connection."""
        return self.inner.status

    @property
    def connected(self) -> bool:
        """Whether there is a session now."""
        return self.inner.connected

    @property
    def closed(self) -> bool:
        """Whether the connection is closed for good."""
        return self.inner.closed

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""
        return self.inner.address

    @property
    def buffered(self) -> int:
        """Bytes that were not handed to a socket yet."""
        return self.inner.buffered + self.stage.size

    def new_inbox(self) -> str:
        """Return a new reply subject below the inbox prefix."""
        return self.inner.new_inbox()

    # -- sending -------------------------------------------------------------------------------------------------

    def queue_publish(self, subject: str, payload: Payload, reply: str, headers: HeadersLike | None) -> bool:
        """Queue a publish; return whether to wait for `wait_writable`. Errors are those of `Connection.publish`."""
        return self.stage.send(self.inner.outbound.encode(subject, payload, reply, headers))

    def send_reply(self, reply: bytes, payload: bytes) -> bool:
        """Queue a message to a reply subject in its received form; return whether to wait for `wait_writable`."""
        return self.stage.send(self.inner.outbound.encode_ack(reply, payload))

    def queue_response(self, reply: bytes, payload: Payload, headers: HeadersLike | None) -> bool:
        """Queue a publish to a received subject; see `send_reply`."""
        return self.queue_publish(self.inner.outbound.check_reply(reply).decode(), payload, "", headers)

    def wait_writable(self) -> None:
        """Wait until the transport accepts more data."""
        self.call(self._wait_writable())

    async def _wait_writable(self) -> None:
        self.stage.flush()
        await self.inner.wait_writable()

    def flush(self, timeout: float | None) -> None:
        """Wait until the server has everything that was sent; see `Connection.flush`."""
        self.call(self.inner.flush(timeout))

    def reconnect(self, timeout: float | None) -> None:
        """Leave the session and wait for another one; see `Connection.reconnect`."""
        self.call(self._reconnect(timeout))

    async def _reconnect(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        self.stage.flush()
        await self.inner.reconnect(timeout)

    def request(
        self,
        subject: str,
        payload: Payload,
        timeout: float,
        headers: HeadersLike | None = None,
        *,
        own_inbox: bool = False,
    ) -> Msg:
        """Send a request and wait for its answer; see `Connection.request`."""
        return cast("Msg", self.call(self.inner.request(subject, payload, timeout, headers, own_inbox=own_inbox)))

    def request_ack(self, subject: str, payload: bytes, timeout: float) -> Msg:
        """Send an acknowledgement and wait for its answer."""
        return cast("Msg", self.call(self.inner.request_ack(subject, payload, timeout)))

    # -- the event loop ------------------------------------------------------------------------------------------

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the connection's event loop and wait for its result."""
        return self._loop_thread.run_coroutine(coroutine)

    def run(self, function: Callable[[], T]) -> T:
        """Run a function on the connection's event loop and wait for its result."""

        async def run() -> T:
            result = function()
            self.inner.flush_soon()
            return result

        return self.call(run())

    def call_soon(self, function: Callable[[], object]) -> bool:
        """Run a function on the connection's event loop without waiting. After the close, return False."""
        return self._loop_thread.call_soon(function)

    def emit(self, event: Event) -> None:
        """Report an event to the handler."""
        self.call_soon(partial(self.inner.emit, event))

    def check_open(self) -> None:
        """Raise ConnectionClosedError if the connection is closed."""
        self.inner.check_open()

    def register_reader(self, reader: Reader) -> None:
        """Register a reader, whose thread ends with the connection. The reference to it is weak."""
        self._readers.add(reader)

    def in_callback_thread(self, callback: Callable[..., object]) -> Any:
        """Return a coroutine function that runs the callback in a thread, which ends with the connection at the latest.

        Untyped, because it replaces a callback for messages of the asyncio front.
        """
        thread: CallbackThread[...] = CallbackThread(callback)
        self._callback_threads.add(thread)
        return thread

    # -- the end -------------------------------------------------------------------------------------------------

    def drain(self, timeout: float | None) -> None:
        """Drain everything and close; see `Connection.drain`."""
        self.check_open()
        for reader in _snapshot(self._readers):
            if reader.in_callback:
                self.call_soon(reader.on_drain_in_callback)
        deadline = monotonic() + (self.options.drain_timeout if timeout is None else timeout)
        try:
            self.call(self.inner.drain(timeout))
        finally:
            self.close(min(_seconds_until(deadline), _JOIN_TIMEOUT))

    def close(self, timeout: float = _JOIN_TIMEOUT) -> None:
        """Close at once; see `Connection.close`. Then wait at most `timeout` seconds for the threads of callbacks."""
        if threading.current_thread().name.startswith(("jetspark subscription", CALLBACK_THREAD_PREFIX)):
            threading.Thread(target=self._close_and_join, args=(timeout,), name="jetspark close", daemon=True).start()
        else:
            self._close_and_join(timeout)

    def _close_and_join(self, timeout: float) -> None:
        with self._closing:
            try:
                self.call(self.inner.close())
            except ConnectionClosedError:
                return  # already closed
            deadline = monotonic() + timeout
            for reader in _snapshot(self._readers):
                reader.join(_seconds_until(deadline))
            self.call(self.inner.tasks.wait_handlers(_seconds_until(deadline)))
            self._stop_threads(deadline)

    def _stop_threads(self, deadline: float) -> None:
        self._loop_thread.stop()  # first, so that what it gave to the callbacks' threads comes before their end
        for thread in _snapshot(self._callback_threads):
            thread.stop(_seconds_until(deadline))


async def _close_abandoned(inner: aio.ConnectionCore | None) -> None:
    if inner is not None:
        with suppress(Exception):
            await inner.close()


def _seconds_until(deadline: float) -> float:
    return max(deadline - monotonic(), 0.0)


def _snapshot(objects: WeakSet[T]) -> list[T]:
    """Return the objects in the set, while other threads may add some."""
    while True:
        try:
            return list(objects)
        except RuntimeError:  # another thread added one during the copy
            continue
