"""Values as Spark prints them, whole columns at once: numbers, dates, times, bytes. JSON and CSV use it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Final, cast
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "base64_texts",
    "date_texts",
    "float_texts",
    "iso_offset",
    "local_times",
    "offset_texts",
    "time_texts",
    "timestamp_texts",
]

_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7
"""Java prints numbers in this range without an exponent."""
_YEAR_10000: Final = 253_402_300_800  # in seconds
_YEAR_2037: Final = 2_114_380_800  # in seconds
_ONE_DAY: Final = 86_400
_YEARS_400: Final = 146_097 * _ONE_DAY
_SECOND: Final = 1_000_000


def float_texts(column: pa.FloatingPointArray) -> pa.StringArray:
    """Return numbers as Java prints them: `1.0`, `1.0E10`, `NaN`, `-Infinity`."""
    texts = column.cast(pa.string())
    values = np.asarray(pc.fill_null(column, 0.0))
    size = np.abs(values)
    plain = ((size >= _PLAIN_FROM) & (size < _PLAIN_BELOW)) | (size == 0)
    whole = plain & (values == np.floor(values))
    if whole.any():
        texts = pc.if_else(pa.array(whole), pc.binary_join_element_wise(texts, ".0", ""), texts)
    if plain.all():
        return texts
    others = pa.array(~plain)
    return pc.replace_with_mask(
        texts, others, pa.array(map(_float_text, texts.filter(others).to_pylist()), pa.string())
    )


def _float_text(text: str) -> str:
    value = Decimal(text)
    if not value.is_finite():
        return "NaN" if value.is_nan() else "-Infinity" if value < 0 else "Infinity"
    sign, digits, _ = value.as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' * sign}{shown[0]}.{shown[1:] or '0'}E{value.adjusted()}"


def base64_texts(column: pa.BinaryArray) -> pa.StringArray:
    """Return bytes in base 64, without line feeds."""
    values = cast("list[bytes | None]", column.to_pylist())
    encoded = [None if value is None else base64.b64encode(value).decode() for value in values]
    return pa.array(encoded, pa.string())


def time_texts(column: pa.Time64Array) -> pa.StringArray:
    """Return times of day, with as many decimals as they need."""
    texts = column.cast(pa.time64("us")).cast(pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def date_texts(column: pa.Date32Array) -> pa.StringArray:
    """Return dates as `2020-12-31`."""
    late = np.asarray(pc.fill_null(column.view(pa.int32()), 0)) >= _YEAR_10000 // _ONE_DAY
    return _with_sign(column.cast(pa.string()), late)


def timestamp_texts(column: pa.TimestampArray, zone: tzinfo) -> pa.StringArray:
    """Return timestamps as `2020-12-31T23:59:59.123`, with the offset of the zone if they are instants.

    Times are cut to milliseconds, as in Spark.
    """
    local, offsets = local_times(column, zone)
    millis = pc.floor_temporal(local, unit="millisecond").cast(pa.timestamp("ms"))
    late = np.asarray(pc.fill_null(millis.view(pa.int64()), 0)) >= _YEAR_10000 * 1000
    texts = pc.replace_substring(_with_sign(millis.cast(pa.string()), late), " ", "T", max_replacements=1)
    if offsets is None:
        return texts
    return pc.binary_join_element_wise(texts, offset_texts(offsets, iso_offset), "")


def local_times(column: pa.TimestampArray, zone: tzinfo) -> tuple[pa.TimestampArray, NDArray[np.int64] | None]:
    """Return timestamps in microseconds as the clocks of a zone show them, and the offsets from UTC in seconds.

    For timestamps without time zone, there are no offsets.
    """
    micros = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if column.type.tz is None:
        return micros, None
    if isinstance(zone, ZoneInfo):
        local = pc.local_timestamp(micros.cast(pa.timestamp("us", zone.key)))
        instants = np.asarray(pc.fill_null(micros.view(pa.int64()), 0))
        offsets = (np.asarray(pc.fill_null(local.view(pa.int64()), 0)) - instants) // _SECOND
        late = np.flatnonzero(instants >= _YEAR_2037 * _SECOND)  # pyarrow has no rules for these
        if not len(late):
            return local, offsets
        offsets[late] = [_offset_at(seconds, zone) for seconds in (instants[late] // _SECOND).tolist()]
        return pc.add(micros.view(pa.int64()), pa.array(offsets * _SECOND)).view(pa.timestamp("us")), offsets
    offset = zone.utcoffset(None) or timedelta()
    seconds = offset.days * _ONE_DAY + offset.seconds
    local = pc.add(micros.view(pa.int64()), seconds * _SECOND).view(pa.timestamp("us"))
    return local, np.full(len(column), seconds, np.int64)


def _offset_at(seconds: int, zone: ZoneInfo) -> int:
    """Return the offset of a zone from UTC at an instant after 1970; its rules repeat after 400 years."""
    offset = datetime.fromtimestamp(_YEAR_2037 + (seconds - _YEAR_2037) % _YEARS_400, zone).utcoffset() or timedelta()
    return offset.days * _ONE_DAY + offset.seconds


def offset_texts(offsets: NDArray[np.int64], show: Callable[[int], str]) -> pa.StringArray:
    """Return offsets of time zones, in seconds, as text."""
    known, rows = np.unique(offsets, return_inverse=True)
    return pa.array([show(offset) for offset in known.tolist()], pa.string()).take(pa.array(rows))


def iso_offset(offset: int) -> str:
    """Return an offset as `+01:00`, `-00:09:21` or `Z`."""
    minutes, seconds = divmod(abs(offset), 60)
    text = f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return (f"{text}:{seconds:02}" if seconds else text) if offset else "Z"


def _with_sign(texts: pa.StringArray, late: NDArray[np.bool_]) -> pa.StringArray:
    """Put a plus sign before the years of more than four digits."""
    return pc.if_else(pa.array(late), pc.binary_join_element_wise("+", texts, ""), texts) if late.any() else texts
