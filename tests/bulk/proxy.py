"""A small blocking TCP proxy in front of a server: it cuts, delays or changes the data, or lets nobody through."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Self

import pyarrow as pa

from jetspark.server import NatsServer
from jetspark.wire.vector import FrameTable, decode

Tamper = Callable[[bytes], bytes | None]
"""Takes data of the server and returns the data for the client; None cuts the connection. It is called once more, with
no data, after the data is sent.
"""

_READ_SIZE = 1 << 16


class Proxy:
    """Listens on its own port. `tampers` apply to the connections in order; later connections pass unchanged."""

    def __init__(self, server: NatsServer, *tampers: Tamper) -> None:
        self._target = (server.host, server.port)
        self._tampers = list(tampers)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self._blocked = False
        self._delay = 0.0
        self._size = _READ_SIZE
        self.connections = 0
        self.port: int = self._listener.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and end every connection; it can be called twice."""
        if self._closed:
            return
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> int:
        """End every connection; return how many there were."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _end(pair)
        return len(pairs)

    def block(self) -> None:
        """End every connection, and refuse new ones until `unblock`."""
        self._blocked = True
        self.cut()

    def unblock(self) -> None:
        """Let connections through again."""
        self._blocked = False

    def slow_down(self, delay: float, size: int) -> None:
        """Pass on at most `size` bytes at a time, in each direction, and wait so many seconds before it."""
        self._delay, self._size = delay, size

    def speed_up(self) -> None:
        """Pass on everything at once again."""
        self.slow_down(0.0, _READ_SIZE)

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
            server.settimeout(None)  # the timeout is for the connect only: a silent server stays connected
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tamper = self._tampers.pop(0) if self._tampers else None
            with self._lock:
                self._pairs.append((client, server))
            if self._blocked:
                self.cut()
                continue
            self.connections += 1
            self._start(self._pass_on, client, server, None)
            self._start(self._pass_on, server, client, tamper)

    def _pass_on(self, source: socket.socket, target: socket.socket, tamper: Tamper | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(self._size):
                if self._delay:
                    time.sleep(self._delay)
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
    """Cut the connection after a number of bytes."""
    left = count

    def tamper(data: bytes) -> bytes | None:
        nonlocal left
        if left <= 0:
            return None
        part = data[:left]
        left -= len(data)
        return part

    return tamper


class LateStream:
    """Lets the first attempt of a publish find no stream, and the second one find it.

    From `armed` on, it holds back the data of the server until the server has refused `rows` rows. Then `make` is
    called, and all data is passed on.
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
    """True for the nth message whose payload has this size."""

    def __init__(self, number: int, size: int) -> None:
        self.left = number
        self._size = size

    def __call__(self, table: FrameTable, row: int) -> bool:
        self.left -= len(table.message(row).payload) == self._size
        return self.left == 0


def drop_frame(which: Callable[[FrameTable, int], bool]) -> Tamper:
    """Drop the first message for which `which(table, row)` is true."""
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
