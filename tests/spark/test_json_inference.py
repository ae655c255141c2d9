"""The columns of JSON payloads without a schema are those that spark.read.json infers."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from tests.payload.json_cases import JsonCases

from jetspark import errors
from jetspark.payload.formats import infer_schema

pytestmark = pytest.mark.spark

OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"inferTimestamp": "true"},
    {"primitivesAsString": "true", "dropFieldIfAllNull": "true"},
)


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse names that come twice, and those that differ only in case: there we differ on purpose."""
    names = {name.lower() for name, _ in pairs}
    if len(names) < len(pairs) or "A" in dict(pairs):
        raise ValueError
    return dict(pairs)


def is_comparable(payload: bytes) -> bool:
    """Whether a payload is a JSON object without such names."""
    try:
        return isinstance(json.loads(payload, object_pairs_hook=unique_names), dict)
    except ValueError:
        return False


def spark_infers(spark: SparkSession, payloads: list[str], options: dict[str, str]) -> StructType:
    """Return the schema of spark.read.json."""
    frame: Any = spark.createDataFrame(pa.table({"value": pa.array(payloads, pa.string())})).coalesce(1)
    jvm: Any = spark._jvm
    reader: Any = spark.read.options(mode="DROPMALFORMED", **options)
    texts = getattr(frame._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    return StructType.fromJson(json.loads(reader._jreader.json(texts).schema().json()))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_json_without_a_schema_has_the_columns_of_spark(session: SparkSession, options: dict[str, str]) -> None:
    for seed in range(4):
        cases = JsonCases(seed)
        payloads = [payload for payload in cases.payloads(cases.schema(), 60) if is_comparable(payload)]
        texts = [*(payload.decode() for payload in payloads), '{"broken":', "null", ""]
        try:
            inferred = infer_schema("json", pa.array([text.encode() for text in texts], pa.binary()), options)
        except errors.ConfigError:
            inferred = pa.schema([])
        expected = spark_infers(session, texts, options)
        assert from_arrow_schema(inferred).simpleString() == expected.simpleString(), f"seed {seed}"
