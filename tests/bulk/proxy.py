"""A small blocking TCP proxy before a server, that cuts, halts or tampers with what the server sends."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Self

import pyarrow as pa

from jetspark.server import NatsServer
from jetspark.wire.vector import FrameTable, decode

Tamper = Callable[[bytes], bytes | None]
"""Takes what the server sent and returns what goes on to the client; None cuts the connection. It is asked once more,
with nothing, behind what went on."""


class Proxy:
    """Listens on a port of its own. `tampers` are for the connections in their order; later ones pass untouched."""

    def __init__(self, server: NatsServer, *tampers: Tamper) -> None:
        self._target = (server.host, server.port)
        self._tampers = list(tampers)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self.connections = 0
        self.port: int = self._listener.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more and end every connection; it may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> int:
        """End every connection; returns how many."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _end(pair)
        return len(pairs)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, 5)
            except OSError:
                client.close()
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tamper = self._tampers.pop(0) if self._tampers else None
            with self._lock:
                self._pairs.append((client, server))
            self.connections += 1
            self._start(_pass_on, client, server, None)
            self._start(_pass_on, server, client, tamper)


def _pass_on(source: socket.socket, target: socket.socket, tamper: Tamper | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            out = data if tamper is None else tamper(data)
            if out is None:
                break
            target.sendall(out)
            if tamper is not None and tamper(b"") is None:
                break
    _end((source, target))


def _end(pair: tuple[socket.socket, socket.socket]) -> None:
    for one in pair:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def cut_after(count: int) -> Tamper:
    """Cut the connection after so many bytes."""
    left = count

    def tamper(data: bytes) -> bytes | None:
        nonlocal left
        if left <= 0:
            return None
        part = data[:left]
        left -= len(data)
        return part

    return tamper


class MadeLate:
    """Lets the rows of a publish find no stream the first time, and one the second time.

    From `armed` on it holds back what the server says, until that has refused so many rows; then `make` is called, and
    all of it goes on.
    """

    def __init__(self, rows: int, make: Callable[[], object]) -> None:
        self.armed = False
        self._rows = rows
        self._make = make
        self._held = b""

    def __call__(self, data: bytes) -> bytes:
        if not self.armed:
            return data
        self._held += data
        if self._held.count(b"NATS/1.0 503") < self._rows:
            return b""
        self.armed = False
        self._make()
        return self._held


class NthOf:
    """Holds for the nth message that has a payload of so many bytes."""

    def __init__(self, number: int, size: int) -> None:
        self.left = number
        self._size = size

    def __call__(self, table: FrameTable, row: int) -> bool:
        self.left -= len(table.message(row).payload) == self._size
        return self.left == 0


def drop_frame(which: Callable[[FrameTable, int], bool]) -> Tamper:
    """Leave out the first message for which `which(table, row)` holds."""
    rest = b""
    dropped = False

    def tamper(data: bytes) -> bytes:
        nonlocal rest, dropped
        if dropped:
            return data
        rest += data
        table = decode(pa.py_buffer(rest))
        done, rest = rest[: table.consumed], rest[table.consumed :]
        for row in range(len(table)):
            if which(table, row):
                dropped = True
                done = done[: int(table.start[row])] + done[int(table.end[row]) + 2 :] + rest
                rest = b""
                break
        return done

    return tamper
