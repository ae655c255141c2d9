"""The option `context`: the driver reads a context of the `nats` command; contradictions are named, secrets hidden."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from tests.spark.micro_batches import latest
from tests.spark.support import running

from jetspark.errors import ConfigError
from jetspark.server import NatsServer
from jetspark.spark import connections
from jetspark.spark.options.batch import read_options, write_options
from jetspark.spark.options.server import ServerOptions, server_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.options.table import OPTIONS
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.schema import read_schema

SECRET = "geheim"
OTHERS = {
    "servers": "nats://there:1",
    "user": "ada",
    "password": SECRET,
    "token": SECRET,
    "credentials": "/some.creds",
    "credentialsText": SECRET,
    "nkeySeed": SECRET,
    "tlsCa": "/ca.pem",
    "tlsCert": "/cert.pem",
    "tlsKey": "/key.pem",
    "tlsKeyPassword": SECRET,
    "tlsHostname": "there",
    "tlsVerify": "false",
    "tlsFirst": "true",
    "domain": "hub",
    "apiPrefix": "other.API",
    "inboxPrefix": "_MINE",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the contexts; no variable names another one."""
    for name in ("NATS_CONTEXT", "NATS_USER", "NATS_PASSWORD", "NATS_CREDS", "NATS_NKEY", "NATS_CERT", "NATS_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    contexts = tmp_path / "nats" / "context"
    contexts.mkdir(parents=True)
    return contexts


def write(folder: Path, name: str = "prod", **fields: object) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(fields))
    return path


def refused(**options: str) -> str:
    with pytest.raises(ConfigError) as caught:
        server_options(options)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_context_gives_servers_login_tls_domain_and_inbox_prefix(folder: Path) -> None:
    path = write(
        folder, url="tls://one:1,tls://two:2", user="ada", password=SECRET, ca="/ca.pem", jetstream_domain="hub",
        inbox_prefix="_MINE",
    )  # fmt: skip
    for name in ("prod", str(path)):
        found = server_options({"context": name, "connectTimeout": "2s", "requestTimeout": "3s"})
        assert found.connect.servers == ("tls://one:1", "tls://two:2")
        assert (found.connect.user, found.connect.password, found.connect.inbox_prefix) == ("ada", SECRET, "_MINE")
        assert found.connect.tls is not None
        assert (found.connect.tls.ca_file, found.api_prefix) == ("/ca.pem", "$JS.hub.API.")
        assert (found.connect.connect_timeout, found.request_timeout) == (2.0, 3.0)
        assert found.connect.name == "jetspark-spark"


def test_a_context_is_for_reads_and_writes(folder: Path) -> None:
    write(folder, url="nats://one:1", jetstream_api_prefix="other.API")
    options = {"context": "prod", "stream": "ORDERS"}
    for server in (
        read_options(options).server,
        stream_read_options(options).read.server,
        write_options({"context": "prod"}).server,
    ):
        assert (server.connect.servers, server.api_prefix) == (("nats://one:1",), "other.API.")


def test_executors_need_no_context_file_and_find_their_connection_again(folder: Path, tmp_path: Path) -> None:
    """The options travel with the tasks. Two tasks with equal options share a connection, also with an nkey file."""
    seed = tmp_path / "user.nk"
    seed.write_text("SUSEED\n")
    path = write(folder, url="nats://one:1", nkey=str(seed))
    made = server_options({"context": "prod"})
    path.unlink()
    one, other = (pickle.loads(pickle.dumps(made)) for _ in range(2))
    assert isinstance(one, ServerOptions)
    assert one == other
    assert hash(one.connect) == hash(other.connect)
    assert str(path) not in repr(one)


@pytest.mark.parametrize("other", OTHERS)
def test_an_option_for_what_a_context_gives_contradicts_it(folder: Path, other: str) -> None:
    write(folder, url="nats://one:1")
    text = refused(context="prod", **{other: OTHERS[other]})
    assert "context" in text
    assert other in text
    assert "contradict" in text


def test_every_option_of_a_login_and_of_tls_is_known_to_contradict_a_context() -> None:
    secrets = {option.name for option in OPTIONS if option.secret}
    tls = {option.name for option in OPTIONS if option.name.startswith("tls")}
    assert secrets | tls <= set(OTHERS)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": f"http://ada:{SECRET}@one"}, ["context"]),
        ({"url": "nats://one:1", "nsc": "nsc://there"}, ["context", "nsc"]),
        ({"url": "nats://one:1", "jetstream_domain": "a", "jetstream_api_prefix": "b"}, ["context", "domain"]),
        ({"url": "nats://one:1", "jetstream_domain": "a b"}, ["context", "domain"]),
        ({"url": "nats://one:1", "pasword": SECRET}, ["context", "password"]),
        ({"url": 7, "password": SECRET}, ["context"]),
    ],
)
def test_a_context_that_cannot_be_used_is_named(folder: Path, fields: dict[str, object], words: list[str]) -> None:
    write(folder, **fields)  # type: ignore[arg-type]  # none of them is a name
    text = refused(context="prod")
    assert all(word in text for word in words)


def test_a_context_that_is_missing_is_named_with_its_file(folder: Path) -> None:
    text = refused(context="nowhere")
    assert "option context" in text
    assert str(folder / "nowhere.json") in text


@pytest.mark.parametrize("name", [f"nats://ada:{SECRET}@one", f"ada:{SECRET}@/one", "../prod", "", "a/b"])
def test_a_text_that_names_no_context_is_refused_and_shows_no_secret(name: str) -> None:
    assert "option context" in refused(context=name)


def test_a_query_connects_with_a_context(folder: Path) -> None:
    config = {"authorization": {"users": [{"user": "ada", "password": SECRET}]}}
    login = {"user": "ada", "password": SECRET}
    with running(login, config=config) as nats:
        write(folder, url=nats.url, **login)
        stream = nats.filled(3)
        options = {"context": "prod", "stream": stream, "startingOffsets": "earliest"}
        made = JetStreamStreamReader(read_schema(include_headers=False), stream_read_options(options))
        start = made.initialOffset()
        (part,) = made.partitions(start, latest(made, start))
        task = pickle.loads(pickle.dumps(made))
        (folder / "prod.json").unlink()
        assert [row for batch in task.read(part) for row in batch.column("sequence").to_pylist()] == [1, 2, 3]
        connections.close_idle()
        write(folder, url=nats.url, user="ada", password="wrong")
        again = JetStreamStreamReader(read_schema(include_headers=False), stream_read_options(options))
        with pytest.raises(PermissionError) as caught:
            again.initialOffset()
        assert "wrong" not in str(caught.value)
        assert isinstance(nats.server, NatsServer)
