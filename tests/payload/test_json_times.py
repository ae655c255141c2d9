"""Dates and timestamps in JSON: every expected value is what Spark 4.3 gives for the same text."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from jetspark.payload.json.rows import RowDecoder
from jetspark.payload.options import parse_format_options

SCHEMA = pa.schema([("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us")), ("d", pa.date32())])


def read(text: object, **options: str) -> list[object]:
    """Return a text as timestamp, as local timestamp and as date: None if it is none."""
    payload = json.dumps(dict.fromkeys(SCHEMA.names, text)).encode()
    values, reason = RowDecoder(SCHEMA, parse_format_options("json", options)).decode_row(payload)
    assert (reason is None) == (None not in values)
    return values


@pytest.mark.parametrize(
    ("text", "timestamp", "local", "date"),
    [
        ("2020-01-02", 1577923200000000, 1577923200000000, 18263),
        ("2020", 1577836800000000, 1577836800000000, 18262),
        ("2020-1-2", 1577923200000000, 1577923200000000, 18263),
        ("2020-01-02T", None, None, 18263),
        ("  2020-01-02\n", 1577923200000000, 1577923200000000, 18263),
        ("2020-01-02 03", 1577934000000000, 1577934000000000, 18263),
        ("2020-01-02T3:4:5", 1577934245000000, 1577934245000000, 18263),
        ("2020-01-02T03:04:05.123456789", 1577934245123456, 1577934245123456, 18263),
        ("2020-01-02T03:04:05.", 1577934245000000, 1577934245000000, 18263),
        ("2020-01-02T03:04:05Z", 1577934245000000, None, 18263),
        ("2020-01-02T03:04Z", None, None, 18263),
        ("2020-01-02Z", None, None, None),
        ("2020-01-02T03:04:05 +1:00", 1577930645000000, None, 18263),
        ("2020-01-02T03:04:05.5 Europe/Berlin", 1577930645500000, None, 18263),
        ("2020-01-02T03:04:05.5PST", 1577963045500000, None, 18263),
        ("2020-01-02T03:04:05GMT+01:00", 1577930645000000, None, 18263),
        ("2020-01-02 03:04:05 GMT", 1577934245000000, None, 18263),
        ("2020-01-02T03:04:05.1.2", None, None, 18263),
        ("2020-01-02T03:04:05z", None, None, 18263),
        ("2020-01-02T24:00:00", None, None, 18263),
        ("-0001-01-01", -62198755200000000, -62198755200000000, -719893),
        ("10000-01-01", 253402300800000000, 253402300800000000, 2932897),
        ("294247-01-10T04:00:54", 9223372036854000000, 9223372036854000000, 106751991),
        ("294248-01-01", None, None, 106752347),
        ("2020-02-30", None, None, None),
        ("2020-13-01", None, None, None),
        ("1900-02-29", None, None, None),
        ("2021-03-28T02:30:00 Europe/Berlin", 1616895000000000, None, 18714),
        ("2021-10-31T02:30:00Europe/Berlin", 1635640200000000, None, 18931),
        ("1800-01-01T00:00:00 Europe/Berlin", -5364665608000000, None, -62091),
        ("123", None, None, 123),
        ("-0", None, None, 0),
        ("1234567", None, None, 450196810),
        ("12345678", None, None, 12345678),
        ("-12345678", None, None, -12345437),
        ("99999999999", None, None, None),
        ("", None, None, None),
    ],
)  # fmt: skip
def test_a_text_without_a_pattern_is_read_as_by_a_cast(
    text: str, timestamp: object, local: object, date: object
) -> None:
    assert read(text) == [timestamp, local, date]


def test_a_number_is_a_timestamp_in_seconds() -> None:
    assert read(1) == [1_000_000, None, None]
    assert read(9223372036854775807) == [-1_000_000, None, None]
    assert read(1.5) == [None, None, None]


def test_a_time_without_a_date_is_no_timestamp() -> None:
    assert read("12:30:00") == read("T12:30") == [None, None, None]


def test_texts_without_a_zone_are_in_the_zone_of_the_option() -> None:
    assert read("2021-03-28T02:30:00", timeZone="Europe/Berlin") == [1616895000000000, 1616898600000000, 18714]
    assert read("2021-03-28T02:30:00Z", timeZone="Europe/Berlin")[0] == 1616898600000000


def test_a_timestamp_is_in_the_unit_of_its_type() -> None:
    for unit, expected in (("s", -2), ("ms", -1500), ("us", -1500000), ("ns", -1500000000)):
        decoder = RowDecoder(pa.schema([("t", pa.timestamp(unit, "UTC"))]), parse_format_options("json", {}))
        assert decoder.decode_row(b'{"t":"1969-12-31T23:59:58.5Z"}') == ([expected], None)
    decoder = RowDecoder(pa.schema([("t", pa.timestamp("ns", "UTC"))]), parse_format_options("json", {}))
    assert decoder.decode_row(b'{"t":"3000-01-01"}')[1] is not None


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2020-01-02T03:04:05.12+01:00", [1577930645120000, None, 18263]),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS][XXX]", "2020-01-02 03:04:05", [1577934245000000, 1577934245000000, 18263]),
        ("dd/MM/yyyy", "31/02/2020", [None, None, None]),
    ],
)
def test_patterns_are_options(pattern: str, text: str, expected: list[object]) -> None:
    assert read(text, timestampFormat=pattern, timestampNTZFormat=pattern, dateFormat=pattern) == expected


def test_a_text_that_a_pattern_refuses_may_fall_back_to_older_forms() -> None:
    patterns = dict.fromkeys(("timestampFormat", "timestampNTZFormat", "dateFormat"), "yyyy-MM-dd")
    assert read("GMT2020-01-02", **patterns) == [None, None, None]
    found = read("GMT2020-01-02", **patterns, enableDateTimeParsingFallback="true")
    assert found == [1577923200000000, None, 18263]
    assert read("2020-01-02 03:04:05 GM GMT", enableDateTimeParsingFallback="false") == [None, None, 18263]
