"""Times and durations of JetStream, exact to the nanosecond.

In JSON, times are RFC 3339 text with up to nine fraction digits, and durations are integer nanoseconds (ADR-1).
Python's `datetime` and `timedelta` have microseconds only. `Timestamp` and `Duration` are subclasses that also keep the
last three digits, so that a value read from the server can be written back unchanged. No float is used.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from jetspark.wire.untrusted import quote

if TYPE_CHECKING:
    from typing import SupportsIndex

__all__ = [
    "Duration",
    "DurationField",
    "Timestamp",
    "TimestampField",
    "datetime_from_ns",
    "duration_ns",
    "format_go_duration",
    "format_rfc3339",
    "parse_go_duration",
    "parse_rfc3339",
    "time_ns",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL: Final = _EPOCH.toordinal()
_INT64_MAX: Final = 2**63 - 1
_SECOND: Final = 1_000_000_000
_FIRST_SECOND: Final = (date.min.toordinal() - _EPOCH_ORDINAL) * 86_400
_LAST_SECOND: Final = (date.max.toordinal() + 1 - _EPOCH_ORDINAL) * 86_400 - 1
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    r"(?:[Zz]| ?([+-])(\d\d):?(\d\d)(?: [A-Z]{1,5})?)",
    re.ASCII,
)


class Duration(timedelta):
    """A `timedelta` that also keeps the nanoseconds below one microsecond.

    It equals a plain `timedelta` if these are zero. Arithmetic returns plain timedeltas; use `ns` for exact sums.
    """

    _nanosecond: int = 0

    @classmethod
    def from_ns(cls, ns: int) -> Self:
        """Return the duration of `ns` nanoseconds. Raises ValueError if a `timedelta` cannot be so long."""
        micros, below = divmod(ns, 1000)
        try:
            self = cls(microseconds=micros)
        except OverflowError:
            raise ValueError(f"a duration of {ns} ns is out of range") from None
        self._nanosecond = below
        return self

    @property
    def ns(self) -> int:
        """Whole length in nanoseconds."""
        return _timedelta_ns(self) + self._nanosecond

    @property
    def nanosecond(self) -> int:
        """The digits below the microsecond, 0 to 999, added to the microseconds also in a negative duration."""
        return self._nanosecond

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, timedelta):
            return NotImplemented
        return super().__eq__(other) and self._nanosecond == _duration_below(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((super().__hash__(), self._nanosecond)) if self._nanosecond else super().__hash__()

    def __lt__(self, other: timedelta) -> bool:
        if not isinstance(other, timedelta):
            return NotImplemented
        return duration_ns(self) < duration_ns(other)

    def __le__(self, other: timedelta) -> bool:
        if not isinstance(other, timedelta):
            return NotImplemented
        return duration_ns(self) <= duration_ns(other)

    def __gt__(self, other: timedelta) -> bool:
        if not isinstance(other, timedelta):
            return NotImplemented
        return duration_ns(self) > duration_ns(other)

    def __ge__(self, other: timedelta) -> bool:
        if not isinstance(other, timedelta):
            return NotImplemented
        return duration_ns(self) >= duration_ns(other)

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return type(self).from_ns, (self.ns,)

    def __repr__(self) -> str:
        return f"Duration({format_go_duration(self)!r})"


class Timestamp(datetime):
    """A `datetime` that also keeps the nanoseconds below one microsecond.

    Times from the server are read as UTC. It equals a plain aware `datetime` if these nanoseconds are zero.
    `astimezone` keeps them; arithmetic and `replace` drop them: use `ns` for exact sums.
    """

    _nanosecond: int = 0

    @classmethod
    def from_ns(cls, ns: int) -> Self:
        """Return the UTC time `ns` nanoseconds after 1970-01-01T00:00:00Z."""
        return cls.of(datetime_from_ns(ns), ns % 1000)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read RFC 3339 text, any zone. Raises ValueError for other text."""
        if text[-1:] != "Z":
            return cls.from_ns(parse_rfc3339(text))
        # The form that the server sends. One pass over the text, as times are most of the work of reading an info.
        moment, below = _split(_match(text))
        self = cls(*moment, below // 1000, UTC)
        self._nanosecond = below % 1000
        return self

    @classmethod
    def of(cls, moment: datetime, nanosecond: int = 0) -> Self:
        """Return `moment` in its own zone, plus `nanosecond` (0 to 999) nanoseconds."""
        self = cls(
            moment.year,
            moment.month,
            moment.day,
            moment.hour,
            moment.minute,
            moment.second,
            moment.microsecond,
            moment.tzinfo,
            fold=moment.fold,
        )
        self._nanosecond = nanosecond
        return self

    @property
    def ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00:00Z (negative before it)."""
        return _datetime_ns(self) + self._nanosecond

    @property
    def nanosecond(self) -> int:
        """The digits below the microsecond, 0 to 999."""
        return self._nanosecond

    def rfc3339(self) -> str:
        """Return the exact RFC 3339 text, in UTC, as the server writes it."""
        return format_rfc3339(self.ns)

    def astimezone(self, tz: tzinfo | None = None) -> Self:
        """Return the same time in another zone, with its nanoseconds."""
        return self.of(_plain(self).astimezone(tz), self._nanosecond)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, datetime):
            return NotImplemented
        return super().__eq__(other) and self._nanosecond == _time_below(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((super().__hash__(), self._nanosecond)) if self._nanosecond else super().__hash__()

    def __lt__(self, other: date) -> bool:
        if not isinstance(other, datetime):
            raise _no_order(self, other)
        return super().__lt__(other) or (super().__eq__(other) and self._nanosecond < _time_below(other))

    def __le__(self, other: date) -> bool:
        if not isinstance(other, datetime):
            raise _no_order(self, other)
        return super().__lt__(other) or (super().__eq__(other) and self._nanosecond <= _time_below(other))

    def __gt__(self, other: date) -> bool:
        if not isinstance(other, datetime):
            raise _no_order(self, other)
        return super().__gt__(other) or (super().__eq__(other) and self._nanosecond > _time_below(other))

    def __ge__(self, other: date) -> bool:
        if not isinstance(other, datetime):
            raise _no_order(self, other)
        return super().__gt__(other) or (super().__eq__(other) and self._nanosecond >= _time_below(other))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, tuple[datetime, int]]:
        return type(self).of, (_plain(self), self._nanosecond)

    def __repr__(self) -> str:
        return f"Timestamp({self.rfc3339()!r})"


# Fields of structs are decoded into the exact types; a program may set them to the plain types.
if TYPE_CHECKING:
    DurationField: TypeAlias = timedelta
    """A duration in a struct; values from the server are `Duration`."""
    TimestampField: TypeAlias = datetime
    """A time in a struct; values from the server are `Timestamp`."""
else:
    DurationField = Duration
    TimestampField = Timestamp


def duration_ns(duration: timedelta) -> int:
    """Return a duration in nanoseconds, exactly.

    Raises ValueError if it does not fit the server's 64-bit integer (292 years).
    """
    ns = _timedelta_ns(duration) + _duration_below(duration)
    if not -_INT64_MAX <= ns <= _INT64_MAX:
        raise ValueError(f"duration {timedelta.__repr__(duration)} exceeds 292 years, the maximum of the server")
    return ns


def time_ns(moment: datetime) -> int:
    """Return an aware datetime as nanoseconds since 1970 UTC, exactly.

    Raises ValueError for a naive datetime: its meaning would depend on the machine's time zone.
    """
    if moment.utcoffset() is None:
        raise ValueError(f"datetime {moment.isoformat()} has no time zone; add tzinfo=timezone.utc or another one")
    return _datetime_ns(moment) + _time_below(moment)


def datetime_from_ns(ns: int) -> datetime:
    """Return nanoseconds since 1970 as a UTC `datetime`; digits below one microsecond are dropped, not rounded.

    Raises ValueError outside the years 1 to 9999.
    """
    try:
        return _EPOCH + timedelta(microseconds=ns // 1000)
    except OverflowError:
        raise ValueError(f"time {ns} ns is outside the years 1 to 9999") from None


def parse_rfc3339(text: str) -> int:
    """Read RFC 3339 text, any zone, up to nine fraction digits, as nanoseconds since 1970.

    It also reads Go's form `2006-01-02 15:04:05.9 +0000 UTC`, which older servers write in headers (ADR-31).
    Raises ValueError for other text.
    """
    match = _match(text)
    (year, month, day, hour, minute, second), below = _split(match)
    days = datetime(year, month, day, hour, minute, second, tzinfo=UTC).toordinal() - _EPOCH_ORDINAL
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    sign, zone_hours, zone_minutes = match.group(8, 9, 10)
    if sign is not None:
        offset = int(zone_hours) * 3600 + int(zone_minutes) * 60
        seconds += offset if sign == "-" else -offset
        if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
            raise ValueError(f"a time outside the years 1 to 9999: {quote(text)}")
    return seconds * _SECOND + below


def _match(text: str) -> re.Match[str]:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"not an RFC 3339 time: {quote(text)}")
    return match


def _split(match: re.Match[str]) -> tuple[tuple[int, int, int, int, int, int], int]:
    year, month, day, hour, minute, second, fraction = match.group(1, 2, 3, 4, 5, 6, 7)
    below = int(fraction.ljust(9, "0")) if fraction else 0
    return (int(year), int(month), int(day), int(hour), int(minute), int(second)), below


def format_rfc3339(ns: int) -> str:
    """Write nanoseconds since 1970 as RFC 3339 text in UTC, without trailing zeros in the fraction."""
    seconds, below = divmod(ns, _SECOND)
    whole = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
    fraction = f".{below:09d}".rstrip("0") if below else ""
    return f"{whole}{fraction}Z"


_GO_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,  # the other micro sign, which Go accepts too
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LONGEST_GO_DURATION: Final = 200  # characters; the pattern tries many ways to cut a long row of digits
_GO_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def parse_go_duration(text: str) -> int:
    """Read Go's duration text (`1h30m`, `1.5s`, `250ms`, `0`) as nanoseconds. Raises ValueError for other text."""
    if len(text) > _LONGEST_GO_DURATION:
        raise ValueError(f"not a Go duration: {quote(text)}")
    body = text[1:] if text[:1] in {"+", "-"} else text
    total = 0
    end = 0
    for match in _GO_PART.finditer(body):
        if match.start() != end:
            break
        whole, _, fraction = match[1].partition(".")
        unit = _GO_UNITS[match[2]]
        total += int(whole or "0") * unit
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
        end = match.end()
    if end != len(body) or not body:
        if body == "0":
            return 0
        raise ValueError(f"not a Go duration: {quote(text)}")
    return -total if text[0] == "-" else total


def format_go_duration(duration: timedelta | int) -> str:
    """Write a duration (a `timedelta` or nanoseconds) as Go does: `1h30m0s`, `1.5s`, `250ms`, `0s`."""
    ns = duration if isinstance(duration, int) else duration_ns(duration)
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns < _SECOND:
        for unit, name in ((1_000_000, "ms"), (1_000, "µs"), (1, "ns")):
            if ns >= unit:
                return f"{sign}{_decimal(ns, unit)}{name}"
        return "0s"
    minutes, below = divmod(ns, 60_000_000_000)
    text = f"{_decimal(below, _SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(amount: int, unit: int) -> str:
    whole, below = divmod(amount, unit)
    if not below:
        return str(whole)
    return f"{whole}.{below:0{len(str(unit)) - 1}d}".rstrip("0")


def _timedelta_ns(duration: timedelta) -> int:
    return ((duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds) * 1000


def _datetime_ns(moment: datetime) -> int:
    return _timedelta_ns(_plain(moment) - _EPOCH)


def _plain(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), moment.timetz())


def _no_order(moment: datetime, other: object) -> TypeError:
    # With NotImplemented, Python would let a plain date compare the days, which `datetime` refuses to do.
    return TypeError(f"can't compare {type(moment).__name__} to {type(other).__name__}")


def _duration_below(duration: timedelta) -> int:
    return duration.nanosecond if isinstance(duration, Duration) else 0


def _time_below(moment: datetime) -> int:
    return moment.nanosecond if isinstance(moment, Timestamp) else 0
