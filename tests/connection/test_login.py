"""The login that every front sends, and the server that it takes without an address."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import nkeys
import pytest
from tests.connection.support import Connect

from jetspark.errors import AuthenticationError, ConfigError
from jetspark.wire.options import ConnectOptions, TLSOptions

SEED = bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)).decode()
CREDENTIALS = (
    "-----BEGIN NATS USER JWT-----\neyJhbGci.claims.sig\n------END NATS USER JWT------\n\n"
    f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
)


class RecordingServer:
    """Accepts every login, or none; `logins` has the fields of each CONNECT."""

    def __init__(self, nonce: str | None, *, accepts: bool = True) -> None:
        self._answer = b"PONG\r\n" if accepts else b"-ERR 'Authorization Violation'\r\n"
        self.logins: list[dict[str, Any]] = []
        self._info: dict[str, Any] = {"server_id": "X", "headers": True, "max_payload": 1000, "auth_required": True}
        if nonce is not None:
            self._info["nonce"] = nonce
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"nats://{self.address}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the end of the test
            while True:
                accepted, _ = self._listener.accept()
                with accepted, accepted.makefile("rb") as lines:
                    accepted.sendall(b"INFO " + json.dumps(self._info).encode() + b"\r\n")
                    for line in lines:
                        if line.startswith(b"CONNECT "):
                            self.logins.append(json.loads(line[8:]))
                        elif line.startswith(b"PING"):
                            accepted.sendall(self._answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with contextlib.closing(RecordingServer("abc")) as server:
        yield server


def signers() -> list[dict[str, str]]:
    return [{"credentials": CREDENTIALS}, {"nkey_seed": SEED}]


@pytest.mark.parametrize("signer", signers(), ids=["credentials", "nkey"])
@pytest.mark.parametrize(
    ("login", "sent"),
    [
        ({"token": "t0ken"}, {"auth_token": "t0ken"}),
        ({"token": lambda: "t0ken"}, {"auth_token": "t0ken"}),
        ({"user": "ada", "password": "x"}, {"user": "ada", "pass": "x"}),
    ],
    ids=["token", "token function", "password"],
)
def test_a_token_or_password_and_a_signature_are_sent_together(
    connect: Connect, server: RecordingServer, login: dict[str, Any], sent: dict[str, str], signer: dict[str, str]
) -> None:
    connect(server.url, **login, **signer)
    [fields] = server.logins
    assert {key: fields.get(key) for key in sent} == sent
    assert len(fields["sig"]) > 80
    assert ("jwt" in fields, "nkey" in fields) == ("credentials" in signer, "nkey_seed" in signer)


def test_a_token_in_the_url_and_credentials_are_sent_together(connect: Connect, server: RecordingServer) -> None:
    connect(f"nats://t0ken@{server.address}", credentials=CREDENTIALS)
    [fields] = server.logins
    assert (fields["auth_token"], fields["jwt"]) == ("t0ken", "eyJhbGci.claims.sig")


def test_a_login_in_the_url_replaces_the_login_and_the_nkey_of_the_options(
    connect: Connect, server: RecordingServer
) -> None:
    connect(f"nats://ada:x@{server.address}", token="t0ken", nkey_seed=SEED)
    [fields] = server.logins
    assert (fields["user"], fields["pass"]) == ("ada", "x")
    assert not fields.keys() & {"auth_token", "nkey", "sig", "jwt"}


@pytest.mark.parametrize("signer", signers(), ids=["credentials", "nkey"])
@pytest.mark.parametrize(
    ("login", "sent"),
    [({"token": "t0ken"}, {"auth_token": "t0ken"}), ({"user": "ada", "password": "x"}, {"user": "ada", "pass": "x"})],
    ids=["token", "password"],
)
def test_a_server_that_sends_no_nonce_gets_the_login_and_no_signature(
    connect: Connect, login: dict[str, Any], sent: dict[str, str], signer: dict[str, str]
) -> None:
    with contextlib.closing(RecordingServer(None)) as server:
        connect(server.url, **login, **signer)
        [fields] = server.logins
    assert {key: fields.get(key) for key in sent} == sent
    assert ("jwt" in fields, "nkey" in fields) == ("credentials" in signer, "nkey_seed" in signer)
    assert "sig" not in fields


@pytest.mark.parametrize("signer", signers(), ids=["credentials", "nkey"])
def test_credentials_alone_are_not_sent_to_a_server_that_sends_no_nonce(
    connect: Connect, signer: dict[str, str]
) -> None:
    with contextlib.closing(RecordingServer(None)) as server:
        with pytest.raises(AuthenticationError, match="the server sent no nonce, so it accepts neither nkeys nor JWTs"):
            connect(server.url, **signer)
        assert server.logins == []


@pytest.mark.parametrize("nonce", [None, "abc"])
@pytest.mark.parametrize("signer", [*signers(), {}], ids=["credentials", "nkey", "none"])
def test_a_refused_login_says_whether_the_server_could_check_the_credentials(
    connect: Connect, signer: dict[str, str], nonce: str | None
) -> None:
    with (
        contextlib.closing(RecordingServer(nonce, accepts=False)) as server,
        pytest.raises(AuthenticationError, match="Authorization Violation") as caught,
    ):
        connect(server.url, token="t0ken", **signer)
    assert ("the server sent no nonce" in str(caught.value)) == (nonce is None and bool(signer))
    assert "t0ken" not in str(caught.value)
    assert SEED not in str(caught.value)


@pytest.mark.parametrize(
    "login",
    [
        {"user": "ada", "token": "t"},
        {"credentials": "x", "nkey_seed": "y"},
        {"credentials": "x", "credentials_file": "y"},
        {"credentials_file": "x", "nkey_seed": "y"},
    ],
)
def test_two_logins_of_one_kind_are_refused(connect: Connect, login: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=" and ".join(sorted(login, key=_position))):
        connect("nats://127.0.0.1:1", **login)


def _position(name: str) -> int:
    return list(ConnectOptions.__dataclass_fields__).index(name)


# -- the address ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{url}", " nats://127.0.0.1:1 , {url} "])
def test_without_an_address_nats_url_is_used(
    connect: Connect, server: RecordingServer, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("NATS_URL", text.format(url=server.url))
    connect()
    connect(name="mine")
    assert [login["name"] for login in server.logins] == ["jetspark", "mine"]


def test_a_login_in_nats_url_is_used(
    connect: Connect, server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", f"nats://ada:x@{server.address}")
    connect()
    assert server.logins[0]["user"] == "ada"


def test_an_address_in_the_program_takes_precedence_over_nats_url(
    connect: Connect, server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", "http://not-valid")
    connect(server.url)
    connect([server.url])
    connect(servers=(server.url,))
    connect(ConnectOptions(servers=(server.url,)))
    assert len(server.logins) == 4


def test_a_wrong_nats_url_is_named_without_its_password(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "http://ada:s3cret@one")
    with pytest.raises(ConfigError, match="environment variable NATS_URL: the server's URL: the scheme") as caught:
        connect()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "", " , "])
def test_without_nats_url_the_server_is_on_this_machine(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("NATS_URL", raising=False)
    if value is not None:
        monkeypatch.setenv("NATS_URL", value)
    assert ConnectOptions.of().servers == ("nats://localhost:4222",)
    assert ConnectOptions.of(tls=TLSOptions()).servers == ("nats://localhost:4222",)
