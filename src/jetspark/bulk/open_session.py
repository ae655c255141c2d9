"""Opens the session of a blocking connection: a socket to one of the servers, TLS, and the handshake."""

from __future__ import annotations

import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from jetspark.bulk.server_choice import ServerChoice
from jetspark.wire.connect_failure import to_connect_error
from jetspark.wire.errors import (
    ConnectError,
    DisconnectedError,
    Error,
    NoServersError,
)
from jetspark.wire.options import ConnectOptions, TLSOptions
from jetspark.wire.server_pool import Server, ServerPool
from jetspark.wire.session import Accepted, Read, ServerInfo, StartTLS, Write, open_session

__all__ = ["OpenedSession", "is_writable", "open_any", "send_all", "set_timeout"]

_Addresses = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]
_KERNEL_BUFFER_SIZE: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session that a server has accepted.

    Attributes
    ----------
    unread
        Bytes that came after the handshake.
    """

    socket: socket.socket
    server: Server
    server_info: ServerInfo
    unread: bytes


def open_any(
    options: ConnectOptions,
    servers: ServerChoice,
    on_socket: Callable[[socket.socket | None], None],
    deadline: float,
) -> OpenedSession:
    """Open a session with the first of the servers that accepts it.

    Parameters
    ----------
    servers
        Gives the servers in the order in which they are tried. It learns which of them did not accept the session,
        and which require TLS.
    on_socket
        Gets each socket as soon as there is one, so that another thread can shut it down, and None when it is closed.
    deadline
        Monotonic time after which no further server is tried.

    Raises
    ------
    ConnectError, AuthenticationError, TLSError
        A server cannot be reached or rejects the client; with several servers `NoServersError` lists them.
    """
    failures: list[Error] = []
    for server in servers.to_try():
        if failures and time.monotonic() >= deadline:
            break
        opening = _Opening(options, servers.pool, server, on_socket, deadline)
        try:
            return opening.open()
        except (OSError, ValueError, Error) as error:  # ValueError: the host is not valid
            opening.close()
            servers.on_failure(server)
            failures.append(to_connect_error(server.address, error, options.tls))
        except BaseException:
            opening.close()
            raise
    if len(failures) == 1:
        raise failures[0]
    timed_out = any(isinstance(each, ConnectError) and each.timed_out for each in failures)
    text = "none of the servers can be used: " + "; ".join(map(str, failures))
    raise NoServersError(text, timed_out=timed_out) from failures[-1]


def set_timeout(opened: socket.socket, deadline: float) -> None:
    """Limit the next call of a socket. After the deadline (monotonic) it still reads data that has come."""
    opened.settimeout(max(deadline - time.monotonic(), 1e-6))  # a timeout of 0 would not wait at all


def is_writable(opened: socket.socket) -> bool:
    """Return whether a socket takes data now."""
    with selectors.DefaultSelector() as selector:
        selector.register(opened, selectors.EVENT_WRITE)
        return bool(selector.select(0))


def send_all(opened: socket.socket, data: bytes | memoryview, deadline: float) -> None:
    """Send all data until the deadline, however slowly the server reads. Raises OSError; TimeoutError if it passes."""
    left = memoryview(data)
    while True:
        set_timeout(opened, deadline)
        left = left[opened.send(left) :]
        if not left:
            return
        if time.monotonic() >= deadline:
            raise TimeoutError("timed out")


def _resolve(host: str, port: int, deadline: float) -> _Addresses:
    """Return the addresses of a host as `socket.getaddrinfo` does. A thread asks, as a look-up has no timeout."""
    with suppress(socket.gaierror):  # an IP address needs no look-up
        return _addresses(host, port, socket.AI_NUMERICHOST)
    answers: queue.SimpleQueue[_Addresses | BaseException] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_addresses(host, port))
        except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
            answers.put(error)

    threading.Thread(target=ask, name="jetspark name look-up", daemon=True).start()
    try:
        found = answers.get(timeout=max(deadline - time.monotonic(), 0))
    except queue.Empty:
        raise TimeoutError("the name look-up timed out") from None
    if isinstance(found, BaseException):
        raise found
    return found


def _addresses(host: str, port: int, flags: int = 0) -> _Addresses:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)


class _Opening:
    def __init__(
        self,
        options: ConnectOptions,
        pool: ServerPool,
        server: Server,
        on_socket: Callable[[socket.socket | None], None],
        deadline: float,
    ) -> None:
        self._options = options
        self._pool = pool
        self._server = server
        self._on_socket = on_socket
        self._deadline = min(time.monotonic() + options.connect_timeout, deadline)
        self._socket: socket.socket | None = None

    def open(self) -> OpenedSession:
        self._connect()
        self._opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _enlarge_kernel_buffer(self._opened)
        accepted = self._handshake()
        return OpenedSession(self._opened, self._server, accepted.info, accepted.unread)

    def close(self) -> None:
        if self._socket is not None:
            self._on_socket(None)
            self._socket.close()

    def _connect(self) -> None:
        """Connect to the first address of the host that answers. Each gets its share of the time that is left."""
        failure: OSError | None = None
        found = _resolve(self._server.address.host, self._server.address.port, self._deadline)
        for tried, (family, kind, protocol, _, address) in enumerate(found):
            now = time.monotonic()
            try:
                opened = socket.socket(family, kind, protocol)
                self._set_socket(opened)
                set_timeout(opened, now + (self._deadline - now) / (len(found) - tried))
                opened.connect(address)
            except OSError as error:
                self.close()
                failure = error
            else:
                return
        raise failure or OSError("the host has no address")

    def _set_socket(self, opened: socket.socket) -> None:
        self._socket = opened
        self._on_socket(opened)

    @property
    def _opened(self) -> socket.socket:
        """The socket, with the rest of the time. Raises TimeoutError if there is none: the server may send for ever."""
        assert self._socket is not None
        if time.monotonic() >= self._deadline:
            raise TimeoutError("timed out")
        set_timeout(self._socket, self._deadline)
        return self._socket

    def _handshake(self) -> Accepted:
        conversation = open_session(self._options, self._pool, self._server)
        step = next(conversation)
        try:
            while True:
                if isinstance(step, Read):
                    step = conversation.send(self._receive())
                    continue
                if isinstance(step, StartTLS):
                    self._start_tls()
                else:
                    assert isinstance(step, Write)
                    send_all(self._opened, step.data, self._deadline)
                step = next(conversation)
        except StopIteration as done:
            return cast("Accepted", done.value)

    def _receive(self) -> bytes:
        data = self._opened.recv(4096)
        if not data:
            raise DisconnectedError("the server closed the connection")
        return data

    def _start_tls(self) -> None:
        tls = self._options.tls or TLSOptions()
        host = tls.server_hostname or self._server.address.tls_name or self._server.address.host
        self._set_socket(tls.context().wrap_socket(self._opened, server_hostname=host))


def _enlarge_kernel_buffer(opened: socket.socket) -> None:
    """Enlarge the kernel's receive buffer, if allowed, for data that arrives while we decode."""
    try:
        allowed = int(Path("/proc/sys/net/core/rmem_max").read_text())
    except (OSError, ValueError):
        return
    if allowed >= _KERNEL_BUFFER_SIZE:  # a smaller one would only disable the kernel's tuning
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KERNEL_BUFFER_SIZE)
