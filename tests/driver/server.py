"""Scripted servers in memory, and the network between them and the client.

By default a server behaves like a NATS server. It sends INFO, answers CONNECT and PING, routes published messages to
the subscriptions of its sessions, and sends a 503 if nobody listens. A test switches off single behaviours.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tests.driver.frames import (
    ClientFrame,
    Connect,
    FrameReader,
    Ping,
    Pub,
    Sub,
    Unsub,
    header_block,
    matches,
    message,
)
from tests.driver.transport import MemoryTransport
from tests.driver.virtual_time import Clock, VirtualTimeLoop

__all__ = ["Handler", "MemoryNetwork", "MemoryServer", "Session"]

F = TypeVar("F", bound=ClientFrame)

Handler = Callable[["Session", Pub], None]
"""Handles a published message like a service."""


class Session:
    """One connection of a client, on the side of its server.

    Attributes
    ----------
    frames
        The frames of the client.
    subs
        Its subscriptions by id.
    left
        The number of messages left for subscriptions with a maximum.
    silent
        Frames are kept and not handled.
    opened_at, gone_at
        When the client connected, and when it closed its end.
    """

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self.server = server
        self.frames: list[ClientFrame] = []
        self.subs: dict[str, Sub] = {}
        self.left: dict[str, int] = {}
        self.silent = False
        self.tls = False
        self.opened_at = clock.now
        self.gone_at: float | None = None
        self.transport: MemoryTransport
        self._clock = clock
        self._reader = FrameReader()

    # -- frames of the client -----------------------------------------------------------------------------------

    def of(self, kind: type[F]) -> list[F]:
        """Return the frames of a kind."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def published(self, pattern: str = ">") -> list[Pub]:
        """Return the publishes to some subjects."""
        return [pub for pub in self.of(Pub) if matches(pattern, pub.subject)]

    @property
    def subjects(self) -> list[str]:
        """Return the subjects of its subscriptions."""
        return sorted(sub.subject for sub in self.subs.values())

    def feed(self, data: bytes) -> None:
        for frame in self._reader.feed(data, self._clock.now):
            self.frames.append(frame)
            if isinstance(frame, Sub):
                self.subs[frame.sid] = frame
            elif isinstance(frame, Unsub):
                self._unsubscribe(frame)
            if not self.silent:
                self.server.handle(self, frame)

    def client_gone(self) -> None:
        self.gone_at = self._clock.now
        self.subs.clear()

    def _unsubscribe(self, frame: Unsub) -> None:
        if frame.most:
            self.left[frame.sid] = frame.most
        else:
            self.subs.pop(frame.sid, None)

    # -- frames of the server -----------------------------------------------------------------------------------

    def send(self, *frames: bytes) -> None:
        """Send bytes; they arrive together."""
        self.transport.deliver(b"".join(frames))

    def deliver(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        reply: str = "",
        status: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> int:
        """Send a message to the matching subscriptions; return how many there are."""
        header = header_block(status, headers) if status or headers else b""
        return self.deliver_raw(subject, payload, reply, header)

    def deliver_raw(self, subject: str, payload: bytes, reply: str, header: bytes, to: str = "") -> int:
        """Do the same as `deliver`, with a raw header block.

        `to` is the subject of the subscriptions, if it differs from the subject of the message: a consumer sends to an
        inbox, and its messages keep their subjects.
        """
        found = [sub for sub in self.subs.values() if matches(sub.subject, to or subject)]
        for sub in found:
            self.send(message(subject, sub.sid, payload, reply, header))
            if sub.sid in self.left:
                self.left[sub.sid] -= 1
                if not self.left[sub.sid]:
                    del self.subs[sub.sid], self.left[sub.sid]
        return len(found)

    def error(self, text: str) -> None:
        """Send `-ERR`."""
        self.send(f"-ERR '{text}'\r\n".encode())

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection on the server's side."""
        self.silent = True
        self.subs.clear()
        self.transport.deliver_eof()

    def reset(self, error: Exception | None = None) -> None:
        """Break the connection."""
        self.silent = True
        self.subs.clear()
        self.transport.deliver_reset(error or ConnectionResetError("reset by peer"))


class MemoryServer:
    """One server.

    Attributes
    ----------
    info
        Fields of its INFO.
    refuses
        Raised when a client connects; None accepts it.
    accepts
        If cleared, a client that connects waits for ever, like with a firewall that drops its packets.
    greets, answers_connect, answers_pings, routes
        Its default behaviours.
    tls_error, closes_in_tls
        The result of a TLS handshake: it fails, or the server closes the connection during it.
    rejects
        Text of an `-ERR` with which it answers CONNECT, and closes.
    handlers
        Services by subject; the latest that matches is used.
    """

    def __init__(self, network: MemoryNetwork, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.info: dict[str, Any] = {
            "server_id": f"ID{port}",
            "server_name": f"{host}-{port}",
            "version": "2.12.0",
            "proto": 1,
            "host": host,
            "port": port,
            "headers": True,
            "max_payload": 1 << 20,
            "jetstream": True,
        }
        self.refuses: Exception | None = None
        self.accepts = asyncio.Event()
        self.accepts.set()
        self.greets = self.answers_connect = self.answers_pings = self.routes = True
        self.rejects = ""
        self.tls_error: Exception | None = None
        self.closes_in_tls = False
        self.attempts: list[float] = []
        self.sessions: list[Session] = []
        self.handlers: list[tuple[str, Handler]] = []
        self._network = network

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    @property
    def session(self) -> Session:
        """The latest session."""
        return self.sessions[-1]

    def down(self, error: Exception | None = None) -> None:
        """Die: sessions break, and nobody can connect."""
        self.refuses = error or ConnectionRefusedError("refused")
        for session in self.sessions:
            if session.gone_at is None:
                session.reset()

    def up(self) -> None:
        """Accept clients again."""
        self.refuses = None
        self.accepts.set()

    def on(self, pattern: str, handler: Handler) -> None:
        """Let a handler take the publishes to some subjects."""
        self.handlers.append((pattern, handler))

    def respond(self, pattern: str, payload: bytes = b"") -> None:
        """Answer requests."""
        self.on(pattern, lambda session, pub: _answer(session, pub.reply, payload))

    def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", **more: Any) -> int:
        """Send a message to all subscriptions; return how many there are."""
        return sum(session.deliver(subject, payload, reply=reply, **more) for session in self.sessions)

    # -- behaviour ----------------------------------------------------------------------------------------------

    def greeting(self) -> bytes:
        """Return its INFO."""
        return b"INFO " + json.dumps(self.info).encode() + b"\r\n"

    def handle(self, session: Session, frame: ClientFrame) -> None:
        """Handle a frame like a NATS server."""
        if isinstance(frame, Connect):
            if self.rejects:
                session.error(self.rejects)
                session.close()
        elif isinstance(frame, Ping):
            first = len(session.of(Ping)) == 1
            if self.answers_connect if first else self.answers_pings:
                session.send(b"PONG\r\n")
        elif isinstance(frame, Pub):
            self._route(session, frame)

    def _route(self, session: Session, pub: Pub) -> None:
        for pattern, handler in reversed(self.handlers):
            if matches(pattern, pub.subject):
                handler(session, pub)
                return
        if not self.routes:
            return
        header = header_block("", pub.headers) if pub.headers else b""
        count = sum(each.deliver_raw(pub.subject, pub.payload, pub.reply, header) for each in self.sessions)
        if not count and pub.reply:
            session.deliver(pub.reply, status="503")


class MemoryNetwork:
    """The servers by address, and every connection to them.

    Attributes
    ----------
    latency
        Delay in seconds of bytes in either direction, for connections that are opened later.
    transports
        The client's end of every connection.
    """

    def __init__(self, loop: VirtualTimeLoop, clock: Clock) -> None:
        self.latency = 0.0
        self.transports: list[MemoryTransport] = []
        self._loop = loop
        self._clock = clock
        self._servers: dict[tuple[str, int], MemoryServer] = {}
        loop.network = self

    def server(self, port: int = 4222, host: str = "localhost") -> MemoryServer:
        """Create a server."""
        server = self._servers[host, port] = MemoryServer(self, host, port)
        return server

    @property
    def open_transports(self) -> list[MemoryTransport]:
        """Return the connections that the client has not closed."""
        return [transport for transport in self.transports if not transport.closed]

    async def open(self, protocol: asyncio.BaseProtocol, host: str, port: int) -> asyncio.Transport:
        """Connect like `loop.create_connection`."""
        server = self._servers.get((host, port))
        await asyncio.sleep(self.latency)
        if server is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        server.attempts.append(self._clock.now)
        if server.refuses is not None:
            raise server.refuses
        await server.accepts.wait()
        session = Session(server, self._clock)
        transport = session.transport = MemoryTransport(self._loop, protocol, session, self.latency)
        self.transports.append(transport)
        server.sessions.append(session)
        self._loop.call_soon(protocol.connection_made, transport)
        made = self._loop.create_future()
        self._loop.call_soon(_set, made)
        try:
            await made
        except BaseException:
            transport.close()
            raise
        if server.greets:
            session.send(server.greeting())
        return transport

    async def start_tls(self, transport: asyncio.BaseTransport) -> asyncio.Transport | None:
        """Encrypt like `loop.start_tls`; here the bytes stay the same."""
        assert isinstance(transport, MemoryTransport)
        session = next(
            each for server in self._servers.values() for each in server.sessions if each.transport is transport
        )
        await asyncio.sleep(self.latency)
        if session.server.tls_error is not None:
            transport.close()
            raise session.server.tls_error
        if session.server.closes_in_tls:
            transport.abort()
            return None
        session.tls = True
        return transport


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _answer(session: Session, reply: str, payload: bytes) -> None:
    if reply:
        session.deliver(reply, payload)
