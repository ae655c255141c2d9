"""Encodes rows as Protobuf messages. The mapping is that of Spark's to_protobuf."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.jetstream.errors import PayloadError
from jetspark.payload.protobuf.descriptors import message_class
from jetspark.payload.protobuf.plan import Field, Value

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

__all__ = ["encode_messages"]

Rows = NDArray[np.int64]


def encode_messages(rows: pa.RecordBatch, descriptor: Descriptor, fields: Sequence[Field]) -> pa.BinaryArray:
    """Return one message for each row. A null is a field that the message does not have.

    Raises
    ------
    PayloadError
        A value does not fit, or a required field is missing; the error names the row.
    """
    messages = _messages(descriptor, fields, list(rows.columns), np.arange(rows.num_rows))
    for row, message in enumerate(messages):
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise PayloadError(f"row {row}: required fields of message {descriptor.full_name} have no value: {missing}")
    return pa.array([message.SerializeToString() for message in messages], pa.binary())


def _messages(descriptor: Descriptor, fields: Sequence[Field], columns: list[pa.Array], rows: Rows) -> list[Message]:
    kind = message_class(descriptor)
    messages = [kind() for _ in rows]
    for field, column in zip(fields, columns, strict=True):
        known = descriptor.fields_by_name[field.name]
        if field.shape == "one":
            values = _values(field.value, known.message_type, column, rows, field.path)
        else:
            values = _sequences(field, known.message_type, column, rows)
        for message, value, row in zip(messages, values, rows.tolist(), strict=True):
            if value is None:
                continue
            try:
                _set(message, field, value)
            except (ValueError, TypeError) as error:
                raise PayloadError(f"row {row}, column {field.path}: {error}") from None
    return messages


def _set(message: Message, field: Field, value: Any) -> None:
    if field.shape == "list":
        getattr(message, field.name).extend(value)
    elif field.shape == "map":
        entries = getattr(message, field.name)
        for key, each in value:
            if field.value.kind in {"scalar", "enum"}:
                entries[key] = each
            else:
                entries[key].CopyFrom(each)
    elif field.value.kind in {"scalar", "enum"}:
        setattr(message, field.name, value)
    else:
        getattr(message, field.name).CopyFrom(value)


def _values(value: Value, inner: Descriptor | None, array: pa.Array, rows: Rows, path: str) -> list[Any]:
    """Return values as the library takes them, null as None."""
    if value.kind == "scalar":
        return _scalars(value, array)
    if value.kind == "enum":
        return _enums(value, array, rows, path)
    assert inner is not None
    kind = message_class(inner)
    if value.kind == "wrapper":
        found = _values(value.fields[0].value, None, array, rows, path)
        return [None if each is None else kind(value=each) for each in found]
    if value.kind in {"timestamp", "duration"}:
        scale = 10**6 if value.target.unit == "us" else 10**9
        return [
            None if ticks is None else _time(kind, ticks, scale, value.kind)
            for ticks in array.view(pa.int64()).to_pylist()
        ]
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    there = array.filter(pa.array(valid))
    messages = iter(_messages(inner, value.fields, there.flatten(), rows[valid]))
    return [next(messages) if each else None for each in valid.tolist()]


def _time(kind: type[Message], ticks: int, scale: int, what: str) -> Message:
    seconds, rest = divmod(ticks, scale)
    if what == "duration" and seconds < 0 and rest:  # both parts have one sign
        seconds, rest = seconds + 1, rest - scale
    return kind(seconds=seconds, nanos=rest * (10**9 // scale))


def _scalars(value: Value, array: pa.Array) -> list[Any]:
    plain = value.plain
    assert plain is not None
    if pa.types.is_decimal(array.type):
        return [None if each is None else int(each) for each in array.to_pylist()]
    if pa.types.is_unsigned_integer(plain) and array.type.bit_width == plain.bit_width:
        array = array.view(plain)
    return list(array.to_pylist())


def _enums(value: Value, array: pa.Array, rows: Rows, path: str) -> list[Any]:
    found = array.to_pylist()
    if pa.types.is_integer(array.type):
        return list(found)
    numbers = {name: number for number, name in value.symbols}
    for each in {each for each in found if each is not None and each not in numbers}:
        number = each.removeprefix(value.unknown)
        if not (number != each and re.fullmatch(r"-?\d{1,10}", number, re.ASCII)):
            row = rows[found.index(each)]
            raise PayloadError(f"row {row}, column {path}: {each[:100]!r} is no value of the enum")
        numbers[each] = int(number)
    return [None if each is None else numbers[each] for each in found]


def _sequences(field: Field, inner: Descriptor | None, array: pa.Array, rows: Rows) -> list[Any]:
    """Return lists, or pairs of keys and values; null as None."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    there = array.filter(pa.array(valid))
    offsets = there.offsets.to_numpy().astype(np.int64)
    first, stop = int(offsets[0]), int(offsets[-1])
    places = np.repeat(rows[valid], np.diff(offsets))
    if field.shape == "map":
        assert field.key is not None
        assert inner is not None
        items = there.items.slice(first, stop - first)
        keys = _values(field.key, None, there.keys.slice(first, stop - first), places, field.path)
        _refuse_nulls(items, places, field.path)
        value_message = inner.fields_by_name["value"].message_type
        flat = list(zip(keys, _values(field.value, value_message, items, places, field.path), strict=True))
    else:
        items = there.values.slice(first, stop - first)
        _refuse_nulls(items, places, field.path)
        flat = _values(field.value, inner, items, places, field.path)
    found = iter([flat[begin:end] for begin, end in pairwise((offsets - first).tolist())])
    return [next(found) if each else None for each in valid.tolist()]


def _refuse_nulls(items: pa.Array, rows: Rows, path: str) -> None:
    if items.null_count:
        row = rows[pc.index(items.is_null(), True).as_py()]
        raise PayloadError(f"row {row}, column {path}: a list or a map of Protobuf has no nulls")
