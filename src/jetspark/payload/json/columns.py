"""The types of fields: what msgspec reads for them, and how the values of all rows become a column.

A value that a column does not read, or that `from_json` might read in another way, makes its row unread.
"""

from __future__ import annotations

import re
from abc import ABCMeta
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from jetspark.payload.json.json_text import scalar_text
from jetspark.payload.json.time_columns import (
    DATE_PATTERN,
    LOCAL_PATTERN,
    NOTHING,
    PATTERN,
    dates,
    local_timestamps,
    timestamps,
)
from jetspark.payload.patterns import TimePattern
from jetspark.payload.time_zones import time_zone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jetspark.payload.json.options import JsonOptions

__all__ = ["FieldReader", "field_reader", "read_value", "record_class"]

_INTEGERS: Final = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_MICROSECONDS: Final = "us"
_DECIMAL: Final = re.compile(r"-?[0-9]{1,38}(?:\.[0-9]{1,38})?")
# Java has limits for exponents; no usual number comes near.
_DIGITS: Final = 1000
_FLOAT = np.finfo(np.float32)


@dataclass(frozen=True, slots=True)
class FieldReader:
    """Reads the values of one field.

    Attributes
    ----------
    annotation
        The type that msgspec decodes. None is allowed, too.
    column
        Makes a column of the values of all rows, and says which rows are unread: row numbers, ascending.
    sees_last
        Whether `column` may find a value that it does not read. If the name comes twice in an object, it sees the
        last value only.
    """

    annotation: Any
    column: Callable[[list[Any]], tuple[pa.Array, NDArray[np.int64]]]
    sees_last: bool = False


class MapKey:
    """A key of a map. Two are never equal, so that a map keeps a key that comes twice, as `from_json` does."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def read_value(kind: type[Any], value: Any) -> Any:
    """Return a value of a type that msgspec does not know. Raises ValueError or ArithmeticError."""
    return MapKey(value) if kind is MapKey else kind.read(value)


def record_class(fields: pa.Schema | pa.StructType, readers: list[FieldReader]) -> type[Any]:
    """Return a class whose attributes f0, f1, ... are the fields; None if one is missing."""
    return msgspec.defstruct(
        "Record",
        [(f"f{index}", reader.annotation | None, None) for index, reader in enumerate(readers)],
        rename={f"f{index}": name for index, name in enumerate(fields.names)},
        gc=False,
    )


def field_reader(kind: pa.DataType, options: JsonOptions, *, nested: bool = False) -> FieldReader | None:
    """Return the reader of fields of a type, or None if these are read row by row only."""
    if kind in _INTEGERS:
        most = 2 ** (_INTEGERS[kind] - 1)
        return _plain(Annotated[int, msgspec.Meta(ge=-most, le=most - 1)], kind)
    if pa.types.is_boolean(kind):
        return _plain(bool, kind)
    if pa.types.is_float64(kind):
        return _plain(float, kind)
    if pa.types.is_float32(kind):
        return FieldReader(float, _floats)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return FieldReader(str | int | float | bool, lambda values: (_strings(values, kind), NOTHING))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _plain(bytes, kind)
    if pa.types.is_decimal128(kind):
        return _decimals(kind)
    return _times(kind, options, nested) or _nested(kind, options)


def _plain(annotation: Any, kind: pa.DataType) -> FieldReader:
    return FieldReader(annotation, lambda values: (pa.array(values, kind), NOTHING))


def _strings(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of text. Numbers, true and false become the text that Spark gives them."""
    try:
        return pa.array(values, kind)
    except pa.ArrowTypeError:
        return pa.array([value if isinstance(value, str | None) else scalar_text(value) for value in values], kind)


