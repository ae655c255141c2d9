"""The handshake that opens a connection, and the server's INFO and `-ERR` frames.

`open_session` is a generator: it yields the steps to do (`ReadLine`, `StartTLS`, `Write`) and receives their results.
It does not use sockets, so that every front, blocking or asyncio, can use it.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, NamedTuple

import msgspec

from jetspark.version import __version__
from jetspark.wire.auth import credential_fields
from jetspark.wire.errors import (
    AuthenticationError,
    AuthenticationExpiredError,
    ConnectError,
    Error,
    MaxControlLineError,
    MaxPayloadError,
    MaxSubscriptionsError,
    PermissionsViolationError,
    ProtocolError,
    SlowConsumerError,
    StaleConnectionError,
    TLSError,
)
from jetspark.wire.frames import PING, PONG, Control, Err, Info, Ping, Pong
from jetspark.wire.options import ConnectOptions, ServerAddress

__all__ = [
    "ReadLine",
    "ServerInfo",
    "StartTLS",
    "Step",
    "Write",
    "open_session",
    "parse_err",
    "parse_info",
]

LANGUAGE: Final = "python-jetspark"
PROTOCOL: Final = 1  # the server may send INFO at any time


class ServerInfo(msgspec.Struct, frozen=True, rename={"lame_duck": "ldm"}):
    """INFO of a server. Fields that are not listed here are ignored."""

    server_id: str = ""
    """Id of the server."""
    server_name: str = ""
    """Name of the server."""
    version: str = ""
    """Version of the server."""
    proto: int = 0
    """Version of the protocol."""
    host: str = ""
    """Address that the server listens on."""
    port: int = 0
    """Port that the server listens on."""
    headers: bool = False
    """Whether the server supports headers."""
    max_payload: int = 1 << 20
    """Bytes of headers and payload together."""
    jetstream: bool = False
    """Whether the server has JetStream."""
    client_id: int = 0
    """Id of the connection on the server."""
    client_ip: str = ""
    """Address of the client, as the server sees it."""
    auth_required: bool = False
    """Whether the server requires credentials."""
    tls_required: bool = False
    """Whether the server requires TLS."""
    tls_verify: bool = False
    """Whether the server requires a client certificate."""
    tls_available: bool = False
    """Whether the server accepts TLS."""
    connect_urls: list[str] = []
    """Other servers of the cluster."""
    lame_duck: bool = False
    """Whether the server will shut down soon (lame duck mode)."""
    cluster: str = ""
    """Name of the cluster."""
    domain: str = ""
    """JetStream domain of the server."""
    nonce: str | None = None
    """Text that the client must sign to prove its nkey."""


class ReadLine(NamedTuple):
    """Step: read the next control frame."""


class StartTLS(NamedTuple):
    """Step: do a TLS handshake on this connection."""


class Write(NamedTuple):
    """Step: send these bytes."""

    data: bytes


Step = ReadLine | StartTLS | Write

_info_decoder: Final = msgspec.json.Decoder(ServerInfo)


def parse_info(frame: Info) -> ServerInfo:
    """Read an INFO. Raises ProtocolError if it is not JSON of the expected form."""
    try:
        return _info_decoder.decode(frame.json)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"cannot read the server's INFO: {error}") from error


def open_session(options: ConnectOptions, address: ServerAddress) -> Generator[Step, Control | None, ServerInfo]:
    """Do the handshake on an open socket until the server accepts the connection: INFO, TLS, CONNECT, PING, PONG.

    CONNECT always asks for headers, for no-responders replies and for protocol 1 (WIR-01).

    Raises
    ------
    AuthenticationError, TLSError, ConnectError, ProtocolError
        The server does not accept the connection; the message names its address, never credentials.
    """
    wanted = address.tls or options.tls is not None
    first = options.tls is not None and options.tls.handshake_first
    if first:
        yield StartTLS()
    frame = yield ReadLine()
    if isinstance(frame, Err):
        raise parse_err(frame.text, str(address))
    if not isinstance(frame, Info):
        raise ProtocolError(f"{address}: the first line is not INFO; check that a NATS server listens there")
    info = parse_info(frame)
    if wanted and not (info.tls_required or info.tls_available):
        raise TLSError(f"{address}: TLS is requested, but the server does not offer it; enable TLS on the server")
    if not first and (wanted or info.tls_required):
        yield StartTLS()
    if not info.headers:
        raise ConnectError(f"{address}: server version {info.version} has no headers; JetStream needs 2.2 or newer")
    yield Write(connect_command(options, address, info) + PING)
    while True:
        frame = yield ReadLine()
        if isinstance(frame, Pong):
            return info
        if isinstance(frame, Err):
            raise parse_err(frame.text, str(address))
        if isinstance(frame, Info):
            info = parse_info(frame)
        elif isinstance(frame, Ping):
            yield Write(PONG)


def connect_command(options: ConnectOptions, address: ServerAddress, info: ServerInfo) -> bytes:
    """Return the CONNECT line."""
    fields: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "lang": LANGUAGE,
        "version": __version__,
        "protocol": PROTOCOL,
        "headers": True,
        "no_responders": True,
        "echo": options.echo,
        "name": options.name,
        "tls_required": address.tls or options.tls is not None or info.tls_required,
    }
    fields.update(credential_fields(options, address, info.nonce))
    return b"CONNECT %b\r\n" % msgspec.json.encode(fields)


_PERMISSION: Final = re.compile(r"permissions violation for (publish|subscription)[^\"]*\"([^\"]*)\"", re.IGNORECASE)
_ERRORS_BY_TEXT: Final[tuple[tuple[str, type[Error], str], ...]] = (
    ("authentication expired", AuthenticationExpiredError, "the credentials have expired; get new ones"),
    ("authentication revoked", AuthenticationExpiredError, "the credentials were revoked; get new ones"),
    ("authorization violation", AuthenticationError, "check user, password, token or credentials"),
    ("authentication timeout", AuthenticationError, "the credentials did not arrive in time"),
    ("maximum payload", MaxPayloadError, "send smaller messages, or raise max_payload of the server"),
    ("maximum control line", MaxControlLineError, "use shorter subjects, or raise max_control_line of the server"),
    ("maximum subscriptions", MaxSubscriptionsError, "end some, or raise max_subscriptions of the server or user"),
    ("stale connection", StaleConnectionError, "the client did not answer PINGs in time"),
    ("slow consumer", SlowConsumerError, "the client did not read its messages fast enough"),
    ("secure connection - tls required", TLSError, "use tls://, or TLS options"),
    ("maximum connections exceeded", ConnectError, "close connections, or raise max_connections of the server"),
    ("maximum account active connections", ConnectError, "close connections, or raise the limit of the account"),
)


def parse_err(text: str, where: str) -> Error:
    """Return the exception for an `-ERR` of the server (ADR-40)."""
    found = _PERMISSION.search(text)
    if found:
        operation = "publish" if found[1].lower() == "publish" else "subscribe"
        return PermissionsViolationError(
            f"{where}: {text}; grant the user the permission to {operation} to {found[2]!r}",
            subject=found[2],
            operation=operation,
        )
    lower = text.lower()
    for part, kind, hint in _ERRORS_BY_TEXT:
        if part in lower:
            return kind(f"{where}: the server says {text!r}; {hint}")
    return ProtocolError(f"{where}: the server says {text!r}")
