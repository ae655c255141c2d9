"""Time zones by the names that Java takes, and the instant of a local time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["offset_seconds", "time_zone"]

# Java's ZoneId.SHORT_IDS, which Spark takes, too.
_SHORT: Final = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
_ONE_DIGIT_HOUR: Final = re.compile(r"([+-])(\d):")
_ONE_DIGIT_MINUTE: Final = re.compile(r"([+-])(\d\d):(\d)$")
_OFFSET: Final = re.compile(r"([+-])(\d\d?)(?:(\d\d)(?:(\d\d))?|:(\d\d)(?::(\d\d))?)?", re.ASCII)
_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_LONGEST: Final = 18 * 3600
_DAYS_OF_400_YEARS: Final = 146_097


@lru_cache(maxsize=1000)
def time_zone(name: str) -> tzinfo:
    """Return the zone of a name: a region, `Z`, an offset (also after UTC, GMT or UT), or one of Java's short ids.

    Raises ValueError if there is none.
    """
    text = _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", name, count=1)
    text = _ONE_DIGIT_MINUTE.sub(r"\1\2:0\3", text, count=1)
    text = _SHORT.get(text, text)
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    offset = text
    for prefix in ("UTC", "GMT", "UT"):
        if text.startswith(prefix) and text[len(prefix) : len(prefix) + 1] in ("+", "-"):
            offset = text[len(prefix) :]
            break
    if offset[:1] in ("+", "-"):
        return _fixed(offset, name)
    if not _REGION.fullmatch(text) or text.startswith(("posix/", "right/")) or text in ("posixrules", "localtime"):
        raise ValueError("there is no such time zone")
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError("there is no such time zone") from None


def _fixed(offset: str, name: str) -> tzinfo:
    match = _OFFSET.fullmatch(offset)
    if match is None or (len(match[2]) == 1 and len(offset) > 2):
        raise ValueError(f"{name[:50]!r} is no offset of a time zone")
    hours, minutes, seconds = int(match[2]), int(match[3] or match[5] or 0), int(match[4] or match[6] or 0)
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _LONGEST:
        raise ValueError(f"{name[:50]!r} is no offset of a time zone")
    return timezone(timedelta(seconds=-total if match[1] == "-" else total))


def offset_seconds(zone: tzinfo, days: int, seconds: int) -> int:
    """Return the offset of a zone from UTC at a local time, in seconds.

    In a gap and in an overlap of local times it is the offset before the change, as in Java.

    Parameters
    ----------
    zone
        From `time_zone`.
    days
        Local date in days since 1970-01-01; it may be outside of the years 1 to 9999.
    seconds
        Seconds of the day.
    """
    if isinstance(zone, timezone):
        offset = zone.utcoffset(None)
    else:
        # Python knows the years 1 to 9999; the rules of a zone repeat after 400 years.
        if days > 2_800_000:
            days = 2_800_000 - _DAYS_OF_400_YEARS + (days - 2_800_000) % _DAYS_OF_400_YEARS
        local = datetime(1970, 1, 1) + timedelta(max(days, -719_000), seconds)  # noqa: DTZ001 - a local time
        found = zone.utcoffset(local)
        assert found is not None
        offset = found
    return offset.days * 86_400 + offset.seconds
