"""Which fields of an Avro schema become which columns. The mapping is that of Spark's from_avro."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.avro.leaves import Leaf, find_leaf, natural_leaf
from jetspark.payload.avro.schema import AvroType
from jetspark.wire.arguments import nearest_name

__all__ = ["Plan", "natural_schema", "natural_type", "non_null", "plan_record", "plan_type"]

_NUMBERS = ({"int", "long"}, {"float", "double"})
"""Unions that are one number."""


@dataclass(frozen=True)
class Plan:
    """The way from one Avro type to an Arrow type.

    Attributes
    ----------
    node
        The Avro type.
    target
        The Arrow type.
    path
        Its place, for errors.
    leaf
        The conversion of a type that has no inner types.
    parts
        The inner types that are wanted, with their places: fields of a record or branches of a union. The items of an
        array or the values of a map are part 0.
    """

    node: AvroType
    target: pa.DataType
    path: str
    leaf: Leaf | None = None
    parts: tuple[tuple[int, Plan], ...] = ()

    @property
    def has_members(self) -> bool:
        """Whether it is a union that becomes a struct with one member for each branch."""
        return self.node.kind == "union" and not _is_one_type(non_null(self.node))


def non_null(node: AvroType) -> list[AvroType]:
    """Return the branches of a union that are not null; of ["null"] it is that one."""
    return [each for each in node.branches if each.kind != "null"] or list(node.branches)


def _is_one_type(branches: list[AvroType]) -> bool:
    kinds = {each.kind for each in branches}
    return len(branches) == 1 or (len(branches) == 2 and kinds in _NUMBERS)


def natural_type(node: AvroType) -> pa.DataType:
    """Return the Arrow type that fits a type best, which is the one of Spark's from_avro."""
    match node.kind:
        case "record":
            return pa.struct([pa.field(name, natural_type(each)) for name, each in node.fields])
        case "array":
            assert node.items is not None
            return pa.list_(natural_type(node.items))
        case "map":
            assert node.items is not None
            return pa.map_(pa.string(), natural_type(node.items))
        case "union":
            branches = non_null(node)
            if len(branches) == 1:
                return natural_type(branches[0])
            if _is_one_type(branches):
                return pa.int64() if branches[0].kind in {"int", "long"} else pa.float64()
            return pa.struct([pa.field(f"member{at}", natural_type(each)) for at, each in enumerate(branches)])
    return natural_leaf(node)


def natural_schema(node: AvroType) -> pa.Schema:
    """Return the columns of all fields of a record."""
    return pa.schema([pa.field(name, natural_type(each)) for name, each in node.fields])


def plan_record(node: AvroType, fields: list[pa.Field], path: str = "", *, lenient: bool = False) -> Plan:
    """Return the way from a record to fields, which are found by their names.

    Parameters
    ----------
    node
        The record.
    fields
        Wanted fields.
    path
        Place of the record, for errors.
    lenient
        Whether the record may lack fields.

    Raises
    ------
    ConfigError
        The record has no such field, or its type does not become the wanted one.
    """
    names = {name: at for at, (name, _) in enumerate(node.fields)}
    parts = []
    for field in fields:
        if field.name in names:
            at = names[field.name]
            parts.append((at, plan_type(node.fields[at][1], field.type, f"{path}{field.name}")))
        elif not lenient:
            nearest = nearest_name(field.name, names)
            hint = f"; did you mean {nearest}?" if nearest else ""
            raise ConfigError(
                f"column {path}{field.name} ({field.type}): record {node.name} of the Avro schema has no such field"
                f"{hint}"
            )
    return Plan(node, pa.struct(fields), path.rstrip("."), parts=tuple(parts))


def plan_type(node: AvroType, target: pa.DataType, path: str) -> Plan:
    """Return the way from a type to an Arrow type. Raises ConfigError if there is none."""
    match node.kind:
        case "union":
            return _plan_union(node, target, path)
        case "record" if pa.types.is_struct(target):
            return Plan(node, target, path, parts=plan_record(node, list(target), f"{path}.").parts)
        case "array" if pa.types.is_list(target) or pa.types.is_large_list(target):
            assert node.items is not None
            return Plan(node, target, path, parts=((0, plan_type(node.items, target.value_type, f"{path}.element")),))
        case "map" if pa.types.is_map(target) and target.key_type == pa.string():
            assert node.items is not None
            return Plan(node, target, path, parts=((0, plan_type(node.items, target.item_type, f"{path}.value")),))
        case "record" | "array" | "map":
            raise _mismatch(node, target, path)
    leaf = find_leaf(node, target)
    if leaf is None:
        raise _mismatch(node, target, path)
    return Plan(node, target, path, leaf)


def _plan_union(node: AvroType, target: pa.DataType, path: str) -> Plan:
    branches = non_null(node)
    places = {id(each): at for at, each in enumerate(node.branches)}
    if _is_one_type(branches):
        parts = [(places[id(each)], plan_type(each, target, path)) for each in branches]
        return Plan(node, target, path, parts=tuple(parts))
    if not pa.types.is_struct(target):
        raise _mismatch(node, target, path)
    members = {f"member{at}": each for at, each in enumerate(branches)}
    parts = []
    for field in target:
        if field.name not in members:
            raise ConfigError(
                f"column {path}.{field.name} ({field.type}): the Avro type is a {node}, whose members are "
                f"{', '.join(members)}"
            )
        each = members[field.name]
        parts.append((places[id(each)], plan_type(each, field.type, f"{path}.{field.name}")))
    return Plan(node, target, path, parts=tuple(parts))


def _mismatch(node: AvroType, target: pa.DataType, path: str) -> ConfigError:
    return ConfigError(f"column {path} is {target}, but the Avro type is {node}, which becomes {natural_type(node)}")
