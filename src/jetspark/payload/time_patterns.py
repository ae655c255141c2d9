"""Dates and times as text, by patterns of Java's DateTimeFormatter; whole columns at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.time_zones import time_zone
from jetspark.payload.value_texts import date_texts, iso_offset, local_times, offset_texts, timestamp_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jetspark.payload.options import FormatOptions

__all__ = ["TimeTexts"]

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")
_QUARTERS: Final = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_DATE: Final = {"y": 6, "M": 4, "L": 4, "d": 2, "D": 3, "E": 4, "Q": 4, "q": 4}
_TIME: Final = {"H": 2, "h": 2, "K": 2, "k": 2, "m": 2, "s": 2, "S": 9, "a": 1}
_OFFSET: Final = {"X": 5, "x": 5, "Z": 5, "O": 4}
_ALL: Final = {**_DATE, **_TIME, **_OFFSET}
"""Letters of patterns, and how often each may be repeated."""
_MAX_PATTERN: Final = 1000


@dataclass(frozen=True)
class _Part:
    """A run of one letter, or a text."""

    letter: str
    count: int = 1
    text: str = ""


@dataclass(frozen=True)
class TimeTexts:
    """Prints dates and timestamps by the options of a format, in Spark's default patterns or in given ones.

    Raises
    ------
    ConfigError
        A pattern has a letter that is not supported, or that the values do not have.
    """

    zone: tzinfo
    dates: tuple[_Part, ...]
    instants: tuple[_Part, ...]
    local: tuple[_Part, ...]

    @classmethod
    def of(cls, options: FormatOptions) -> TimeTexts:
        """Return the printer for the options of a format."""

        def parts(name: str, *letters: Mapping[str, int]) -> tuple[_Part, ...]:
            return tuple(_parse(name, options.get(name, str), {letter for some in letters for letter in some}))

        return cls(
            time_zone(options.get("timeZone", str)),
            parts("dateFormat", _DATE),
            parts("timestampFormat", _DATE, _TIME, _OFFSET),
            parts("timestampNTZFormat", _DATE, _TIME),
        )

    def date(self, column: pa.Date32Array) -> pa.StringArray:
        """Return dates as text."""
        if not self.dates:
            return date_texts(column)
        return _printed(column.cast(pa.timestamp("s")).cast(pa.timestamp("us")), None, self.dates)

    def timestamp(self, column: pa.TimestampArray) -> pa.StringArray:
        """Return timestamps, with or without time zone, as text."""
        parts = self.local if column.type.tz is None else self.instants
        if not parts:
            return timestamp_texts(column, self.zone)
        return _printed(*local_times(column, self.zone), parts)


def _parse(name: str, pattern: str, letters: Collection[str]) -> list[_Part]:
    """Return the parts of a pattern, without optional parts that the values cannot fill."""
    where = f"option {name} is {pattern[:100]!r}"
    parts: list[_Part] = []
    optional: list[int] = []  # where the open optional parts begin
    missing: list[bool] = []
    at = 0
    while at < len(pattern):
        match = _TOKEN.match(pattern, at)
        if match is None or len(pattern) > _MAX_PATTERN:
            raise ConfigError(f"{where}: this is no pattern")
        at = match.end()
        letter, sign = match[2], match[3]
        if letter is not None:
            if _ALL.get(letter, 0) < len(match[0]) or (letter == "O" and len(match[0]) in {2, 3}):
                raise ConfigError(f"{where}: a write does not support {match[0][:10]}")
            if letter in letters:
                parts.append(_Part(letter, len(match[0])))
            elif optional:
                missing[-1] = True
            else:
                raise ConfigError(f"{where}: {match[0]} is nothing that the values have")
        elif sign == "[":
            optional.append(len(parts))
            missing.append(False)
        elif sign == "]" and optional:
            begin = optional.pop()
            if missing.pop():
                del parts[begin:]
        elif sign is not None and sign in "]{}#":
            raise ConfigError(f"{where}: {sign} is reserved; put it in single quotes")
        else:
            parts.append(_Part("", text=sign or match[1].replace("''", "'") or "'"))
    return parts


def _printed(local: pa.TimestampArray, offsets: NDArray[np.int64] | None, parts: tuple[_Part, ...]) -> pa.StringArray:
    texts = [part.text or _PRINTERS[part.letter](local, offsets, part) for part in parts]
    empty = pc.if_else(pc.is_valid(local), "", pa.scalar(None, pa.string()))  # a pattern may have texts only
    return pc.binary_join_element_wise(empty, *texts, "")


_Printer = Callable[[pa.TimestampArray, "NDArray[np.int64] | None", _Part], pa.StringArray]


def _number(
    count: Callable[[pa.TimestampArray], pa.Int64Array], local: pa.TimestampArray, _: object, part: _Part
) -> pa.StringArray:
    return _padded(count(local), part.count)


def _padded(numbers: pa.Array, width: int) -> pa.StringArray:
    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")


def _year(local: pa.TimestampArray, _: object, part: _Part) -> pa.StringArray:
    years = pc.year(local)
    if part.count == 2:
        return pc.utf8_slice_codeunits(_padded(pc.abs(years), 4), -2, None)
    texts = _padded(pc.abs(years), part.count)
    texts = pc.if_else(pc.less(years, 0), pc.binary_join_element_wise("-", texts, ""), texts)
    too_long = pc.greater_equal(years, 10**part.count) if part.count > 3 else False
    return pc.if_else(too_long, pc.binary_join_element_wise("+", texts, ""), texts)


def _name(
    number: Callable[[pa.TimestampArray], pa.Int64Array],
    names: tuple[str, ...],
    shortest: int,
    local: pa.TimestampArray,
    _: object,
    part: _Part,
) -> pa.StringArray:
    if part.count < shortest:
        return _padded(pc.add(number(local), 1), part.count)
    return pa.array([name if part.count > 3 else name[:3] for name in names]).take(number(local))


def _quarter(local: pa.TimestampArray, _: object, part: _Part) -> pa.StringArray:
    if part.count < 3:
        return _padded(pc.quarter(local), part.count)
    names = ("Q1", "Q2", "Q3", "Q4") if part.count == 3 else _QUARTERS
    return pa.array(names).take(pc.subtract(pc.quarter(local), 1))


def _fraction(local: pa.TimestampArray, _: object, part: _Part) -> pa.StringArray:
    digits = _padded(pc.add(pc.multiply(pc.millisecond(local), 1000), pc.microsecond(local)), 6)
    return pc.utf8_slice_codeunits(pc.binary_join_element_wise(digits, "000", ""), 0, part.count)


def _half_day(local: pa.TimestampArray, _: object, __: object) -> pa.StringArray:
    return pc.if_else(pc.less(pc.hour(local), 12), "AM", "PM")


def _offset(_: object, offsets: NDArray[np.int64] | None, part: _Part) -> pa.StringArray:
    assert offsets is not None
    return offset_texts(offsets, partial(_offset_text, part.letter, part.count))


def _offset_text(letter: str, count: int, offset: int) -> str:
    """Return an offset as Java prints it by X, x, Z or O."""
    text = iso_offset(offset).replace("Z", "+00:00")
    seconds = text[6:]
    zero = offset == 0 or (count < 4 and text[1:6] == "00:00")
    if letter == "O" or (letter == "Z" and count == 4):
        if letter == "O" and count == 1:
            hours = f"{text[0]}{int(text[1:3])}"
            text = hours if text[3:] == ":00" else f"{hours}{text[3:]}"
        return "GMT" if zero else f"GMT{text}"
    if zero and (letter == "X" or (letter == "Z" and count == 5)):
        return "Z"
    if letter == "Z":
        return text if count == 5 else text[:6].replace(":", "")
    if count in {1, 2, 4}:
        text, seconds = text[:6].replace(":", ""), seconds.replace(":", "")
    if count == 1 and text.endswith("00"):
        return text[:3]
    return text[:6] if count == 3 else text[:5] + seconds if count == 4 else text


def _twelve(base: int, local: pa.TimestampArray) -> pa.Array:
    hours = np.asarray(pc.fill_null(pc.hour(local), 0))
    return pa.array((hours - base) % 12 + base)


_PRINTERS: Final[dict[str, _Printer]] = {
    "y": _year,
    "M": partial(_name, lambda local: pc.subtract(pc.month(local), 1), _MONTHS, 3),
    "L": partial(_name, lambda local: pc.subtract(pc.month(local), 1), _MONTHS, 3),
    "d": partial(_number, pc.day),
    "D": partial(_number, pc.day_of_year),
    "E": partial(_name, pc.day_of_week, _DAYS, 0),
    "Q": _quarter,
    "q": _quarter,
    "H": partial(_number, pc.hour),
    "k": partial(_number, lambda local: pc.if_else(pc.equal(pc.hour(local), 0), 24, pc.hour(local))),
    "K": partial(_number, partial(_twelve, 0)),
    "h": partial(_number, partial(_twelve, 1)),
    "m": partial(_number, pc.minute),
    "s": partial(_number, pc.second),
    "S": _fraction,
    "a": _half_day,
    "X": _offset,
    "x": _offset,
    "Z": _offset,
    "O": _offset,
}
