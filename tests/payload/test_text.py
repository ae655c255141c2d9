"""Payloads as text."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from jetspark import errors
from jetspark.payload import BadRecord, make_format

SCHEMA = pa.schema([pa.field("value", pa.string())])


def test_payloads_become_strings_and_strings_become_payloads() -> None:
    text = pickle.loads(pickle.dumps(make_format("text", SCHEMA)))
    payloads = pa.array([b"one", b"", None, "gr\u00fcn".encode()], pa.binary())
    decoded = text.decode(payloads)
    assert decoded.rows.to_pydict() == {"value": ["one", "", None, "gr\u00fcn"]}
    assert not decoded.bad
    assert text.encode(decoded.rows.take(pa.array([0, 1, 3]))).to_pylist() == [b"one", b"", "gr\u00fcn".encode()]


def test_a_payload_that_is_not_utf8_is_a_bad_record() -> None:
    decoded = make_format("text", SCHEMA).decode(pa.array([b"ok", None, b"\xff\xfe"], pa.binary()))
    assert decoded.rows.to_pydict() == {"value": ["ok", None, None]}
    assert decoded.bad == [BadRecord(2, "the payload is not UTF-8")]


def test_a_null_cannot_be_written_as_text() -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["one", None]}, SCHEMA)
    with pytest.raises(errors.PayloadError, match="row 1, column value"):
        make_format("text", SCHEMA).encode(rows)


@pytest.mark.parametrize(
    "schema",
    [pa.schema([]), pa.schema([("n", pa.int64())]), pa.schema([("a", pa.string()), ("b", pa.string())])],
    ids=["no column", "a number", "two columns"],
)
def test_text_has_one_column_of_strings(schema: pa.Schema) -> None:
    with pytest.raises(errors.ConfigError, match="one column of type string"):
        make_format("text", schema)


def test_an_unknown_format_or_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(errors.ConfigError, match=r"'txt'; did you mean text\?"):
        make_format("txt", SCHEMA)
    with pytest.raises(errors.ConfigError, match="text has no option 'sep'"):
        make_format("text", SCHEMA, {"sep": ","})
