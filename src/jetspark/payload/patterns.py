"""Patterns of dates and times with the letters of Java, as Spark reads texts by them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Final, TypeAlias

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.time_zones import time_zone
from jetspark.payload.timestamps import days_of, micros_of

__all__ = ["TimePattern"]

_Fields: TypeAlias = dict[str, int | str]
_Parser: TypeAlias = Callable[[str, int, _Fields], int]
"""Reads a part of a text from a position and sets fields: returns the position after it, or -1."""

_FIELDS: Final = {
    "y": "year", "M": "month", "L": "month", "d": "day", "D": "day of year", "H": "hour", "k": "hour from 1",
    "K": "half-day hour", "h": "half-day hour from 1", "m": "minute", "s": "second",
}  # fmt: skip
_LONGEST_RUNS: Final = {
    "y": 6,
    "M": 4,
    "L": 4,
    "d": 2,
    "D": 3,
    "H": 2,
    "k": 2,
    "K": 2,
    "h": 2,
    "m": 2,
    "s": 2,
    "a": 1,
    "S": 9,
    "X": 5,
    "x": 5,
    "Z": 5,
}
_RANGES: Final = {
    "hour": range(24), "hour from 1": range(1, 25), "half-day hour": range(12), "half-day hour from 1": range(1, 13),
    "minute": range(60), "second": range(60),
}  # fmt: skip
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_HM, _SS = r"[0-5][0-9]", r"[0-5][0-9]"
_OFFSETS: Final = {
    1: r"([+-])(HM)(HM)?()", 2: r"([+-])(HM)(HM)()", 3: r"([+-])(HM):(HM)()", 4: r"([+-])(HM)(HM)(HM)?",
    5: r"([+-])(HM):(HM)(?::(HM))?",
}  # fmt: skip
_GMT_SHORT: Final = r"GMT(?:([+-])([0-9]{1,2})(?::(HM)(?::(HM))?)?)?"
_GMT_LONG: Final = r"GMT(?:([+-])(HM):(HM)(?::(HM))?)?"
_ZONE: Final = re.compile(r"(?:UTC|GMT|UT)?[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?|[A-Za-z][A-Za-z0-9~/._-]*")
_LONGEST_OFFSET: Final = 18 * 3600
_YEAR_DIGITS: Final = 19


@dataclass
class _Number:
    """A number of a field; `following` is the width of the numbers that follow without a space."""

    field: str
    low: int
    high: int
    signed: bool = False
    following: int = 0

    def __call__(self, text: str, position: int, fields: _Fields) -> int:
        sign = text[position : position + 1]
        if sign in ("+", "-") and sign:
            if not self.signed or (sign == "+" and self.low < 4):
                return -1
            position += 1
        digits = _digits(text, position, self.high + self.following)
        if self.following:
            digits = digits[: max(self.low, len(digits) - self.following)]
        if len(digits) < self.low or len(digits) > _YEAR_DIGITS:
            return -1
        value = int(digits)
        if sign == "-":
            if not value:
                return -1
            value = -value
        elif self.signed and self.low >= 4 and (len(digits) > self.low) != (sign == "+"):
            return -1
        if self.field == "year of 2000":
            return _set(fields, "year", 2000 + value, position + len(digits))
        return _set(fields, self.field, value, position + len(digits))


@dataclass
class _Sequence:
    """Parts of a pattern, one after the other."""

    parts: list[_Parser] = field(default_factory=list)
    number: _Number | None = None
    """The last number, if nothing follows it yet but numbers of a fixed width."""

    def add(self, part: _Parser) -> None:
        self.parts.append(part)
        self.number = None

    def add_number(self, part: _Number) -> None:
        self.parts.append(part)
        if self.number is not None and part.low == part.high and not part.signed:
            self.number.following += part.high
        else:
            if self.number is not None:
                self.number.following = 0
            self.number = part

    def __call__(self, text: str, position: int, fields: _Fields) -> int:
        for part in self.parts:
            position = part(text, position, fields)
            if position < 0:
                return -1
        return position


def _digits(text: str, position: int, longest: int) -> str:
    end = position
    while end - position < longest and "0" <= text[end : end + 1] <= "9":
        end += 1
    return text[position:end]


def _set(fields: _Fields, name: str, value: int | str, position: int) -> int:
    return position if fields.setdefault(name, value) == value else -1


def _optional(inner: _Sequence) -> _Parser:
    def parse(text: str, position: int, fields: _Fields) -> int:
        attempt = dict(fields)
        end = inner(text, position, attempt)
        if end < 0:
            return position
        fields.update(attempt)
        return end

    return parse


def _literal(wanted: str) -> _Parser:
    folded = wanted.lower()

    def parse(text: str, position: int, _fields: _Fields) -> int:
        end = position + len(wanted)
        return end if text[position:end].lower() == folded else -1

    return parse


def _words(name: str, words: list[str], first: int) -> _Parser:
    lowered = [word.lower() for word in words]

    def parse(text: str, position: int, fields: _Fields) -> int:
        for value, word in enumerate(lowered, first):
            if text[position : position + len(word)].lower() == word:
                return _set(fields, name, value, position + len(word))
        return -1

    return parse


def _fraction(longest: int) -> _Parser:
    def parse(text: str, position: int, fields: _Fields) -> int:
        digits = _digits(text, position, longest)
        return _set(fields, "nanosecond", int(digits.ljust(9, "0")), position + len(digits)) if digits else -1

    return parse


def _offset(form: str, none: str) -> _Parser:
    expression = re.compile(form.replace("HM", _HM), re.IGNORECASE)

    def parse(text: str, position: int, fields: _Fields) -> int:
        if none and text[position : position + len(none)].upper() == none:
            return _set(fields, "offset", 0, position + len(none))
        match = expression.match(text, position)
        if match is None:
            return -1
        hours, minutes, seconds = (int(match[group] or 0) for group in (2, 3, 4))
        total = hours * 3600 + minutes * 60 + seconds
        return _set(fields, "offset", -total if match[1] == "-" else total, match.end())

    return parse


def _zone(text: str, position: int, fields: _Fields) -> int:
    match = _ZONE.match(text, position)
    if match is None or (len(match[0]) == 3 and match[0] not in ("UTC", "GMT", "CET", "EET", "MET", "WET")):
        return -1
    try:
        time_zone(match[0])
    except ValueError:
        return -1
    return _set(fields, "zone", match[0], match.end())


class TimePattern:
    """A pattern of a date, a time or both. It is picklable.

    Parameters
    ----------
    pattern
        Letters of Java's DateTimeFormatter: y M L d D H k K h m s S a X x Z O VV, text in quotes, optional parts in
        brackets. A field that the pattern lacks is that of 1970-01-01 00:00.

    Raises
    ------
    ConfigError
        The pattern has another letter, or a letter too often.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._parse = _compile(pattern)

    def __reduce__(self) -> tuple[type[TimePattern], tuple[str]]:
        """Pickle the pattern."""
        return TimePattern, (self._pattern,)

    def date(self, text: str) -> int | None:
        """Return the days from 1970-01-01 to the date of a text; None if it does not match."""
        fields = self._fields(text)
        days = None if fields is None else _date(fields)
        return days if days is not None and -(2**31) <= days < 2**31 else None

    def timestamp(self, text: str, zone: tzinfo | None) -> int | None:
        """Return the microseconds since 1970-01-01 of a text; None if it does not match.

        Parameters
        ----------
        zone
            The zone of texts that name none. None: a timestamp without a time zone, whose text must not name one.
        """
        fields = self._fields(text)
        if fields is None:
            return None
        days, seconds = _date(fields), _seconds(fields)
        if days is None or seconds is None:
            return None
        named = fields.get("zone")
        offset = _int(fields, "offset")
        if zone is None:
            if named is not None or offset is not None:
                return None
            zone = UTC
        elif isinstance(named, str):
            zone = time_zone(named)
        elif offset is not None:
            zone = timezone(timedelta(seconds=offset))
        return micros_of(days, seconds, (_int(fields, "nanosecond") or 0) // 1000, zone)

    def _fields(self, text: str) -> _Fields | None:
        """Return the fields of a text, each in its range."""
        fields: _Fields = {}
        if self._parse(text, 0, fields) != len(text):
            return None
        if any(_int(fields, name) not in allowed for name, allowed in _RANGES.items() if name in fields):
            return None
        return fields if abs(_int(fields, "offset") or 0) <= _LONGEST_OFFSET else None


def _int(fields: _Fields, name: str) -> int | None:
    value = fields.get(name)
    return value if isinstance(value, int) else None


def _date(fields: _Fields) -> int | None:
    year = _int(fields, "year")
    year = 1970 if year is None else year
    month, day, day_of_year = (_int(fields, name) for name in ("month", "day", "day of year"))
    if day_of_year is None:
        return days_of(year, 1 if month is None else month, 1 if day is None else day)
    start, end = days_of(year, 1, 1), days_of(year + 1, 1, 1)
    assert start is not None
    assert end is not None
    days = start + day_of_year - 1
    if not start <= days < end:
        return None
    for named in range(1, 13):
        first = days_of(year, named, 1)
        assert first is not None
        matches = month in (None, named) and day in (None, days - first + 1)
        if matches and days_of(year, named, days - first + 1) == days:
            return days
    return None


def _seconds(fields: _Fields) -> int | None:
    """Return the second of the day; None for fields that contradict each other."""
    hour, half, part = _int(fields, "hour"), _int(fields, "half-day hour"), _int(fields, "half of the day")
    from_1, half_from_1 = _int(fields, "hour from 1"), _int(fields, "half-day hour from 1")
    hours = {value for value in (hour, None if from_1 is None else from_1 % 24) if value is not None}
    halves = {value for value in (half, None if half_from_1 is None else half_from_1 % 12) if value is not None}
    if len(halves) > 1:
        return None
    if halves and part is not None:
        hours |= {part * 12 + value for value in halves}
    if len(hours) > 1:
        return None
    if not hours:
        hours = halves or {12 * (part or 0)}
    elif any(value != hour_ % 12 for hour_ in hours for value in halves):
        return None
    (found,) = hours
    if part is not None and not halves and found // 12 != part:
        return None
    return found * 3600 + (_int(fields, "minute") or 0) * 60 + (_int(fields, "second") or 0)


def _compile(pattern: str) -> _Sequence:
    sequences = [_Sequence()]
    position = 0
    while position < len(pattern):
        char = pattern[position]
        end = position + 1
        if char.isascii() and char.isalpha():
            while pattern[end : end + 1] == char:
                end += 1
            _add_letters(sequences[-1], char, end - position, pattern)
        elif char == "'":
            while True:
                end = pattern.find("'", end) + 1
                if not end:
                    raise ConfigError(f"pattern {pattern!r} has a quote that does not end")
                if pattern[end : end + 1] != "'":
                    break
                end += 1
            sequences[-1].add(_literal(pattern[position + 1 : end - 1].replace("''", "'") or "'"))
        elif char == "[":
            sequences.append(_Sequence())
        elif char == "]":
            if len(sequences) == 1:
                raise ConfigError(f"pattern {pattern!r} has ] without [")
            inner = sequences.pop()
            sequences[-1].add(_optional(inner))
        elif char in "{}#":
            raise ConfigError(f"pattern {pattern!r} has {char}, which needs quotes")
        else:
            sequences[-1].add(_literal(char))
        position = end
    while len(sequences) > 1:
        inner = sequences.pop()
        sequences[-1].add(_optional(inner))
    return sequences[0]


def _add_letters(sequence: _Sequence, letter: str, count: int, pattern: str) -> None:
    if letter == "V" and count == 2:
        sequence.add(_zone)
    elif letter == "O" and count in (1, 4):
        sequence.add(_offset(_GMT_SHORT if count == 1 else _GMT_LONG, ""))
    elif letter not in _LONGEST_RUNS:
        letters = " ".join([*_LONGEST_RUNS, "O", "VV"])
        raise ConfigError(f"pattern {pattern!r} has the letter {letter}; supported are {letters}")
    elif count > _LONGEST_RUNS[letter]:
        raise ConfigError(
            f"pattern {pattern!r} has {count} times the letter {letter}; the most is {_LONGEST_RUNS[letter]}"
        )
    elif letter in "ML" and count >= 3:
        sequence.add(_words("month", [month if count == 4 else month[:3] for month in _MONTHS], 1))
    elif letter == "a":
        sequence.add(_words("half of the day", ["AM", "PM"], 0))
    elif letter == "S":
        sequence.add(_fraction(count))
    elif letter == "Z" and count == 4:
        sequence.add(_offset(_GMT_LONG, ""))
    elif letter in "XxZ":
        form = {"X": count, "x": count, "Z": 5 if count == 5 else 2}[letter]
        zero = {1: "+00", 2: "+0000", 3: "+00:00", 4: "+0000", 5: "+00:00"}[form]
        sequence.add(_offset(_OFFSETS[form], "Z" if letter == "X" or (count == 5 and letter == "Z") else zero))
    else:
        sequence.add_number(_number(letter, count))


def _number(letter: str, count: int) -> _Number:
    name = _FIELDS[letter]
    if letter == "y":
        return _Number("year of 2000", 2, 2) if count == 2 else _Number(name, count, _YEAR_DIGITS, signed=True)
    if letter == "D":
        return _Number(name, count, _YEAR_DIGITS, signed=True) if count == 1 else _Number(name, count, 3)
    return _Number(name, 1, _YEAR_DIGITS, signed=True) if count == 1 else _Number(name, 2, 2)
