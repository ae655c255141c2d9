"""Context files of the `nats` command (ADR-21) and `NATS_*` variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jetspark import aio
from jetspark.errors import ConfigError
from jetspark.server import NatsServer
from jetspark.wire.cli_context import load_context, options_from_environment
from jetspark.wire.options import ConnectOptions, resolve_secret


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}


def _write(environ: dict[str, str], name: str, selected: bool = False, **fields: object) -> Path:
    folder = Path(environ["XDG_CONFIG_HOME"]) / "nats"
    (folder / "context").mkdir(parents=True, exist_ok=True)
    path = folder / "context" / f"{name}.json"
    path.write_text(json.dumps({"description": "", "token": "", "color_scheme": "red", "newer": "", **fields}))
    if selected:
        (folder / "context.txt").write_text(f"{name}\n")
    return path


def test_without_settings_the_defaults_apply(environ: dict[str, str]) -> None:
    assert options_from_environment(environ) == ConnectOptions()


def test_a_context_is_found_by_name_path_variable_or_selection(environ: dict[str, str]) -> None:
    path = _write(environ, "one", url="nats://one:1,nats://two:2", user="ada", password="x", description="first")
    _write(environ, "other", selected=True, url="nats://other:3")
    for context in (
        load_context("one", environ),
        load_context(str(path), environ),
        load_context(None, {**environ, "NATS_CONTEXT": "one"}),
    ):
        assert (context.name, context.description) == ("one", "first")
        assert context.options.servers == ("nats://one:1", "nats://two:2")
        assert (context.options.user, context.options.password) == ("ada", "x")
    assert options_from_environment(environ).servers == ("nats://other:3",)
    home = {"HOME": environ["HOME"]}
    with pytest.raises(ConfigError, match=r"\.config"):
        load_context("one", home)


def test_all_settings_of_a_context_are_used(environ: dict[str, str], tmp_path: Path) -> None:
    seed = tmp_path / "user.nk"
    seed.write_text("# a comment\nSUSEED\n")
    _write(
        environ, "all", nkey=str(seed), ca="/ca.pem", cert="/cert.pem", key="/key.pem", tls_first=True,
        inbox_prefix="_MINE", jetstream_domain="hub", jetstream_api_prefix="",
    )  # fmt: skip
    context = load_context("all", environ)
    options = context.options
    assert resolve_secret(options.nkey_seed) == "SUSEED"
    assert options.tls is not None
    assert (options.tls.ca_file, options.tls.cert_file, options.tls.key_file) == ("/ca.pem", "/cert.pem", "/key.pem")
    assert options.tls.handshake_first
    assert options.inbox_prefix == "_MINE"
    assert (context.jetstream_domain, context.jetstream_api_prefix) == ("hub", None)


def test_environment_variables_take_precedence_over_the_context(environ: dict[str, str]) -> None:
    _write(environ, "base", selected=True, url="nats://base:1", user="ada", password="x", ca="/ca.pem")
    environ |= {"NATS_URL": "nats://env:2", "NATS_CREDS": "/env.creds", "NATS_CERT": "/c.pem", "NATS_KEY": "/k.pem"}
    options = options_from_environment(environ)
    assert options.servers == ("nats://env:2",)
    assert (options.credentials_file, options.user, options.password) == ("/env.creds", None, None)
    assert options.tls is not None
    assert (options.tls.ca_file, options.tls.cert_file, options.tls.key_file) == ("/ca.pem", "/c.pem", "/k.pem")


def test_a_user_without_a_password_is_a_token(environ: dict[str, str]) -> None:
    options = options_from_environment({**environ, "NATS_USER": "t0ken"})
    assert (options.token, options.user) == ("t0ken", None)
    options = options_from_environment({**environ, "NATS_USER": "ada", "NATS_PASSWORD": "x"})
    assert (options.token, options.user, options.password) == (None, "ada", "x")


@pytest.mark.parametrize("fields", [{"socks_proxy": "x"}, {"nsc": "x"}, {"user_jwt": "x"}, {"creds": "a", "nkey": "b"}])
def test_an_unsupported_setting_is_an_error(environ: dict[str, str], fields: dict[str, str]) -> None:
    _write(environ, "bad", selected=True, **fields)
    with pytest.raises(ConfigError):
        options_from_environment(environ)


@pytest.mark.parametrize("name", ["../escape", "a/b", "..", "missing"])
def test_an_invalid_name_is_an_error(environ: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError):
        load_context(name, environ)


def test_a_broken_file_is_an_error_with_its_path(environ: dict[str, str]) -> None:
    _write(environ, "broken").write_text("{")
    with pytest.raises(ConfigError, match=r"broken\.json"):
        load_context("broken", environ)


async def test_a_connection_can_use_a_context(environ: dict[str, str]) -> None:
    with NatsServer(jetstream=False, config={"authorization": {"user": "ada", "password": "x"}}) as server:
        _write(environ, "real", selected=True, url=server.url, user="ada", password="x")
        async with await aio.connect(options_from_environment(environ)) as connection:
            await connection.flush()
