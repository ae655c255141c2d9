"""Columns of text become typed columns: the usual forms all values at once, the others one by one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.csv.options import CsvOptions
from jetspark.payload.json.numbers import to_decimal, to_float32
from jetspark.payload.json.time_columns import dates, local_timestamps, timestamps
from jetspark.payload.patterns import TimePattern
from jetspark.payload.time_zones import time_zone
from jetspark.payload.timestamps import parse_date, parse_timestamp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jetspark.payload.options import FormatOptions

__all__ = ["ColumnReader", "column_reader"]

_WHOLE: Final = re.compile(r"[+-]?\d+")
_NUMBER: Final = re.compile(r"([+-]?)(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_NUMBER: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_SPACES: Final = "".join(map(chr, range(33)))
_PER_SECOND: Final = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_MOST_DIGITS: Final = 1000
_WHOLE_FORM: Final = r"^-?[0-9]{1,18}$"
_NUMBER_FORM: Final = r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$"


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reads the values of one column.

    Attributes
    ----------
    kind
        Type of the column.
    read
        Reads one value; None if the text is none. It returns what `pyarrow.array` takes.
    cast
        Reads all values of the usual form at once, and says which rows have another form.
    """

    kind: pa.DataType
    read: Callable[[str], object]
    cast: Callable[[pa.StringArray], tuple[pa.Array, NDArray[np.int64]]] | None = None

    def column(self, texts: pa.StringArray) -> tuple[pa.Array, dict[int, str]]:
        """Return the values, and the texts that are none, by their rows. Null stays null."""
        if self.cast is None:
            values, unread = pa.nulls(len(texts), self.kind), np.flatnonzero(np.asarray(texts.is_valid()))
        else:
            values, unread = self.cast(texts)
        if not len(unread):
            return values, {}
        bad: dict[int, str] = {}
        found: list[object] = []
        for row, text in zip(unread.tolist(), texts.take(pa.array(unread)).to_pylist(), strict=True):
            value = self.read(text)
            found.append(value)
            if value is None:
                bad[row] = text
        places = np.arange(len(texts))
        places[unread] = len(texts) + np.arange(len(unread))
        return pa.concat_arrays([values, pa.array(found, self.kind)]).take(pa.array(places)), bad


def column_reader(field: pa.Field, options: CsvOptions, formats: FormatOptions) -> ColumnReader:
    """Return the reader of a column. Raises ConfigError for a type that CSV cannot give."""
    kind, types = field.type, pa.types
    if types.is_string(kind):
        return ColumnReader(kind, lambda text: text, _as_it_is)
    if types.is_binary(kind):
        return ColumnReader(kind, str.encode, lambda texts: (texts.cast(pa.binary()), _NO_ROWS))
    if types.is_boolean(kind):
        return ColumnReader(kind, _boolean, _by_form("^(?:true|false)$", kind))
    if types.is_signed_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return ColumnReader(kind, lambda text: _integer(text, most), _integers(kind, most))
    if types.is_float32(kind) or types.is_float64(kind):
        single = types.is_float32(kind)
        words = {options.nan: math.nan, options.infinity: math.inf, options.negative_infinity: -math.inf}
        return ColumnReader(kind, lambda text: _float(text, words, single), None if single else _floats(words, kind))
    if types.is_decimal128(kind) and kind.scale >= 0:
        return ColumnReader(kind, lambda text: to_decimal(text.replace(",", ""), kind.precision, kind.scale))
    if types.is_date32(kind):
        return _dates(kind, formats)
    if types.is_timestamp(kind):
        return _timestamps(kind, formats)
    raise ConfigError(f"payload format csv cannot give field {field.name} of type {kind}")


_NO_ROWS: Final = np.empty(0, np.int64)


def _as_it_is(texts: pa.StringArray) -> tuple[pa.Array, NDArray[np.int64]]:
    return texts, _NO_ROWS


def _by_form(form: str, kind: pa.DataType) -> Callable[[pa.StringArray], tuple[pa.Array, NDArray[np.int64]]]:
    def cast(texts: pa.StringArray) -> tuple[pa.Array, NDArray[np.int64]]:
        fits = pc.match_substring_regex(texts, form)
        return _cast(texts, fits, kind)

    return cast


