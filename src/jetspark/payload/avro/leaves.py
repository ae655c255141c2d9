"""How the values of Avro types become Arrow values: a table of conversions, each for a whole column.

The conversions are those of Spark's from_avro. A value that the Arrow type does not have is a fault of its payload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.payload.avro.schema import AvroType
from jetspark.payload.texts import text_column

__all__ = ["Leaf", "find_leaf", "natural_leaf"]

Converted = tuple[pa.Array, NDArray[np.bool_] | None]
"""Values, and which of them are faults."""
Reverted = tuple[list[object], NDArray[np.bool_] | None]
"""Values for the encoder of the plain type, and which of them do not fit."""

_DAY: Final = 86_400
_PER_SECOND: Final = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}
_EXACT: Final = Context(prec=76)
_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}
_PHYSICAL: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "enum": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.binary(),
    "fixed": pa.binary(),
}
"""The Arrow type of values as they are in the payload."""


@dataclass(frozen=True)
class Leaf:
    """The conversion of one Avro type that has no inner types.

    Attributes
    ----------
    physical
        Type of the values as they are in the payload.
    target
        Type of the converted values.
    convert
        Converts values; says which are faults. Nulls stay null.
    fault
        The fault of a value.
    revert
        Returns values for an encoder; says which do not fit. There are no nulls.
    """

    physical: pa.DataType
    target: pa.DataType
    convert: Callable[[pa.Array], Converted]
    fault: str
    revert: Callable[[pa.Array], Reverted]


def natural_leaf(node: AvroType) -> pa.DataType:
    """Return the Arrow type that fits a type best, which is the one of Spark's from_avro."""
    match node.kind, node.logical:
        case _, "date":
            return pa.date32()
        case _, "decimal":
            return pa.decimal128(node.precision, node.scale) if node.precision <= 38 else pa.binary()
        case "long", "time-micros":
            return pa.time64("us")
        case "long", logical if logical:
            local = logical.startswith("local-")
            return pa.timestamp(_UNITS[logical.rpartition("-")[2]].replace("ms", "us"), None if local else "UTC")
        case "int", _:
            return pa.int32()
        case (("string" | "enum"), _):
            return pa.string()
    return _PHYSICAL[node.kind]


def find_leaf(node: AvroType, target: pa.DataType) -> Leaf | None:
    """Return the conversion of a type to an Arrow type, or None if there is none."""
    physical = _PHYSICAL[node.kind]
    found: tuple[Callable[[pa.Array], Converted], str] | None = None
    match node.kind:
        case "null" | "boolean" | "double":
            found = (_same, "") if target == physical else None
        case "float":
            found = (_cast(target), "") if target in {pa.float32(), pa.float64()} else None
        case "int" | "long":
            found = _number(node, target)
        case "enum":
            found = (_symbols(node, target), f"has no symbol of enum {node.name}") if _is_text(target) else None
        case "string":
            found = (lambda values: text_column(values, target), "is not UTF-8") if _is_text(target) else None
        case "bytes" | "fixed":
            found = _bytes(node, target)
    return None if found is None else Leaf(physical, target, *found, _reverse(node, target))


def _number(node: AvroType, target: pa.DataType) -> tuple[Callable[[pa.Array], Converted], str] | None:
    first, last = (-(1 << 31), (1 << 31) - 1) if node.kind == "int" else (-(1 << 63), (1 << 63) - 1)
    fault = "is not an int" if node.kind == "int" else "is out of range"
    if node.kind == "int" and target in {pa.int32(), pa.int64(), pa.float64()}:
        return _scaled(target, first, last), fault
    if node.kind == "long" and target == pa.int64():
        return _same, ""
    if target == pa.date32() and (node.logical or "date") == "date" and node.kind == "int":
        return _scaled(target, first, last), fault
    if pa.types.is_time(target) and node.logical.startswith("time-"):
        source = _PER_SECOND[_UNITS[node.logical.rpartition("-")[2]]]
        factor, rest = divmod(_PER_SECOND[target.unit], source)
        return None if rest or not factor else (_scaled(target, 0, _DAY * source - 1, factor), "is no time of a day")
    if pa.types.is_timestamp(target) and node.kind == "long":
        return _timestamp(node, target)
    return None


def _timestamp(node: AvroType, target: pa.TimestampType) -> tuple[Callable[[pa.Array], Converted], str] | None:
    # As in Spark, a long without a logical type is a number of milliseconds.
    local = node.logical.startswith("local-")
    if node.logical.startswith("time-") or (node.logical and local is not (target.tz is None)):
        return None
    source = _PER_SECOND[_UNITS[(node.logical or "timestamp-millis").rpartition("-")[2]]]
    factor, rest = divmod(_PER_SECOND[target.unit], source)
    last = ((1 << 63) - 1) // max(factor, 1)
    return (
        None
        if rest or not factor
        else (_scaled(target, -last - 1 if factor == 1 else -last, last, factor), "is out of range")
    )


def _bytes(node: AvroType, target: pa.DataType) -> tuple[Callable[[pa.Array], Converted], str] | None:
    if target in {pa.binary(), pa.large_binary()}:
        return (_same if target == pa.binary() else _cast(target)), ""
    if node.logical != "decimal" or not pa.types.is_decimal128(target):
        return None
    if target.scale < node.scale or target.precision - target.scale < node.precision - node.scale:
        return None
    return _decimal(node, target), f"has more than {node.precision} digits"


