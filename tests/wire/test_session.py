"""The handshake that opens a connection: what counts in plaintext, and what counts only over TLS."""

from __future__ import annotations

import contextlib
import json
from random import Random

import pytest

from jetspark.errors import AuthenticationError, Error, ProtocolError, TLSError
from jetspark.wire.options import ConnectOptions, ServerAddress, TLSOptions
from jetspark.wire.server_pool import Server, ServerPool
from jetspark.wire.session import Accepted, Read, StartTLS, Write, open_session, plaintext_error

TLS = TLSOptions()
FIRST = TLSOptions(handshake_first=True)
EXTRA = {
    "message": b"MSG a 1 2\r\nhi\r\n",
    "message with headers": b"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    "INFO": b'INFO {"headers":true,"connect_urls":["evil:1"]}\r\n',
    "PING": b"PING\r\n",
    "PONG": b"PONG\r\n",
    "+OK": b"+OK\r\n",
    "-ERR": b"-ERR 'Authorization Violation'\r\n",
    "part of a frame": b"MSG a",
    "one byte": b"\r",
    "rubbish": b"\x00\xff\r\n",
}


def info(**fields: object) -> bytes:
    return b"INFO %b\r\n" % json.dumps({"server_id": "X", "headers": True, **fields}).encode()


class Handshake:
    """A handshake with a server whose sections follow each other: a section is what it sends, or "tls".

    Attributes
    ----------
    steps
        The names of the steps.
    written
        The bytes that the client sends.
    encrypted
        Whether TLS was started.
    """

    def __init__(self, options: ConnectOptions, pool: ServerPool | None = None, server: Server | None = None) -> None:
        self.pool = pool or ServerPool(options, Random(1))
        self.server = server or self.pool.servers[0]
        self.options = options
        self.steps: list[str] = []
        self.written = b""
        self.encrypted = False

    def play(self, *sections: bytes) -> Accepted:
        left = list(sections)
        conversation = open_session(self.options, self.pool, self.server)
        step = next(conversation)
        try:
            while True:
                self.steps.append(type(step).__name__)
                if isinstance(step, Read):
                    step = conversation.send(left.pop(0))
                    continue
                if isinstance(step, Write):
                    self.written += step.data
                else:
                    assert isinstance(step, StartTLS)
                    self.encrypted = True
                step = next(conversation)
        except StopIteration as done:
            accepted = done.value
            assert isinstance(accepted, Accepted)
            return accepted

    def connect_fields(self) -> dict[str, object]:
        line = self.written.split(b"\r\n")[0]
        fields: dict[str, object] = json.loads(line.removeprefix(b"CONNECT "))
        return fields


def options(url: str = "nats://one", **changes: object) -> ConnectOptions:
    return ConnectOptions.of([url], **changes)


@pytest.mark.parametrize("extra", EXTRA.values(), ids=EXTRA.keys())
@pytest.mark.parametrize(
    ("chosen", "fields"),
    [
        (options(), {"tls_required": True}),
        (options(tls=TLS), {"tls_available": True}),
        (options("tls://one"), {"tls_required": True}),
    ],
    ids=["required", "options", "scheme"],
)
def test_whatever_follows_info_before_tls_is_an_error(
    chosen: ConnectOptions, fields: dict[str, bool], extra: bytes
) -> None:
    handshake = Handshake(chosen)
    with pytest.raises(
        ProtocolError, match="one:4222: the server sent more than INFO before the TLS handshake"
    ) as caught:
        handshake.play(info(**fields) + extra)
    assert (handshake.written, handshake.encrypted) == (b"", False)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["message", "message with headers"])
@pytest.mark.parametrize("fields", [{}, {"tls_required": True}], ids=["plain", "TLS"])
@pytest.mark.parametrize("together", [False, True])
def test_a_message_before_the_server_has_accepted_the_connection_is_an_error(
    name: str, fields: dict[str, bool], *, together: bool
) -> None:
    handshake = Handshake(options())
    sections = [info(**fields), EXTRA[name] + b"PONG\r\n"]
    if together and not fields:
        sections = [b"".join(sections)]
    with pytest.raises(ProtocolError, match="a message before it accepted the connection"):
        handshake.play(*sections)


def test_bytes_after_the_acceptance_are_left_for_the_session() -> None:
    accepted = Handshake(options()).play(info(), b"PING\r\n+OK\r\nPONG\r\nMSG a 1 2\r\nhi\r\nPI")
    assert accepted.unread == b"MSG a 1 2\r\nhi\r\nPI"


def test_of_a_plaintext_info_nothing_stays_that_says_where_to_connect_next() -> None:
    plain = info(tls_required=True, connect_urls=["evil:1"], ldm=True)
    accepted = Handshake(options()).play(plain, b"PONG\r\n")
    assert (accepted.info.connect_urls, accepted.info.lame_duck) == ([], False)


@pytest.mark.parametrize("before_the_answer", [False, True])
def test_the_info_over_tls_replaces_the_plaintext_one(*, before_the_answer: bool) -> None:
    plain = info(server_id="PLAIN", tls_required=True, max_payload=1, domain="evil", connect_urls=["evil:1"])
    over_tls = info(server_id="TLS", tls_required=True, connect_urls=["good:1"])
    answer = over_tls + b"PONG\r\n" if before_the_answer else b"PONG\r\n" + over_tls + b"MSG"
    accepted = Handshake(options()).play(plain, answer)
    assert accepted.info.server_id == "TLS"
    assert accepted.info.max_payload == 1 << 20
    assert (accepted.info.domain, accepted.info.connect_urls) == ("", ["good:1"])
    assert accepted.unread == (b"" if before_the_answer else over_tls + b"MSG")


