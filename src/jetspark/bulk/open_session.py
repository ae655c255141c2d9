"""Opens the session of a blocking connection: a socket to one of the servers, TLS, and the handshake."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

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

__all__ = ["OpenedSession", "open_any", "set_timeout"]

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
    pool: ServerPool,
    servers: Sequence[Server],
    on_socket: Callable[[socket.socket | None], None],
) -> OpenedSession:
    """Open a session with the first of the servers that accepts it.

    Parameters
    ----------
    pool
        Learns which servers require TLS.
    servers
        Its servers, in the order in which they are tried.
    on_socket
        Gets each socket as soon as there is one, so that another thread can shut it down, and None when it is closed.

    Raises
    ------
    ConnectError, AuthenticationError, TLSError
        A server cannot be reached or rejects the client; with several servers `NoServersError` lists them.
    """
    failures: list[Error] = []
    for server in servers:
        opening = _Opening(options, pool, server, on_socket)
        try:
            return opening.open()
        except (OSError, ValueError, Error) as error:  # ValueError: the host is not valid
            opening.close()
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


class _Opening:
    def __init__(
        self,
        options: ConnectOptions,
        pool: ServerPool,
        server: Server,
        on_socket: Callable[[socket.socket | None], None],
    ) -> None:
        self._options = options
        self._pool = pool
        self._server = server
        self._on_socket = on_socket
        self._deadline = time.monotonic() + options.connect_timeout
        self._socket: socket.socket | None = None

    def open(self) -> OpenedSession:
        self._set_socket(
            socket.create_connection(
                (self._server.address.host, self._server.address.port), self._options.connect_timeout
            )
        )
        self._opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _enlarge_kernel_buffer(self._opened)
        accepted = self._handshake()
        return OpenedSession(self._opened, self._server, accepted.info, accepted.unread)

    def close(self) -> None:
        if self._socket is not None:
            self._on_socket(None)
            self._socket.close()

    def _set_socket(self, opened: socket.socket) -> None:
        self._socket = opened
        self._on_socket(opened)

    @property
    def _opened(self) -> socket.socket:
        assert self._socket is not None
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
                    self._opened.sendall(step.data)
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