def _floats(values: list[float | None]) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return doubles as floats. A double between two floats may have been rounded to there: its row is unread."""
    doubles = pa.array(values, pa.float64())
    numbers = doubles.fill_null(0.0).to_numpy()
    sizes = np.abs(numbers)
    between = (numbers.view(np.int64) & 0x1FFF_FFFF) == 0x1000_0000
    beyond = (sizes > _FLOAT.max) | ((sizes < _FLOAT.tiny) & (sizes > 0))
    return doubles.cast(pa.float32(), safe=False), np.flatnonzero(between | beyond)


def _decimals(kind: pa.Decimal128Type) -> FieldReader:
    step = Decimal((0, (1,), -kind.scale))
    context = Context(prec=kind.precision, rounding=ROUND_HALF_UP)

    def read(value: Any) -> Decimal:
        # True, lists and objects may come, too.
        if type(value) is int or (type(value) is str and _DECIMAL.fullmatch(value)):
            value = Decimal(value)
        if type(value) is not Decimal or not -_DIGITS < value.adjusted() < _DIGITS:
            raise ValueError("left to the decoder of rows")
        return value.quantize(step, context=context)

    annotation = ABCMeta("RoundedDecimal", (), {"read": staticmethod(read)})
    annotation.register(Decimal)
    return _plain(annotation, kind)


def _times(kind: pa.DataType, options: JsonOptions, nested: bool) -> FieldReader | None:
    if pa.types.is_date32(kind):
        if options.date_format:
            return _by_pattern(TimePattern(options.date_format).date, pa.int32(), kind, nested)
        return _texts(dates, DATE_PATTERN, nested)
    if not pa.types.is_timestamp(kind) or kind.unit != _MICROSECONDS:
        return None
    zone = None if kind.tz is None else time_zone(options.time_zone)
    form = options.timestamp_ntz_format if zone is None else options.timestamp_format
    if form:
        pattern = TimePattern(form)
        return _by_pattern(lambda text: pattern.timestamp(text, zone), pa.int64(), kind, nested)
    if zone is None:
        return _texts(local_timestamps, LOCAL_PATTERN, nested)
    return _texts(lambda texts: timestamps(texts, kind, zone), PATTERN, nested)


def _texts(
    convert: Callable[[pa.Array], tuple[pa.Array, NDArray[np.int64]]], pattern: str, nested: bool
) -> FieldReader:
    """Return the reader of texts of another type. In structs, arrays and maps, each is checked as it is read."""
    annotation = Annotated[str, msgspec.Meta(pattern=pattern)] if nested else str
    return FieldReader(annotation, lambda values: convert(pa.array(values, pa.string())), sees_last=not nested)


def _by_pattern(
    parse: Callable[[str], int | None], stored: pa.DataType, kind: pa.DataType, nested: bool
) -> FieldReader | None:
    """Return the reader of texts by the user's pattern, one by one."""
    if nested:
        return None

    def column(values: list[str | None]) -> tuple[pa.Array, NDArray[np.int64]]:
        numbers = [None if value is None else parse(value) for value in values]
        pairs = enumerate(zip(values, numbers, strict=True))
        unread = [row for row, (value, number) in pairs if number is None and value is not None]
        return pa.array(numbers, stored).cast(kind), np.array(unread, np.int64)

    return FieldReader(str, column, sees_last=True)


def _nested(kind: pa.DataType, options: JsonOptions) -> FieldReader | None:
    if pa.types.is_struct(kind):
        return _structs(kind, options)
    if pa.types.is_list(kind):
        return _lists(kind, options)
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return _maps(kind, options)
    return None


def _structs(kind: pa.StructType, options: JsonOptions) -> FieldReader | None:
    found = [field_reader(field.type, options, nested=True) for field in kind]
    readers = [reader for reader in found if reader is not None]
    if not readers or len(readers) < len(found) or len(set(kind.names)) < len(found):
        return None
    record = record_class(kind, readers)
    missing = record()

    def column(values: list[Any]) -> tuple[pa.Array, NDArray[np.int64]]:
        present = [missing if value is None else value for value in values]
        nulls = pa.array([value is None for value in values], pa.bool_())
        columns, unread = [], []
        for index, reader in enumerate(readers):
            child, rows = reader.column(list(map(attrgetter(f"f{index}"), present)))
            columns.append(child)
            unread.append(rows)
        array = pa.StructArray.from_arrays(columns, fields=list(kind), mask=nulls)
        return array, np.unique(np.concatenate(unread))

    return FieldReader(record, column)


def _lists(kind: pa.ListType, options: JsonOptions) -> FieldReader | None:
    reader = field_reader(kind.value_type, options, nested=True)
    if reader is None:
        return None

    def column(values: list[Any]) -> tuple[pa.Array, NDArray[np.int64]]:
        offsets, nulls = _offsets(values)
        items, unread = reader.column(list(chain.from_iterable(value for value in values if value is not None)))
        array = pa.ListArray.from_arrays(offsets, items, type=kind, mask=nulls)
        return array, _rows_of(unread, offsets)

    return FieldReader(list[reader.annotation | None], column)  # type: ignore[name-defined]


def _maps(kind: pa.MapType, options: JsonOptions) -> FieldReader | None:
    reader = field_reader(kind.item_type, options, nested=True)
    if reader is None:
        return None

    def column(values: list[Any]) -> tuple[pa.Array, NDArray[np.int64]]:
        offsets, nulls = _offsets(values)
        present = [value for value in values if value is not None]
        keys = pa.array([key.text for key in chain.from_iterable(present)], pa.string())
        items, unread = reader.column(list(chain.from_iterable(value.values() for value in present)))
        array = pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=nulls)
        return array, _rows_of(unread, offsets)

    return FieldReader(dict[MapKey, reader.annotation | None], column)  # type: ignore[name-defined]


def _offsets(values: list[Any]) -> tuple[pa.Array, pa.Array]:
    """Return where the items of each row start and end, and which rows are null."""
    lengths = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    nulls = pa.array([value is None for value in values], pa.bool_())
    return pa.array(offsets.astype(np.int32)), nulls


def _rows_of(items: NDArray[np.int64], offsets: pa.Array) -> NDArray[np.int64]:
    """Return the rows of items."""
    if not len(items):
        return NOTHING
    return np.unique(np.searchsorted(offsets.to_numpy(), items, side="right") - 1)
