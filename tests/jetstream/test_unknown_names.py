"""An unknown keyword, option or field is an error that names the right one; nothing is dropped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jetspark.errors import ArgumentError, ConfigError
from jetspark.jetstream.config import ConsumerConfig, StreamConfig
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.publish import publish_headers
from jetspark.wire.addresses import parse_address
from jetspark.wire.cli_context import load_context
from jetspark.wire.options import ConnectOptions, TLSOptions


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ConnectOptions.of(usr="ada"), "ConnectOptions has no field 'usr'; did you mean 'user'?"),
        (lambda: ConnectOptions.of(urls=["a"]), "ConnectOptions has no field 'urls'; did you mean 'servers'?"),
        (lambda: ConnectOptions.of(quite_other=1), "ConnectOptions has no field 'quite_other'"),
        (lambda: make_config(StreamConfig, None, {"subject": ["a"]}),
         "StreamConfig has no field 'subject'; did you mean 'subjects'?"),
        (lambda: make_config(ConsumerConfig, None, {"durable": "d"}),
         "ConsumerConfig has no field 'durable'; did you mean 'durable_name'?"),
        (lambda: publish_headers(None, {"message_id": "1"}),  # type: ignore[typeddict-unknown-key]
         "a publish has no argument 'message_id'; did you mean 'msg_id'?"),
        (lambda: publish_headers(None, {"stream": "S"}),  # type: ignore[typeddict-unknown-key]
         "a publish has no argument 'stream'; did you mean 'expected_stream'?"),
    ],
)  # fmt: skip
def test_an_unknown_keyword_is_refused_with_the_right_name(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value) == said
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("end", ["/path", "?tls=true", "/?name=x", "#part"])
def test_a_server_url_with_parts_that_would_be_ignored_is_refused(end: str) -> None:
    with pytest.raises(ConfigError, match="the URL has a path, a query or a fragment") as caught:
        parse_address(f"nats://user:secret@host{end}")
    assert "secret" not in str(caught.value)
    assert parse_address("nats://host/").host == "host"


@pytest.mark.parametrize("name", ["key_file", "key_password"])
def test_a_client_key_without_its_certificate_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} needs cert_file"):
        TLSOptions(**{name: "x"})  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("usr", "context 'one' has no field 'usr'; did you mean 'user'?"),
        ("passwrd", "context 'one' has no field 'passwrd'; did you mean 'password'?"),
        ("quite_other", "context 'one' has no field 'quite_other'"),
    ],
)
def test_an_unknown_field_of_a_context_file_is_refused_if_it_has_a_value(field: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "nats/context/one.json"
    path.parent.mkdir(parents=True)
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    path.write_text(json.dumps({"url": "nats://host:1", field: "secret"}))
    with pytest.raises(ConfigError) as caught:
        load_context("one", environ)
    assert str(caught.value) == said
    path.write_text(json.dumps({"url": "nats://host:1", field: "", "color_scheme": "red"}))
    assert load_context("one", environ).options.servers == ("nats://host:1",)
