"""If TLS fails, a connect says how to mend it, on every front."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connection.certificates import Certificates
from tests.connection.support import Connect

from jetspark.errors import DisconnectedError, TLSError
from jetspark.server import NatsServer
from jetspark.wire.connect_failure import to_connect_error
from jetspark.wire.options import ServerAddress, TLSOptions


@pytest.fixture(scope="module")
def tls_server(certificates: Certificates) -> Iterator[NatsServer]:
    with NatsServer(jetstream=False, config=certificates.config()) as server:
        yield server


def url(server: NatsServer, scheme: str = "tls", host: str = "localhost") -> str:
    return f"{scheme}://{host}:{server.port}"


@pytest.mark.parametrize("scheme", ["tls", "nats"])
@pytest.mark.parametrize("tls", [None, TLSOptions()], ids=["no options", "options"])
def test_an_unknown_authority_names_ca_file(
    connect: Connect, tls_server: NatsServer, scheme: str, tls: TLSOptions | None
) -> None:
    with pytest.raises(TLSError, match=r"certificate cannot be verified: .*TLSOptions\(ca_file=\.\.\.\)") as caught:
        connect(url(tls_server, scheme), tls=tls)
    assert url(tls_server) in str(caught.value) or url(tls_server, "nats") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_authority_is_named(connect: Connect, tls_server: NatsServer, tmp_path: Path) -> None:
    other = Certificates(tmp_path)
    with pytest.raises(TLSError, match=f"ca_file {other.ca} is of another authority"):
        connect(url(tls_server), tls=TLSOptions(ca_file=other.ca))


def test_a_certificate_for_another_name_names_server_hostname(
    connect: Connect, tls_server: NatsServer, certificates: Certificates
) -> None:
    with pytest.raises(TLSError, match="server_hostname"):
        connect(url(tls_server, host="127.0.0.1"), tls=TLSOptions(ca_file=certificates.ca))


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "give cert_file and key_file"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "check cert_file"),
        ("TLSV1_ALERT_UNKNOWN_CA", "check cert_file"),
    ],
)
@pytest.mark.parametrize("after_the_handshake", [False, True])
def test_a_missing_or_refused_client_certificate_names_cert_file(
    reason: str, hint: str, *, after_the_handshake: bool
) -> None:
    alert = ssl.SSLError(1, f"[SSL: {reason}] alert")
    error: Exception = alert
    if after_the_handshake:
        error = DisconnectedError("nats://one:4222: the connection was lost")
        error.__cause__ = alert
    shown = to_connect_error(ServerAddress("one"), error, None)
    assert isinstance(shown, TLSError)
    assert str(shown).startswith("nats://one:4222: ")
    assert hint in str(shown)


def test_tls_before_info_is_named_where_the_server_sends_info_first(
    connect: Connect, tls_server: NatsServer, certificates: Certificates
) -> None:
    with pytest.raises(TLSError, match="set handshake_first of TLSOptions to False"):
        connect(url(tls_server), tls=TLSOptions(ca_file=certificates.ca, handshake_first=True))


@pytest.mark.parametrize(("code", "hint"), [(10, "renew it"), (9, "clock"), (64, "server_hostname"), (20, "ca_file")])
def test_each_kind_of_wrong_certificate_has_a_hint(code: int, hint: str) -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "a reason"
    shown = to_connect_error(ServerAddress("one"), error, None)
    assert isinstance(shown, TLSError)
    assert str(shown).startswith("nats://one:4222: the server's certificate cannot be verified: a reason; ")
    assert hint in str(shown)
    assert shown.__cause__ is error
