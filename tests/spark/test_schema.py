"""Columns without the processes of Spark: the requested columns of a scan, and batches exactly as declared."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from jetspark.bulk.columns import scan_schema
from jetspark.errors import ConfigError
from jetspark.spark.schema import plan_projection, read_schema, write_columns

HEADERS = MapType(StringType(), ArrayType(StringType()))


def one(name: str, kind: DataType, nullable: bool = True) -> StructType:
    return StructType([StructField(name, kind, nullable)])


def test_spark_finds_the_format_if_numpy_and_pyarrow_are_missing() -> None:
    # Spark imports all packages of that kind at once: one that cannot be imported would disable the others.
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['numpy', 'pyarrow', 'pandas', 'jetspark.bulk']));"
        "sys.modules.update(dict.fromkeys(['prometheus_client', 'opentelemetry']));"
        "import pyspark_jetstream; print(pyspark_jetstream.DefaultSource.name())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("jetstream\n", "")


@pytest.mark.parametrize("include_headers", [True, False])
def test_the_schema_of_a_read_equals_that_of_a_scan(include_headers: bool) -> None:
    schema = read_schema(include_headers)
    made = plan_projection(schema)
    assert ("headers" in made.columns) == include_headers
    assert made.schema.equals(scan_schema(made.columns))
    batch = pa.RecordBatch.from_pylist([], schema=made.schema)
    assert made.apply(batch) is batch


def test_only_the_columns_of_the_schema_are_requested() -> None:
    made = plan_projection(StructType([StructField("Sequence", LongType()), StructField("DATA", StringType())]))
    assert made.columns == ("sequence", "data")
    assert made.native_columns == frozenset({"sequence"})
    assert made.schema.names == ["Sequence", "DATA"]


@pytest.mark.parametrize(
    ("name", "kind", "value", "expected"),
    [
        ("data", StringType(), b"text", "text"),
        ("sequence", IntegerType(), 2**31 - 1, 2**31 - 1),
        ("timestamp", TimestampNTZType(), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)),  # noqa: DTZ001
        ("headers", HEADERS, [("k", ["v"])], [("k", ["v"])]),
        ("headers", MapType(StringType(), ArrayType(StringType(), False), False), [("k", ["v"])], [("k", ["v"])]),
    ],
)
@pytest.mark.parametrize("nullable", [True, False])
def test_batches_have_the_declared_schema(
    name: str, kind: DataType, value: object, expected: object, nullable: bool
) -> None:
    schema = one(name, kind, nullable)
    made = plan_projection(schema)
    source = scan_schema([name])
    batch = pa.RecordBatch.from_arrays([pa.array([value, value], source.field(0).type)], schema=source)
    for part in (batch, batch.slice(1), batch.slice(2)):
        applied = made.apply(part)
        assert applied.schema.equals(to_arrow_schema(schema, timezone="UTC"))
        assert applied.column(0).to_pylist() == [expected] * len(part)


def test_a_message_without_headers_has_an_empty_map_if_null_is_not_allowed() -> None:
    source = scan_schema(["headers"])
    batch = pa.RecordBatch.from_arrays([pa.array([None, [("k", ["v"])], []], source.field(0).type)], schema=source)
    assert plan_projection(one("headers", HEADERS)).apply(batch).column(0).to_pylist() == [None, [("k", ["v"])], []]
    assert plan_projection(one("headers", HEADERS, False)).apply(batch).column(0).to_pylist() == [
        [],
        [("k", ["v"])],
        [],
    ]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType(), "the schema has no column"),
        (one("sequenz", LongType()), "there is no column sequenz to read; did you mean sequence"),
        (one("sequence", BinaryType()), "column sequence can only be read as bigint or int, not binary"),
        (one("subject", CharType(3)), "column subject can only be read as string, not char"),
        (
            StructType([StructField("data", BinaryType()), StructField("Data", BinaryType())]),
            "has the column data twice",
        ),
    ],
)
def test_unsupported_schemas_are_refused(schema: StructType, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_projection(schema)
    assert said in str(caught.value)


def test_columns_of_a_write_are_found_in_any_case_and_position() -> None:
    schema = StructType(
        [
            StructField("MSG_ID", StringType()),
            StructField("timestamp_ns", LongType()),
            StructField("Data", BinaryType()),
            StructField("subject", StringType()),
        ]
    )
    assert write_columns(schema, None).positions == {"msg_id": 0, "data": 2, "subject": 3}
    assert write_columns(schema, "one").positions == {"msg_id": 0, "data": 2}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "the rows have no column data (the payload, binary or string); they have no columns"),
        (("subject",), "the rows have no column data"),
        (("data",), "the rows have no column subject (string), and option subject is not given; they have data string"),
        (("data", "DATA"), "the rows have the column data twice"),
        (("data", "msgid"), "there is no column msgid to write; did you mean msg_id"),
    ],
)
def test_unsupported_columns_of_a_write_are_refused(names: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        write_columns(StructType([StructField(name, StringType()) for name in names]), None)
    assert said in str(caught.value)
