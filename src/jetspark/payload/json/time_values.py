"""Reads dates and timestamps of JSON, by a pattern or in the forms of Spark's cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

from jetspark.payload.json.numbers import to_long
from jetspark.payload.json.reader import JsonReader, Token
from jetspark.payload.patterns import TimePattern
from jetspark.payload.time_zones import time_zone
from jetspark.payload.timestamps import parse_date, parse_day_number, parse_timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.payload.json.options import JsonOptions

__all__ = ["date_reader", "timestamp_reader"]

_PER_SECOND: Final = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def date_reader(options: JsonOptions, fail: Callable[[JsonReader, str], NoReturn]) -> Callable[[JsonReader], object]:
    """Return a reader of dates as days since 1970-01-01; `fail` raises the fault."""
    pattern = TimePattern(options.date_format) if options.date_format else None
    fallback = pattern is None if options.fallback is None else options.fallback

    def read(reader: JsonReader) -> object:
        days: int | None = None
        if reader.token is Token.TEXT:
            text = reader.read_text()
            days = parse_date(text) if pattern is None else pattern.date(text)
            if days is None and fallback and text:
                days = parse_date(text.replace("GMT", ""))
                days = parse_day_number(text) if days is None else days
        if days is None:
            fail(reader, "a date")
        return days

    return read


def timestamp_reader(
    kind: pa.TimestampType, options: JsonOptions, fail: Callable[[JsonReader, str], NoReturn]
) -> Callable[[JsonReader], object]:
    """Return a reader of timestamps in the unit of their type; `fail` raises the fault."""
    zone = None if kind.tz is None else time_zone(options.time_zone)
    form = options.timestamp_ntz_format if zone is None else options.timestamp_format
    pattern = TimePattern(form) if form else None
    fallback = zone is not None and (pattern is None if options.fallback is None else options.fallback)
    per_second = _PER_SECOND[kind.unit]

    def read(reader: JsonReader) -> object:
        micros: int | None = None
        if reader.token is Token.TEXT:
            text = reader.read_text()
            micros = parse_timestamp(text, zone) if pattern is None else pattern.timestamp(text, zone)
            if micros is None and fallback:
                micros = parse_timestamp(text.replace("GMT", ""), zone)
        elif reader.token is Token.INTEGER and zone is not None:
            seconds = to_long(reader.value)
            # Java multiplies without a check.
            micros = None if seconds is None else (seconds * 1_000_000 + 2**63) % 2**64 - 2**63
        value = None if micros is None else micros * per_second // 1_000_000
        if value is None or not -(2**63) <= value < 2**63:
            fail(reader, "a timestamp" if zone is not None else "a timestamp without time zone")
        return value

    return read
