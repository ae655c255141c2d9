"""Dates and timestamps as text, in the forms of Spark's cast: the default of columns without a pattern."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from typing import Final

from jetspark.payload.time_zones import offset_seconds, time_zone

__all__ = ["days_of", "micros_of", "parse_date", "parse_day_number", "parse_timestamp"]

_TRIMMED: Final = "".join(map(chr, [*range(33), 127]))
_DATE: Final = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP: Final = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?)?)?)?",
    re.DOTALL,
)
_INTEGER: Final = re.compile(r"[+-]?\d{1,30}")
_DAYS_OF_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LAST_JULIAN_DAY: Final = -141_428
_SPACES: Final = "".join(map(chr, range(33)))


def days_of(year: int, month: int, day: int) -> int | None:
    """Return the days from 1970-01-01 to a date of the Gregorian calendar; None if there is no such date."""
    if not (1 <= month <= 12 and 1 <= day <= _DAYS_OF_MONTHS[month - 1]):
        return None
    if month == 2 and day == 29 and (year % 4 != 0 or (year % 100 == 0 and year % 400 != 0)):
        return None
    # The year starts in March here, so that a leap day is its last one.
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return year * 365 + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719_469


def micros_of(days: int, seconds: int, micros: int, zone: tzinfo) -> int | None:
    """Return the microseconds from 1970-01-01 UTC to a local time; None if 64 bits are too few.

    Parameters
    ----------
    days
        Local date in days since 1970-01-01.
    seconds, micros
        Time of the day.
    zone
        From `time_zone`.
    """
    total = (days * 86_400 + seconds - offset_seconds(zone, days, seconds)) * 1_000_000 + micros
    return total if -(2**63) <= total < 2**63 else None


def parse_date(text: str) -> int | None:
    """Return the days since 1970-01-01 of a date, also if a time follows; None if there is none in 32 bits."""
    match = _DATE.fullmatch(text.strip(_TRIMMED))
    days = None if match is None else days_of(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    return None if days is None or not -(2**31) <= days < 2**31 else days


def parse_day_number(text: str) -> int | None:
    """Return the days since 1970-01-01 of a text that is this number.

    Days before 1582-10-15 count in the Julian calendar; the result is the same date in the Gregorian one.
    """
    match = _INTEGER.fullmatch(text)
    days = 2**31 if match is None or max(text) > "\uffff" else int(text)
    if not -(2**31) <= days < 2**31:
        return None
    if days > _LAST_JULIAN_DAY:
        return days
    year = (4 * (days + 719_470) + 3) // 1461  # from March
    return days + year // 400 - year // 100 + 2


def parse_timestamp(text: str, zone: tzinfo | None) -> int | None:
    """Return the microseconds since 1970-01-01 of a timestamp; None if the text is none.

    A time without a date is none: Spark takes the date of the day on which the query runs.

    Parameters
    ----------
    zone
        The zone of texts that name none. None: a timestamp without a time zone, whose text must not name one.
    """
    match = _TIMESTAMP.fullmatch(text.strip(_TRIMMED))
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone_name = match.groups()
    days = days_of(int(year), int(month or 1), int(day or 1))
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    if zone_name is not None:
        if zone is None:
            return None
        try:
            zone = time_zone(zone_name.strip(_SPACES))
        except ValueError:
            return None
    micros = int((fraction or "")[:6].ljust(6, "0"))
    return micros_of(days, hours * 3600 + minutes * 60 + seconds, micros, zone or UTC)
