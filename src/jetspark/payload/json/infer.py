"""Infers the columns of JSON payloads, as spark.read.json does."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.json.numbers import decimal_of, to_long
from jetspark.payload.json.options import JsonOptions
from jetspark.payload.json.reader import JsonReader, Token
from jetspark.payload.json.rows import text_of
from jetspark.payload.json.scanner import BrokenJsonError
from jetspark.payload.patterns import TimePattern
from jetspark.payload.time_zones import time_zone
from jetspark.payload.timestamps import parse_timestamp

if TYPE_CHECKING:
    from jetspark.payload.options import FormatOptions

__all__ = ["infer_schema"]

_DEEPEST: Final = 100
_MOST_DIGITS: Final = 38
_LONG_DIGITS: Final = 20


@dataclass(frozen=True)
class _Array:
    element: _Type


_Type: TypeAlias = "pa.DataType | _Array | dict[str, _Type]"
"""A type; a dict is an object with the types of its fields. pa.null() is that of values that are always null."""


def infer_schema(payloads: pa.BinaryArray | None, options: FormatOptions) -> pa.Schema:
    """Return the columns that JSON payloads have, sorted by name.

    Payloads that are not JSON objects are ignored.

    Raises
    ------
    ConfigError
        No payload is a JSON object with a field that is not null.
    """
    inference = _Inference(options)
    found: _Type = {}
    texts = [] if payloads is None else payloads.drop_null().to_pylist()
    for text in texts:
        found = _common(found, inference.type_of(text))
    fields = inference.fields(found)
    if not fields:
        raise ConfigError(f"none of {len(texts)} payloads is a JSON object with fields; give a schema")
    return pa.schema(fields)


class _Inference:
    def __init__(self, options: FormatOptions) -> None:
        self._options = JsonOptions.of(options)
        self._as_text = options.get("primitivesAsString", bool)
        self._decimals = options.get("prefersDecimal", bool)
        self._timestamps = options.get("inferTimestamp", bool)
        self._drop_nulls = options.get("dropFieldIfAllNull", bool)
        forms = {self._options.timestamp_format, self._options.timestamp_ntz_format}
        self._patterns = [TimePattern(form) if form else None for form in forms]
        self._zone = time_zone(self._options.time_zone)

    def type_of(self, payload: bytes) -> _Type:
        """Return the type of a payload; an object without fields if it is no object."""
        reader = JsonReader(text_of(payload), self._options)
        try:
            found = self._value(reader, 0) if reader.advance() is Token.OBJECT else {}
        except BrokenJsonError:
            return {}
        return found

    def _value(self, reader: JsonReader, depth: int) -> _Type:
        token = reader.token
        if token is Token.OBJECT or token is Token.ARRAY:
            if depth > _DEEPEST:
                reader.fail(f"the nesting is deeper than {_DEEPEST}")
            return self._object(reader, depth) if token is Token.OBJECT else self._array(reader, depth)
        if token is Token.TEXT:
            return self._text(reader.read_text())
        if token is None or token is Token.NULL:
            return pa.null()
        if self._as_text:
            return pa.string()
        if token is Token.TRUE or token is Token.FALSE:
            return pa.bool_()
        if token is Token.INTEGER:
            return pa.int64() if to_long(reader.value) is not None else _decimal(Decimal(reader.value)) or pa.float64()
        if token is not Token.NUMBER:
            reader.fail("a value is missing")
        if not self._decimals:
            return pa.float64()
        number = decimal_of(reader.value)
        if number is None:
            reader.fail("NaN and the infinities are no decimals")
        return _decimal(number) or pa.float64()

    def _object(self, reader: JsonReader, depth: int) -> _Type:
        fields: dict[str, _Type] = {}
        while reader.advance() is Token.NAME:
            name = reader.name or ""
            reader.advance()
            found = self._value(reader, depth + 1)
            fields[name] = _common(fields[name], found) if name in fields else found
        return fields

    def _array(self, reader: JsonReader, depth: int) -> _Type:
        element: _Type = pa.null()
        while reader.advance() is not Token.END_ARRAY:
            element = _common(element, self._value(reader, depth + 1))
        return _Array(element)

    def _text(self, text: str) -> _Type:
        if not text:
            return pa.null()
        if self._decimals:
            number = decimal_of(text.replace(",", ""))
            kind = None if number is None else _decimal(number)
            if kind is not None:
                return kind
        if self._timestamps and any(
            parse_timestamp(text, self._zone) is not None
            if pattern is None
            else pattern.timestamp(text, self._zone) is not None
            for pattern in self._patterns
        ):
            return pa.timestamp("us", "UTC")
        return pa.string()

    def fields(self, found: _Type) -> list[pa.Field]:
        """Return the fields of an object as columns, without those that have no name or no content."""
        assert isinstance(found, dict)
        kinds = {name: self._kind(found[name]) for name in sorted(found, key=_java_order) if name}
        return [pa.field(name, kind) for name, kind in kinds.items() if kind is not None]

    def _kind(self, found: _Type) -> pa.DataType | None:
        if isinstance(found, dict):
            fields = self.fields(found)
            return pa.struct(fields) if fields else None
        if isinstance(found, _Array):
            element = self._kind(found.element)
            return None if element is None else pa.list_(element)
        if pa.types.is_null(found):
            return None if self._drop_nulls else pa.string()
        return found


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _decimal(number: Decimal) -> pa.DataType | None:
    """Return the narrowest type of a number; None if it has too many digits."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    precision = max(len(digits), -exponent)
    return pa.decimal128(precision, -exponent) if exponent <= 0 and precision <= _MOST_DIGITS else None


def _common(first: _Type, second: _Type) -> _Type:
    """Return the type that takes the values of both: text for types that have nothing in common."""
    if first == second:
        return first
    if isinstance(first, dict) and isinstance(second, dict):
        merged = dict(first)
        for name, kind in second.items():
            merged[name] = _common(merged[name], kind) if name in merged else kind
        return merged
    if isinstance(first, _Array) and isinstance(second, _Array):
        return _Array(_common(first.element, second.element))
    if not isinstance(first, pa.DataType) or not isinstance(second, pa.DataType):
        return next((other for kind, other in ((first, second), (second, first)) if kind == pa.null()), pa.string())
    if pa.types.is_null(first) or pa.types.is_null(second):
        return second if pa.types.is_null(first) else first
    kinds = {first, second}
    if pa.float64() in kinds and all(pa.types.is_decimal(kind) or kind in (pa.float64(), pa.int64()) for kind in kinds):
        return pa.float64()
    if all(pa.types.is_decimal(kind) or kind == pa.int64() for kind in kinds):
        return _common_decimal(first, second)
    return pa.string()


def _common_decimal(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    sizes = [
        (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (_LONG_DIGITS, 0) for kind in (first, second)
    ]
    scale = max(scale for _, scale in sizes)
    whole = max(precision - scale for precision, scale in sizes)
    return pa.decimal128(whole + scale, scale) if whole + scale <= _MOST_DIGITS else pa.float64()
