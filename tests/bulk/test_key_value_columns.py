"""Messages of a bucket as entries: the columns, and the operation, compared with the rule for one entry."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetspark.bulk.key_value_columns import EntryColumns, read_operations
from jetspark.errors import ConfigError
from jetspark.jetstream.key_value.entry import read_operation
from jetspark.wire.headers import Headers
from jetspark.wire.vector.headers import HEADERS_TYPE

PREFIX = "$KV.b."
DEL = [("KV-Operation", ["DEL"])]
PURGE = [("Nats-Rollup", ["sub"]), ("KV-Operation", ["PURGE"])]
EXPIRED = [("Nats-Marker-Reason", ["MaxAge"]), ("Nats-TTL", ["60s"])]
Row = list[tuple[str, list[str]]]


def expected(row: Row | None) -> str:
    operation, expired = read_operation(Headers(dict(row or [])))
    return "EXPIRED" if expired else operation.value


def one_by_one(rows: list[Row | None]) -> list[str]:
    return [expected(row) for row in rows]


def together(rows: list[Row | None]) -> list[str | None]:
    found = read_operations(pa.array(rows, HEADERS_TYPE))
    found.validate(full=True)
    operations: list[str | None] = found.to_pylist()
    return operations


names = st.sampled_from(["KV-Operation", "Nats-Marker-Reason", "kv-operation", "KV-Operation2", "Nats-TTL", "A"])
texts = st.sampled_from(["DEL", "PURGE", "PUT", "MaxAge", "Purge", "Remove", "del", "maxage", "", " ", "new"])
rows_of_headers = st.one_of(
    st.none(), st.lists(st.tuples(names, st.lists(texts, max_size=3)), max_size=4, unique_by=lambda pair: pair[0])
)


@settings(derandomize=True, max_examples=300)
@given(st.lists(rows_of_headers, max_size=8), st.integers(0, 8), st.integers(1, 40))
def test_the_operations_of_many_entries_are_those_of_each(rows: list[Row | None], skipped: int, times: int) -> None:
    assert together(rows) == one_by_one(rows)
    many = pa.array(rows * times, HEADERS_TYPE)
    assert read_operations(many.slice(skipped)).to_pylist() == one_by_one((rows * times)[skipped:])
    nulled = pa.MapArray.from_arrays(
        many.offsets, many.keys, many.items, mask=pa.array([at % 2 == 1 for at in range(len(many))], pa.bool_())
    )
    kept = [row if at % 2 == 0 else None for at, row in enumerate(rows * times)]
    assert read_operations(nulled).to_pylist() == one_by_one([row or [] for row in kept])


def messages(**columns: Any) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    types = {"headers": HEADERS_TYPE, "subject": pa.string(), "data": pa.binary()}
    given = {name: pa.array(values, types.get(name, pa.int64())) for name, values in columns.items()}
    assert all(len(column) == count for column in given.values())
    if "timestamp" in given:
        given["timestamp"] = given["timestamp"].view(pa.timestamp("us", tz="UTC"))
    return pa.record_batch(given)


WHOLE = messages(
    subject=["$KV.b.a.x", "$KV.b.k", "$KV.b.d", "$KV.b.e", "$KV.b.$KV.b.f", "foreign.g"],
    data=[b"1", b"", b"", b"", b"", b"2"],
    headers=[None, [], DEL, PURGE, EXPIRED, [("A", ["b"])]],
    sequence=[1, 2, 4, 5, 7, 8],
    timestamp=[10, 11, 12, 13, 14, 15],
    timestamp_ns=[10_001, 11_002, 12_003, 13_004, 14_005, 15_006],
)


def test_messages_of_a_bucket_are_entries() -> None:
    made = EntryColumns(PREFIX)
    assert set(made.message_columns) == {"subject", "data", "headers", "sequence", "timestamp_ns"}
    entries = made.convert(WHOLE.select(made.message_columns))
    entries.validate(full=True)
    assert entries.schema == made.schema
    assert entries.drop_columns(["created", "headers"]).to_pylist() == [
        {"key": "a.x", "value": b"1", "revision": 1, "operation": "PUT"},
        {"key": "k", "value": b"", "revision": 2, "operation": "PUT"},
        {"key": "d", "value": None, "revision": 4, "operation": "DEL"},
        {"key": "e", "value": None, "revision": 5, "operation": "PURGE"},
        {"key": "$KV.b.f", "value": None, "revision": 7, "operation": "EXPIRED"},
        {"key": "foreign.g", "value": b"2", "revision": 8, "operation": "PUT"},
    ]
    assert entries.column("created").type == pa.timestamp("ns", tz="UTC")
    assert entries.column("created").cast(pa.int64()).to_pylist() == WHOLE.column("timestamp_ns").to_pylist()
    assert entries.column("headers").equals(WHOLE.column("headers"))
    assert made.convert(WHOLE.slice(2, 0)).num_rows == 0
    assert made.convert_table(pa.Table.from_batches([WHOLE, WHOLE.slice(1, 2)])).num_rows == 8
    assert made.convert_table(pa.Table.from_batches([], WHOLE.schema)).schema == made.schema


def test_markers_are_left_out_if_wanted() -> None:
    made = EntryColumns(PREFIX, ("revision", "value"), include_deletes=False)
    assert made.message_columns == ("sequence", "data", "headers")
    assert made.convert(WHOLE).to_pylist() == [
        {"revision": 1, "value": b"1"},
        {"revision": 2, "value": b""},
        {"revision": 8, "value": b"2"},
    ]
    kept = EntryColumns(PREFIX, ("operation",), include_deletes=False).convert(WHOLE)
    assert kept.column("operation").to_pylist() == ["PUT"] * 3


@pytest.mark.parametrize(
    ("columns", "needed"),
    [
        (("key", "revision"), ("subject", "sequence")),
        (("operation",), ("headers",)),
        (("headers", "value"), ("headers", "data")),
        (("created",), ("timestamp_ns",)),
    ],
)
def test_only_the_columns_that_are_needed_are_read(columns: tuple[str, ...], needed: tuple[str, ...]) -> None:
    made = EntryColumns(PREFIX, columns)
    assert made.message_columns == needed
    entries = made.convert(WHOLE.select(needed))
    assert tuple(entries.schema.names) == columns
    assert entries.num_rows == 6


def test_times_are_in_microseconds_for_spark_and_the_conversion_goes_to_its_tasks() -> None:
    made = pickle.loads(pickle.dumps(EntryColumns(PREFIX, ("created",), time_unit="us")))
    assert made.message_columns == ("timestamp",)
    assert made.convert(WHOLE).column("created").cast(pa.int64()).to_pylist() == [10, 11, 12, 13, 14, 15]
    assert made.schema == pa.schema([("created", pa.timestamp("us", tz="UTC"))])


@pytest.mark.parametrize(
    ("columns", "named"), [((), "empty"), (("data",), "value"), (("sequence",), "revision"), (("valeu",), "value")]
)
def test_an_unknown_column_of_entries_is_refused_with_the_right_name(columns: tuple[str, ...], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        EntryColumns(PREFIX, columns)
