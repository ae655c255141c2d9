"""Connections in memory: the transport of the client, and the link to a scripted server.

Both directions keep their order. With `latency` 0, data that one side writes is read by the other in a later iteration
of the event loop, at the same time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

__all__ = ["Lane", "MemoryTransport", "Peer"]

_HIGH_WATER: Final = 64 << 10
"""The number of waiting bytes at which asyncio's transports pause writing."""


class Peer(Protocol):
    """The server's end."""

    def feed(self, data: bytes) -> None:
        """Handle data of the client."""

    def client_gone(self) -> None:
        """Handle the end of the client."""


class Lane:
    """One direction: calls that happen later, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, latency: float) -> None:
        self._loop = loop
        self._latency = latency
        self._calls: deque[Callable[[], None]] = deque()

    def put(self, call: Callable[[], None]) -> None:
        """Call a function on the other side."""
        self._calls.append(call)  # timers of one time run in any order, so each takes the first call
        if self._latency:
            self._loop.call_later(self._latency, self._next)
        else:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._calls.popleft()()


class MemoryTransport(asyncio.Transport):
    """The client's end. It behaves like the transport of a socket.

    Attributes
    ----------
    write_error
        Raised by the next `write`.
    closed
        `connection_lost` was called.
    aborted
        The client closed it without waiting for written data.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol, peer: Peer, latency: float
    ) -> None:
        super().__init__()
        self.write_error: Exception | None = None
        self.closed = False
        self.aborted = False
        self._loop = loop
        self._protocol = cast("asyncio.BufferedProtocol", protocol)
        self._peer = peer
        self._out = Lane(loop, latency)
        self._in = Lane(loop, latency)
        self._closing = self._lost = False
        self._reading = True
        self._arrived: deque[Callable[[], None]] = deque()  # while reading is paused
        self._peer_reads = True
        self._waiting = bytearray()  # while the server reads nothing
        self._paused_peer = False

    # -- for the client ------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._loop.call_soon(self._read_arrived)

    def get_write_buffer_size(self) -> int:
        return len(self._waiting)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self.write_error is not None:
            error, self.write_error = self.write_error, None
            raise error
        if self._lost or not data:
            return
        content = bytes(data)
        if self._peer_reads and not self._waiting:
            self._out.put(lambda: self._peer.feed(content))
            return
        self._waiting += content
        if len(self._waiting) > _HIGH_WATER:
            self.choke()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._waiting:
                self._end(None)

    def abort(self) -> None:
        self.aborted = True
        self._waiting.clear()
        self._closing = True
        self._end(None)

    # -- for the server ------------------------------------------------------------------------------------------

    def deliver(self, data: bytes) -> None:
        """Deliver data of the server."""
        self._in.put(lambda: self._arrive(lambda: self._read(data)))

    def deliver_eof(self) -> None:
        """Deliver the end of the server."""
        self._in.put(lambda: self._arrive(self._read_eof))

    def deliver_reset(self, error: Exception) -> None:
        """Break the connection; data in flight is lost."""
        self._in.put(lambda: self._break(error))

    def choke(self) -> None:
        """Pause the writing of the client."""
        if not self._paused_peer:
            self._paused_peer = True
            self._protocol.pause_writing()

    def relieve(self) -> None:
        """Resume the writing of the client."""
        if self._paused_peer and not self._lost:
            self._paused_peer = False
            self._protocol.resume_writing()

    def stop_taking(self) -> None:
        """Stop reading on the server's side."""
        self._peer_reads = False

    def take_again(self) -> None:
        """Resume reading on the server's side, beginning with the data that waits."""
        self._peer_reads = True
        if self._waiting:
            content = bytes(self._waiting)
            self._waiting.clear()
            self._out.put(lambda: self._peer.feed(content))
        self.relieve()
        if self._closing and not self._waiting:
            self._end(None)

    # -- internals ----------------------------------------------------------------------------------------------

    def _arrive(self, call: Callable[[], None]) -> None:
        if self._reading and not self._arrived:
            call()
        else:
            self._arrived.append(call)

    def _read_arrived(self) -> None:
        while self._arrived and self._reading:
            self._arrived.popleft()()

    def _read(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._closing:
            buffer = memoryview(self._protocol.get_buffer(len(rest)))
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            rest = rest[count:]
            self._protocol.buffer_updated(count)

    def _read_eof(self) -> None:
        if not self._closing and not self._protocol.eof_received():
            self.close()

    def _break(self, error: Exception) -> None:
        self._waiting.clear()
        self._closing = True
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self._report_lost, error)

    def _report_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._protocol.connection_lost(error)
        self._out.put(self._peer.client_gone)
