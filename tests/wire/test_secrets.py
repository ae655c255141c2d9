"""No part of a secret gets into an error, its causes, a traceback with local variables, a `repr` or a pickle."""

from __future__ import annotations

import asyncio
import json
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import jetspark
from jetspark import bulk, sync
from jetspark.errors import AuthenticationError, ConfigError, CredentialsCallbackError
from jetspark.spark.options.server import server_options
from jetspark.wire.addresses import parse_address, split_urls
from jetspark.wire.cli_context import load_context
from jetspark.wire.options import ConnectOptions, ServerAddress, TLSOptions
from jetspark.wire.session import connect_command

PARTS = ("geheim", "streng")
"""The parts of the secret."""
SPECIAL = ",/#?:@[]%\\ \"'{}|^`~!$&()*+;=<>\u2100é"  # U+2100 contains a slash in its normal form
BROKEN = {
    **{f"password with {char!r}": f"nats://ada:geheim{char}streng@host" for char in SPECIAL},
    **{f"token with {char!r}": f"nats://geheim{char}streng@host" for char in SPECIAL},
    **{f"password with {char!r} without scheme": f"ada:geheim{char}streng@host" for char in SPECIAL},
    "no host": "nats://ada:geheim",
    "no host after the at sign": "nats://ada:geheim@",
    "no port": "nats://ada:geheim@host:streng",
    "digits for a port": "nats://ada:geheim@host:99999",
    "scheme": "geheim://streng@host",
    "http": "http://ada:geheim@host",
    "bracket": "nats://ada:geheim@[::1",
    "no IPv6 address": "nats://ada@[geheim]:1",
    "one slash": "nats:/ada:geheim@host",
    "path": "nats://ada:geheim@host/streng",
    "two servers": "nats://ada:geheim@one,nats://ada:geheim,streng@two",
    "login without scheme": "nats://one,ada:geheim@two:x",
    "space": "nats://ada:geheim@host:1 streng",
}


def check_free(*shown: object) -> None:
    for each in shown:
        text = str(each)
        assert not any(part in text for part in PARTS), text


def quietly(call: Callable[[], object], *, variables: bool = True) -> object:
    """Return the result of a call. If it raises a ConfigError, check that the error shows no secret.

    `variables` also checks the local variables of our code.
    """
    try:
        result = call()
    except ConfigError as error:
        caught: BaseException | None = error
    else:
        check_free(repr(result))
        return result
    reported = traceback.TracebackException.from_exception(error_of(caught), capture_locals=True)
    if variables:
        check_free(*(frame.locals for frame in reported.stack if "src/jetspark/" in frame.filename))
    check_free(pickle.dumps(caught))
    while caught is not None:
        check_free(caught, repr(caught), vars(caught))
        caught = caught.__cause__ or caught.__context__
    return None


def error_of(caught: BaseException | None) -> BaseException:
    assert caught is not None
    return caught


FRONTS: dict[str, Callable[..., object]] = {
    "aio": lambda *args, **options: asyncio.run(_connect(*args, **options)),
    "sync": sync.connect,
    "bulk": bulk.connect,
}


async def _connect(*args: Any, **options: Any) -> object:
    return await jetspark.connect(*args, **options)


def in_context(url: str, folder: Path) -> object:
    path = folder / "context.json"
    path.write_text(json.dumps({"url": url}))
    return load_context(str(path), {})


@pytest.mark.parametrize("url", BROKEN.values(), ids=BROKEN.keys())
def test_a_url_that_cannot_be_read_is_not_shown(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quietly(lambda: ConnectOptions.of(url))
    quietly(lambda: ConnectOptions.of([url]))
    quietly(lambda: ConnectOptions.of("nats://host", servers=["nats://one", url]))
    quietly(lambda: in_context(url, tmp_path), variables=False)
    monkeypatch.setenv("NATS_URL", url)
    quietly(ConnectOptions.of)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("url", ["nats://ada:geheim,streng@host", "nats://ada:geheim/streng@host", "nats://ada:geheim"])
def test_no_front_shows_a_url_that_cannot_be_read(front: str, url: str) -> None:
    assert quietly(lambda: FRONTS[front](url)) is None
    assert quietly(lambda: FRONTS[front]([url, "nats://ada:geheim"])) is None


@pytest.mark.parametrize("url", BROKEN.values(), ids=BROKEN.keys())
def test_no_option_of_spark_shows_a_url_that_cannot_be_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"servers": url}, {"servers": url, "token": "t"}):
        try:
            check_free(repr(server_options(options)))
        except ConfigError as error:
            check_free(error, repr(error), pickle.dumps(error), error.__cause__)
    monkeypatch.setenv("NATS_URL", url)
    try:
        check_free(repr(server_options({})))
    except ConfigError as error:
        check_free(error, repr(error), pickle.dumps(error))


@pytest.mark.parametrize("char", SPECIAL)
def test_an_encoded_special_character_is_read_in_every_form(char: str) -> None:
    secret = f"ge{char}heim"
    encoded = quote(secret, safe="")
    for url in (f"nats://ada:{encoded}@host", f"tls://ada:{encoded}@[::1]:1", f"ada:{encoded}@host"):
        (one,) = ConnectOptions.of(url).addresses()
        assert (one.user, one.password) == ("ada", secret)
        two = ConnectOptions.of(f"{url},{url}").addresses()
        assert [each.password for each in two] == [secret] * 2
        spark = server_options({"servers": url}).connect.addresses()
        assert [each.password for each in spark] == [secret]
    (one,) = ConnectOptions.of(f"nats://{encoded}@host").addresses()
    assert one.token == secret


