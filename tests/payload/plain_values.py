"""Values of Arrow columns that can be compared: NaN is equal to itself, times are numbers."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["plain_values"]


def plain_values(column: pa.Array) -> list[object]:
    """Return the values of a column: timestamps and dates as numbers, floats as text, structs as tuples."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_date32(kind):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in column.to_pylist()]
    valid = column.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        fields = [plain_values(column.field(index)) for index in range(kind.num_fields)]
        return [tuple(field[row] for field in fields) if valid[row] else None for row in range(len(column))]
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        if pa.types.is_map(kind):
            items: list[object] = list(zip(plain_values(column.keys), plain_values(column.items), strict=True))
        else:
            items = plain_values(column.values)
        offsets = column.offsets.to_pylist()
        return [items[offsets[row] : offsets[row + 1]] if valid[row] else None for row in range(len(column))]
    return list(column.to_pylist())
