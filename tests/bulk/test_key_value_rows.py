"""Rows for a bucket: the messages that they become, and the rows that are refused before any is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from jetspark.bulk.key_value_rows import check_row_types, messages_of_rows
from jetspark.errors import ConfigError, InvalidKeyError

PREFIX = "$KV.users."
DELETE, PURGE = "KV-Operation: DEL\r\n", "KV-Operation: PURGE\r\nNats-Rollup: sub\r\n"
SECRET = "the value"


def messages(**columns: object) -> dict[str, list[Any]]:
    rows = pa.record_batch(columns)
    check_row_types(rows.schema)
    made: dict[str, list[Any]] = messages_of_rows(rows, PREFIX).to_pydict()
    return made


def test_a_null_value_deletes_and_an_empty_one_is_a_value() -> None:
    assert messages(key=["a", "b.c"], value=["1", ""]) == {
        "subject": [f"{PREFIX}a", f"{PREFIX}b.c"],
        "data": [b"1", b""],
    }
    made = messages(key=["a", "b"], value=[None, b""])
    assert (made["data"], made["header_lines"]) == ([b"", b""], [DELETE, ""])


def test_an_operation_deletes_or_purges_whatever_the_value_is() -> None:
    operations = ["PUT", None, "DEL", "EXPIRED", "PURGE", None]
    made = messages(key=list("abcdef"), value=["1", "2", "3", None, None, None], operation=operations)
    assert made["data"] == [b"1", b"2", b"", b"", b"", b""]
    assert made["header_lines"] == ["", "", DELETE, DELETE, PURGE, DELETE]
    assert "header_lines" not in messages(key=["a"], value=["1"], operation=["PUT"])


def test_expected_revisions_and_times_to_live() -> None:
    made = messages(
        key=list("abcdef"),
        value=["1", "2", "3", None, "5", "6"],
        operation=pa.array([None, None, None, "PURGE", None, None]),
        expected_revision=[0, 7, None, None, 0, 0],
        ttl=["1h30m", None, None, "30s", "never", "1500ms"],
    )
    assert made["expected_revision"] == [0, 7, None, None, 0, 0]
    ttl = "Nats-TTL: "
    assert made["header_lines"] == [
        f"{ttl}5400\r\n",
        "",
        "",
        f"{PURGE}{ttl}30\r\n",
        f"{ttl}never\r\n",
        f"{ttl}1.5s\r\n",
    ]
    interval = messages(key=["a"], value=["1"], expected_revision=[0], ttl=pa.array([timedelta(seconds=2)]))
    assert interval["header_lines"] == [f"{ttl}2\r\n"]


def test_headers_that_command_the_server_are_left_out_and_named() -> None:
    given = [("k", ["v"]), ("KV-Operation", ["DEL"]), ("Nats-Rollup", ["all"]), ("Nats-Msg-Id", ["x"])]
    rows = pa.record_batch(
        {"key": ["a"], "value": ["1"], "headers": pa.array([given], pa.map_(pa.string(), pa.list_(pa.string())))}
    )
    left_out: set[str] = set()
    assert messages_of_rows(rows, PREFIX, left_out=left_out).column("headers").to_pylist() == [[("k", ["v"])]]
    assert left_out == {"Nats-Rollup", "Nats-Msg-Id"}


@pytest.mark.parametrize(
    "key", [None, "", ".a", "a.", "a..b", "a b", "a*", ">", "ä", "a\n", "_kv", "_kv.a", "a" * 3_795], ids=str
)
def test_a_key_that_cannot_be_used_is_refused_with_its_row(key: str | None) -> None:
    rows = pa.record_batch({"key": pa.array(["good", key, key]), "value": [SECRET] * 3})
    with pytest.raises(InvalidKeyError, match=r"^row 11: ") as caught:
        messages_of_rows(rows, PREFIX, first=10)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"operation": ["DELETE"]}, "operation must be PUT, DEL, PURGE, EXPIRED or null"),
        ({"operation": ["put"]}, "operation must be"),
        ({"operation": ["PUT"], "value": pa.array([None], pa.binary())}, "PUT needs a value"),
        ({"expected_revision": [-1]}, "must be 0 or more, not -1"),
        ({"expected_revision": [0], "operation": ["DEL"]}, "creates a key, so it cannot delete one"),
        ({"expected_revision": [0], "value": pa.array([None], pa.binary())}, "creates a key, so it cannot delete one"),
        ({"ttl": ["30s"]}, "only a row with expected_revision 0 or operation PURGE can have a ttl"),
        ({"ttl": ["30s"], "expected_revision": [7]}, "only a row with expected_revision 0"),
        ({"ttl": ["30s"], "operation": ["DEL"]}, "only a row with expected_revision 0"),
        ({"ttl": ["999ms"], "expected_revision": [0]}, "at least a second, not 999ms"),
        ({"ttl": pa.array([timedelta(0)]), "expected_revision": [0]}, "at least a second, not 0s"),
        ({"ttl": ["-5s"], "operation": ["PURGE"]}, "at least a second"),
        ({"ttl": ["soon"], "expected_revision": [0]}, "such as 30s or 1h30m, or never"),
        ({"ttl": [""], "expected_revision": [0]}, "such as 30s"),
    ],
)
@pytest.mark.conformance("KSP-13")
def test_a_row_that_contradicts_itself_is_refused_with_its_key(columns: dict[str, object], rule: str) -> None:
    rows = pa.record_batch({"key": ["a"], "value": [SECRET], **columns})
    with pytest.raises(ConfigError, match=r"^row 3 \(key 'a'\): ") as caught:
        messages_of_rows(rows, PREFIX, first=3)
    assert rule in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"key": ["a"]}, "no column value"),
        ({"value": ["a"]}, "no column key"),
        ({"key": ["a"], "value": ["1"], "bucket": ["b"]}, "no column bucket to write"),
        ({"key": ["a"], "value": ["1"], "operations": ["PUT"]}, "did you mean operation?"),
        ({"key": [1], "value": ["1"]}, "column 'key' has the type int64"),
        ({"key": ["a"], "value": [1]}, "column 'value' has the type int64"),
        ({"key": ["a"], "value": ["1"], "expected_revision": ["1"]}, "column 'expected_revision' has the type string"),
        ({"key": ["a"], "value": ["1"], "ttl": [30]}, "column 'ttl' has the type int64"),
        ({"key": ["a"], "value": ["1"], "headers": ["k"]}, "column 'headers' has the type string"),
    ],
)
def test_unknown_and_mistyped_columns_are_errors(columns: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_row_types(pa.record_batch(columns).schema)
    assert text in str(caught.value)


def test_columns_of_a_read_that_cannot_be_written_are_dropped() -> None:
    made = messages(key=["a"], value=["1"], revision=[7], created=[None])
    assert list(made) == ["subject", "data"]


def test_slices_and_large_types_are_converted_alike() -> None:
    rows = pa.record_batch(
        {
            "key": pa.array(["x", "a", "b"], pa.large_string()),
            "value": pa.array([b"0", b"1", None], pa.large_binary()),
            "expected_revision": pa.array([9, None, 3], pa.uint32()),
        }
    ).slice(1)
    made = messages_of_rows(rows, PREFIX).to_pydict()
    assert made["subject"] == [f"{PREFIX}a", f"{PREFIX}b"]
    assert (made["data"], made["header_lines"], made["expected_revision"]) == ([b"1", b""], ["", DELETE], [None, 3])
