"""Rows as JSON. That the text is the one of Spark's to_json is tested with Spark."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from jetspark.errors import ConfigError
from jetspark.payload.json.encode import JsonEncoder
from jetspark.payload.options import parse_format_options


def encode(rows: pa.RecordBatch, **options: str) -> list[str]:
    payloads = JsonEncoder(rows.schema, parse_format_options("json", options)).encode(rows)
    return [payload.decode() for payload in payloads.to_pylist()]


def column(kind: pa.DataType, *values: Any) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, kind)], names=["v"])


ENTRIES = pa.map_(pa.string(), pa.int64())
PAIR = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.bool_(), True, "true"),
        (pa.float64(), 1.0, "1.0"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), 1e7, "1.0E7"),
        (pa.float64(), 9.5e-4, "9.5E-4"),
        (pa.float64(), math.nan, '"NaN"'),
        (pa.float64(), -math.inf, '"-Infinity"'),
        (pa.float32(), 0.1, "0.1"),
        (pa.decimal128(38, 18), Decimal(0), "0E-18"),
        (pa.string(), 'a"\\/\n\x01\u2028\U0001f600', '"a\\"\\\\/\\n\\u0001\u2028\U0001f600"'),
        (pa.large_string(), "\\", '"\\\\"'),
        (pa.binary(), b"\x00\xff\x10", '"AP8Q"'),
        (pa.date32(), date(1, 2, 3), '"0001-02-03"'),
        (pa.timestamp("us", "UTC"), datetime(2020, 1, 2, 3, 4, 5, 678999, tzinfo=UTC), '"2020-01-02T03:04:05.678Z"'),
        (pa.timestamp("ns"), datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), '"2020-01-02T03:04:05.000"'),
        (pa.time64("us"), time(10, 11, 12, 500_000), '"10:11:12.5"'),
        (pa.list_(pa.int64()), [1, None], "[1,null]"),
        (pa.list_(pa.int64()), [], "[]"),
        (ENTRIES, [('q"', None), ("a", 1)], '{"q\\"":null,"a":1}'),
        (PAIR, {"x": None, "y": ["a", None]}, '{"y":["a",null]}'),
        (PAIR, {"x": None, "y": None}, "{}"),
        (pa.list_(PAIR), [None, {"x": 1}], '[null,{"x":1}]'),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_value_becomes_json(kind: pa.DataType, value: Any, text: str) -> None:
    rows = column(kind, None, value, None, value)
    assert encode(rows) == ["{}", f'{{"v":{text}}}'] * 2
    assert encode(rows.slice(1, 2)) == [f'{{"v":{text}}}', "{}"]
    assert encode(rows, ignoreNullFields="false")[0] == '{"v":null}'
    assert encode(rows.slice(0, 0)) == []
    json.loads(encode(rows)[1])


def test_fields_that_are_null_leave_no_comma() -> None:
    rows = pa.record_batch({"a": [1, None, None, 1], "b": [2, 2, None, None], "c": [None, 3, None, 3]})
    assert encode(rows) == ['{"a":1,"b":2}', '{"b":2,"c":3}', "{}", '{"a":1,"c":3}']
    assert encode(rows.select([]).slice(0, 2)) == ["{}", "{}"]


def test_times_are_shown_in_the_time_zone_and_by_the_patterns_of_the_options() -> None:
    rows = column(
        pa.timestamp("us", "UTC"),
        datetime(1890, 1, 2, tzinfo=UTC),
        datetime(2044, 7, 1, tzinfo=UTC),
        datetime(2500, 7, 1, tzinfo=UTC),
    )
    assert encode(rows, timeZone="Europe/Paris") == [
        '{"v":"1890-01-02T00:09:21.000+00:09:21"}',
        '{"v":"2044-07-01T02:00:00.000+02:00"}',
        '{"v":"2500-07-01T02:00:00.000+02:00"}',
    ]
    assert (
        encode(rows.slice(1), timestampFormat="EEE d MMM yyyy, h:mm a 'Z'")[0] == '{"v":"Fri 1 Jul 2044, 12:00 AM Z"}'
    )


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("yyyy w", "does not support w"),
        ("ddd", "does not support ddd"),
        ("HH", "nothing that the values"),
        ("{", "'"),
        ("'", ""),
    ],
)
def test_a_pattern_that_cannot_be_written_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"option dateFormat is .*{reason}"):
        encode(column(pa.date32(), date(2020, 1, 1)), dateFormat=pattern)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (pa.duration("us"), "column v: JSON has no text for the type duration"),
        (pa.map_(pa.binary(), pa.int64()), "column v: JSON cannot have a map with keys of type binary"),
        (pa.list_(pa.struct([("x", pa.duration("s"))])), "column v.element.x: JSON has no text"),
    ],
)
def test_a_type_that_has_no_json_is_refused_with_the_name_of_the_field(kind: pa.DataType, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        encode(column(kind))
