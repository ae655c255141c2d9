"""Which fields of a Protobuf message become which columns. The mapping is that of Spark's from_protobuf."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.protobuf.descriptors import is_repeated
from jetspark.wire.arguments import nearest_name

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = ["Field", "Natural", "Value", "natural_schema", "plan_message"]

_MAX_FIELDS: Final = 10_000
"""Fields of inferred columns, each counted as often as it is used."""
_MICROS: Final = pa.timestamp("us", "UTC")
_SCALARS: Final = {
    1: pa.float64(), 2: pa.float32(), 3: pa.int64(), 4: pa.uint64(), 5: pa.int32(), 6: pa.uint64(), 7: pa.uint32(),
    8: pa.bool_(), 9: pa.string(), 12: pa.binary(), 13: pa.uint32(), 15: pa.int32(), 16: pa.int64(), 17: pa.int32(),
    18: pa.int64(),
}  # fmt: skip
"""The values of each type of a field, by the numbers that descriptors have."""
_KIND_NAMES: Final = {10: "group", 11: "message", 14: "enum"}
_TARGETS: Final[dict[pa.DataType, tuple[pa.DataType, ...]]] = {
    pa.bool_(): (pa.bool_(),),
    pa.int32(): (pa.int32(), pa.int64()),
    pa.int64(): (pa.int64(),),
    pa.uint32(): (pa.int32(), pa.int64(), pa.uint32()),
    pa.uint64(): (pa.int64(), pa.decimal128(20, 0), pa.uint64()),
    pa.float32(): (pa.float32(), pa.float64()),
    pa.float64(): (pa.float64(),),
    pa.string(): (pa.string(), pa.large_string()),
    pa.binary(): (pa.binary(), pa.large_binary()),
}
"""The columns that values may become, first the one of Spark. An unsigned number in a signed column may be negative."""
_ENUMS: Final = (pa.string(), pa.large_string(), pa.int32(), pa.int64())


@dataclass(frozen=True)
class Value:
    """The way from the values of a field to an Arrow type.

    Attributes
    ----------
    kind
        `scalar`, `enum`, `message`, `timestamp`, `duration` or `wrapper`.
    target
        The Arrow type.
    plain
        Type of scalar values.
    symbols
        Numbers and names of an enum, and what unknown numbers are called.
    fields
        Of a message; a wrapper has one.
    """

    kind: str
    target: pa.DataType
    plain: pa.DataType | None = None
    symbols: tuple[tuple[int, str], ...] = ()
    unknown: str = ""
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Field:
    """One field of a message.

    Attributes
    ----------
    name
        Its name.
    path
        Its place, for errors.
    target
        The Arrow type of its column.
    value
        Its value, or the values of its list or map.
    shape
        `one`, `list` or `map`.
    key
        Keys of a map.
    has_presence
        Whether a message says if it has the field. If not, it does not have a zero.
    default
        Default of the field; None if it has none.
    """

    name: str
    path: str
    target: pa.DataType
    value: Value
    shape: str = "one"
    key: Value | None = None
    has_presence: bool = True
    default: object = None


@dataclass(frozen=True)
class Natural:
    """How columns are inferred, by Spark's options.

    Attributes
    ----------
    enums_as_ints
        Whether enums are numbers.
    upcast_unsigned
        Whether unsigned numbers get a wider type.
    unwrap
        Whether wrappers, such as Int32Value, are their values.
    max_depth
        How often a message may be inside of itself; 0 refuses it.
    """

    enums_as_ints: bool = False
    upcast_unsigned: bool = False
    unwrap: bool = False
    max_depth: int = 0


def plan_message(descriptor: Descriptor, fields: list[pa.Field], path: str = "") -> tuple[Field, ...]:
    """Return the way from a message to fields, which are found by their names.

    Raises
    ------
    ConfigError
        The message has no such field, or its type does not become the wanted one.
    """
    found = []
    for field in fields:
        known = descriptor.fields_by_name.get(field.name)
        if known is None:
            nearest = nearest_name(field.name, list(descriptor.fields_by_name.keys()))
            hint = f"; did you mean {nearest}?" if nearest else ""
            raise ConfigError(
                f"column {path}{field.name} ({field.type}): message {descriptor.full_name} has no such field{hint}"
            )
        found.append(_plan_field(known, field.type, f"{path}{field.name}"))
    return tuple(found)


def _plan_field(field: FieldDescriptor, target: pa.DataType, path: str) -> Field:
    if not is_repeated(field):
        default = field.default_value if field.has_default_value else None
        value = _plan_value(field, target, path)
        return Field(field.name, path, target, value, has_presence=field.has_presence, default=default)
    if _is_map(field):
        if not pa.types.is_map(target):
            raise _mismatch(field, target, path)
        key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
        return Field(
            field.name, path, target, _plan_value(value, target.item_type, f"{path}.value"), "map",
            _plan_value(key, target.key_type, f"{path}.key"),
        )  # fmt: skip
    if not (pa.types.is_list(target) or pa.types.is_large_list(target)):
        raise _mismatch(field, target, path)
    return Field(field.name, path, target, _plan_value(field, target.value_type, f"{path}.element"), "list")


def _plan_value(field: FieldDescriptor, target: pa.DataType, path: str) -> Value:
    plain = _SCALARS.get(field.type)
    if plain is not None and target in _TARGETS[plain]:
        return Value("scalar", target, plain)
    if field.enum_type is not None and target in _ENUMS:
        symbols: dict[int, str] = {}
        for each in field.enum_type.values:
            symbols.setdefault(each.number, each.name)
        unknown = f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_"
        return Value("enum", target, pa.int32(), tuple(symbols.items()), unknown)
    message = field.message_type
    if message is not None:
        if pa.types.is_struct(target):
            return Value("message", target, fields=plan_message(message, list(target), f"{path}."))
        if (
            _is_time(message, "Timestamp")
            and pa.types.is_timestamp(target)
            and target.tz
            and target.unit in {"us", "ns"}
        ):
            return Value("timestamp", target)
        if _is_time(message, "Duration") and target in {pa.duration("us"), pa.duration("ns")}:
            return Value("duration", target)
        if _is_wrapper(message):
            inner = _plan_field(message.fields_by_name["value"], target, path)
            return Value("wrapper", target, fields=(replace(inner, has_presence=True),))
    raise _mismatch(field, target, path)


def natural_schema(descriptor: Descriptor, natural: Natural) -> pa.Schema:
    """Return the columns of all fields of a message.

    Raises
    ------
    ConfigError
        The message is recursive, or has too many fields.
    """
    return pa.schema(_Inference(natural).fields(descriptor, {descriptor.full_name: 1}))


class _Inference:
    def __init__(self, natural: Natural) -> None:
        self._natural = natural
        self._count = 0

    def fields(self, descriptor: Descriptor, depths: dict[str, int]) -> list[pa.Field]:
        found = []
        for field in descriptor.fields:
            self._count += 1
            if self._count > _MAX_FIELDS:
                raise ConfigError(f"message {descriptor.full_name} has more than {_MAX_FIELDS} fields; give a schema")
            target = self._field(field, depths)
            if target is not None:
                found.append(pa.field(field.name, target))
        return found

    def _field(self, field: FieldDescriptor, depths: dict[str, int]) -> pa.DataType | None:
        if is_repeated(field) and _is_map(field):
            key, value = (self._value(field.message_type.fields_by_name[each], depths) for each in ("key", "value"))
            return None if value is None else pa.map_(key, value)
        value = self._value(field, depths)
        return pa.list_(value) if value is not None and is_repeated(field) else value

    def _value(self, field: FieldDescriptor, depths: dict[str, int]) -> pa.DataType | None:
        """Return the Arrow type; None for a message that has no fields, or is too often inside of itself."""
        plain = _SCALARS.get(field.type)
        if plain is not None:
            return _TARGETS[plain][1 if self._natural.upcast_unsigned and pa.types.is_unsigned_integer(plain) else 0]
        if field.enum_type is not None:
            return pa.int32() if self._natural.enums_as_ints else pa.string()
        message = field.message_type
        if _is_time(message, "Timestamp"):
            return _MICROS
        if _is_time(message, "Duration"):
            return pa.duration("us")
        if self._natural.unwrap and _is_wrapper(message):
            return self._value(message.fields_by_name["value"], depths)
        depth = depths.get(message.full_name, 0)
        if depth and not self._natural.max_depth:
            raise ConfigError(
                f"field {field.full_name}: message {message.full_name} is inside of itself; option "
                "recursive.fields.max.depth says how often it is a column, or give a schema"
            )
        if depth and depth >= self._natural.max_depth:
            return None
        inner = self.fields(message, {**depths, message.full_name: depth + 1})
        return pa.struct(inner) if inner else None


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_time(message: Descriptor, name: str) -> bool:
    """Return whether a message is a time; as in Spark, its name and its fields say so."""
    return message.name == name and [each.name for each in message.fields] == ["seconds", "nanos"]


def _is_wrapper(message: Descriptor) -> bool:
    return message.full_name.startswith("google.protobuf.") and message.full_name.endswith("Value") and (
        [each.name for each in message.fields] == ["value"] and not is_repeated(message.fields[0])
    )  # fmt: skip


def _mismatch(field: FieldDescriptor, target: pa.DataType, path: str) -> ConfigError:
    if field.message_type is not None:
        kind = (
            f"map of {field.full_name}"
            if is_repeated(field) and _is_map(field)
            else f"message {field.message_type.full_name}"
        )
    else:
        kind = f"enum {field.enum_type.full_name}" if field.enum_type is not None else _type_name(field)
    return ConfigError(
        f"column {path} is {target}, but the Protobuf type is {kind}{' (repeated)' * is_repeated(field)}"
    )


def _type_name(field: FieldDescriptor) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()
