"""The handshake that opens a connection, and the server's INFO and `-ERR` frames.

`open_session` is a generator: it yields the steps to do (`Read`, `StartTLS`, `Write`) and receives the bytes that were
read. It does not use sockets, so that every front, blocking or asyncio, can use it.

Nothing is trusted that comes before TLS. There must be one INFO and not a byte more, and nothing of it stays that says
where the client connects next.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from typing import Final, NamedTuple

import msgspec

from jetspark.version import __version__
from jetspark.wire.auth import credential_fields, has_unused_signer
from jetspark.wire.errors import (
    AuthenticationError,
    AuthenticationExpiredError,
    ConfigError,
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
from jetspark.wire.frames import CRLF, PING, PONG, Control, Err, FrameLimits, Info, MsgFrame, Parser, Ping, Pong
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.server_pool import Server, ServerPool
from jetspark.wire.untrusted import decode_json

__all__ = [
    "Accepted",
    "Read",
    "ServerInfo",
    "StartTLS",
    "Step",
    "Write",
    "open_session",
    "parse_err",
    "parse_info",
    "plaintext_error",
]

_HANDSHAKE_LIMITS: Final = FrameLimits(size=1 << 16)
"""No message comes before the server has accepted the session, so a large one is not waited for."""
LANGUAGE: Final = "python-jetspark"
PROTOCOL: Final = 1  # the server may send INFO at any time
_MAX_FRAMES: Final = 1000
"""Most frames of a server between CONNECT and its answer."""


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


class Read(NamedTuple):
    """Step: wait for bytes of the server, and send all that have come to the generator."""


class StartTLS(NamedTuple):
    """Step: do a TLS handshake on this connection. If the front holds bytes of the server, raise `plaintext_error`."""


class Write(NamedTuple):
    """Step: send these bytes."""

    data: bytes


Step = Read | StartTLS | Write


class Accepted(NamedTuple):
    """The result of a handshake.

    Attributes
    ----------
    info
        The latest INFO of the server.
    unread
        Bytes that came after the handshake.
    """

    info: ServerInfo
    unread: bytes


_info_decoder: Final = msgspec.json.Decoder(ServerInfo)


def parse_info(frame: Info) -> ServerInfo:
    """Read an INFO. Raises ProtocolError if it is not JSON of the expected form."""
    try:
        return decode_json(_info_decoder, frame.json)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"cannot read the server's INFO: {error}") from error


def open_session(options: ConnectOptions, servers: ServerPool, server: Server) -> Generator[Step, bytes, Accepted]:
    """Do the handshake on an open socket until the server accepts the connection: INFO, TLS, CONNECT, PING, PONG.

    CONNECT always asks for headers, for no-responders replies and for protocol 1 (WIR-01). The pool of servers learns
    that a server requires TLS, and that the connection is encrypted.

    Raises
    ------
    AuthenticationError, TLSError, ConnectError, ProtocolError
        The server does not accept the connection; the message names its address, never credentials.
    """
    parser = Parser(_HANDSHAKE_LIMITS)
    encrypted = options.tls is not None and options.tls.handshake_first
    if encrypted:
        yield StartTLS()
        servers.note_tls(server, encrypted=True)
    first = yield from _next_frame(parser, server)
    info = _first_info(first, server, trusted=encrypted or not _wants_tls(options, server))
    if info.tls_required:
        servers.note_tls(server, encrypted=False)
    if not encrypted and _wants_tls(options, server):
        if not (info.tls_required or info.tls_available):
            raise TLSError(
                f"{server.address}: TLS is requested, or was used before, but the server does not offer it; enable TLS "
                "on the server"
            )
        if info.tls_verify and (options.tls is None or options.tls.cert_file is None):
            raise TLSError(
                f"{server.address}: the server wants a client certificate; give cert_file and key_file in TLSOptions"
            )
        if parser.unread:
            raise plaintext_error(options, server.address, parser.unread)
        yield StartTLS()
        servers.note_tls(server, encrypted=True)
        encrypted = True
        info = msgspec.structs.replace(info, connect_urls=[], lame_duck=False)
    if not info.headers:
        raise ConnectError(
            f"{server.address}: server version {info.version} has no headers; JetStream needs 2.2 or newer"
        )
    yield Write(connect_command(options, server.address, info.nonce, encrypted=encrypted) + PING)
    for _ in range(_MAX_FRAMES):
        frame = yield from _next_frame(parser, server)
        if isinstance(frame, Pong):
            return Accepted(_latest_info(info, parser.unread), parser.unread)
        if isinstance(frame, Err):
            raise _refusal(parse_err(frame.text, str(server.address)), options, info)
        if isinstance(frame, Info):
            info = parse_info(frame)
        elif isinstance(frame, Ping):
            yield Write(PONG)
    raise ProtocolError(f"{server.address}: {_MAX_FRAMES} frames came after CONNECT, but no answer to it")


def _refusal(error: Error, options: ConnectOptions, info: ServerInfo) -> Error:
    """Return the error of a refused CONNECT; it says if the server could not check the credentials or the nkey."""
    if type(error) is AuthenticationError and has_unused_signer(options, info.nonce):
        return AuthenticationError(f"{error}; the server sent no nonce, so it checks neither nkeys nor JWTs")
    return error


def _wants_tls(options: ConnectOptions, server: Server) -> bool:
    return server.address.tls or options.tls is not None


def _first_info(frame: Control, server: Server, *, trusted: bool) -> ServerInfo:
    """Read the first frame. `trusted` says that it came over TLS, or that TLS is not wanted."""
    if isinstance(frame, Err):
        if not trusted:
            raise ProtocolError(f"{server.address}: instead of INFO came {frame.text[:200]!r}, and not over TLS")
        raise parse_err(frame.text, str(server.address))
    if not isinstance(frame, Info):
        raise ProtocolError(f"{server.address}: the first line is not INFO; check that a NATS server listens there")
    return parse_info(frame)


def _next_frame(parser: Parser, server: Server) -> Generator[Read, bytes, Control]:
    data = b""
    while (frame := next(parser.feed(data), None)) is None:
        data = yield Read()
    if isinstance(frame, MsgFrame):
        raise ProtocolError(f"{server.address}: the server sent a message before it accepted the connection")
    return frame


def _latest_info(info: ServerInfo, unread: bytes) -> ServerInfo:
    """Return the INFO that has come together with the answer to CONNECT, else `info`. It is also read again later."""
    line, end, _ = unread.partition(CRLF)
    return parse_info(Info(line[5:])) if end and line.startswith(b"INFO ") else info


def plaintext_error(options: ConnectOptions, address: ServerAddress, data: bytes) -> Error:
    """Return the error for bytes that came before TLS, although the server must wait for it."""
    if options.tls is not None and options.tls.handshake_first:
        return TLSError(f"{address}: the server sends INFO first; set handshake_first of TLSOptions to False")
    return ProtocolError(f"{address}: the server sent more than INFO before the TLS handshake: {data[:200]!r}")


def connect_command(options: ConnectOptions, address: ServerAddress, nonce: str | None, *, encrypted: bool) -> bytes:
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
        "tls_required": encrypted,
    }
    fields.update(credential_fields(options, address, nonce))
    with contextlib.suppress(UnicodeEncodeError):  # it would hold the secret, also as the context of another error
        return b"CONNECT %b\r\n" % msgspec.json.encode(fields)
    raise ConfigError("the login or the name of the connection cannot be encoded as UTF-8: it has a lone surrogate")


_PERMISSION: Final = re.compile("permissions violation for (publish|subscription)", re.IGNORECASE)
_MAX_ERROR_LENGTH: Final = 2000  # characters of the server's text in an error
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
    violation = _PERMISSION.search(text)
    subject = _quoted(text, violation.end()) if violation else None
    text = _shorten(text)
    if violation and subject is not None:
        operation = "publish" if violation[1].lower() == "publish" else "subscribe"
        return PermissionsViolationError(
            f"{where}: {text}; grant the user the permission to {operation} to {_shorten(subject)!r}",
            subject=subject,
            operation=operation,
        )
    lower = text.lower()
    for part, kind, hint in _ERRORS_BY_TEXT:
        if part in lower:
            return kind(f"{where}: the server says {text!r}; {hint}")
    return ProtocolError(f"{where}: the server says {text!r}")


def _quoted(text: str, at: int) -> str | None:
    """Return the first text in double quotes after a position; None if there is none."""
    begin = text.find('"', at) + 1
    end = text.find('"', begin) if begin else -1
    return text[begin:end] if end >= 0 else None


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_ERROR_LENGTH else f"{text[:_MAX_ERROR_LENGTH]}..."
