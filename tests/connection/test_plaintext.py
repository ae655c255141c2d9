"""Plaintext before TLS does not count, credentials never go out in plaintext after it, and failures have reasons.

A scripted server sends what nats-server never would. `tests/wire/test_session.py` has all the cases.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.connection.certificates import Certificates
from tests.connection.support import Connect, Front, Recorder

from jetspark import bulk
from jetspark.errors import ConnectError, ProtocolError, TLSError
from jetspark.wire.events import ErrorOccurred, Reconnected
from jetspark.wire.options import TLSOptions


def info(**fields: object) -> bytes:
    return b"INFO %b\r\n" % json.dumps({"server_id": "X", "headers": True, **fields}).encode()


class Scripted:
    """A server with one script for each session; the last one is used again.

    Attributes
    ----------
    plaintext
        The bytes that each session has received without TLS.
    """

    def __init__(self, context: ssl.SSLContext, *scripts: Callable[[Session], None]) -> None:
        self.plaintext: list[bytes] = []
        self.context = context
        self._scripts = list(scripts)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://localhost:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._sessions: list[Session] = []
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listening.accept()
                self._sessions.append(Session(self, accepted))
                script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
                thread = threading.Thread(target=self._serve, args=(self._sessions[-1], script))
                self._threads.append(thread)
                thread.start()

    def _serve(self, session: Session, script: Callable[[Session], None]) -> None:
        with contextlib.suppress(OSError):
            script(session)
        session.socket.close()

    def cut(self) -> None:
        """End all sessions."""
        for session in self._sessions:
            with contextlib.suppress(OSError):
                session.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()  # no session begins after this
        self._listening.close()
        self.cut()
        for thread in self._threads[1:]:
            thread.join()


class Session:
    """One session of a scripted server."""

    def __init__(self, server: Scripted, accepted: socket.socket) -> None:
        self.socket = accepted
        self._server = server

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def start_tls(self) -> None:
        self.socket = self._server.context.wrap_socket(self.socket, server_side=True)

    def answer(self, *frames: bytes) -> None:
        """Answer the first PING with these frames, and each further one with a PONG."""
        answer = b"".join(frames) or b"PONG\r\n"
        while data := self.socket.recv(65536):
            if b"PING\r\n" in data:
                self.send(answer)
                answer = b"PONG\r\n"

    def note_plaintext(self) -> None:
        """Keep what the client sends."""
        self._server.plaintext.append(self.socket.recv(65536))


@pytest.fixture
def scripted(certificates: Certificates) -> Iterator[Callable[..., Scripted]]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificates.server)
    started: list[Scripted] = []

    def start(*scripts: Callable[[Session], None]) -> Scripted:
        started.append(Scripted(context, *scripts))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.mark.parametrize("scheme", ["tls", "nats"])
def test_a_message_before_tls_ends_the_connect(
    connect: Connect, scripted: Callable[..., Scripted], certificates: Certificates, scheme: str
) -> None:
    def script(session: Session) -> None:
        session.send(info(tls_required=True) + b"MSG a 1 6\r\nforged\r\n")
        session.note_plaintext()

    server = scripted(script)
    with pytest.raises(ProtocolError, match=r"more than INFO before the TLS handshake: b'MSG a 1 6"):
        connect(server.url.replace("nats", scheme), tls=TLSOptions(ca_file=certificates.ca))
    server.close()
    assert server.plaintext == [b""]


def test_a_server_that_closes_in_the_tls_handshake_is_reported_with_the_reason(
    connect: Connect, scripted: Callable[..., Scripted], certificates: Certificates
) -> None:
    def script(session: Session) -> None:
        session.send(info(tls_required=True))

    server = scripted(script)
    reason = "the server closed the connection during the TLS handshake|reset by peer"
    with pytest.raises(ConnectError, match=reason) as caught:
        connect(server.url, tls=TLSOptions(ca_file=certificates.ca))
    assert caught.value.transient


def test_rubbish_after_the_tls_handshake_is_reported_with_the_reason(
    connect: Connect, scripted: Callable[..., Scripted], certificates: Certificates
) -> None:
    def script(session: Session) -> None:
        session.send(info(tls_required=True))
        session.start_tls()
        with socket.socket(fileno=os.dup(session.socket.fileno())) as plain:
            plain.sendall(b"\x17\x03\x03\x00\x05hello")
        session.socket.recv(1)

    server = scripted(script)
    with pytest.raises(TLSError, match=r"localhost:\d+: TLS failed: [A-Z_]+$"):
        connect(server.url, tls=TLSOptions(ca_file=certificates.ca))


def encrypted(session: Session) -> None:
    session.send(info(server_id="PLAIN", tls_required=True, connect_urls=["127.0.0.1:1"], max_payload=1))
    session.start_tls()
    session.answer(b"PONG\r\n", info(server_id="OVER-TLS", tls_required=True))


def not_encrypted(session: Session) -> None:
    session.send(info())
    session.note_plaintext()


async def test_after_tls_the_asyncio_and_the_blocking_front_refuse_plaintext(
    front: Front,
    scripted: Callable[..., Scripted],
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificates.ca)  # so TLS needs no options
    server = scripted(encrypted, not_encrypted, not_encrypted, encrypted)
    recorder = Recorder()
    connection = await front.connect(server.url, user="ada", password="s3cret", on_event=recorder, reconnect_wait=0.01)
    await connection.flush()
    assert (connection.server_info.server_id, connection.server_info.max_payload) == ("OVER-TLS", 1 << 20)
    server.cut()
    await recorder.wait(Reconnected)
    assert str(connection.address) == server.url.replace("nats", "tls")
    errors = [event.error for event in recorder.of(ErrorOccurred)]
    assert [type(error) for error in errors] == [TLSError] * 2
    assert server.plaintext == [b"", b""]
    await front.close()


def test_after_tls_a_bulk_connection_refuses_plaintext(
    scripted: Callable[..., Scripted], certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificates.ca)  # so TLS needs no options
    server = scripted(encrypted, not_encrypted, encrypted)
    with bulk.connect(server.url, user="ada", password="s3cret") as connection:
        info = connection.server_info
        assert (info.server_id, info.max_payload, info.connect_urls) == ("OVER-TLS", 1 << 20, [])
        with pytest.raises(TLSError, match="was used before, but the server does not offer it"):
            connection.reconnect()
        connection.reconnect()
        assert str(connection.address) == server.url.replace("nats", "tls")
    server.close()
    assert server.plaintext == [b""]