def _same(values: pa.Array) -> Converted:
    return values, None


def _cast(target: pa.DataType) -> Callable[[pa.Array], Converted]:
    return lambda values: (values.cast(target), None)


def _scaled(target: pa.DataType, first: int, last: int, factor: int = 1) -> Callable[[pa.Array], Converted]:
    """Numbers from `first` to `last`, multiplied, as a type of 32 or 64 bits."""
    narrow = target.bit_width == 32

    def convert(values: pa.Array) -> Converted:
        numbers = values.fill_null(0).to_numpy()
        faults = (numbers < first) | (numbers > last)
        if faults.any():
            numbers = np.where(faults, 0, numbers)
        if factor != 1:
            numbers = numbers * factor
        if narrow:
            numbers = numbers.astype(np.int32)
        mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        plain = pa.array(numbers, mask=mask)
        done = plain.cast(target) if pa.types.is_floating(target) else plain.view(target)
        return done, faults if faults.any() else None

    return convert


def _is_text(target: pa.DataType) -> bool:
    return target in {pa.string(), pa.large_string()}


def _symbols(node: AvroType, target: pa.DataType) -> Callable[[pa.Array], Converted]:
    names = list(node.symbols)

    def convert(values: pa.Array) -> Converted:
        numbers = values.fill_null(0).to_numpy()
        faults = (numbers < 0) | (numbers >= len(names))
        places = pa.array(np.where(faults, 0, numbers), mask=values.is_null().to_numpy(zero_copy_only=False))
        return pa.array(names, target).take(places), faults if faults.any() else None

    return convert


def _decimal(node: AvroType, target: pa.Decimal128Type) -> Callable[[pa.Array], Converted]:
    limit = 10**node.precision
    source = pa.decimal128(node.precision, node.scale)

    def convert(values: pa.Array) -> Converted:
        found = [None if each is None else int.from_bytes(each, "big", signed=True) for each in values.to_pylist()]
        faults = np.array([each is not None and not -limit < each < limit for each in found], bool)
        numbers = [
            each if each is None else Decimal(0 if fault else each).scaleb(-node.scale, _EXACT)
            for each, fault in zip(found, faults.tolist(), strict=True)
        ]
        return pa.array(numbers, source).cast(target), faults if faults.any() else None

    return convert


def _reverse(node: AvroType, target: pa.DataType) -> Callable[[pa.Array], Reverted]:
    """Return how values of an Arrow type become those of the plain Avro type."""
    match node.kind:
        case "int" | "long":
            return _numbers_of(node, target)
        case "enum":
            names = pa.array(list(node.symbols), target)

            def places(values: pa.Array) -> Reverted:
                found = pc.index_in(values, names)
                return found.to_pylist(), found.is_null().to_numpy(zero_copy_only=False)

            return places
        case "string":
            return lambda values: (values.cast(pa.binary()).to_pylist(), None)
        case "bytes" | "fixed" if pa.types.is_decimal(target):
            return _unscaled(node)
        case "fixed":
            return lambda values: (
                values.to_pylist(),
                pc.not_equal(pc.binary_length(values), node.size).to_numpy(zero_copy_only=False),
            )
    return lambda values: (values.to_pylist(), None)


def _numbers_of(node: AvroType, target: pa.DataType) -> Callable[[pa.Array], Reverted]:
    divisor = 1
    if pa.types.is_timestamp(target) or pa.types.is_time(target):
        unit = (node.logical or "timestamp-millis").rpartition("-")[2]
        divisor = _PER_SECOND[target.unit] // _PER_SECOND[_UNITS[unit]]

    def numbers_of(values: pa.Array) -> Reverted:
        if pa.types.is_floating(target):
            numbers = values.to_numpy()
            wrong = ~((numbers == np.floor(numbers)) & (np.abs(numbers) <= 1 << 31))
            numbers = np.where(wrong, 0, numbers).astype(np.int64)
        else:
            numbers = values.view(pa.int32() if target.bit_width == 32 else pa.int64()).to_numpy().astype(np.int64)
            wrong = np.zeros(len(numbers), bool)
        if divisor != 1:
            numbers = numbers // divisor
        if node.kind == "int":
            wrong |= (numbers < -(1 << 31)) | (numbers >= 1 << 31)
        return numbers.tolist(), wrong

    return numbers_of


def _unscaled(node: AvroType) -> Callable[[pa.Array], Reverted]:
    limit = 10**node.precision

    def unscaled(values: pa.Array) -> Reverted:
        scaled = [each.scaleb(node.scale, _EXACT) for each in values.to_pylist()]
        wrong = [each != int(each) or abs(each) >= limit for each in scaled]
        found = [0 if bad else int(each) for each, bad in zip(scaled, wrong, strict=True)]
        sizes = [node.size if node.kind == "fixed" else each.bit_length() // 8 + 1 for each in found]
        texts = [each.to_bytes(size, "big", signed=True) for each, size in zip(found, sizes, strict=True)]
        return list(texts), np.array(wrong, bool)

    return unscaled
