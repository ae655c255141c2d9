"""Decodes payloads one by one, by fastavro, for schemas with arrays and maps.

The library reads plain types: texts are bytes, and symbols are numbers, which have the same encoding. So all formats
of values are converted by the columns of `leaves`. Each branch of a union is a record with one field, which also has
the same encoding, and says which branch it was.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.payload.avro.plan import Plan, non_null
from jetspark.payload.avro.schema import AvroType
from jetspark.payload.faults import Faults

__all__ = ["decode_rows", "plain_schema"]

_PLAIN: Final = {"int": "long", "enum": "long", "string": "bytes"}


def plain_schema(node: AvroType, number: Callable[[], int] | None = None) -> str | list[Any] | dict[str, Any]:
    """Return a schema with the same encoding, for fastavro. Its named types are numbered."""
    if number is None:
        number = iter(range(1 << 30)).__next__
    name = f"T{number()}"
    match node.kind:
        case "record":
            fields = [{"name": each, "type": plain_schema(inner, number)} for each, inner in node.fields]
            return {"type": "record", "name": name, "fields": fields}
        case "array" | "map":
            assert node.items is not None
            key = "items" if node.kind == "array" else "values"
            return {"type": node.kind, key: plain_schema(node.items, number)}
        case "fixed":
            return {"type": "fixed", "name": name, "size": node.size}
        case "union":
            return [_plain_branch(node, at, number) for at in range(len(node.branches))]
    return _PLAIN.get(node.kind, node.kind)


def _plain_branch(node: AvroType, at: int, number: Callable[[], int]) -> str | list[Any] | dict[str, Any]:
    branch = node.branches[at]
    plain = plain_schema(branch, number)
    if branch.kind == "null" or len(non_null(node)) == 1:
        return plain
    return {"type": "record", "name": f"T{number()}", "fields": [{"name": f"m{at}", "type": plain}]}


def decode_rows(payloads: pa.BinaryArray, plan: Plan, faults: Faults) -> list[pa.Array]:
    """Return the columns of payloads. Payloads with faults have any values."""
    from fastavro import parse_schema, schemaless_reader

    schema = parse_schema(plain_schema(plan.node))
    found: list[object] = []
    for row, payload in enumerate(payloads.to_pylist()):
        if payload is None:
            found.append(None)
            continue
        value, reason = None, ""
        try:
            stream = io.BytesIO(payload)
            value = schemaless_reader(stream, schema, None)
            rest = len(payload) - stream.tell()
            if rest:
                reason = f"{rest} bytes follow the record"
        except EOFError:
            reason = "the payload ends within the record"
        except Exception as error:  # noqa: BLE001 - the library raises whatever the bytes lead to
            reason = f"the payload is not a record of the schema: {type(error).__name__}: {error}"
        if reason:
            faults.mark(np.array([row]), reason)
        found.append(value)
    array = pa.array(found, _plain_type(plan))
    rows = np.arange(len(payloads))
    return [_convert(part, array.field(at), rows, faults) for at, (_, part) in enumerate(plan.parts)]


def _plain_type(plan: Plan) -> pa.DataType:
    """Return the Arrow type of the values that fastavro gives, with only the wanted fields."""
    if plan.leaf is not None:
        return plan.leaf.physical
    inner = [_plain_type(part) for _, part in plan.parts]
    match plan.node.kind:
        case "record":
            names = [plan.node.fields[at][0] for at, _ in plan.parts]
            return pa.struct(list(zip(names, inner, strict=True)))
        case "array":
            return pa.list_(inner[0])
        case "map":
            return pa.map_(pa.string(), inner[0])
    if len(non_null(plan.node)) == 1:
        return inner[0]
    return pa.struct([(f"m{at}", each) for (at, _), each in zip(plan.parts, inner, strict=True)])


def _convert(plan: Plan, array: pa.Array, rows: NDArray[np.int64], faults: Faults) -> pa.Array:
    """Return values as the wanted type; `rows` are the payloads that they are from."""
    if plan.leaf is not None:
        return convert_leaf(plan, array, rows, faults)
    mask = array.is_null() if array.null_count else None
    if plan.node.kind in {"array", "map"}:
        lengths = pc.fill_null(pc.list_value_length(array) if plan.node.kind == "array" else _map_lengths(array), 0)
        inner = np.repeat(rows, lengths.to_numpy())
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy())]).astype(np.int32))
        (_, part) = plan.parts[0]
        if plan.node.kind == "map":
            items = _convert(part, array.items, inner, faults)
            return pa.MapArray.from_arrays(offsets, array.keys, items, plan.target, mask=mask)
        items = _convert(part, array.values, inner, faults)
        if pa.types.is_large_list(plan.target):
            return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), items, plan.target, mask=mask)
        return pa.ListArray.from_arrays(offsets, items, plan.target, mask=mask)
    if plan.node.kind == "union" and len(non_null(plan.node)) == 1:
        return _convert(plan.parts[0][1], array, rows, faults)
    columns = [_convert(part, array.field(at), rows, faults) for at, (_, part) in enumerate(plan.parts)]
    if plan.node.kind == "union" and not plan.has_members:
        return pc.coalesce(*columns)
    return pa.StructArray.from_arrays(columns, fields=list(plan.target), mask=mask)


def _map_lengths(array: pa.MapArray) -> pa.Array:
    offsets = array.offsets.to_numpy()
    return pa.array(np.diff(offsets))


def convert_leaf(plan: Plan, array: pa.Array, rows: NDArray[np.int64], faults: Faults) -> pa.Array:
    """Return values without inner types as the wanted type."""
    assert plan.leaf is not None
    values, wrong = plan.leaf.convert(array)
    if wrong is not None and wrong.any():
        faults.mark(rows[wrong], f"field {plan.path} {plan.leaf.fault}")
    return values
