"""The format JSON gives the rows of Spark's from_json: compared on thousands of generated payloads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import col, from_json, lit, when
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType
from tests.payload.json_cases import JsonCases
from tests.payload.plain_values import plain_values

from jetspark.payload import make_format

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("JETSPARK_JSON_SEED", "1"))
CORRUPT = "_corrupt_record"
DOUBLE_IN_TEXT = re.compile(r"-?\d+\.\d+(?:E-?\d+)?")


@dataclass(frozen=True)
class Group:
    """Payloads for one schema with the same options."""

    schema: pa.Schema
    options: Mapping[str, str]
    payloads: list[bytes]

    def decoded(self) -> list[object]:
        """Return the rows of the format: values, and whether the record is bad."""
        decoded = make_format("json", self.schema, self.options).decode(pa.array(self.payloads, pa.binary()))
        bad = {record.row for record in decoded.bad}
        columns = [plain_values(column) for column in decoded.rows.columns]
        return [([column[row] for column in columns], row in bad) for row in range(len(self.payloads))]

    def column(self, name: str) -> Column:
        """Return the column of the same rows by from_json."""
        fields = from_arrow_schema(self.schema).fields
        schema = StructType([*fields, *StructType().add(CORRUPT, StringType()).fields])
        return from_json(col(name).cast("string"), schema, dict(self.options)).alias(name)


def rows_of_spark(spark: SparkSession, groups: list[Group]) -> list[list[object]]:
    """Return the rows of from_json for all groups, by one job."""
    names = [f"p{index}" for index in range(len(groups))]
    table = pa.table([pa.array(group.payloads, pa.binary()) for group in groups], names)
    found = spark.createDataFrame(table).coalesce(1)
    structs = found.select([group.column(name) for group, name in zip(groups, names, strict=True)])
    # The text of a bad record may be one that Arrow does not take.
    flags = [col(name).withField(CORRUPT, when(col(name)[CORRUPT].isNotNull(), lit(1))).alias(name) for name in names]
    result = structs.select(flags).toArrow()
    return [_rows(result.column(name).combine_chunks()) for name in names]


def _rows(structs: pa.StructArray) -> list[object]:
    columns = [plain_values(column) for column in structs.flatten()]
    return [([column[row] for column in columns[:-1]], bool(columns[-1][row])) for row in range(len(structs))]


def same(ours: object, spark: object) -> bool:
    """Compare; a double in a text may have more digits in Java 17 than it needs."""
    return ours == spark or _doubles_read(ours) == _doubles_read(spark)


def _doubles_read(row: object) -> str:
    return DOUBLE_IN_TEXT.sub(lambda number: repr(float(number[0])), repr(row))


def compare(spark: SparkSession, seeds: range, size: int) -> None:
    """Compare the rows of a group of this size for each seed."""
    groups = []
    for seed in seeds:
        cases = JsonCases(seed)
        schema = cases.schema()
        groups.append(Group(schema, cases.options(), cases.payloads(schema, size)))
    for seed, group, expected in zip(seeds, groups, rows_of_spark(spark, groups), strict=True):
        for payload, ours, theirs in zip(group.payloads, group.decoded(), expected, strict=True):
            assert same(ours, theirs), f"seed {seed}: {payload!r} with {group.options} as\n{group.schema}"


def test_json_becomes_the_rows_of_from_json(session: SparkSession) -> None:
    print(f"seed {SEED}")
    compare(session, range(SEED, SEED + 10), 50)


@pytest.mark.matrix
@pytest.mark.parametrize("part", range(4))
def test_much_json_becomes_the_rows_of_from_json(session: SparkSession, part: int) -> None:
    first = SEED + 1000 + part * 10
    print(f"seed {first}")
    compare(session, range(first, first + 10), 500)
