"""CSV payloads become the rows that Spark's from_csv makes of them, with the same schema and options."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession, functions
from tests.payload.csv_cases import OPTIONS, TEXT_SCHEMA, TYPED_SCHEMA, text_payloads, typed_payloads

from jetspark.payload import make_format

_BAD = "_corrupt_record"


def compare(spark: SparkSession, count: int, seed: int) -> None:
    """Compare both functions on many payloads for each of the options."""
    cases = []
    for at, options in enumerate(OPTIONS):
        separator = options.get("sep", options.get("delimiter", ",")).replace(r"\t", "\t")
        cases.append((TEXT_SCHEMA, options, text_payloads(count, separator, seed + at)))
        cases.append((TYPED_SCHEMA, options, typed_payloads(count, separator, seed + at)))
    table = pa.table({f"p{at}": pa.array(payloads, pa.binary()) for at, (_, _, payloads) in enumerate(cases)})
    calls = [
        functions.from_csv(
            functions.col(f"p{at}").cast("string"),
            f"{schema}, {_BAD} string",
            {**options, "columnNameOfCorruptRecord": _BAD},
        ).alias(f"r{at}")
        for at, (schema, options, _) in enumerate(cases)
    ]
    wanted = spark.createDataFrame(table).select(*calls).toArrow()
    different: list[str] = []
    for at, (_, options, payloads) in enumerate(cases):
        rows = wanted.column(f"r{at}").combine_chunks()
        columns = dict(zip([field.name for field in rows.type], rows.flatten(), strict=True))
        # Spark keeps no text of a payload that has no record.
        bad = {row for row, value in enumerate(columns.pop(_BAD).to_pylist()) if value is not None}
        bad |= {row for row, each in enumerate(payloads) if each is not None and has_no_record(each, options)}
        schema = pa.schema([(name, column.type) for name, column in columns.items()])
        decoded = make_format("csv", schema, options).decode(pa.array(payloads, pa.binary()))
        for name, column in columns.items():
            pairs = zip(shown(decoded.rows.column(name)), shown(column), strict=True)
            different += [
                f"{options} {payloads[row]!r} {name}: {ours!r}, Spark {theirs!r}"
                for row, (ours, theirs) in enumerate(pairs)
                if not same(ours, theirs)
            ]
        one_sided = {record.row for record in decoded.bad} ^ bad
        different += [f"{options} {payloads[row]!r} is bad: {row not in bad}, Spark {row in bad}" for row in one_sided]
    assert not different, f"{len(different)} differences:\n" + "\n".join(different[:60])


def has_no_record(payload: bytes, options: dict[str, str]) -> bool:
    return not payload or payload.startswith(options.get("comment", "\0").encode())


def shown(column: pa.Array) -> list[Any]:
    """Return the values; dates and times as numbers, because Python does not have all of them."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours):
        return math.isnan(theirs)
    return bool(ours == theirs) and str(ours) == str(theirs)


@pytest.mark.spark
def test_csv_payloads_become_the_rows_of_from_csv(spark: SparkSession) -> None:
    compare(spark, 32, seed=7)


@pytest.mark.spark
@pytest.mark.matrix
def test_many_csv_payloads_become_the_rows_of_from_csv(spark: SparkSession) -> None:
    for seed in range(100, 600, 100):
        compare(spark, 250, seed)
