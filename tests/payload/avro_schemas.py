"""Generated Avro schemas, with values as `fastavro` writes them and as Arrow should return them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import strategies as st

__all__ = ["Generated", "records"]

UTC = dt.UTC


@dataclass(frozen=True)
class Generated:
    """A schema and its values: pairs of what is written and what is read."""

    schema: object
    values: st.SearchStrategy[tuple[object, object]]
    name: str = ""


Pairs = st.SearchStrategy[tuple[object, object]]
_DIGITS = 5
_DECIMAL = {"logicalType": "decimal", "precision": _DIGITS, "scale": 2}
_SYMBOLS = ["A", "B", "C"]
_times = st.datetimes()
_decimals = st.integers(-(10**_DIGITS) + 1, 10**_DIGITS - 1).map(lambda value: Decimal(value).scaleb(-2))


def _same(values: st.SearchStrategy[object]) -> Pairs:
    return values.map(lambda value: (value, value))


# Built once, as building a strategy takes time.
_LEAVES: list[tuple[object, Pairs]] = [
    ("boolean", _same(st.booleans())),
    ("int", _same(st.integers(-(1 << 31), (1 << 31) - 1))),
    ("long", _same(st.integers(-(1 << 63), (1 << 63) - 1))),
    ("float", _same(st.floats(width=32, allow_nan=False))),
    ("double", _same(st.floats(allow_nan=False))),
    ("string", _same(st.text(max_size=30))),
    ("bytes", _same(st.binary(max_size=30))),
    ({"type": "enum", "symbols": _SYMBOLS}, _same(st.sampled_from(_SYMBOLS))),
    ({"type": "fixed", "size": 3}, _same(st.binary(min_size=3, max_size=3))),
    ({"type": "bytes", **_DECIMAL}, _same(_decimals)),
    ({"type": "fixed", "size": 4, **_DECIMAL}, _same(_decimals)),
    ({"type": "int", "logicalType": "date"}, _same(st.dates())),
    ({"type": "long", "logicalType": "timestamp-micros"}, _same(_times.map(lambda at: at.replace(tzinfo=UTC)))),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        _same(_times.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC))),
    ),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, _same(_times)),
    ({"type": "long", "logicalType": "time-micros"}, _same(st.times())),
]


def _leaf(number: int, at: int) -> Generated:
    schema, values = _LEAVES[at]
    if isinstance(schema, str):
        return Generated(schema, values, schema)
    assert isinstance(schema, dict)
    if schema["type"] in {"enum", "fixed"}:
        return Generated({**schema, "name": f"Type{number}"}, values, f"Type{number}")
    return Generated(schema, values, str(schema["type"]))


_leaf_numbers = st.integers(0, len(_LEAVES) - 1)
_kinds = {
    (depth, sequences): st.sampled_from(
        [
            "leaf",
            "leaf",
            "null or",
            *(["record", "union"] if depth else []),
            *(["array", "map"] if depth and sequences else []),
        ]
    )
    for depth in (False, True)
    for sequences in (False, True)
}
_NONE: Pairs = st.just((None, None))


@st.composite
def _types(draw: st.DrawFn, numbers: itertools.count[int], depth: int, sequences: bool) -> Generated:
    kind = draw(_kinds[depth > 0, sequences])
    if kind == "leaf":
        return _leaf(next(numbers), draw(_leaf_numbers))
    if kind == "null or":
        inner = _leaf(next(numbers), draw(_leaf_numbers))
        return Generated(
            ["null", inner.schema] if draw(st.booleans()) else [inner.schema, "null"], _NONE | inner.values
        )
    if kind == "record":
        return draw(_records(numbers, depth - 1, sequences))
    if kind == "union":
        return draw(_unions(numbers))
    inner = draw(_types(numbers, depth - 1, sequences))
    if kind == "array":
        lists = st.lists(inner.values, max_size=4)
        return Generated(
            {"type": "array", "items": inner.schema},
            lists.map(lambda pairs: ([each for each, _ in pairs], [each for _, each in pairs])),
        )
    maps = st.dictionaries(st.text(max_size=3), inner.values, max_size=3)
    return Generated(
        {"type": "map", "values": inner.schema},
        maps.map(
            lambda pairs: (
                {key: each for key, (each, _) in pairs.items()},
                [(key, each) for key, (_, each) in pairs.items()],
            )
        ),
    )


@st.composite
def _unions(draw: st.DrawFn, numbers: itertools.count[int]) -> Generated:
    """A union of types that becomes a struct."""
    chosen = {leaf.name: leaf for leaf in (_leaf(next(numbers), draw(_leaf_numbers)) for _ in range(3))}
    leaves = list(chosen.values())
    if len(leaves) == 1 or set(chosen) in ({"int", "long"}, {"float", "double"}):
        leaves = [_leaf(next(numbers), 0), _leaf(next(numbers), 5)]
    nullable = draw(st.booleans())

    def member(at: int, leaf: Generated) -> st.SearchStrategy[tuple[object, object]]:
        return leaf.values.map(
            lambda pair: (
                (leaf.name, pair[0]),
                {f"member{each}": pair[1] if each == at else None for each in range(len(leaves))},
            )
        )

    values = st.one_of(*(member(at, leaf) for at, leaf in enumerate(leaves)))
    schemas = [each.schema for each in leaves]
    return Generated(
        ["null", *schemas] if nullable else schemas, values | st.just((None, None)) if nullable else values
    )


@st.composite
def _records(draw: st.DrawFn, numbers: itertools.count[int], depth: int, sequences: bool) -> Generated:
    inner = draw(st.lists(_types(numbers, depth, sequences), min_size=1, max_size=5))
    names = [f"f{at}" for at in range(len(inner))]
    schema = {
        "type": "record",
        "name": f"Type{next(numbers)}",
        "fields": [{"name": name, "type": each.schema} for name, each in zip(names, inner, strict=True)],
    }
    values = st.tuples(*(each.values for each in inner))
    return Generated(
        schema,
        values.map(
            lambda pairs: (
                {name: pair[0] for name, pair in zip(names, pairs, strict=True)},
                {name: pair[1] for name, pair in zip(names, pairs, strict=True)},
            )
        ),
    )


@st.composite
def records(draw: st.DrawFn) -> tuple[str, list[tuple[dict[str, object], dict[str, object]]]]:
    """A schema whose top level is a record, as text, and values: pairs of what is written and what is read."""
    generated = draw(_records(itertools.count(), 2, draw(st.booleans())))
    values = draw(st.lists(generated.values, max_size=5))
    return json.dumps(generated.schema), values  # type: ignore[return-value]
