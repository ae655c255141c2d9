"""Reads values of JSON as the types of a schema, by the rules of Spark's from_json."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

import pyarrow as pa

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.json.json_text import copy_value
from jetspark.payload.json.numbers import to_decimal, to_float, to_float32, to_long
from jetspark.payload.json.reader import JsonReader, Token
from jetspark.payload.json.scanner import BrokenJsonError
from jetspark.payload.json.time_values import date_reader, timestamp_reader

if TYPE_CHECKING:
    from jetspark.payload.json.options import JsonOptions

__all__ = ["row_reader"]

ValueReader: TypeAlias = Callable[[JsonReader], object]
"""Reads the value at the current token."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FLOAT_WORDS: Final = frozenset({"NaN", "+INF", "-INF", "+Infinity", "Infinity", "-Infinity"})


class PartialValueError(Exception):
    """A struct, an array or a map of which a part could not be read.

    Attributes
    ----------
    value
        The parts that could be read.
    cause
        The first fault.
    """

    def __init__(self, value: object, cause: BrokenJsonError) -> None:
        super().__init__(str(cause))
        self.value = value
        self.cause = cause


FieldsReader: TypeAlias = Callable[[JsonReader], tuple[list[object], BrokenJsonError | None]]
"""Reads the object at the current token: the values that could be read, and the first fault."""


def row_reader(schema: pa.Schema, options: JsonOptions) -> FieldsReader:
    """Return a reader of objects as rows.

    Raises ConfigError for a type that JSON cannot give.
    """
    return _fields_reader(list(schema), options, "")


def _fail(reader: JsonReader, wanted: str) -> NoReturn:
    if reader.token is Token.TEXT:
        reader.read_text()  # Spark reads the text here, so a fault in it is a fault of this field alone
    name = reader.name
    place = "" if name is None else f"field {name[:100]!r}: "
    found = "nothing" if reader.token is None else reader.token.value
    reader.fail(f"{place}{found} is not {wanted}")


def _fields_reader(fields: list[pa.Field], options: JsonOptions, place: str) -> FieldsReader:
    readers = {
        field.name: (index, _reader_of(field.type, options, f"{place}{field.name}"))
        for index, field in enumerate(fields)
    }
    if len(readers) < len(fields):
        raise ConfigError(f"the schema names a field twice{' in ' + place[:-1] if place else ''}")
    width = len(fields)

    def read(reader: JsonReader) -> tuple[list[object], BrokenJsonError | None]:
        row: list[object] = [None] * width
        cause: BrokenJsonError | None = None
        while reader.advance() not in _OBJECT_ENDS:
            name = reader.name
            found = readers.get(name) if name is not None else None
            if found is None:
                reader.skip_children()
                continue
            index, read_value = found
            try:
                row[index] = read_value(reader)
            except PartialValueError as partial:
                cause = cause or partial.cause
                row[index] = partial.value
            except BrokenJsonError as fault:
                cause = cause or fault
                reader.skip_children()
        return row, cause

    return read


_OBJECT_ENDS: Final = (None, Token.END_OBJECT)
_ARRAY_ENDS: Final = (None, Token.END_ARRAY)


def _reader_of(kind: pa.DataType, options: JsonOptions, place: str) -> ValueReader:
    """Return the reader of a type: it takes the token after a name, and null for every type."""
    read = _rule_of(kind, options, place)

    def read_token(reader: JsonReader) -> object:
        token = reader.token
        while token is Token.NAME:
            token = reader.advance()
        return None if token is None or token is Token.NULL else read(reader)

    return read_token


def _rule_of(kind: pa.DataType, options: JsonOptions, place: str) -> ValueReader:
    types = pa.types
    if types.is_boolean(kind):
        return _boolean
    if types.is_signed_integer(kind):
        return _integer(kind.bit_width)
    if types.is_float32(kind) or types.is_float64(kind):
        return _float(types.is_float32(kind), options)
    if types.is_decimal128(kind) and kind.scale >= 0:
        return _decimal(kind.precision, kind.scale)
    if types.is_string(kind) or types.is_large_string(kind):
        return _text
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _bytes
    if types.is_date32(kind):
        return date_reader(options, _fail)
    if types.is_timestamp(kind):
        return timestamp_reader(kind, options, _fail)
    if types.is_struct(kind):
        return _struct(kind, options, place)
    if types.is_list(kind) or types.is_large_list(kind):
        return _array(kind, options, place)
    if types.is_map(kind) and types.is_string(kind.key_type):
        return _map(kind, options, place)
    if types.is_null(kind):
        return lambda _reader: None
    raise ConfigError(f"payload format json cannot give field {place} of type {kind}")