def _cast(texts: pa.StringArray, fits: pa.BooleanArray, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.int64]]:
    others = np.flatnonzero(~np.asarray(fits.fill_null(True)))
    if len(others):
        texts = pc.if_else(fits, texts, None)
    return texts.cast(kind), others


def _integers(kind: pa.DataType, most: int) -> Callable[[pa.StringArray], tuple[pa.Array, NDArray[np.int64]]]:
    wide = _by_form(_WHOLE_FORM, pa.int64())

    def cast(texts: pa.StringArray) -> tuple[pa.Array, NDArray[np.int64]]:
        values, others = wide(texts)
        if kind == pa.int64():
            return values, others
        numbers = np.asarray(values.fill_null(0))
        beyond = (numbers < -most) | (numbers >= most)
        if beyond.any():
            others = np.union1d(others, np.flatnonzero(beyond))
            values = pc.if_else(pa.array(beyond), pa.scalar(None, pa.int64()), values)
        return values.cast(kind), others

    return cast


def _integer(text: str, most: int) -> int | None:
    if _WHOLE.fullmatch(text) is None or max(text) > "\uffff" or len(text) > _MOST_DIGITS:
        return None
    value = int(text)
    return value if -most <= value < most else None


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower()) if len(text) <= len("false") else None


def _floats(
    words: dict[str, float], kind: pa.DataType
) -> Callable[[pa.StringArray], tuple[pa.Array, NDArray[np.int64]]]:
    usual = not any(re.match(_NUMBER_FORM, word) for word in words)
    return _by_form(_NUMBER_FORM if usual else "^$^", kind)


def _float(text: str, words: dict[str, float], single: bool) -> float | None:
    special = words.get(text)
    if special is not None:
        return special
    text = text.strip(_SPACES)
    match = _NUMBER.fullmatch(text)
    if match is None:
        return (
            float.fromhex(text.rstrip("fFdD") if "p" in text.lower() else text) if _HEX_NUMBER.fullmatch(text) else None
        )
    if match[2] in {"NaN", "Infinity"}:
        return math.nan if match[2] == "NaN" else math.inf if match[1] != "-" else -math.inf
    number = match[1] + match[2]
    return to_float32(number, integer=False) if single else float(number)


def _dates(kind: pa.DataType, formats: FormatOptions) -> ColumnReader:
    pattern = _pattern(formats, "dateFormat")
    fallback = _fallback(formats, pattern)

    def read(text: str) -> int | None:
        days = parse_date(text) if pattern is None else pattern.date(text)
        return parse_date(text.replace("GMT", "")) if days is None and fallback else days

    return ColumnReader(kind, read, dates if pattern is None else None)


def _timestamps(kind: pa.TimestampType, formats: FormatOptions) -> ColumnReader:
    zone = None if kind.tz is None else time_zone(formats.get("timeZone", str))
    pattern = _pattern(formats, "timestampNTZFormat" if zone is None else "timestampFormat")
    fallback = zone is not None and _fallback(formats, pattern)
    per_second = _PER_SECOND[kind.unit]

    def read(text: str) -> int | None:
        micros = parse_timestamp(text, zone) if pattern is None else pattern.timestamp(text, zone)
        if micros is None and fallback:
            micros = parse_timestamp(text.replace("GMT", ""), zone)
        return None if micros is None else micros * per_second // 1_000_000

    if pattern is not None or kind.unit != "us":
        return ColumnReader(kind, read)
    if zone is None:
        return ColumnReader(kind, read, local_timestamps)
    return ColumnReader(kind, read, lambda texts: timestamps(texts, kind, zone))


def _pattern(formats: FormatOptions, name: str) -> TimePattern | None:
    text = formats.get(name, str)
    return TimePattern(text) if text else None


def _fallback(formats: FormatOptions, pattern: TimePattern | None) -> bool:
    """Return whether a text that does not match is read in the forms of older versions of Spark."""
    wanted = formats.get("enableDateTimeParsingFallback", str)
    return wanted == "true" or (not wanted and pattern is None)