def test_a_comma_in_a_list_of_urls_needs_no_encoding_where_it_is_no_separator() -> None:
    (one,) = ConnectOptions.of(["nats://ada:a,b@host"]).addresses()
    assert one.password == "a,b"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a,b", 2),
        (" nats://a , tls://b:1 ,", 2),
        ("u:p@a,u:p@b", 2),
        ("nats://u:p@a,nats://b", 2),
        ("nats://u:p@a,b", 2),
    ],
)
def test_a_list_of_urls_is_split_at_commas(text: str, count: int) -> None:
    assert len(split_urls(text)) == count


@pytest.mark.parametrize("text", ["nats://a,u:p@b", "nats://u:p@x,y@b", "u:p,q@b", "a,u:p@b", "nats://x,y@a"])
def test_a_comma_that_may_belong_to_a_login_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"comma inside a login.*%2C"):
        split_urls(text)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", ["password", "token", "nkey_seed", "credentials"])
@pytest.mark.parametrize("value", [8125173, 81.25173, b"8125173", ["8125173"], {"8125173": 1}, True], ids=repr)
def test_a_secret_of_a_wrong_type_is_not_shown(front: str, name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name} takes text") as caught:
        FRONTS[front]("nats://host", **{"user": "ada", name: value})
    assert "8125173" not in str(caught.value)
    assert "25173" not in repr(caught.value)


def test_wrong_options_can_be_shown() -> None:
    """A traceback with local variables shows options while they are checked."""
    for servers in (["nats://ada:geheim"], 7, ["a", 7], None):
        wrong = object.__new__(ConnectOptions)
        for name, value in {"servers": servers, "name": "n", "tls": None}.items():
            object.__setattr__(wrong, name, value)
        assert repr(wrong) == "ConnectOptions(wrong servers, name='n', tls=None)"


def connect_with(**options: Any) -> object:
    return connect_command(ConnectOptions.of("nats://host", **options), ServerAddress("host"), "nonce", encrypted=True)


@pytest.mark.parametrize(
    "options",
    [
        {"user": "ada", "password": "geheim\udc80"},
        {"token": "geheim\udc80"},
        {"nkey_seed": "SUgeheim"},
        {"nkey_seed": "geheim\udc80"},
        {"credentials": "geheim"},
        {"credentials": "-----BEGIN NATS USER JWT-----\ngeheim\n------END NATS USER JWT------\n"
                        "-----BEGIN USER NKEY SEED-----\nSUstreng\n------END USER NKEY SEED------\n"},
        {"credentials_file": "-----BEGIN NATS USER JWT-----\ngeheim"},
        {"credentials_file": "S" + "A" * 57 + "geheim"},
        {"credentials_file": "eyJ" + "a" * 57 + ".geheim"},
        {"user": "ada", "password": lambda: b"geheim"},
        {"token": lambda: None},
        {"nkey_seed": lambda: b"geheim"},
        {"credentials": lambda: ["geheim"]},
    ],
    ids=lambda options: next(reversed(options)),
)  # fmt: skip
def test_credentials_that_cannot_be_sent_are_not_shown(options: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, CredentialsCallbackError)) as caught:
        connect_with(**options)
    hidden: BaseException | None = caught.value
    while hidden is not None:
        check_free(hidden, repr(hidden), vars(hidden), pickle.dumps(hidden))
        hidden = hidden.__cause__ or hidden.__context__


FILES = {
    "not UTF-8": b"geheim\xff streng",
    "too large": b"geheim" * 200_000,
    "no JSON": b'{"password": "geheim",}',
    "wrong type": b'{"password": ["geheim"]}',
    "number": b'{"token": 5, "password": "geheim"}',
    "comma": b'{"url": "nats://ada:geheim,streng@host"}',
    "no seed": b"geheim streng",
    "one section": b"-----BEGIN NATS USER JWT-----\ngeheim\n------END NATS USER JWT------\n",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
def test_the_content_of_a_file_is_not_shown(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    files: list[Callable[[], object]] = [
        lambda: connect_with(credentials_file=str(path)),
        lambda: connect_with(nkey_seed=load_context(None, {"NATS_NKEY": str(path), "HOME": "/-"}).options.nkey_seed),
        lambda: load_context(str(path), {}),
    ]
    for read in files:
        with pytest.raises(ConfigError) as caught:
            read()
        hidden: BaseException | None = caught.value
        while hidden is not None:
            check_free(hidden, repr(hidden), vars(hidden), pickle.dumps(hidden))
            hidden = hidden.__cause__ or hidden.__context__


def test_a_path_that_cannot_be_opened_is_a_library_error() -> None:
    for path in ("a\0b", "~nobody-of-that-name/x", "/", "/proc/self/mem/x"):
        with pytest.raises(ConfigError, match="cannot read the credentials file"):
            connect_with(credentials_file=path)


def test_no_address_shows_its_login() -> None:
    secret = parse_address("tls://ada:geheim@[::1]:1")
    check_free(repr(secret), str(secret), repr(TLSOptions(cert_file="c", key_password="geheim")))
    assert str(secret) == "tls://[::1]:1"
    assert parse_address("geheim@h").token == "geheim"
    check_free(repr(AuthenticationError(f"{parse_address('geheim@h')}: no")))
