"""Connections in memory: the client's transport, and what lies between it and a scripted server.

Both directions keep their order. With `latency` 0, what one side writes is read by the other in a later turn of the
event loop, at the same time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

__all__ = ["Lane", "MemoryTransport", "Peer"]

_HIGH_WATER: Final = 64 << 10
"""Bytes waiting at which asyncio's transports want no more."""


class Peer(Protocol):
    """The server's end."""

    def feed(self, data: bytes) -> None:
        """The client wrote something."""

    def client_gone(self) -> None:
        """The client closed its end."""


class Lane:
    """One direction: calls that happen later, in their order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, latency: float) -> None:
        self._loop = loop
        self._latency = latency
        self._calls: deque[Callable[[], None]] = deque()

    def put(self, call: Callable[[], None]) -> None:
        """Do that on the other side."""
        self._calls.append(call)  # timers of one time run in any order, so each takes what is first
        if self._latency:
            self._loop.call_later(self._latency, self._next)
        else:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._calls.popleft()()


class MemoryTransport(asyncio.Transport):
    """The client's end. It behaves as the transport of a socket does.

    Attributes
    ----------
    write_error
        Raised by the next `write`.
    closed
        `connection_lost` was called.
    aborted
        The client closed it without waiting for what it had written.
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
        self._choked = False

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
        """The server wrote something."""
        self._in.put(lambda: self._arrive(lambda: self._read(data)))

    def deliver_eof(self) -> None:
        """The server closed its end."""
        self._in.put(lambda: self._arrive(self._read_eof))

    def deliver_reset(self, error: Exception) -> None:
        """The connection broke; what had not arrived is lost."""
        self._in.put(lambda: self._break(error))

    def choke(self) -> None:
        """Want no more from the client."""
        if not self._choked:
            self._choked = True
            self._protocol.pause_writing()

    def relieve(self) -> None:
        """Want more again."""
        if self._choked and not self._lost:
            self._choked = False
            self._protocol.resume_writing()

    def stop_taking(self) -> None:
        """The server reads nothing from now on."""
        self._peer_reads = False

    def take_again(self) -> None:
        """The server reads what waits, and what comes."""
        self._peer_reads = True
        if self._waiting:
            content = bytes(self._waiting)
            self._waiting.clear()
            self._out.put(lambda: self._peer.feed(content))
        self.relieve()
        if self._closing and not self._waiting:
            self._end(None)

    # -- inner ---------------------------------------------------------------------------------------------------

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
            self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._protocol.connection_lost(error)
        self._out.put(self._peer.client_gone)
