"""Rows become JSON: each row one object, with the text that Spark's to_json gives.

No Python code runs for a single row, except for bytes and for the few values that need it: the fragments of text of all
columns are joined in C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.time_patterns import TimeTexts
from jetspark.payload.value_texts import base64_texts, float_texts, time_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jetspark.payload.options import FormatOptions

__all__ = ["JsonEncoder"]

_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(32)},
    **{ord(sign): f"\\{name}" for sign, name in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
_NOT_PLAIN: Final = np.isin(np.arange(256), list(_ESCAPES))
_CONTROLS: Final = np.arange(256) < 32


class JsonEncoder:
    """Encodes record batches of a schema. It is picklable, and has no state between two calls.

    Parameters
    ----------
    schema
        Columns of the rows.
    options
        Options of the format json.

    Raises
    ------
    ConfigError
        JSON has no text for the type of a column.
    """

    def __init__(self, schema: pa.Schema, options: FormatOptions) -> None:
        for field in schema:
            _check(field.type, field.name)
        self._names = schema.names
        self._null_fields = not options.get("ignoreNullFields", bool)
        self._times = TimeTexts.of(options)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one object for each row."""
        return self._objects(self._names, rows.columns, rows.num_rows).cast(pa.binary())

    def _objects(self, names: Sequence[str], columns: Sequence[pa.Array], count: int) -> pa.StringArray:
        if not columns:
            return pa.repeat(pa.scalar("{}"), count)
        optional = [bool(column.null_count) and not self._null_fields for column in columns]
        starts_with_field = not optional[0]
        parts: list[pa.StringArray | str] = []
        for name, column, may_miss in zip(names, columns, optional, strict=True):
            start = f"{'{' if starts_with_field and not parts else ','}{_quoted(name)}:"
            texts = self._texts(column)
            if may_miss:
                parts.append(pc.binary_join_element_wise(start, texts, ""))
            else:
                parts += [start, pc.fill_null(texts, "null") if column.null_count else texts]
        joined = pc.binary_join_element_wise(
            *parts, *(["}"] if starts_with_field else []), "", null_handling="replace", null_replacement=""
        )
        if starts_with_field:
            return joined
        return pc.binary_join_element_wise("{", pc.binary_replace_slice(joined, 0, 1, ""), "}", "")

    def _texts(self, column: pa.Array) -> pa.StringArray:
        """Return the values as JSON; null stays null."""
        kind = column.type
        types = pa.types
        if types.is_struct(kind):
            fields = [field.name for field in kind]
            objects = self._objects(fields, column.flatten(), len(column))
            return _with_nulls_of(column, objects)
        if types.is_map(kind):
            return self._maps(column)
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            values = self._texts(column.flatten())
            return _joined(column, pc.list_value_length(column), pc.fill_null(values, "null"), "[", "]")
        if types.is_floating(kind):
            texts = float_texts(column)
            strange = pc.invert(pc.fill_null(pc.is_finite(column), True))
            return pc.if_else(strange, _in_quotes(texts), texts) if pc.any(strange).as_py() else texts
        if types.is_date(kind) or types.is_timestamp(kind):
            shown = self._times.date(column.cast(pa.date32())) if types.is_date(kind) else self._times.timestamp(column)
            return _in_quotes(_escaped(shown))
        if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
            return _in_quotes(base64_texts(column))
        if types.is_time64(kind):
            return _in_quotes(time_texts(column))
        if types.is_string(kind) or types.is_large_string(kind):
            return _in_quotes(_escaped(column.cast(pa.string())))
        return column.cast(pa.string())  # booleans, integers, decimals, null

    def _maps(self, column: pa.MapArray) -> pa.StringArray:
        entries = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
        keys, values = entries.flatten().flatten()
        pairs = pc.binary_join_element_wise(_keys(keys), pc.fill_null(self._texts(values), "null"), ":")
        return _joined(column, pc.list_value_length(entries), pairs, "{", "}")


def _check(kind: pa.DataType, name: str) -> None:
    """Raise a ConfigError if JSON has no text for a type."""
    types = pa.types
    if types.is_map(kind):
        if not _is_key(kind.key_type):
            raise ConfigError(f"column {name}: JSON cannot have a map with keys of type {kind.key_type}")
        _check(kind.item_type, f"{name}.value")
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        _check(kind.value_type, f"{name}.element")
    elif types.is_struct(kind):
        for field in kind:
            _check(field.type, f"{name}.{field.name}")
    elif not (
        _is_key(kind)
        or types.is_null(kind)
        or types.is_time64(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    ):
        raise ConfigError(f"column {name}: JSON has no text for the type {kind}; cast it to a string or a number")


def _is_key(kind: pa.DataType) -> bool:
    """Whether values of a type may be keys of a map: those whose text Spark writes there."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
    )


def _keys(keys: pa.Array) -> pa.StringArray:
    """Return the keys of a map as Spark writes them: dates as days, timestamps as microseconds since 1970."""
    kind = keys.type
    if pa.types.is_date(kind):
        keys = keys.cast(pa.date32()).view(pa.int32())
    elif pa.types.is_timestamp(kind):
        keys = keys.cast(pa.timestamp("us", kind.tz), safe=False).view(pa.int64())
    if pa.types.is_floating(kind):
        return _in_quotes(float_texts(keys))
    return _in_quotes(_escaped(keys.cast(pa.string())))


def _joined(column: pa.Array, lengths: pa.Array, texts: pa.StringArray, start: str, end: str) -> pa.StringArray:
    """Join the texts of each list of a column."""
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(np.asarray(pc.fill_null(lengths, 0)), out=offsets[1:])
    lists = pa.ListArray.from_arrays(pa.array(offsets), texts)
    return _with_nulls_of(column, pc.binary_join_element_wise(start, pc.binary_join(lists, ","), end, ""))


def _with_nulls_of(column: pa.Array, texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string())) if column.null_count else texts


def _in_quotes(texts: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    """Put a backslash before quotes and backslashes, and escape control characters."""
    if not _found(texts, _NOT_PLAIN):
        return texts
    if not _found(texts, _CONTROLS):
        return pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    values = cast("list[str | None]", texts.to_pylist())
    return pa.array([None if text is None else text.translate(_ESCAPES) for text in values], pa.string())


def _found(texts: pa.StringArray, signs: NDArray[np.bool_]) -> bool:
    """Whether a text has one of the bytes."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = texts.buffers()[2]
    if data is None or not len(texts):
        return False
    return bool(signs[np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]].any())


def _quoted(name: str) -> str:
    return f'"{name.translate(_ESCAPES)}"'
