"""Decodes all payloads of a column at once, field by field, for schemas without arrays and maps.

Each payload has a position. One field is read for all payloads, then the next. No loop runs over payloads, so a row
costs a tenth of what a call for each payload costs. Every position stays within its payload, whatever the bytes are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.payload.avro.plan import Plan
from jetspark.payload.avro.rows import convert_leaf
from jetspark.payload.avro.schema import AvroType
from jetspark.payload.faults import Faults
from jetspark.wire.vector.byte_spans import Bytes, Index, buffer_bytes, gather_spans, value_offsets

__all__ = ["decode_columns"]

_MAX_VARINT = 10


def decode_columns(payloads: pa.BinaryArray, plan: Plan, faults: Faults) -> list[pa.Array]:
    """Return the columns of payloads. Payloads with faults have any values."""
    return _Reader(payloads, faults).read_columns(plan)


class _Reader:
    """The positions of all payloads in their common buffer."""

    def __init__(self, payloads: pa.BinaryArray, faults: Faults) -> None:
        offsets = value_offsets(payloads)
        self._at, self._end = offsets[:-1].copy(), offsets[1:]
        buffer = payloads.buffers()[2]
        self._buffer: pa.Buffer = pa.py_buffer(b"\0") if buffer is None or not buffer.size else buffer
        self._bytes: Bytes = np.frombuffer(buffer_bytes(self._buffer), np.uint8)
        self._faults = faults
        self._at[faults.bad] = self._end[faults.bad]

    def read_columns(self, plan: Plan) -> list[pa.Array]:
        rows = np.arange(len(self._at))
        columns = self._read_fields(plan, rows)
        rest = rows[self._at < self._end]
        if len(rest):
            self._fail(rest, "bytes follow the record")
        return columns

    def _read_fields(self, plan: Plan, rows: Index) -> list[pa.Array]:
        """Read a record; return the wanted fields, in their order."""
        found: dict[int, pa.Array] = {}
        wanted = dict(plan.parts)
        for at, (name, node) in enumerate(plan.node.fields):
            if at in wanted:
                found[at] = self._read(wanted[at], rows)
            else:
                self._skip(node, rows, f"{plan.path}.{name}" if plan.path else name)
        return [found[at] for at, _ in plan.parts]

    def _read(self, plan: Plan, rows: Index) -> pa.Array:
        if plan.leaf is not None:
            return convert_leaf(plan, self._read_plain(plan.node, rows, plan.path), rows, self._faults)
        if plan.node.kind == "record":
            columns = self._read_fields(plan, rows)
            return (
                pa.StructArray.from_arrays(columns, fields=list(plan.target)) if columns else _empty_structs(len(rows))
            )
        branches = self._read_branches(plan.node, rows, plan.path)
        wanted = dict(plan.parts)
        found: dict[int, pa.Array] = {}
        for at, node in enumerate(plan.node.branches):
            chosen = branches == at
            if at in wanted:
                found[at] = _spread(self._read(wanted[at], rows[chosen]), chosen)
            elif chosen.any():
                self._skip(node, rows[chosen], plan.path)
        columns = [found[at] for at, _ in plan.parts]
        if not plan.has_members:
            return columns[0] if len(columns) == 1 else pc.coalesce(*columns)
        nulls = [at for at, node in enumerate(plan.node.branches) if node.kind == "null"]
        mask = pa.array(branches == nulls[0]) if nulls else None
        return pa.StructArray.from_arrays(columns, fields=list(plan.target), mask=mask)

    def _skip(self, node: AvroType, rows: Index, path: str) -> None:
        """Pass by a value that nobody wants."""
        if node.kind == "record":
            for name, inner in node.fields:
                self._skip(inner, rows, f"{path}.{name}")
        elif node.kind == "union":
            branches = self._read_branches(node, rows, path)
            for at, inner in enumerate(node.branches):
                chosen = rows[branches == at]
                if len(chosen):
                    self._skip(inner, chosen, path)
        elif node.kind in {"bytes", "string", "fixed"}:
            self._span(node, rows, path)
        else:
            self._read_plain(node, rows, path)

    def _read_plain(self, node: AvroType, rows: Index, path: str) -> pa.Array:
        """Read values as they are in the payload; see `Leaf.physical`."""
        match node.kind:
            case "null":
                return pa.nulls(len(rows))
            case "boolean":
                values = self._fixed(rows, 1, path)[:, 0]
                if (values > 1).any():
                    self._fail(rows[values > 1], f"field {path} is not a boolean")
                return pa.array(values == 1)
            case "float":
                return pa.array(self._fixed(rows, 4, path).view("<f4")[:, 0])
            case "double":
                return pa.array(self._fixed(rows, 8, path).view("<f8")[:, 0])
            case "bytes" | "string" | "fixed":
                return gather_spans(self._buffer, *self._span(node, rows, path))
        return pa.array(self._long(rows, path))

    def _read_branches(self, node: AvroType, rows: Index, path: str) -> Index:
        branches = self._long(rows, path)
        wrong = (branches < 0) | (branches >= len(node.branches))
        if wrong.any():
            self._fail(rows[wrong], f"field {path} has no branch of its union")
            branches[wrong] = -1
        return branches

    def _span(self, node: AvroType, rows: Index, path: str) -> tuple[Index, Index]:
        """Pass by bytes; return where they begin and end."""
        sizes = np.full(len(rows), node.size) if node.kind == "fixed" else self._long(rows, path)
        starts, ends = self._at[rows], self._end[rows]
        wrong = (sizes < 0) | (sizes > ends - starts)
        if wrong.any():
            self._fail(rows[wrong], f"the payload ends within field {path}")
            starts[wrong] = ends[wrong]
            sizes[wrong] = 0
        self._at[rows] = starts + sizes
        return starts, starts + sizes

    def _fixed(self, rows: Index, size: int, path: str) -> Bytes:
        """Read `size` bytes of each payload, as a matrix."""
        starts = self._at[rows]
        short = self._end[rows] - starts < size
        if short.any():
            self._fail(rows[short], f"the payload ends within field {path}")
        else:
            self._at[rows] = starts + size
            whole: Bytes = self._bytes[starts[:, None] + np.arange(size)]
            return whole
        self._at[rows[~short]] = starts[~short] + size
        found: Bytes = self._bytes[np.minimum(starts[:, None] + np.arange(size), len(self._bytes) - 1)]
        found[short] = 0
        return found

    def _long(self, rows: Index, path: str) -> Index:
        """Read a number of variable length of each payload."""
        positions, ends = self._at[rows], self._end[rows]
        values = np.zeros(len(rows), np.uint64)
        open_ = np.arange(len(rows))  # rows whose number is not complete
        for step in range(_MAX_VARINT):
            here = positions[open_]
            short = here >= ends[open_]
            if short.any():
                self._fail(rows[open_[short]], f"the payload ends within field {path}")
                values[open_[short]] = 0
                open_, here = open_[~short], here[~short]
            read = self._bytes[here]
            positions[open_] = here + 1
            values[open_] |= (read & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * step)
            more = read >= 0x80
            if step == _MAX_VARINT - 1:
                more = read > 1  # bits that 64 bits do not have
            open_ = open_[more]
            if not len(open_):
                break
        else:
            self._fail(rows[open_], f"field {path} is no number of 64 bits")
            values[open_] = 0
        bad = self._faults.bad[rows]
        self._at[rows] = np.where(bad, ends, positions)
        return ((values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))).view(np.int64)

    def _fail(self, rows: Index, reason: str) -> None:
        """Note a fault; nothing more is read from these payloads."""
        self._faults.mark(rows, reason)
        self._at[rows] = self._end[rows]


def _spread(values: pa.Array, chosen: NDArray[np.bool_]) -> pa.Array:
    """Return values at the chosen places, and null at the others."""
    if chosen.all():
        return values
    return values.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))


def _empty_structs(count: int) -> pa.Array:
    return pa.array([{}] * count, pa.struct([]))
