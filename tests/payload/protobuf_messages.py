"""Generated Protobuf messages: their descriptors, values as a message takes them, and values as Arrow returns them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message
from hypothesis import strategies as st

__all__ = ["File", "Messages", "filled", "messages"]

F = FieldDescriptorProto
Pair = tuple[Any, Any]
"""A value of a message, and the value of the column."""
_INTS = {32: st.integers(-(1 << 31), (1 << 31) - 1), 64: st.integers(-(1 << 63), (1 << 63) - 1)}


def _wrapped(bits: int) -> st.SearchStrategy[Pair]:
    """Unsigned numbers, which become negative in a column of Spark."""
    return st.integers(0, (1 << bits) - 1).map(lambda value: (value, value - (value >> (bits - 1) << bits)))


_NUMBERS: dict[int, st.SearchStrategy[Pair]] = {
    **{kind: _INTS[32].map(lambda v: (v, v)) for kind in (F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32)},
    **{kind: _INTS[64].map(lambda v: (v, v)) for kind in (F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64)},
    **{kind: _wrapped(32) for kind in (F.TYPE_UINT32, F.TYPE_FIXED32)},
    **{kind: _wrapped(64) for kind in (F.TYPE_UINT64, F.TYPE_FIXED64)},
}
_SCALARS: dict[int, st.SearchStrategy[Pair]] = {
    **_NUMBERS,
    F.TYPE_BOOL: st.booleans().map(lambda v: (v, v)),
    F.TYPE_STRING: st.text(max_size=10).map(lambda v: (v, v)),
    F.TYPE_BYTES: st.binary(max_size=10).map(lambda v: (v, v)),
    F.TYPE_FLOAT: st.floats(width=32, allow_nan=False).map(lambda v: (v, v)),
    F.TYPE_DOUBLE: st.floats(allow_nan=False).map(lambda v: (v, v)),
    F.TYPE_ENUM: st.sampled_from([(0, "NONE"), (1, "ONE"), (-3, "LESS"), (9, "UNKNOWN_ENUM_VALUE_Kind_9")]),
}
_KINDS = sorted(_SCALARS)
_KEYS = [*_NUMBERS, F.TYPE_STRING, F.TYPE_BOOL]


@dataclass
class File:
    """One file of descriptors."""

    proto: FileDescriptorProto = field(
        default_factory=lambda: FileDescriptorProto(name="generated.proto", package="g", syntax="proto3")
    )
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        kind = self.proto.enum_type.add(name="Kind")
        for name, number in (("NONE", 0), ("ONE", 1), ("LESS", -3)):
            kind.value.add(name=name, number=number)

    @property
    def descriptors(self) -> bytes:
        """The descriptor set."""
        return bytes(FileDescriptorSet(file=[self.proto]).SerializeToString())


@dataclass(frozen=True)
class Messages:
    """A message and its values: pairs of what is written and what is read."""

    name: str
    values: st.SearchStrategy[tuple[dict[str, Any], dict[str, Any]]]


def _is_zero(value: Any) -> bool:
    return not value and math.copysign(1, value if isinstance(value, float) else 1) > 0


@st.composite
def _fields(draw: st.DrawFn, file: File, message: DescriptorProto, name: str, depth: int) -> st.SearchStrategy[Pair]:
    shape = draw(st.sampled_from(["implicit", "present", "repeated", "map", *(["inner"] if depth else [])]))
    number = len(message.field) + 1
    added = message.field.add(name=name, number=number, label=F.LABEL_OPTIONAL)
    if shape == "inner":
        inner = draw(_declared(file, depth - 1))
        repeated = draw(st.booleans())
        added.type, added.type_name = F.TYPE_MESSAGE, f".g.{inner.name}"
        added.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
        return _lists(inner.values) if repeated else st.just((None, None)) | inner.values
    added.type = draw(st.sampled_from(_KINDS))
    values = _SCALARS[added.type]
    if added.type == F.TYPE_ENUM:
        added.type_name = ".g.Kind"
    if shape == "implicit":
        return values.map(lambda pair: (pair[0], None if _is_zero(pair[0]) else pair[1]))
    if shape == "repeated":
        added.label = F.LABEL_REPEATED
        return _lists(values)
    if shape == "map":
        return draw(_maps(message, added, values))
    added.oneof_index = len(message.oneof_decl)
    message.oneof_decl.add(name=f"_{name}")
    added.proto3_optional = int(message.name[-1]) % 2 == 0  # a message has one kind: the library wants them in an order
    return st.just((None, None)) | values


def _lists(values: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.lists(values, max_size=3).map(lambda pairs: ([each for each, _ in pairs], [each for _, each in pairs]))


@st.composite
def _maps(
    draw: st.DrawFn, message: DescriptorProto, added: FieldDescriptorProto, values: st.SearchStrategy[Pair]
) -> st.SearchStrategy[Pair]:
    entry = message.nested_type.add(name=f"{added.name.capitalize()}Entry")
    entry.options.map_entry = True
    kind = draw(st.sampled_from(_KEYS))
    entry.field.add(name="key", number=1, type=kind, label=F.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=added.type, type_name=added.type_name or None, label=F.LABEL_OPTIONAL)
    added.type, added.label = F.TYPE_MESSAGE, F.LABEL_REPEATED
    added.type_name = f".g.{message.name}.{entry.name}"
    pairs = st.lists(st.tuples(_SCALARS[kind], values), max_size=3, unique_by=lambda pair: pair[0][0])
    return pairs.map(lambda found: ({k[0]: v[0] for k, v in found}, {k[1]: v[1] for k, v in found}))


@st.composite
def _declared(draw: st.DrawFn, file: File, depth: int) -> Messages:
    message = file.proto.message_type.add(name=f"Message{next(file.numbers)}")
    names = [f"f{at}" for at in range(draw(st.integers(1, 5)))]
    inner = [draw(_fields(file, message, name, depth)) for name in names]
    values = st.tuples(*inner).map(
        lambda pairs: (
            {name: pair[0] for name, pair in zip(names, pairs, strict=True)},
            {name: pair[1] for name, pair in zip(names, pairs, strict=True)},
        )
    )
    return Messages(message.name, values)


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, str, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Return descriptors, the name of a message, and values: pairs of what is written and what is read."""
    file = File()
    declared = draw(_declared(file, 2))
    return file.descriptors, declared.name, draw(st.lists(declared.values, max_size=4))


def filled(message: Message, values: dict[str, Any]) -> Message:
    """Set the fields of a message."""
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, dict):
            inner = getattr(message, name)
            if hasattr(inner, "DESCRIPTOR"):
                inner.SetInParent()
                filled(inner, value)
            else:
                inner.update(value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for each in value:
                filled(getattr(message, name).add(), each)
        elif isinstance(value, list):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    return message
