"""CSV payloads. That the rows are those of Spark's from_csv, and the text that of to_csv, is tested with Spark."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from jetspark.errors import ConfigError
from jetspark.payload import csv_format, make_format
from jetspark.payload.csv.options import CsvOptions
from jetspark.payload.csv.records import RecordReader
from jetspark.payload.formats import infer_schema
from jetspark.payload.options import parse_format_options


def fields(text: str, **options: str) -> list[str] | None:
    return RecordReader(CsvOptions.of(parse_format_options("csv", options))).read(text)


def values(kind: pa.DataType, *texts: str, **options: str) -> list[Any]:
    """The values of texts as a column; `bad` for a bad record."""
    schema = pa.schema([("v", kind), ("w", pa.int64())])
    payloads = pa.array([f"{text},1".encode() for text in texts], pa.binary())
    decoded = make_format("csv", schema, options).decode(payloads)
    assert decoded.rows["w"].to_pylist() == [1] * len(texts)
    bad = {record.row for record in decoded.bad}
    return ["bad" if row in bad else value for row, value in enumerate(decoded.rows["v"].to_pylist())]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a,b", ["a", "b"]),
        ("a,,", ["a", "", ""]),
        (" a , b ", [" a ", " b "]),
        ('"a,b","c\nd"', ["a,b", "c\nd"]),
        (r'"a\"b\\","c\d"', ['a"b\\', r"c\d"]),
        ('"a" ,b', ["a", "b"]),
        ('"a"x,b', ['"a"x', "b"]),
        ('"a""b",c', ['"a""b"', "c"]),
        ('a"b,c', ['a"b', "c"]),
        ('"a,b', ["a,b"]),
        ('"', ['"']),
        ("a\r\nb,c\n", ["a\r\nb", "c\n"]),
        (r'"a"\b,"c",d', [r'"a"\b"c"', "d"]),
        ("", None),
    ],
)
def test_a_record_is_cut_into_its_fields(text: str, wanted: list[str] | None) -> None:
    assert fields(text) == wanted


@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        ("a;'b;c'", {"sep": ";", "quote": "'"}, ["a", "b;c"]),
        ("a||b|c", {"sep": "||"}, ["a", "b|c"]),
        ("a\tb", {"delimiter": r"\t"}, ["a", "b"]),
        ('"a""b",c', {"escape": '"'}, ['a"b', "c"]),
        ('"a,b"', {"quote": ""}, ['"a', 'b"']),
        ('"a#",b', {"charToEscapeQuoteEscaping": "#"}, ["a#", "b"]),
        ("#a,b", {"comment": "#"}, None),
        (" a ,\tb ", {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}, ["a", "b"]),
        ('"",', {"emptyValue": "EMPTY", "nullValue": "NULL"}, ["EMPTY", "NULL"]),
    ],
)
def test_options_say_how_a_record_is_cut(text: str, options: dict[str, str], wanted: list[str] | None) -> None:
    assert fields(text, **options) == wanted


@pytest.mark.parametrize(
    ("kind", "texts", "wanted"),
    [
        (pa.int8(), ("1", "+7", "-128", "128", "1.0", " 1", ""), [1, 7, -128, "bad", "bad", "bad", None]),
        (pa.int64(), (str(2**63 - 1), str(2**63)), [2**63 - 1, "bad"]),
        (pa.bool_(), ("true", "FALSE", "t"), [True, False, "bad"]),
        (
            pa.float64(),
            ("1.5", "1e3", " .5f ", "Inf", "-Infinity", "0x1p3", "x"),
            [1.5, 1e3, 0.5, math.inf, -math.inf, 8.0, "bad"],
        ),
        (pa.float32(), ("0.1", "1e400"), [pytest.approx(0.1), math.inf]),
        (
            pa.decimal128(5, 2),
            ("1.005", "999.99", "1000", "1e2"),
            [Decimal("1.01"), Decimal("999.99"), "bad", Decimal("100.00")],
        ),
        (pa.date32(), ("2020-01-02", "2020-1-2", "2020-02-30"), [date(2020, 1, 2), date(2020, 1, 2), "bad"]),
        (
            pa.timestamp("us", "UTC"),
            ("2020-01-02T03:04:05Z", "2020-01-02 3:4:5", "x"),
            [datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)] * 2 + ["bad"],
        ),
        (pa.string(), ("a", "", "\u00e9"), ["a", None, "\u00e9"]),
        (pa.binary(), ("a",), [b"a"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_texts_become_values(kind: pa.DataType, texts: tuple[str, ...], wanted: list[Any]) -> None:
    assert values(kind, *texts) == wanted
    for text, value in zip(texts, wanted, strict=True):
        assert values(kind, text) == [value]


def test_options_name_the_texts_of_special_values() -> None:
    assert values(pa.float64(), "nan", "big", nanValue="nan", positiveInf="big")[1] == math.inf
    assert values(pa.string(), "NULL", "", nullValue="NULL") == [None, None]
    assert values(pa.date32(), "31.12.2020", dateFormat="dd.MM.yyyy") == [date(2020, 12, 31)]


def test_a_record_with_too_few_or_too_many_fields_is_bad_and_keeps_what_it_has() -> None:
    csv = pickle.loads(pickle.dumps(csv_format(pa.schema([("a", pa.int64()), ("b", pa.string())]))))
    payloads = [b"1,x", b"2", b'3,"y",z', b"", None, b"q,r\xff", b"4,s\n"]
    decoded = csv.decode(pa.array(payloads, pa.binary()))
    assert decoded.rows.to_pydict() == {
        "a": [1, 2, 3, None, None, None, 4],
        "b": ["x", None, "y", None, None, "r\ufffd", "s\n"],
    }
    assert [(record.row, record.reason) for record in decoded.bad] == [
        (1, "the record has 1 field, and the schema has 2"),
        (2, "the record has 3 fields, and the schema has 2"),
        (3, "the payload has no record"),
        (5, "field 'a': 'q' is no int64"),
    ]


def test_rows_become_records_that_are_read_again() -> None:
    rows = pa.record_batch(
        {
            "n": pa.array([1, None, -3]),
            "text": ['say "hi", \\', None, "a\nb"],
            "at": pa.array([datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
            "x": [1.0, math.inf, None],
        }
    )
    csv = csv_format(rows.schema)
    payloads = csv.encode(rows)
    assert payloads.to_pylist() == [
        rb'1,"say \"hi\", \\",2020-01-02T03:04:05.000Z,1.0',
        b",,2020-01-02T03:04:05.000Z,Infinity",
        b'-3,"a\nb",2020-01-02T03:04:05.000Z,',
    ]
    assert csv.decode(payloads).rows.equals(rows)
    assert csv.encode(rows.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"quote": "ab"}, "option quote is 'ab': it must be one character"),
        ({"sep": "\\"}, "a backslash stands before"),
        ({"sep": '"'}, "options sep and quote are both"),
        ({"sep": "\n"}, "line feed"),
        ({"ignoreLeadingWhiteSpace": "maybe"}, "true or false"),
        ({"header": "true"}, "csv has no option 'header'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make_format("csv", pa.schema([("a", pa.string())]), options)


def test_records_with_orderly_quotes_are_read_in_the_same_way_by_the_faster_reader() -> None:
    options = parse_format_options("csv", {})
    records = RecordReader(CsvOptions.of(options))
    schema = pa.schema([(name, pa.string()) for name in "abc"])
    texts = [
        '"a,\nb",,"\u00e9"',
        '"",x,""',
        'a,"b"',
        '"a"b,c,d',
        f'"{"x" * 200_000}",b,c',
        '"a\\"",b,c',
        "\r,\n,\t",
        '"a","b","c\r\n"',
    ]
    rows = csv_format(schema).decode(pa.array([text.encode() for text in texts], pa.binary())).rows.to_pylist()
    for text, row in zip(texts, rows, strict=True):
        wanted = [value or None for value in records.read(text) or ()]
        assert list(row.values()) == (wanted + [None] * 3)[:3]


def test_a_record_of_too_many_fields_has_none() -> None:
    decoded = make_format("csv", pa.schema([("a", pa.string())]), {"maxColumns": "3"}).decode(
        pa.array([b"1,2,3", b"1,2,3,4"], pa.binary())
    )
    assert decoded.rows["a"].to_pylist() == ["1", None]
    assert [record.row for record in decoded.bad] == [0, 1]


def test_fields_are_inferred_from_a_sample() -> None:
    payloads = [b"1,1,2020-01-02,x,true,,3000000000", b"2,1.5,2020-01-02T03:04:05Z,1,false,,1,more", b"x", None, b""]
    schema = infer_schema("csv", pa.array(payloads[:2], pa.binary()))
    kinds = [pa.int32(), pa.float64(), pa.timestamp("us", "UTC"), pa.string(), pa.bool_(), pa.string(), pa.int64()]
    assert schema == pa.schema([(f"_c{at}", kind) for at, kind in enumerate(kinds)])
    assert infer_schema("csv", pa.array(payloads, pa.binary())).field("_c0").type == pa.string()
    with pytest.raises(ConfigError, match="no payload has a CSV record"):
        infer_schema("csv", pa.array(payloads[3:], pa.binary()))


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.duration("us")], ids=str)
def test_a_type_that_csv_cannot_give_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match="payload format csv cannot give field v of type"):
        make_format("csv", pa.schema([("v", kind)]))
