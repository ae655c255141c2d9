"""A NATS connection reduced to a socket: what the ceilings are measured with, and what fills the streams.

It knows nothing but how to write bytes, read bytes and wait for one JSON reply. The product is not used on purpose: a
reference must not become faster or slower together with what is measured against it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RECEIVE_BUFFER = 4 << 20
"""Bytes asked for as the socket's receive buffer; the kernel caps it at `net.core.rmem_max`."""

TIMEOUT = 60.0
"""Seconds without a byte after which a run is given up."""


class RawError(RuntimeError):
    """The server answered something else than expected; the text is the server's."""


class RawConnection:
    """A blocking socket that has done INFO, CONNECT and PING, without compression, TLS or parsing.

    Verbose and pedantic mode are off. `inbox` is a prefix of constant length, so that the number of bytes of a delivery
    does not change from run to run.
    """

    def __init__(self, url: str, *, receive_buffer: int = RECEIVE_BUFFER) -> None:
        parts = urlsplit(url)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect((parts.hostname or "127.0.0.1", parts.port or 4222))
        self.inbox = f"_INBOX.{secrets.token_hex(8)}"
        self._rest = b""
        self._next_sid = 1
        self._line()  # INFO
        hello = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "lang": "bench"}
        self.sock.sendall(b"CONNECT %s\r\nPING\r\n" % json.dumps(hello).encode())
        answer = self._line()
        if answer != b"PONG":
            raise RawError(f"the server at {parts.hostname}:{parts.port} answered CONNECT with {answer.decode()}")

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def subscribe(self, subject: str) -> int:
        """Subscribe and return the subscription id."""
        sid = self._next_sid
        self._next_sid += 1
        self.sock.sendall(b"SUB %s %d\r\n" % (subject.encode(), sid))
        return sid

    def unsubscribe(self, sid: int) -> None:
        """End a subscription."""
        self.sock.sendall(b"UNSUB %d\r\n" % sid)

    def request(self, subject: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Send a JetStream API request and return the JSON reply; an error reply raises `RawError`.

        Only for quiet moments: nothing else may be arriving on the connection.
        """
        inbox = f"{self.inbox}.r{secrets.token_hex(4)}"
        sid = self.subscribe(inbox)
        payload = b"" if body is None else json.dumps(body).encode()
        self.sock.sendall(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), inbox.encode(), len(payload), payload))
        line = self._line()
        while line in {b"PING", b"+OK"}:
            if line == b"PING":
                self.sock.sendall(b"PONG\r\n")
            line = self._line()
        verb, *fields = line.split()
        if verb != b"MSG":
            raise RawError(f"{subject}: {line.decode()}")
        reply: dict[str, Any] = json.loads(self._exactly(int(fields[-1]) + 2))
        self.unsubscribe(sid)
        if "error" in reply:
            raise RawError(f"{subject}: {reply['error']}")
        return reply

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            self._rest += self._receive()
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += self._receive()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def _receive(self) -> bytes:
        data = self.sock.recv(65536)
        if not data:
            raise RawError("the server closed the connection")
        return data


@contextlib.contextmanager
def connected(url: str, *, receive_buffer: int = RECEIVE_BUFFER) -> Iterator[RawConnection]:
    """A `RawConnection` for a with block."""
    connection = RawConnection(url, receive_buffer=receive_buffer)
    try:
        yield connection
    finally:
        connection.close()


def wait_until_messages(connection: RawConnection, stream: str, count: int, timeout: float = TIMEOUT) -> None:
    """Return when the stream holds `count` messages; raise `RawError` when it does not within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    held = -1
    while time.monotonic() < deadline:
        held = connection.request(f"$JS.API.STREAM.INFO.{stream}")["state"]["messages"]
        if held == count:
            return
    raise RawError(f"stream {stream} holds {held} messages, {count} were expected")
