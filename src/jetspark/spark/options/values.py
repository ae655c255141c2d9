"""Parsers for the texts of options: durations, sizes, booleans, lists, positions in a stream.

Spark passes every option as text. Each parser returns the value, or raises a ValueError that describes the valid texts.
The caller (`jetspark.spark.options.parsed`) adds the option's name, and decides whether the value may be shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Final, TypeVar

import msgspec

from jetspark.jetstream.buckets import KEY_VALUE, OBJECTS
from jetspark.jetstream.names import check_filter_subject, check_stream_name
from jetspark.jetstream.times import parse_rfc3339, time_ns
from jetspark.wire.addresses import split_urls
from jetspark.wire.line_limits import MIN_CONTROL_LINE
from jetspark.wire.untrusted import MAX_INT64, MAX_UINT64, decode_json, parse_number

__all__ = [
    "Position",
    "PositionKind",
    "one_of",
    "parse_boolean",
    "parse_bucket",
    "parse_context",
    "parse_count",
    "parse_duration",
    "parse_line_size",
    "parse_object_store",
    "parse_offsets",
    "parse_servers",
    "parse_size",
    "parse_streams",
    "parse_subjects",
    "parse_text",
    "parse_text_list",
    "parse_time",
    "parse_times",
    "with_minimum",
]

T = TypeVar("T")
N = TypeVar("N", int, float)

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|sec|m|min|h|hr|d|day)?", re.ASCII)
_DURATION_UNITS: Final = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "d": 86_400.0,
    "day": 86_400.0,
}
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.ASCII)
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LONGEST_DURATION: Final = 1e9
_FLAGS: Final = {"true": True, "false": False}

_decoder: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(object)

_LATEST: Final = -1
_EARLIEST: Final = -2


class PositionKind(Enum):
    """The kind of a position."""

    EARLIEST = "earliest"
    LATEST = "latest"
    SEQUENCE = "sequence"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """The start (included) or the end (excluded) of a read of a stream.

    Attributes
    ----------
    kind
        The first message, the end of the stream, a sequence, or the first message stored at or after a time.
    value
        The sequence, or the time in nanoseconds since 1970.
    must_exist
        Whether it is an error if the stream has no message at or after the time.
    """

    kind: PositionKind
    value: int = 0
    must_exist: bool = False


def parse_text(text: str) -> str:
    """Read a text that is not empty."""
    if not text.strip():
        raise ValueError("it is empty")
    return text.strip()


def parse_context(text: str) -> str:
    """Read the name of a context of the `nats` command, or the path of its file."""
    if "://" in text or ("@" in text and not text.startswith("/")):  # a URL, which may have a password
        raise ValueError("it must be the name of a context, or the absolute path of its file, not a URL")
    return parse_text(text)


def parse_text_list(text: str) -> tuple[str, ...]:
    """Read a list with commas between its items; repeated items are dropped."""
    items = tuple(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
    if not items:
        raise ValueError("it is empty")
    return items


def parse_servers(text: str) -> tuple[str, ...]:
    """Read URLs of servers with commas between them. The error has no part of them."""
    urls = tuple(dict.fromkeys(split_urls(text)))
    if not urls:
        raise ValueError("it is empty")
    return urls


def parse_object_store(text: str) -> str:
    """Read the name of an object store."""
    return OBJECTS.stream_of(parse_text(text)).removeprefix(OBJECTS.stream_prefix)


def parse_bucket(text: str) -> str:
    """Read the name of a key-value bucket."""
    bucket = parse_text(text)
    KEY_VALUE.stream_of(bucket)
    return bucket


def parse_streams(text: str) -> tuple[str, ...]:
    """Read stream names with commas between them."""
    return tuple(check_stream_name(name) for name in parse_text_list(text))


def parse_subjects(text: str) -> tuple[str, ...]:
    """Read subject filters with commas between them."""
    return tuple(check_filter_subject(subject) for subject in parse_text_list(text))


def parse_boolean(text: str) -> bool:
    """Read `true` or `false`."""
    try:
        return _FLAGS[text.strip().lower()]
    except KeyError:
        raise ValueError("it must be true or false") from None


def parse_count(text: str) -> int:
    """Read a whole number, 1 or more."""
    count = parse_number(text.strip(), MAX_INT64)
    if not count:
        raise ValueError("it must be a whole number, 1 or more")
    return count


def parse_line_size(text: str) -> int:
    """Read the bytes of a control line."""
    if not text.strip().isdecimal() or len(text) > 9 or int(text) < MIN_CONTROL_LINE:
        raise ValueError(f"it must be a number of bytes, {MIN_CONTROL_LINE} or more")
    return int(text)


def parse_duration(text: str) -> float:
    """Read a duration such as `500ms`, `30s`, `2m`, or a number of milliseconds; returns seconds, more than 0."""
    match = _DURATION.fullmatch(text.strip().lower())
    seconds = float(match[1]) * _DURATION_UNITS[match[2] or "ms"] if match else 0.0
    if not 0 < seconds < _LONGEST_DURATION:
        raise ValueError("it must be a duration above 0, such as 500ms, 30s or 2m; a plain number is in milliseconds")
    return seconds


def parse_size(text: str) -> int:
    """Read a number of bytes such as `65536`, `512k`, `8m` or `1g` (powers of 1,024)."""
    match = _SIZE.fullmatch(text.strip().lower())
    size = (parse_number(match[1]) or 0) * _SIZE_UNITS[match[2]] if match else 0
    if not 0 < size <= MAX_INT64:
        raise ValueError("it must be a number of bytes above 0, such as 65536, 512k or 8m")
    return size


def parse_time(text: str) -> int:
    """Read milliseconds since 1970 or ISO 8601 text with a time zone; returns nanoseconds since 1970."""
    text = text.strip()
    if re.fullmatch(r"-?\d{1,13}", text, re.ASCII):
        return int(text) * 1_000_000
    try:
        return parse_rfc3339(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("it must be milliseconds since 1970, or a time such as 2026-03-01T12:00:00Z") from None
    try:
        return time_ns(moment)
    except ValueError:
        raise ValueError(f"it has no time zone; write {_with_zone(text)} or another offset") from None


def parse_times(text: str) -> dict[str, int]:
    """Read JSON that gives a time for each stream; returns nanoseconds since 1970."""
    times = {}
    for stream, value in _parse_object(text, '{"ORDERS": 1767225600000}').items():
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"the time of stream {stream} must be milliseconds since 1970 or ISO 8601 text")  # noqa: TRY004 - a bad value
        try:
            times[stream] = parse_time(str(value))
        except ValueError as error:
            raise ValueError(f"the time of stream {stream}: {error}") from None
    return times


def parse_offsets(text: str) -> Position | dict[str, Position]:
    """Read `earliest`, `latest`, or JSON that gives a sequence for each stream (-2 earliest, -1 latest)."""
    word = text.strip().lower()
    if word in {PositionKind.EARLIEST.value, PositionKind.LATEST.value}:
        return Position(PositionKind(word))
    return {stream: _parse_position(stream, value) for stream, value in _parse_object(text, '{"ORDERS": 17}').items()}


def with_minimum(least: N, parse: Callable[[str], N]) -> Callable[[str], N]:
    """Return a parser that refuses numbers below `least`."""

    def bounded(text: str) -> N:
        value = parse(text)
        if value < least:
            raise ValueError(f"it must be {least} or more")
        return value

    return bounded


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser for one of the given words; case does not matter."""
    known = {word.lower(): word for word in words}

    def choice(text: str) -> str:
        try:
            return known[text.strip().lower()]
        except KeyError:
            raise ValueError(f"it must be {' or '.join(words)}") from None

    return choice


def _parse_position(stream: str, value: object) -> Position:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"the position of stream {stream} must be a whole number")  # noqa: TRY004 - a bad value
    if value == _LATEST:
        return Position(PositionKind.LATEST)
    if value == _EARLIEST:
        return Position(PositionKind.EARLIEST)
    if not 1 <= value <= MAX_UINT64:
        raise ValueError(f"the position of stream {stream} is {value}; sequences start at 1 (-2 earliest, -1 latest)")
    return Position(PositionKind.SEQUENCE, value)


def _parse_object(text: str, example: str) -> dict[str, object]:
    try:
        value = decode_json(_decoder, text)
    except msgspec.DecodeError:
        value = None
    if not isinstance(value, dict) or not value:
        raise ValueError(f"it must be JSON with the streams' names as keys, such as {example}")
    return {check_stream_name(name): item for name, item in value.items()}


def _with_zone(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        return f"{text}Z"
    return f"{text}T00:00:00Z"