def _boolean(reader: JsonReader) -> object:
    if reader.token is not Token.TRUE and reader.token is not Token.FALSE:
        _fail(reader, "true or false")
    return reader.token is Token.TRUE


def _integer(bits: int) -> ValueReader:
    low, high = -(1 << bits - 1), 1 << bits - 1
    if bits == 8:  # as in Jackson: a byte may be written without its sign
        high = 256

    def read(reader: JsonReader) -> object:
        value = to_long(reader.value) if reader.token is Token.INTEGER else None
        if value is None or not low <= value < high:
            _fail(reader, f"an integer of {bits} bits")
        return value - 256 if bits == 8 and value > 127 else value

    return read


def _float(single: bool, options: JsonOptions) -> ValueReader:
    def read(reader: JsonReader) -> object:
        token = reader.token
        if (
            token is Token.INTEGER
            or token is Token.NUMBER
            or (token is Token.TEXT and options.non_numeric_numbers and reader.read_text() in _FLOAT_WORDS)
        ):
            text = reader.value
        else:
            _fail(reader, "a number")
        integer = token is Token.INTEGER
        return to_float32(text, integer=integer) if single else to_float(text, integer=integer)

    return read


def _decimal(precision: int, scale: int) -> ValueReader:
    def read(reader: JsonReader) -> object:
        value = None
        if reader.token in (Token.INTEGER, Token.NUMBER, Token.TEXT):
            text = reader.read_text()
            value = to_decimal(text.replace(",", "") if reader.token is Token.TEXT else text, precision, scale)
        if value is None:
            _fail(reader, f"a decimal({precision},{scale})")
        return value

    return read


def _text(reader: JsonReader) -> object:
    return _valid(reader.read_text() if reader.token is Token.TEXT else copy_value(reader))


def _valid(text: str) -> str:
    """Replace surrogates, which UTF-8 does not have, as Java does."""
    return text if text.isascii() else _SURROGATE.sub("?", text)


def _bytes(reader: JsonReader) -> object:
    if reader.token is not Token.TEXT:
        _fail(reader, "text in base64")
    return reader.read_bytes()


def _struct(kind: pa.StructType, options: JsonOptions, place: str) -> ValueReader:
    names = [field.name for field in kind]
    read_fields = _fields_reader(list(kind), options, f"{place}.")

    def read(reader: JsonReader) -> object:
        if reader.token is not Token.OBJECT:
            _fail(reader, "an object")
        values, cause = read_fields(reader)
        struct = dict(zip(names, values, strict=True))
        if cause is not None:
            raise PartialValueError(struct, cause)
        return struct

    return read


def _array(kind: pa.ListType, options: JsonOptions, place: str) -> ValueReader:
    read_value = _reader_of(kind.value_type, options, f"{place}.element")

    def read(reader: JsonReader) -> object:
        if reader.token is not Token.ARRAY:
            _fail(reader, "an array")
        values: list[object] = []
        cause: BrokenJsonError | None = None
        while reader.advance() not in _ARRAY_ENDS:
            try:
                values.append(read_value(reader))
            except PartialValueError as partial:
                cause = cause or partial.cause
                values.append(partial.value)
        if cause is not None:
            raise PartialValueError(values, cause)
        return values

    return read


def _map(kind: pa.MapType, options: JsonOptions, place: str) -> ValueReader:
    read_value = _reader_of(kind.item_type, options, f"{place}.value")

    def read(reader: JsonReader) -> object:
        if reader.token is not Token.OBJECT:
            _fail(reader, "an object")
        pairs: list[tuple[str, object]] = []
        cause: BrokenJsonError | None = None
        broken: BrokenJsonError | None = None
        while reader.advance() not in _OBJECT_ENDS:
            key = _valid(reader.name or "")
            try:
                pairs.append((key, read_value(reader)))
            except PartialValueError as partial:
                cause = cause or partial.cause
                pairs.append((key, partial.value))
            except BrokenJsonError as fault:
                broken = broken or fault
                reader.skip_children()
        if broken is not None:
            raise broken
        if cause is not None:
            raise PartialValueError(pairs, cause)
        return pairs

    return read
