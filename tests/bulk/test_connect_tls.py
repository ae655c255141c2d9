"""TLS: matching settings work, and other settings are reported."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from tests.bulk.streams import Streams, read, rows, sequences

from jetspark import bulk
from jetspark.errors import ConnectError, TLSError
from jetspark.server import NatsServer
from jetspark.wire.options import TLSOptions

HANDSHAKE_TIMEOUT = 30
"""Seconds that a server waits for our part of the handshake. By default it hangs up after two."""


@dataclass(frozen=True)
class Files:
    """PEM files."""

    ca: str
    cert: str
    key: str


def certificate(directory: Path, host: str) -> Files:
    """Create a new authority, and a certificate of it for a host."""
    directory.mkdir()
    authority = trustme.CA()
    issued = authority.issue_cert(host)
    files = Files(*(str(directory / name) for name in ("ca.pem", "cert.pem", "key.pem")))
    authority.cert_pem.write_to_path(files.ca)
    issued.cert_chain_pems[0].write_to_path(files.cert)
    issued.private_key_pem.write_to_path(files.key)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return certificate(tmp_path_factory.mktemp("tls") / "good", "127.0.0.1")


@pytest.fixture(scope="module")
def tls_server(files: Files) -> Iterator[NatsServer]:
    with NatsServer(
        config={"tls": {"cert_file": files.cert, "key_file": files.key, "timeout": HANDSHAKE_TIMEOUT}}
    ) as running:
        yield running


def test_a_stream_is_written_and_read_over_tls(tls_server: NatsServer, files: Files) -> None:
    with bulk.connect(tls_server.url, tls=TLSOptions(ca_file=files.ca)) as own:
        streams = Streams(own)
        name = streams.filled(20_000, size=300)
        assert bulk.publish(own, rows(f"{name}.x", [b"y" * 100_000] * 20)).count == 20
        for read_method in ("consumer", "direct"):
            table, report = read(own, name, read_method=read_method)
            assert sequences(table) == list(range(1, 20_021))
            assert report.restarts == 0
        assert table.column("data")[-1].as_py() == b"y" * 100_000


def test_a_plain_url_and_tls_options_are_enough(tls_server: NatsServer, files: Files) -> None:
    plain = tls_server.url.replace("tls://", "nats://")
    with bulk.connect(plain, tls=TLSOptions(ca_file=files.ca)) as own:
        assert own.server_info.tls_required


def test_an_unknown_authority_is_reported(tls_server: NatsServer, tmp_path: Path) -> None:
    other = certificate(tmp_path / "other", "127.0.0.1")
    for tls in (TLSOptions(ca_file=other.ca), None):
        with pytest.raises(TLSError, match=f"{tls_server.url}.*certificate") as caught:
            bulk.connect(tls_server.url, tls=tls)
        assert isinstance(caught.value, ConnectError)
    with bulk.connect(tls_server.url, tls=TLSOptions(ca_file=other.ca, verify=False)) as own:
        assert not own.closed


def test_a_certificate_for_another_host_is_reported(tls_server: NatsServer, files: Files) -> None:
    with pytest.raises(TLSError, match=r"certificate.*not valid for 'elsewhere\.example'"):
        bulk.connect(tls_server.url, tls=TLSOptions(ca_file=files.ca, server_hostname="elsewhere.example"))


def test_a_server_without_tls_is_reported(server: NatsServer, files: Files) -> None:
    for url, tls in (
        (server.url, TLSOptions(ca_file=files.ca)),
        (server.url.replace("nats://", "tls://"), None),
    ):
        with pytest.raises(TLSError, match="the server does not offer it"):
            bulk.connect(url, tls=tls)


def test_tls_is_used_if_the_server_requires_it(tls_server: NatsServer) -> None:
    plain = tls_server.url.replace("tls://", "nats://")
    with pytest.raises(TLSError, match="certificate"):
        bulk.connect(plain)


def test_a_server_that_starts_with_tls_is_supported(files: Files) -> None:
    config = {
        "tls": {"cert_file": files.cert, "key_file": files.key, "handshake_first": True, "timeout": HANDSHAKE_TIMEOUT}
    }
    with NatsServer(config=config) as server:
        with bulk.connect(server.url, tls=TLSOptions(ca_file=files.ca, handshake_first=True)) as own:
            assert own.server_info.tls_required
        with pytest.raises(ConnectError, match="no answer in time"):
            bulk.connect(server.url, tls=TLSOptions(ca_file=files.ca), connect_timeout=0.3)


def test_tls_first_with_a_server_that_starts_with_info_is_reported(tls_server: NatsServer, files: Files) -> None:
    with pytest.raises(TLSError, match=tls_server.url):
        bulk.connect(tls_server.url, tls=TLSOptions(ca_file=files.ca, handshake_first=True))


def test_missing_files_are_named(tls_server: NatsServer, files: Files) -> None:
    with pytest.raises(TLSError, match=r"absent\.pem"):
        bulk.connect(tls_server.url, tls=TLSOptions(ca_file="absent.pem"))
    with pytest.raises(TLSError, match=r"absent\.pem"):
        bulk.connect(tls_server.url, tls=TLSOptions(ca_file=files.ca, cert_file="absent.pem"))


def test_a_client_certificate_is_sent_on_request(files: Files) -> None:
    tls_files = {"cert_file": files.cert, "key_file": files.key, "ca_file": files.ca}
    with NatsServer(config={"tls": {**tls_files, "verify": True, "timeout": HANDSHAKE_TIMEOUT}}) as server:
        tls = TLSOptions(ca_file=files.ca, cert_file=files.cert, key_file=files.key)
        with bulk.connect(server.url, tls=tls) as own:
            assert own.server_info.tls_verify
        with pytest.raises(ConnectError, match=server.url):
            bulk.connect(server.url, tls=TLSOptions(ca_file=files.ca))