def test_a_part_of_an_info_after_the_answer_is_left_for_the_session() -> None:
    accepted = Handshake(options()).play(info(server_id="A"), b"PONG\r\n" + info(server_id="B")[:-1])
    assert accepted.info.server_id == "A"


@pytest.mark.parametrize("tls", [TLS, None], ids=["options", "scheme"])
def test_an_error_in_plaintext_instead_of_info_is_not_taken_for_the_servers(tls: TLSOptions | None) -> None:
    handshake = Handshake(options("nats://one" if tls else "tls://one", tls=tls))
    with pytest.raises(ProtocolError, match="Authorization Violation") as caught:
        handshake.play(EXTRA["-ERR"])
    assert not isinstance(caught.value, AuthenticationError)
    with pytest.raises(AuthenticationError):
        Handshake(options()).play(EXTRA["-ERR"])


def test_with_handshake_first_nothing_is_read_before_tls() -> None:
    handshake = Handshake(options(tls=FIRST))
    accepted = handshake.play(info(connect_urls=["good:1"]), b"PONG\r\n")
    assert handshake.steps[0] == "StartTLS"
    assert handshake.steps.count("StartTLS") == 1
    assert accepted.info.connect_urls == ["good:1"]
    assert handshake.connect_fields()["tls_required"] is True
    early: Error = plaintext_error(handshake.options, ServerAddress("one"), info())
    assert isinstance(early, TLSError)
    assert "set handshake_first of TLSOptions to False" in str(early)


def test_a_flood_of_frames_before_the_answer_ends_the_handshake() -> None:
    with pytest.raises(ProtocolError, match="no answer"):
        Handshake(options()).play(info(), b"PING\r\n" * 2000)


@pytest.mark.parametrize("tls", [None, TLS], ids=["scheme", "options"])
def test_a_client_certificate_that_is_missing_is_named_before_tls(tls: TLSOptions | None) -> None:
    handshake = Handshake(options("nats://one" if tls else "tls://one", tls=tls))
    with pytest.raises(TLSError, match="wants a client certificate; give cert_file and key_file"):
        handshake.play(info(tls_required=True, tls_verify=True))
    assert not handshake.encrypted
    with_one = Handshake(options(tls=TLSOptions(cert_file="c")))
    with_one.play(info(tls_required=True, tls_verify=True), b"PONG\r\n")
    assert with_one.encrypted


# -- once TLS, always TLS --------------------------------------------------------------------------------------


def accepts_plaintext(handshake: Handshake) -> bool:
    """Return whether a later session may be opened without TLS; if not, check that nothing was sent."""
    later = Handshake(handshake.options, handshake.pool, handshake.server)
    with contextlib.suppress(TLSError):
        later.play(info(), b"PONG\r\n")
        return True
    assert (later.written, later.encrypted) == (b"", False)
    return False


def test_a_server_without_tls_is_used_until_one_requires_it() -> None:
    handshake = Handshake(options(user="ada", password="secret"))
    handshake.play(info(), b"PONG\r\n")
    assert accepts_plaintext(handshake)
    handshake.play(info(tls_required=True), b"PONG\r\n")
    assert not accepts_plaintext(handshake)
    assert str(handshake.server.address) == "tls://one:4222"


def test_after_tls_every_server_of_the_pool_needs_it() -> None:
    chosen = ConnectOptions.of(["nats://one", "nats://two"], randomize=False)
    handshake = Handshake(chosen)
    pool, (one, two) = handshake.pool, handshake.pool.servers
    pool.update_discovered(["early:1", "gone:1", "more:1", "most:1"], one)
    pool.update_discovered(["early:1", "more:1", "most:1"], one)  # gone:1 is kept, but is not reported any more
    handshake.play(info(tls_required=True), b"PONG\r\n")
    pool.update_discovered(["early:1", "late:1", "10.0.0.1:1"], one)
    pool.restart_rounds()
    hosts = {"one", "two", "early", "gone", "more", "most", "late", "10.0.0.1"}
    assert {server.address.host for server in pool.servers} == hosts
    assert all(server.address.tls for server in pool.servers)
    for server in pool.servers:
        handshake.server = server
        assert not accepts_plaintext(handshake)
    handshake.server = two
    handshake.play(info(tls_available=True), b"PONG\r\n")
    assert handshake.connect_fields()["tls_required"] is True


def test_a_server_that_required_tls_needs_it_even_if_the_tls_handshake_failed() -> None:
    handshake = Handshake(options())
    conversation = open_session(handshake.options, handshake.pool, handshake.server)
    next(conversation)
    assert isinstance(conversation.send(info(tls_required=True)), StartTLS)
    conversation.close()
    assert not accepts_plaintext(handshake)


def test_tls_options_need_tls_with_every_server() -> None:
    handshake = Handshake(options(tls=TLS))
    handshake.pool.update_discovered(["late:1"], handshake.server)
    for server in handshake.pool.servers:
        handshake.server = server
        assert not accepts_plaintext(handshake)
