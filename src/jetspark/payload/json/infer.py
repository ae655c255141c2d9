"""Infers the fields of JSON payloads and their types, by the rules of Spark's JSON reader."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias, Union

import pyarrow as pa

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.json.options import JsonOptions
from jetspark.payload.json.reader import JsonReader, Token
from jetspark.payload.json.rows import text_of
from jetspark.payload.json.scanner import BrokenJsonError

if TYPE_CHECKING:
    from jetspark.payload.options import FormatOptions

__all__ = ["infer_schema"]

_Fields: TypeAlias = "dict[str, _Kind]"
_Kind: TypeAlias = Union[pa.DataType, "_Fields", "_Elements"]
"""The type of a value; that of an object is a dictionary."""

_MAX_PRECISION: Final = 38
_LONG: Final = range(-(1 << 63), 1 << 63)
_DIGITS_OF_LONG: Final = 20
"""Digits of the decimal into which a long fits, in Spark."""


class _Elements:
    """The type of an array."""

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind


def infer_schema(payloads: pa.BinaryArray | None, options: FormatOptions) -> pa.Schema:
    """Return the fields of JSON objects, in the order of their names. All are nullable.

    Payloads that are no JSON objects are left out.

    Raises
    ------
    ConfigError
        No payload is an object with a field.
    """
    given = JsonOptions.of(options)
    fields: _Fields = {}
    texts = [] if payloads is None else payloads.drop_null().to_pylist()
    for payload in texts:
        try:
            found = _root(JsonReader(text_of(payload), given))
        except (BrokenJsonError, RecursionError):
            continue
        _add(fields, found)
    kinds = {name: _arrow(kind) for name, kind in sorted(fields.items())}
    columns = [pa.field(name, kind) for name, kind in kinds.items() if kind is not None]
    if not columns:
        raise ConfigError(f"none of {len(texts)} payloads is a JSON object with fields; give a schema")
    return pa.schema(columns)


def _root(reader: JsonReader) -> _Fields:
    """Return the fields of a payload; none if it is no object."""
    reader.advance()
    kind = _read(reader) if reader.token is Token.OBJECT else None
    return kind if isinstance(kind, dict) else {}


def _read(reader: JsonReader) -> _Kind:
    """Return the type of the current value, and go to its last token."""
    token = reader.token
    if token is Token.OBJECT:
        fields: _Fields = {}
        while reader.advance() is not Token.END_OBJECT:
            reader.advance()  # from the name to the value
            name = reader.name
            _add(fields, {name or "": _read(reader)})
        return fields
    if token is Token.ARRAY:
        elements: _Kind = pa.null()
        while reader.advance() is not Token.END_ARRAY:
            elements = _merge(elements, _read(reader))
        return _Elements(elements)
    if token is Token.TEXT:
        return pa.string() if reader.read_text() else pa.null()  # some writers write "" for null
    if token is Token.INTEGER:
        return _integer(reader.read_text())
    if token is Token.NUMBER:
        return pa.float64()
    return pa.bool_() if token in {Token.TRUE, Token.FALSE} else pa.null()


def _integer(text: str) -> pa.DataType:
    value = Decimal(text)
    if len(text) <= _MAX_PRECISION and int(value) in _LONG:
        return pa.int64()
    digits = len(value.as_tuple().digits)
    return pa.decimal128(digits, 0) if digits <= _MAX_PRECISION else pa.float64()


def _add(fields: _Fields, found: _Fields) -> None:
    for name, kind in found.items():
        if name:
            fields[name] = _merge(fields[name], kind) if name in fields else kind


def _merge(one: _Kind, other: _Kind) -> _Kind:
    """Return the type that has the values of both; in doubt a string."""
    if isinstance(one, dict) and isinstance(other, dict):
        _add(one, other)
        return one
    if isinstance(one, _Elements) and isinstance(other, _Elements):
        return _Elements(_merge(one.kind, other.kind))
    if one == pa.null():
        return other
    if other == pa.null() or one == other:
        return one
    if not isinstance(one, pa.DataType) or not isinstance(other, pa.DataType):
        return pa.string()
    if pa.float64() in {one, other} and _is_number(one) and _is_number(other):
        return pa.float64()
    digits = _digits(one), _digits(other)
    if None in digits:
        return pa.string()
    return pa.decimal128(max(each or 0 for each in digits), 0)


def _is_number(kind: pa.DataType) -> bool:
    return kind == pa.float64() or _digits(kind) is not None


def _digits(kind: pa.DataType) -> int | None:
    """Return the digits of a whole number; None for another type."""
    if kind == pa.int64():
        return _DIGITS_OF_LONG
    return kind.precision if pa.types.is_decimal(kind) else None


def _arrow(kind: _Kind) -> pa.DataType | None:
    """Return the type of a column: a string if all values are null; None for an object without fields."""
    if isinstance(kind, dict):
        fields = {name: _arrow(each) for name, each in sorted(kind.items())}
        there = [pa.field(name, each) for name, each in fields.items() if each is not None]
        return pa.struct(there) if there else None
    if isinstance(kind, _Elements):
        element = _arrow(kind.kind)
        return None if element is None else pa.list_(element)
    return pa.string() if kind == pa.null() else kind
