"""The configuration file has the values of the dict. The server itself checks it."""

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetspark.server import NatsServer, find_binary
from jetspark.server.config_format import dumps, merge
from jetspark.server.user_settings import redact

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
KEYS = TEXT.filter(lambda key: "\0" not in key and not ('"' in key and "'" in key))


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(jetstream=False) as running:
        yield running


def accepts(config: dict[str, object], directory: Path) -> str:
    """Let the server check a configuration; return its errors."""
    path = directory / "checked.conf"
    path.write_text(dumps(config), encoding="utf-8")
    done = subprocess.run([find_binary(), "-t", "-c", path], capture_output=True, text=True, timeout=120, check=False)
    return "" if done.returncode == 0 else done.stderr


@settings(max_examples=60)
@given(pairs=st.dictionaries(KEYS, TEXT, min_size=1, max_size=6))
def test_every_string_reaches_the_server_unchanged(server: NatsServer, pairs: dict[str, str]) -> None:
    server.reload({"server_metadata": pairs})
    assert server.monitor("/varz")["metadata"] == pairs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$HOME",
        "$JS.API.>",
        "2a$x",
        "true",
        "12",
        "1k",
        "a\\b",
        '"',
        "'",
        "a;b,c]d}e",
        "#x",
        "// x",
        "\t\r\n",
        "\0",
        "\x7f",
        "é\u2028😀",
    ],
)
def test_a_string_that_looks_like_something_else_stays_a_string(server: NatsServer, text: str) -> None:
    server.reload({"server_metadata": {"text": text}})
    assert server.monitor("/varz")["metadata"] == {"text": text}


@settings(max_examples=30)
@given(
    number=st.integers(1024, 2**31 - 1),
    timeout=st.floats(1e-9, 59),
    tags=st.lists(TEXT.filter(lambda tag: tag.strip() != ""), max_size=4),
    flag=st.booleans(),
)
def test_numbers_lists_and_booleans_are_parsed(
    tmp_path_factory: pytest.TempPathFactory, number: int, timeout: float, tags: list[str], flag: bool
) -> None:
    config: dict[str, object] = {
        "max_pending": number,
        "authorization": {"timeout": timeout},
        "server_tags": tags,
        "trace": flag,
        "websocket": {"port": 0, "no_tls": flag},
    }
    assert accepts(config, tmp_path_factory.getbasetemp()) == ""


def test_a_large_configuration_is_accepted(tmp_path: Path) -> None:
    subjects = ["orders.*.>", "$JS.API.CONSUMER.MSG.NEXT.S.c", "$KV.b.>"]
    config: dict[str, object] = {
        "listen": "127.0.0.1:0",
        "max_payload": 8 * 1024 * 1024,
        "write_deadline": timedelta(seconds=2, milliseconds=500),
        "lame_duck_duration": "31s",
        "feature_flags": {"js_ack_fc_v2": True},
        "jetstream": {"domain": "hub", "store_dir": tmp_path / "store", "limits": {"max_ha_assets": 10}},
        "mappings": {"a.*": [{"destination": "b.$1", "weight": "50%"}, {"destination": "c.$1", "weight": "50%"}]},
        "accounts": {
            "EXPORTS": {
                "jetstream": {"max_mem": 2**30, "max_file": -1},
                "users": [
                    {"user": "a", "password": "$2a$11$V1qrpBVuAolr1SZIvIQ8Vu", "allowed_connection_types": ["STANDARD"]}
                ],
                "exports": [{"service": "$JS.API.>", "accounts": ["IMPORTS"]}, {"stream": "deliver.>"}],
            },
            "IMPORTS": {
                "users": [
                    {
                        "user": "b",
                        "password": "p",
                        "permissions": {
                            "publish": {"allow": subjects, "deny": "secret.>"},
                            "subscribe": ("_INBOX_b.>",),
                            "allow_responses": {"max": 5, "expires": "1m"},
                        },
                    }
                ],
                "imports": [{"service": {"account": "EXPORTS", "subject": "$JS.API.>"}, "to": "JS.up.API.>"}],
            },
        },
        "no_auth_user": "b",
        "cluster": {"name": "c", "port": 0, "routes": [], "permissions": {"export": {"allow": "$SYS.>"}}},
    }
    assert accepts(config, tmp_path) == ""


def test_floats_have_no_exponent_and_durations_are_exact() -> None:
    config = {"a": 1e-7, "b": 1e22, "c": -2.0, "d": timedelta(days=1, microseconds=3), "e": [1, [2]], "f": {}}
    expected = """\
"a": 0.0000001
"b": 10000000000000000000000.0
"c": -2.0
"d": "86400000003us"
"e": [
  1
  [
    2
  ]
]
"f": {
}
"""
    assert dumps(config) == expected


@pytest.mark.parametrize(
    ("config", "error", "where"),
    [
        ({"a": {"b": [1, None]}}, TypeError, r"a\.b\[1\]"),
        ({"a": b"bytes"}, TypeError, "bytes"),
        ({"a": float("nan")}, ValueError, "nan"),
        ({"a": 2**63}, ValueError, "64 bits"),
        ({"a": "\ud800"}, ValueError, "Unicode"),
        ({"\"'": 1}, ValueError, "quotes"),
        ({"a\0": 1}, ValueError, "NUL"),
        ({"a": {1: 2}}, TypeError, "keys are strings"),
    ],
)
def test_values_that_the_format_cannot_express_are_refused(
    config: dict[str, object], error: type[Exception], where: str
) -> None:
    with pytest.raises(error, match=where):
        dumps(config)


def test_merging_prefers_the_values_of_the_second_configuration() -> None:
    base = {"listen": "a", "jetstream": {"store_dir": "s", "domain": "d"}, "http": "h"}
    over = {"jetstream": {"domain": None, "max_mem": 1}, "http": None, "tls": {"ca": None, "cert": "c"}, "tags": ["x"]}
    assert merge(base, over) == {
        "listen": "a",
        "jetstream": {"store_dir": "s", "max_mem": 1},
        "tls": {"cert": "c"},
        "tags": ["x"],
    }
    assert base["jetstream"] == {"store_dir": "s", "domain": "d"}


def test_secrets_are_removed_from_texts() -> None:
    config = {"authorization": {"token": "t0k"}, "accounts": {"A": {"users": [{"user": "ann", "password": "a"}]}}}
    assert redact("ann said 'a' and t0k, at last", config) == "ann said '***' and ***, at last"
