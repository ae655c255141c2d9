"""JSON payloads as rows."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from jetspark.payload import make_format

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
ROW = {"name": "a", "id": 1, "price": 1.5, "ok": True, "at": "2024-01-02T03:04:05.006Z"}
AT = datetime(2024, 1, 2, 3, 4, 5, 6000, UTC)


def payloads_of(*values: Any) -> pa.BinaryArray:
    return pa.array(
        [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values], pa.binary()
    )


def one(kind: pa.DataType, text: str, **options: str) -> tuple[Any, bool]:
    """Decode {"a": text}: the value, and whether it was read at once."""
    form = make_format("json", pa.schema([("a", kind)]), options)
    columns, unread = form._fast.decode(payloads_of(b'{"a":%b}' % text.encode()), 0)  # type: ignore[attr-defined]
    return columns[0][0].as_py(), not len(unread)


def test_json_objects_become_rows() -> None:
    form = pickle.loads(pickle.dumps(make_format("json", SCHEMA)))
    more = {"id": 2, "other": [{"id": 3}], "name": None}
    decoded = form.decode(pa.concat_arrays([payloads_of(ROW, more), pa.array([None, b' \r\n{"id":\n4}\n '])]))
    assert decoded.rows.schema == SCHEMA
    assert not decoded.bad
    nothing = dict.fromkeys(SCHEMA.names)
    assert decoded.rows.to_pylist() == [ROW | {"at": AT}, nothing | {"id": 2}, nothing, nothing | {"id": 4}]


def test_a_bad_record_leaves_its_neighbours_alone() -> None:
    form = make_format("json", SCHEMA)
    rows = [json.dumps(ROW | {"id": row}).encode() for row in range(1000)]
    for row in range(0, 1000, 100):
        rows[row] = b'{"id": ' + b"[" * row
    decoded = form.decode(pa.array(rows, pa.binary()))
    assert [record.row for record in decoded.bad] == list(range(0, 1000, 100))
    assert all(record.reason for record in decoded.bad)
    ids = decoded.rows.column("id").to_pylist()
    assert [value for row, value in enumerate(ids) if row % 100] == [row for row in range(1000) if row % 100]


def test_a_slice_is_decoded_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jetspark.payload.json.format._PIECE_ROWS", 7)
    rows = payloads_of(*({"id": row} for row in range(100)))
    decoded = make_format("json", SCHEMA).decode(rows.slice(13, 50))
    assert decoded.rows.column("id").to_pylist() == list(range(13, 63))
    assert make_format("json", SCHEMA).decode(rows.slice(5, 0)).rows.schema == SCHEMA


def test_a_schema_without_columns_keeps_the_number_of_rows() -> None:
    assert make_format("json", pa.schema([])).decode(payloads_of({"a": 1}, {})).rows.num_rows == 2


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int8(), "-128", -128),
        (pa.int32(), "2147483647", 2**31 - 1),
        (pa.int64(), "-9223372036854775808", -(2**63)),
        (pa.float64(), "1e3", 1000.0),
        (pa.float64(), "12345678901234567890123", 1.2345678901234568e22),
        (pa.float32(), "0.1", 0.10000000149011612),
        (pa.string(), r'"\u00e9\ud83d\ude00\n"', "é😀\n"),
        (pa.string(), "-0", "0"),
        (pa.string(), "12345678901234567890123", "12345678901234567890123"),
        (pa.string(), "1.50e7", "1.5E7"),
        (pa.string(), "true", "true"),
        (pa.binary(), '"AAH/"', b"\x00\x01\xff"),
        (pa.decimal128(6, 2), "1.005", Decimal("1.01")),
        (pa.decimal128(6, 2), "-1e3", Decimal("-1000.00")),
        (pa.decimal128(6, 2), '"-1.005"', Decimal("-1.01")),
        (pa.decimal128(38, 0), "9" * 38, Decimal("9" * 38)),
        (pa.date32(), '"2024-02-29"', date(2024, 2, 29)),
        (pa.timestamp("us"), '"2024-01-02 03:04:05.006"', AT.replace(tzinfo=None)),
        (pa.timestamp("us", "UTC"), '"2024-01-02T05:04:05.006+02:00"', AT),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05.006"', AT),
        (pa.list_(pa.int32()), "[1,null,2]", [1, None, 2]),
        (pa.list_(pa.list_(pa.string())), '[["a"],null,[]]', [["a"], None, []]),
        (pa.struct([("b", pa.int32()), ("c", pa.date32())]), '{"c":"2024-01-02"}', {"b": None, "c": date(2024, 1, 2)}),
        (pa.map_(pa.string(), pa.int32()), '{"x":1,"y":null,"x":2}', [("x", 1), ("y", None), ("x", 2)]),
        (pa.list_(pa.struct([("b", pa.int32())])), '[{"b":1},null,{}]', [{"b": 1}, None, {"b": None}]),
    ],
)
def test_a_value_of_the_type_of_its_field_is_read_at_once(kind: pa.DataType, text: str, value: object) -> None:
    assert one(kind, text) == (value, True)
    assert one(kind, "null") == (None, True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int8(), "128"),
        (pa.int64(), "9223372036854775808"),
        (pa.int64(), "1.0"),
        (pa.int64(), '"1"'),
        (pa.int64(), "9" * 100_000),
        (pa.float64(), "NaN"),
        (pa.float64(), "1e400"),
        (pa.float32(), "16777217"),
        (pa.float32(), "1e39"),
        (pa.float32(), "1e-45"),
        (pa.string(), '{"b":1}'),
        (pa.string(), r'"\ud83d"'),
        (pa.string(), "'a'"),
        (pa.binary(), '"AA"'),
        (pa.decimal128(6, 2), "9999.999"),
        (pa.decimal128(6, 2), '"1,000.5"'),
        (pa.decimal128(6, 2), '"\u0661"'),
        (pa.decimal128(6, 2), '" 1"'),
        (pa.decimal128(6, 2), "true"),
        (pa.decimal128(6, 2), "1e999999999999999999999"),
        (pa.decimal128(6, 2), "1e999999999"),
        (pa.date32(), '"2024-02-30"'),
        (pa.date32(), '"2023-02-29"'),
        (pa.date32(), '"0000-01-01"'),
        (pa.date32(), '"2024-1-2"'),
        (pa.date32(), '"2024-01-02T00:00:00"'),
        (pa.timestamp("us"), '"2024-01-02T03:04:05Z"'),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05.0067891Z"'),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04Z"'),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05+18:00"'),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05+0100"'),
        (pa.timestamp("us", "UTC"), "1"),
        (pa.list_(pa.int32()), "[1,1.5]"),
        (pa.list_(pa.date32()), '["2024-01-02","x"]'),
        (pa.struct([("b", pa.date32())]), '{"b":"x"}'),
        (pa.map_(pa.string(), pa.int32()), '{"x":"y"}'),
        (pa.map_(pa.string(), pa.int32()), '[{"key":"x","value":1}]'),
    ],
)
def test_a_value_that_may_mean_something_else_is_left_to_the_decoder_of_rows(kind: pa.DataType, text: str) -> None:
    assert one(kind, text)[1] is False


@pytest.mark.parametrize(
    "kind",
    [
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(6, 2),
        pa.int8(),
        pa.string(),
        pa.binary(),
    ],
    ids=str,
)
def test_a_name_that_comes_twice_hides_no_bad_value(kind: pa.DataType) -> None:
    for name in ("a", r"\u0061"):
        assert one(kind, f'[true],"{name}":null')[1] is False
        assert one(kind, f'"no","{name}":null')[1] is pa.types.is_string(kind)
        assert one(pa.struct([("a", kind)]), f'{{"a":[true],"{name}":null}}')[1] is False
        assert one(pa.list_(kind), f'[[true]],"{name}":null')[1] is False
        assert one(pa.map_(pa.string(), kind), f'{{"a":[true],"{name}":null}}')[1] is False


def test_escapes_in_values_are_decoded_at_once() -> None:
    fast = make_format("json", SCHEMA)._fast  # type: ignore[attr-defined]
    rows = payloads_of(ROW | {"name": "\u00e9\ud83d\ude00", "x": 'a "b": \\'.replace(":", "")})
    assert not len(fast.decode(rows, 0)[1])


def test_local_times_are_those_of_the_zone_and_left_alone_where_its_offset_changes() -> None:
    berlin = {"timeZone": "Europe/Berlin"}
    kind = pa.timestamp("us", "UTC")
    assert one(kind, '"2024-01-02T04:04:05.006"', **berlin) == (AT, True)
    assert one(kind, '"2024-07-02T05:04:05"', **berlin) == (datetime(2024, 7, 2, 3, 4, 5, tzinfo=UTC), True)
    assert one(kind, '"2024-03-31T02:00:00"', **berlin)[1] is True
    assert one(kind, '"2024-03-31T01:59:59"', **berlin)[1] is True


def test_times_by_a_pattern_are_decoded_at_once() -> None:
    at = '"02.01.2024 03:04"'
    utc = datetime(2024, 1, 2, 3, 4, tzinfo=UTC)
    assert one(pa.date32(), at, dateFormat="dd.MM.yyyy HH:mm") == (date(2024, 1, 2), True)
    assert one(pa.timestamp("us", "UTC"), at, timestampFormat="dd.MM.yyyy HH:mm") == (utc, True)
    assert one(pa.timestamp("us"), at, timestampNTZFormat="dd.MM.yyyy HH:mm") == (utc.replace(tzinfo=None), True)
    assert one(pa.date32(), '"2024-01-02"', dateFormat="dd.MM.yyyy")[1] is False


def test_a_date_that_no_column_can_hold_is_a_bad_record() -> None:
    form = make_format("json", pa.schema([("a", pa.date32())]))
    decoded = form.decode(payloads_of({"a": "9999999-01-01"}, {"a": "-9999999-01-01"}))
    assert decoded.rows.column("a").to_pylist() == [None, None]
    assert len(decoded.bad) == 2


def test_payloads_beyond_the_limits_of_spark_are_left_to_the_decoder_of_rows() -> None:
    fast = make_format("json", SCHEMA)._fast  # type: ignore[attr-defined]

    def at_once(payload: bytes) -> bool:
        return not len(fast.decode(payloads_of(payload), len(payload))[1])

    assert at_once(b'{"x":' + b"[" * 600 + b"]" * 600 + b"}")
    assert not at_once(b'{"x":' + b"[" * 1000 + b"]" * 1000 + b"}")
    assert at_once(b'{"x":' + b"1" * 1000 + b"}")
    assert not at_once(b'{"x":' + b"1" * 1001 + b"}")
    assert at_once(b'{"' + b"x" * 50_000 + b'":1}')
    assert not at_once(b'{"' + b"x" * 50_001 + b'":1}')
    assert not at_once(b'{"x":' + b"[" * 1_000_000)
    assert at_once(b'{"x":[' + b'{"a":"[["}, ' * 5_000 + b"2]}")
    options = {"maxStringLen": "10"}
    fast = make_format("json", SCHEMA, options)._fast  # type: ignore[attr-defined]
    assert at_once(b'{"name":"0123456789"}')
    assert not at_once(b'{"name":"0123456789a"}')
    assert not at_once(b'{"name":"01234\\"6789a"}')
