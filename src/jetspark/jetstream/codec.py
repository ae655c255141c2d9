"""Convert the server's JSON to structs and back, without loss.

A newer server sends fields that this library does not know. Reading them must not fail, and a configuration that is
read, changed and written back must keep them. So structs forbid unknown fields, and the usual reply is read in one fast
pass of msgspec. If this pass finds an unknown field (or an unexpected null), the reply is read again, field by field.
Then unknown fields are kept in `extra` of their struct.

The type of a value decides how it is written: a `timedelta` as integer nanoseconds, a `datetime` as RFC 3339 text; None
is left out. So an unset field is never sent, and the server uses its default (ADR-1).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from typing import Any, Final, Self, TypeVar, cast

import msgspec
from msgspec import inspect

from jetspark.jetstream.times import Duration, Timestamp, duration_ns, format_rfc3339, time_ns
from jetspark.wire.errors import ConfigError
from jetspark.wire.untrusted import MAX_INT64, decode_json

__all__ = ["JsonEnum", "JsonStruct", "KeywordStruct", "build", "decode", "encode", "to_builtins"]

T = TypeVar("T", bound="JsonStruct")
V = TypeVar("V")

_encoder: Final = msgspec.json.Encoder()
_document_decoder: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(object)


class JsonEnum(StrEnum):
    """Enumeration that accepts unknown words: a policy of a newer server is kept and written back unchanged."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = value
        member._value_ = value
        return member


class KeywordStruct(msgspec.Struct, repr_omit_defaults=True):
    """Base class of structs whose fields are also the keywords of calls."""

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed. Raises TypeError for a field that does not exist."""
        return msgspec.structs.replace(self, **changes)


class JsonStruct(KeywordStruct, kw_only=True, forbid_unknown_fields=True):
    """Base class of structs that are read from the server's JSON."""

    extra: dict[str, object] = msgspec.field(default_factory=dict, name="$extra")
    """Fields of the JSON that this version does not know, unchanged; they are written back too."""


def decode(cls: type[T], payload: bytes) -> T:
    """Read JSON into a struct.

    Raises msgspec.DecodeError if the payload is not JSON, or if a known field has a value of the wrong type.
    """
    try:
        return cast("T", decode_json(_decoder(cls), payload))
    except msgspec.ValidationError:
        document = decode_json(_document_decoder, payload)
        if not isinstance(document, dict):
            raise
    return build(cls, document)


def encode(value: JsonStruct | Mapping[str, object]) -> bytes:
    """Write a struct, or a mapping of values of the types that structs may have, as JSON.

    Raises ConfigError for an integer of more than 64 bits, a lone surrogate, or a document that is nested too deeply.
    """
    try:
        return _encoder.encode(to_builtins(value))
    except (OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise ConfigError(f"a value cannot be written as JSON: {error}") from None


def to_builtins(value: object) -> object:
    """Return a value in JSON types: structs become dictionaries without the fields that are None."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, JsonStruct):
        return _struct_to_builtins(value)
    if isinstance(value, timedelta):
        return duration_ns(value)
    if isinstance(value, datetime):
        return format_rfc3339(time_ns(value))
    if isinstance(value, Mapping):
        return {key: to_builtins(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode("ascii")
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_builtins(item) for item in value]
    raise TypeError(f"cannot write a value of type {type(value).__name__} as JSON: {value!r}")


def _struct_to_builtins(struct: JsonStruct) -> dict[str, object]:
    out: dict[str, object] = {}
    for attribute, key in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        if attribute != "extra":
            value = getattr(struct, attribute)
            if value is not None:
                out[key] = to_builtins(value)
    out.update(struct.extra)
    return out


def _hook(cls: type, value: object) -> object:
    if cls is Duration and isinstance(value, int) and abs(value) <= MAX_INT64:
        return Duration.from_ns(value)
    if cls is Timestamp and isinstance(value, str):
        return Timestamp.parse(value)
    raise ValueError(f"cannot read {value!r} as {cls.__name__}")


@cache
def _decoder(cls: type[JsonStruct]) -> msgspec.json.Decoder[JsonStruct]:
    return msgspec.json.Decoder(cls, dec_hook=_hook)


# The slow path, for replies of newer servers. A reader takes a JSON value and returns the field's value.
_Reader = Callable[[object], object]


def build(cls: type[T], document: dict[str, object]) -> T:
    """Make a struct from a JSON object. Raises msgspec.ValidationError if a known field has a wrong type."""
    readers = _readers(cls)
    fields: dict[str, object] = {}
    extra: dict[str, object] = {}
    for key, value in document.items():
        known = readers.get(key)
        if known is None:
            extra[key] = value
            continue
        name, nullable, read = known
        if value is None:
            if nullable:
                fields[name] = None
            continue
        fields[name] = read(value)
    if extra:
        fields["extra"] = extra
    try:
        return cls(**cast("dict[str, Any]", fields))
    except TypeError as error:
        raise msgspec.ValidationError(str(error)) from None


@cache
def _readers(cls: type[JsonStruct]) -> dict[str, tuple[str, bool, _Reader]]:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    out: dict[str, tuple[str, bool, _Reader]] = {}
    for field in info.fields:
        if field.name != "extra":
            kind, nullable = _without_none(field.type)
            out[field.encode_name] = (field.name, nullable, _reader(kind))
    return out


def _without_none(kind: inspect.Type) -> tuple[inspect.Type, bool]:
    if isinstance(kind, inspect.UnionType):
        rest = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
        assert len(rest) == 1, "a field is of one type, or of one type and None"
        return rest[0], len(rest) < len(kind.types)
    return kind, False


_LEAVES: Final[dict[type[inspect.Type], type]] = {
    inspect.BoolType: bool,
    inspect.IntType: int,
    inspect.StrType: str,
    inspect.BytesType: bytes,
}


def _reader(kind: inspect.Type) -> _Reader:
    match kind:
        case inspect.StructType(cls=struct):
            assert issubclass(struct, JsonStruct)
            return partial(_read_struct, struct)
        case inspect.ListType(item_type=item):
            return partial(_read_list, _reader(item))
        case inspect.DictType(value_type=item):
            return partial(_read_dict, _reader(item))
        case inspect.CustomType(cls=leaf) | inspect.EnumType(cls=leaf):
            return partial(_read_leaf, leaf)
        case _:
            return partial(_read_leaf, _LEAVES[type(kind)])


def _read_leaf(cls: type[V], value: object) -> V:
    return msgspec.convert(value, cls, dec_hook=_hook)


def _read_struct(cls: type[JsonStruct], value: object) -> object:
    return build(cls, _read_leaf(dict, value))


def _read_list(read: _Reader, value: object) -> object:
    return [read(item) for item in _read_leaf(list, value)]


def _read_dict(read: _Reader, value: object) -> object:
    return {key: read(item) for key, item in _read_leaf(dict, value).items()}
