"""Authentication and encryption, on both fronts and a real server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import nkeys
import pytest
from tests.connection.certificates import Certificates
from tests.connection.support import Front, Recorder, eventually

from jetspark.errors import (
    AuthenticationError,
    AuthenticationExpiredError,
    ConfigError,
    ConnectError,
    PermissionsViolationError,
    TLSError,
)
from jetspark.server import NatsServer
from jetspark.wire.events import Closed, Connected, Disconnected, ErrorOccurred, Reconnected
from jetspark.wire.options import TLSOptions


class Signer:
    """An nkey that signs JWTs."""

    def __init__(self, kind: int) -> None:
        self.seed = bytes(nkeys.encode_seed(os.urandom(32), kind))
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public: str = self._pair.public_key.decode()

    def sign(self, data: str) -> bytes:
        return bytes(self._pair.sign(data.encode()))

    def jwt(self, subject: str, nats: dict[str, object], expires_in: float | None = None) -> str:
        claims: dict[str, object] = {
            "jti": "id",
            "iat": int(time.time()),
            "iss": self.public,
            "sub": subject,
            "name": "test",
            "nats": {"version": 2, **nats},
        }
        if expires_in is not None:
            claims["exp"] = int(time.time() + expires_in)
        head = _b64(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
        body = _b64(json.dumps(claims).encode())
        return f"{head}.{body}.{_b64(self.sign(f'{head}.{body}'))}"


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Operator:
    """An operator with one account, whose users have `.creds`."""

    def __init__(self) -> None:
        self._operator = Signer(nkeys.PREFIX_BYTE_OPERATOR)
        self._account = Signer(nkeys.PREFIX_BYTE_ACCOUNT)
        self._user = Signer(nkeys.PREFIX_BYTE_USER)
        limits = {
            "subs": -1,
            "data": -1,
            "payload": -1,
            "imports": -1,
            "exports": -1,
            "wildcards": True,
            "conn": -1,
            "leaf": -1,
        }
        self.account_jwt = self._operator.jwt(self._account.public, {"type": "account", "limits": limits})
        self.operator_jwt = self._operator.jwt(self._operator.public, {"type": "operator"})

    def config(self) -> dict[str, object]:
        return {
            "operator": self.operator_jwt,
            "resolver": "MEMORY",
            "resolver_preload": {self._account.public: self.account_jwt},
        }

    def creds(self, expires_in: float | None = None) -> str:
        jwt = self._account.jwt(
            self._user.public, {"type": "user", "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}, expires_in
        )
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self._user.seed.decode()}\n------END USER NKEY SEED------\n"
        )


@pytest.fixture(scope="module")
def operator() -> Operator:
    return Operator()


@pytest.fixture(scope="module")
def jwt_server(operator: Operator) -> Iterator[NatsServer]:
    with NatsServer(jetstream=False, config=operator.config()) as server:
        yield server


async def test_user_and_password_are_accepted(front: Front) -> None:
    config = {"authorization": {"user": "ada", "password": "s3cret-word"}}
    with NatsServer(jetstream=False, config=config) as server:
        await (await front.connect(server.url, user="ada", password="s3cret-word")).flush()
        await (await front.connect(server.url, user="ada", password=lambda: "s3cret-word")).flush()
        await (await front.connect(f"nats://ada:s3cret-word@127.0.0.1:{server.port}")).flush()
        with pytest.raises(AuthenticationError) as caught:
            await front.connect(server.url, user="ada", password="wrong-word")
        assert "wrong-word" not in str(caught.value)
        with pytest.raises(AuthenticationError):
            await front.connect(server.url)
        await front.close()


async def test_a_token_is_accepted(front: Front) -> None:
    with NatsServer(jetstream=False, config={"authorization": {"token": "t0ken"}}) as server:
        await (await front.connect(server.url, token="t0ken")).flush()
        await (await front.connect(server.url, token=lambda: "t0ken")).flush()
        await (await front.connect(f"nats://t0ken@127.0.0.1:{server.port}")).flush()
        with pytest.raises(AuthenticationError):
            await front.connect(server.url, token="other")
        await front.close()


async def test_an_nkey_is_accepted(front: Front) -> None:
    user = Signer(nkeys.PREFIX_BYTE_USER)
    config = {"authorization": {"users": [{"nkey": user.public}]}}
    with NatsServer(jetstream=False, config=config) as server:
        await (await front.connect(server.url, nkey_seed=user.seed.decode())).flush()
        await (await front.connect(server.url, nkey_seed=lambda: user.seed.decode())).flush()
        with pytest.raises(AuthenticationError):
            await front.connect(server.url, nkey_seed=Signer(nkeys.PREFIX_BYTE_USER).seed.decode())
        with pytest.raises(ConfigError) as caught:
            await front.connect(server.url, nkey_seed="SUNOTASEED")
        assert "SUNOTASEED" not in str(caught.value)
        await front.close()


async def test_credentials_are_accepted_as_file_and_text(
    front: Front, operator: Operator, jwt_server: NatsServer, tmp_path: Path
) -> None:
    path = tmp_path / "user.creds"
    path.write_text(operator.creds())
    await (await front.connect(jwt_server.url, credentials_file=str(path))).flush()
    await (await front.connect(jwt_server.url, credentials=operator.creds())).flush()
    await (await front.connect(jwt_server.url, credentials=operator.creds)).flush()
    with pytest.raises(ConfigError, match=r"missing\.creds"):
        await front.connect(jwt_server.url, credentials_file=str(tmp_path / "missing.creds"))
    with pytest.raises(AuthenticationError):
        await front.connect(jwt_server.url, credentials=operator.creds(-10))


async def test_r53_expired_credentials_are_read_again(
    front: Front, operator: Operator, jwt_server: NatsServer, tmp_path: Path
) -> None:
    path = tmp_path / "user.creds"
    for lifetime in (2, 4, 8, 16):
        path.write_text(operator.creds(lifetime))
        recorder = Recorder()
        try:
            connection = await front.connect(jwt_server.url, credentials_file=str(path), on_event=recorder)
        except AuthenticationError:  # a process that was slow for so long logs in too late
            continue
        break
    subscription = await connection.subscribe("still")
    path.write_text(operator.creds())
    event = await recorder.wait(Disconnected)
    assert isinstance(event.error, AuthenticationExpiredError)
    await recorder.wait(Reconnected)
    await connection.publish("still", b"here")
    assert (await subscription.next_msg(5)).payload == b"here"


async def test_r53_refused_credentials_give_up_a_server_only_on_request(front: Front) -> None:
    config = {"authorization": {"user": "ada", "password": "first"}}
    other = {"authorization": {"user": "ada", "password": "second"}}
    words = ["first"]
    with NatsServer(jetstream=False, config=config) as server:
        retrying, strict = Recorder(), Recorder()
        connection = await front.connect(
            server.url, user="ada", password=lambda: words[-1], on_event=retrying, reconnect_wait=0.02
        )
        stopped = await front.connect(
            server.url, user="ada", password="first", on_event=strict, reconnect_wait=0.02, max_auth_failures=2
        )
        await asyncio.to_thread(server.reload, other)
        closed = await strict.wait(Closed)
        assert isinstance(closed.error, ConnectError)
        assert stopped.closed
        await eventually(lambda: len(retrying.of(ErrorOccurred)) >= 4)
        assert isinstance(retrying.of(ErrorOccurred)[-1].error, AuthenticationError)
        words.append("second")
        await retrying.wait(Reconnected)
        await connection.flush()
        await front.close()


async def test_a_server_that_closes_during_authentication_is_an_error_and_the_next_one_is_used(
    front: Front, url: str
) -> None:
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        writer.write(b'INFO {"server_id":"X","headers":true,"auth_required":true,"max_payload":1000}\r\n')
        await reader.readline()
        asked += 1
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as fake:
        bad = f"nats://127.0.0.1:{fake.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectError, match="closed the connection"):
            await front.connect(bad)
        connection = await front.connect([bad, url], randomize=False)
        await connection.flush()
        assert asked == 2


@pytest.mark.conformance("REC-09")
async def test_a_forbidden_subscription_ends_with_the_error_and_the_connection_stays(front: Front) -> None:
    permissions = {"subscribe": {"allow": ["open.>", "_INBOX.>"]}, "publish": {"deny": ["closed.>"]}}
    users = [{"user": "ada", "password": "x", "permissions": permissions}]
    with NatsServer(jetstream=False, config={"authorization": {"users": users}}) as server:
        recorder = Recorder()
        connection = await front.connect(server.url, user="ada", password="x", on_event=recorder)
        forbidden = await connection.subscribe("closed.a")
        in_group = await connection.subscribe("closed.a", queue="group")
        allowed = await connection.subscribe("open.a")
        for subscription in (forbidden, in_group):
            with pytest.raises(PermissionsViolationError) as caught:
                await subscription.next_msg(5)
            assert (caught.value.subject, caught.value.operation) == ("closed.a", "subscribe")
            with pytest.raises(PermissionsViolationError):
                assert [message async for message in subscription] == []
            assert subscription.closed
        await connection.publish("closed.b")
        await recorder.wait(ErrorOccurred, 3)
        last = recorder.of(ErrorOccurred)[2].error
        assert isinstance(last, PermissionsViolationError)
        assert last.operation == "publish"
        begin = time.monotonic()
        with pytest.raises(PermissionsViolationError):
            await connection.request("closed.c", timeout=30)
        assert time.monotonic() - begin < 15
        await connection.publish("open.a")
        await allowed.next_msg(5)
        assert recorder.names.count("Disconnected") == 0
        await front.close()


async def test_a_forbidden_inbox_fails_the_request_at_once(front: Front) -> None:
    users = [{"user": "ada", "password": "x", "permissions": {"subscribe": {"deny": ["_INBOX.>"]}}}]
    with NatsServer(jetstream=False, config={"authorization": {"users": users}}) as server:
        connection = await front.connect(server.url, user="ada", password="x")
        for own_inbox in (False, True):
            with pytest.raises(PermissionsViolationError):
                await connection.request("anything", timeout=5, own_inbox=own_inbox)
        await front.close()


async def test_tls_checks_the_certificate_and_its_name(front: Front, certificates: Certificates) -> None:
    with NatsServer(jetstream=False, config=certificates.config()) as server:
        trusted = TLSOptions(ca_file=certificates.ca)
        connection = await front.connect(f"tls://localhost:{server.port}", tls=trusted)
        subscription = await connection.subscribe("a")
        await connection.publish("a", bytes(500_000))
        assert len((await subscription.next_msg(5)).payload) == 500_000
        await (await front.connect(f"nats://localhost:{server.port}", tls=trusted)).flush()
        named = TLSOptions(ca_file=certificates.ca, server_hostname="localhost")
        await (await front.connect(server.url, tls=named)).flush()
        with pytest.raises(TLSError, match=r"127\.0\.0\.1"):
            await front.connect(f"tls://127.0.0.1:{server.port}", tls=trusted)
        with pytest.raises(TLSError):
            await front.connect(f"tls://localhost:{server.port}")
        unchecked = TLSOptions(verify=False)
        await (await front.connect(f"tls://127.0.0.1:{server.port}", tls=unchecked)).flush()
        await front.close()


async def test_tls_works_with_a_client_certificate(front: Front, certificates: Certificates) -> None:
    with NatsServer(jetstream=False, config=certificates.config(verify=True)) as server:
        url = f"tls://localhost:{server.port}"
        chain, key = certificates.client
        ours = TLSOptions(ca_file=certificates.ca, cert_file=chain, key_file=key)
        await (await front.connect(url, tls=ours)).flush()
        with pytest.raises(ConnectError):
            await front.connect(url, tls=TLSOptions(ca_file=certificates.ca))
        await front.close()


async def test_tls_works_before_info(front: Front, certificates: Certificates) -> None:
    with NatsServer(jetstream=False, config=certificates.config(handshake_first=True)) as server:
        first = TLSOptions(ca_file=certificates.ca, handshake_first=True)
        connection = await front.connect(f"tls://localhost:{server.port}", tls=first)
        await connection.flush()
        await front.close()


async def test_tls_with_a_server_that_lacks_it_is_an_error(front: Front, shared_server: NatsServer) -> None:
    with pytest.raises(TLSError, match="does not offer it"):
        await front.connect(f"tls://localhost:{shared_server.port}")


async def test_tls_is_used_again_after_a_kill(front: Front, certificates: Certificates) -> None:
    with NatsServer(jetstream=False, config=certificates.config()) as server:
        recorder = Recorder()
        connection = await front.connect(
            f"tls://localhost:{server.port}", tls=TLSOptions(ca_file=certificates.ca), on_event=recorder
        )
        await recorder.wait(Connected)
        await asyncio.to_thread(server.kill)
        await recorder.wait(Disconnected)
        await asyncio.to_thread(server.start)
        await recorder.wait(Reconnected)
        await connection.flush()
        await front.close()
