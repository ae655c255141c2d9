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
    cases = [(TEXT_SCHEMA, options, text_payloads(count, seed + at)) for at, options in enumerate(OPTIONS)]
    for at, options in enumerate(OPTIONS):
        separator = options.get("sep", options.get("delimiter", ",")).replace(r"\t", "\t")
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
        spark_columns = dict(zip([field.name for field in rows.type], rows.flatten(), strict=True))
        bad = {row for row, value in enumerate(spark_columns.pop(_BAD).to_pylist()) if value is not None}
        schema = pa.schema([(name, column.type) for name, column in spark_columns.items()])
        decoded = make_format("csv", schema, options).decode(pa.array(payloads, pa.binary()))
        for name, column in spark_columns.items():
            ours = decoded.rows.column(name).to_pylist()
            different += [
                f"{options} {payloads[row]!r} {name}: {our!r}, Spark {theirs!r}"
                for row, (our, theirs) in enumerate(zip(ours, column.to_pylist(), strict=True))
                if not same(our, theirs)
            ]
        our_bad = {record.row for record in decoded.bad}
        different += [
            f"{options} {payloads[row]!r} bad only for {'us' if row in our_bad else 'Spark'}" for row in our_bad ^ bad
        ]
    assert not different, f"{len(different)}:\n" + "\n".join(different[:60])


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
