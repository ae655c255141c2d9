"""Encodes rows as Avro records. The mapping is that of Spark's to_avro."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.jetstream.errors import ConfigError, PayloadError
from jetspark.payload.avro.plan import Plan, non_null
from jetspark.payload.avro.rows import plain_schema
from jetspark.payload.avro.schema import AvroType

__all__ = ["encode_rows"]

Rows = NDArray[np.int64]


def encode_rows(rows: pa.RecordBatch, plan: Plan, header: bytes) -> pa.BinaryArray:
    """Return one payload for each row: the header and the record.

    Raises
    ------
    PayloadError
        A value does not fit; the error names row and column.
    ConfigError
        A field of the schema that may not be null has no column.
    """
    from fastavro import parse_schema, schemaless_writer

    _check_complete(plan)
    schema = parse_schema(plain_schema(plan.node))
    numbers = np.arange(rows.num_rows)
    found = []
    for record in _records(plan, list(rows.columns), numbers):
        stream = io.BytesIO()
        stream.write(header)
        schemaless_writer(stream, schema, record)
        found.append(stream.getvalue())
    return pa.array(found, pa.binary())


def _check_complete(plan: Plan) -> None:
    """Raise a ConfigError unless all fields of all records have columns, or may be null."""
    if plan.node.kind == "record":
        given = {at for at, _ in plan.parts}
        for at, (name, node) in enumerate(plan.node.fields):
            if at not in given and not _is_nullable(node):
                place = f"{plan.path}.{name}" if plan.path else name
                raise ConfigError(f"field {place} ({node}) of the Avro schema may not be null, and has no column")
    for _, part in plan.parts:
        _check_complete(part)


def _is_nullable(node: AvroType) -> bool:
    return node.kind == "null" or any(each.kind == "null" for each in node.branches)


def _records(plan: Plan, columns: list[pa.Array], rows: Rows) -> list[dict[str, object]]:
    names = [plan.node.fields[at][0] for at, _ in plan.parts]
    values = [_values(part, column, rows) for (_, part), column in zip(plan.parts, columns, strict=True)]
    if not names:
        return [{} for _ in rows]
    return [dict(zip(names, each, strict=True)) for each in zip(*values, strict=True)]


def _values(plan: Plan, array: pa.Array, rows: Rows) -> list[object]:
    """Return values for fastavro; `rows` are the rows that they are from."""
    if plan.node.kind == "union":
        return _union(plan, array, rows)
    if array.null_count and plan.node.kind != "null":
        row = rows[pc.index(array.is_null(), True).as_py()]
        raise PayloadError(f"row {row}, column {plan.path}: it is null, and {plan.node} in the Avro schema may not be")
    if plan.node.kind == "record":
        return list(_records(plan, array.flatten(), rows))
    if plan.node.kind in {"array", "map"}:
        return _sequences(plan, array, rows)
    return _leaf(plan, array, rows)


def _sequences(plan: Plan, array: pa.Array, rows: Rows) -> list[object]:
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, stop = int(offsets[0]), int(offsets[-1])
    inner = np.repeat(rows, np.diff(offsets))
    bounds = (offsets - first).tolist()
    part = plan.parts[0][1]
    if plan.node.kind == "array":
        values = _values(part, array.values.slice(first, stop - first), inner)
        return [values[begin:end] for begin, end in pairwise(bounds)]
    keys = array.keys.slice(first, stop - first).to_pylist()
    values = _values(part, array.items.slice(first, stop - first), inner)
    pairs = list(zip(keys, values, strict=True))
    return [dict(pairs[begin:end]) for begin, end in pairwise(bounds)]


def _union(plan: Plan, array: pa.Array, rows: Rows) -> list[object]:
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all() and not _is_nullable(plan.node):
        raise PayloadError(
            f"row {rows[~valid][0]}, column {plan.path}: it is null, which the {plan.node} does not have"
        )
    there, present = array.filter(pa.array(valid)), rows[valid]
    if len(non_null(plan.node)) == 1:
        found = _values(plan.parts[0][1], there, present)
    elif plan.has_members:
        found = _members(plan, there, present)
    else:  # the wider number has all values
        at, part = max(plan.parts, key=lambda each: each[1].node.kind in {"long", "double"})
        found = [{f"m{at}": value} for value in _values(part, there, present)]
    values = iter(found)
    return [next(values) if each else None for each in valid.tolist()]


def _members(plan: Plan, array: pa.Array, rows: Rows) -> list[object]:
    """Return the first member of each struct that is not null."""
    found: list[object] = [None] * len(array)  # as `plain_schema` wraps branches
    is_open = np.ones(len(array), bool)
    for (at, part), column in zip(plan.parts, array.flatten(), strict=True):
        chosen = column.is_valid().to_numpy(zero_copy_only=False) & is_open
        values = _values(part, column.filter(pa.array(chosen)), rows[chosen])
        for place, value in zip(np.flatnonzero(chosen).tolist(), values, strict=True):
            found[place] = {f"m{at}": value}
        is_open &= ~chosen
    if is_open.any() and not _is_nullable(plan.node):
        raise PayloadError(f"row {rows[is_open][0]}, column {plan.path}: no member of the {plan.node} has a value")
    return found


def _leaf(plan: Plan, array: pa.Array, rows: Rows) -> list[object]:
    assert plan.leaf is not None
    try:
        values, wrong = plan.leaf.revert(array)
    except pa.ArrowInvalid as error:
        raise PayloadError(f"column {plan.path}: a value does not fit {plan.node}: {error}") from None
    if wrong is not None and wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        shown = (
            str(array[row].as_py())[:100] if not pa.types.is_binary(array.type) else f"{len(array[row].as_py())} bytes"
        )
        raise PayloadError(f"row {rows[row]}, column {plan.path}: {shown} does not fit {plan.node}")
    return values
