"""Protobuf messages as columns: the library parses each payload, and each field is collected from all messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.payload.faults import Faults
from jetspark.payload.protobuf.descriptors import is_required
from jetspark.payload.protobuf.plan import Field, Value
from jetspark.payload.texts import text_column

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["decode_messages"]

Rows = NDArray[np.int64]


def decode_messages(
    payloads: pa.BinaryArray, kind: type[Message], fields: Sequence[Field], faults: Faults, *, zeros: bool
) -> list[pa.Array]:
    """Return the columns of messages. Payloads with faults have any values.

    Parameters
    ----------
    payloads
        Payloads.
    kind
        Class of their messages, whose texts are bytes.
    fields
        Wanted fields.
    faults
        Gets the payloads that are no messages.
    zeros
        Whether a field that says not if it is there is zero if it is not there; otherwise it is null.
    """
    from google.protobuf.message import DecodeError

    rows = np.arange(len(payloads))
    messages = []
    empty = kind()
    has_required = _has_required(empty)
    for row, payload in enumerate(payloads.to_pylist()):
        message = empty
        if payload is not None:
            try:
                message = kind.FromString(payload)
            except (DecodeError, RecursionError):
                faults.mark(np.array([row]), f"the payload is no message {kind.DESCRIPTOR.full_name}")
            else:
                if has_required and not message.IsInitialized():
                    missing = ", ".join(message.FindInitializationErrors())
                    faults.mark(np.array([row]), f"required fields are missing: {missing}")
        messages.append(message)
    collector = _Collector(faults, zeros)
    return [collector.column(field, messages, rows) for field in fields]


def _has_required(message: Message) -> bool:
    """Return whether a message, or one inside of it, may lack required fields."""
    seen: set[str] = set()
    waiting = [message.DESCRIPTOR]
    while waiting:
        descriptor = waiting.pop()
        if descriptor.full_name in seen:
            continue
        seen.add(descriptor.full_name)
        if any(is_required(field) for field in descriptor.fields):
            return True
        waiting += [field.message_type for field in descriptor.fields if field.message_type is not None]
    return False


class _Collector:
    """Collects columns from messages. `rows` are always the payloads that values are from."""

    def __init__(self, faults: Faults, zeros: bool) -> None:
        self._faults = faults
        self._zeros = zeros

    def column(self, field: Field, messages: Sequence[Message], rows: Rows) -> pa.Array:
        get = attrgetter(field.name)
        if field.shape == "list":
            return self._list(field, [get(each) for each in messages], rows)
        if field.shape == "map":
            return self._map(field, [get(each) for each in messages], rows)
        if field.has_presence:
            name, default = field.name, field.default
            if isinstance(default, str):
                default = default.encode()
            values = [get(each) if each.HasField(name) else default for each in messages]
            return self.values(field.value, values, rows, field.path)
        return self.values(field.value, [get(each) for each in messages], rows, field.path, nulls=not self._zeros)

    def values(self, value: Value, found: list[Any], rows: Rows, path: str, *, nulls: bool = False) -> pa.Array:
        """Return values, None as null; `nulls` says whether zeros are null, too."""
        if value.kind in {"scalar", "enum"}:
            return self._scalars(value, found, rows, path, nulls)
        if value.kind == "wrapper":
            inner = [None if each is None else each.value for each in found]
            return self._scalars(value.fields[0].value, inner, rows, path, nulls=False)
        if value.kind in {"timestamp", "duration"}:
            return self._times(value.target, found, rows, path)
        there = np.array([each is not None for each in found], bool)
        messages = [each for each in found if each is not None]
        columns = [self.column(field, messages, rows[there]) for field in value.fields]
        if not columns:
            return pa.array([None if each is None else {} for each in found], value.target)
        structs = pa.StructArray.from_arrays(columns, fields=list(value.target))
        if there.all():
            return structs
        return structs.take(pa.array(np.cumsum(there) - 1, mask=~there))

    def _scalars(self, value: Value, found: list[Any], rows: Rows, path: str, nulls: bool) -> pa.Array:
        plain = value.plain
        assert plain is not None
        array = pa.array(found, pa.binary() if plain == pa.string() else plain)
        if nulls:
            mask = _zeros(array)
            if mask.any():
                array = array.take(pa.array(np.arange(len(array)), mask=mask))
        return self._converted(value, array, rows, path)

    def _converted(self, value: Value, array: pa.Array, rows: Rows, path: str) -> pa.Array:
        target = value.target
        if value.kind == "enum" and not pa.types.is_integer(target):
            names = dict(value.symbols)
            numbers = array.to_pylist()
            return pa.array(
                [None if each is None else names.get(each) or f"{value.unknown}{each}" for each in numbers], target
            )
        if value.plain == pa.string():
            texts, wrong = text_column(array, target)
            if wrong is not None:
                self._faults.mark(rows[wrong], f"field {path} is not UTF-8")
            return texts
        if pa.types.is_integer(target) and target.bit_width == array.type.bit_width:
            return array.view(target)
        return array if target == array.type else array.cast(target)

    def _times(self, target: pa.DataType, found: list[Any], rows: Rows, path: str) -> pa.Array:
        scale = 10**6 if target.unit == "us" else 10**9
        limit = ((1 << 63) - 1) // scale - 3
        ticks: list[int | None] = []
        for each, row in zip(found, rows.tolist(), strict=True):
            if each is None:
                ticks.append(None)
            elif -limit < each.seconds < limit:
                # As in Spark, parts of a tick are cut off.
                ticks.append(each.seconds * scale + int(each.nanos * scale / 10**9))
            else:
                self._faults.mark(np.array([row]), f"field {path} is out of range")
                ticks.append(0)
        return pa.array(ticks, pa.int64()).view(target)

    def _list(self, field: Field, lists: list[Any], rows: Rows) -> pa.Array:
        offsets, inner = _offsets(lists, rows)
        items = self.values(field.value, list(chain.from_iterable(lists)), inner, field.path)
        if pa.types.is_large_list(field.target):
            return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), items, field.target)
        return pa.ListArray.from_arrays(offsets, items, field.target)

    def _map(self, field: Field, maps: list[Any], rows: Rows) -> pa.Array:
        offsets, inner = _offsets(maps, rows)
        assert field.key is not None
        keys = [key for each in maps for key in each]
        if field.key.plain == pa.string():
            key_column = pa.array(keys, field.key.target)
        else:
            key_column = self.values(field.key, keys, inner, field.path)
        items = self.values(field.value, [each[key] for each in maps for key in each], inner, field.path)
        return pa.MapArray.from_arrays(offsets, key_column, items, field.target)


def _offsets(found: list[Any], rows: Rows) -> tuple[pa.Int32Array, Rows]:
    lengths = np.array([len(each) for each in found], np.int64)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)), np.repeat(rows, lengths)


def _zeros(array: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_binary(array.type):
        zeros = pc.equal(pc.binary_length(array), 0)
    elif pa.types.is_boolean(array.type):
        zeros = pc.invert(array)
    else:
        # A floating zero with a sign is no default, so the bits are compared.
        zeros = pc.equal(array.view(pa.int64() if array.type.bit_width == 64 else pa.int32()), 0)
    return np.asarray(zeros.to_numpy(zero_copy_only=False), bool)
