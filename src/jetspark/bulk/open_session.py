"""Opens the session of a blocking connection: a socket to one of the servers, TLS, and the handshake."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from jetspark.wire import frames
from jetspark.wire.connect_failure import to_connect_error
from jetspark.wire.errors import (
    ConnectError,
    DisconnectedError,
    Error,
    NoServersError,
    ProtocolError,
)
from jetspark.wire.options import ConnectOptions, TLSOptions
from jetspark.wire.server_pool import Server
from jetspark.wire.session import ReadLine, ServerInfo, StartTLS, Write, open_session

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
    options: ConnectOptions, servers: Sequence[Server], on_socket: Callable[[socket.socket | None], None]
) -> OpenedSession:
    """Open a session with the first of the servers that accepts it.

    Parameters
    ----------
    servers
        The servers, in the order in which they are tried.
    on_socket
        Gets each socket as soon as there is one, so that another thread can shut it down, and None when it is closed.

    Raises
    ------
    ConnectError, AuthenticationError, TLSError
        A server cannot be reached or rejects the client; with several servers `NoServersError` lists them.
    """
    failures: list[Error] = []
    for server in servers:
        opening = _Opening(options, server, on_socket)
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
        self, options: ConnectOptions, server: Server, on_socket: Callable[[socket.socket | None], None]
    ) -> None:
        self._options = options
        self._server = server
        self._address = server.address
        self._on_socket = on_socket
        self._deadline = time.monotonic() + options.connect_timeout
        self._socket: socket.socket | None = None
        self._parser = frames.Parser()

    def open(self) -> OpenedSession:
        self._set_socket(
            socket.create_connection((self._address.host, self._address.port), self._options.connect_timeout)
        )
        self._opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _enlarge_kernel_buffer(self._opened)
        info = self._handshake()
        return OpenedSession(self._opened, self._server, info, self._parser.unread)

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

    def _handshake(self) -> ServerInfo:
        conversation = open_session(self._options, self._address)
        step = next(conversation)
        try:
            while True:
                if isinstance(step, ReadLine):
                    frame = self._next_frame()
                    if isinstance(frame, frames.MsgFrame):
                        raise ProtocolError(
                            f"{self._address}: the server sent a message before it accepted the connection"
                        )
                    step = conversation.send(frame)
                elif isinstance(step, StartTLS):
                    if self._parser.unread:
                        raise ProtocolError(f"{self._address}: the server sent more bytes before the TLS handshake")
                    self._start_tls()
                    step = next(conversation)
                else:
                    assert isinstance(step, Write)
                    self._opened.sendall(step.data)
                    step = next(conversation)
        except StopIteration as done:
            return cast("ServerInfo", done.value)

    def _next_frame(self) -> frames.Frame:
        data = b""
        while (frame := next(self._parser.feed(data), None)) is None:
            data = self._opened.recv(4096)
            if not data:
                raise DisconnectedError("the server closed the connection")
        return frame

    def _start_tls(self) -> None:
        tls = self._options.tls or TLSOptions()
        host = tls.server_hostname or self._address.tls_name or self._address.host
        self._set_socket(tls.context().wrap_socket(self._opened, server_hostname=host))


def _enlarge_kernel_buffer(opened: socket.socket) -> None:
    """Enlarge the kernel's receive buffer, if allowed, for data that arrives while we decode."""
    try:
        allowed = int(Path("/proc/sys/net/core/rmem_max").read_text())
    except (OSError, ValueError):
        return
    if allowed >= _KERNEL_BUFFER_SIZE:  # a smaller one would only disable the kernel's tuning
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KERNEL_BUFFER_SIZE)
