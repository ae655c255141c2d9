"""Encoded rows are, byte for byte, what Spark's own functions make of them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, functions
from tests.payload.sample_rows import NESTED, SCALARS, sample_rows

from jetspark.payload import make_format

JSON_OPTIONS: list[dict[str, str]] = [
    {},
    {"ignoreNullFields": "false", "timeZone": "Europe/Paris"},
    {
        "timeZone": "-03:30",
        "dateFormat": "dd/MM/yy",
        "timestampFormat": "EEE, d MMM yyyy HH:mm:ss.SSSSSS xx",
        "timestampNTZFormat": "yyyy-MM-dd'T'hh:mm a[XXX]",
    },
    {"timestampFormat": "yyyyMMddHHmmssSSS X", "dateFormat": "EEEE D MMMM 'o''clock' yyyy", "timeZone": "Asia/Kolkata"},
    {"timestampFormat": "y/L/d k:m:s XXX", "dateFormat": "yyyy-DDD QQQ", "timeZone": "Europe/Paris"},
    {"timestampFormat": "yyy K[:ss] XXXX|XXXXX|x|xxx|xxxx|Z|ZZZZ|ZZZZZ|O|OOOO QQQQ", "timeZone": "Europe/Paris"},
    {"timestampFormat": "X|XX|x|xx|xxxx|Z|ZZZZ|ZZZZZ|O|OOOO", "dateFormat": "'x' MMM q", "timeZone": "UTC"},
]


def encoded(
    frame: DataFrame, call: Callable[[Column, dict[str, str]], Column], all_options: list[dict[str, str]]
) -> tuple[pa.RecordBatch, list[list[str | None]]]:
    """Return the rows, and what a function of Spark makes of them with each of the options."""
    fields = [functions.col(f"`{name}`") for name in frame.columns]
    calls = [call(functions.struct(*fields), options).alias(f"_{at}") for at, options in enumerate(all_options)]
    table = frame.select("*", *calls).toArrow().combine_chunks()
    rows = table.select(frame.columns).to_batches()[0]
    return rows, [table.column(f"_{at}").to_pylist() for at in range(len(all_options))]


@pytest.mark.spark
def test_rows_become_the_json_of_to_json(spark: SparkSession) -> None:
    frame = spark.createDataFrame(sample_rows(400), f"{SCALARS}, {NESTED}")
    rows, wanted = encoded(frame, functions.to_json, JSON_OPTIONS)
    for options, texts in zip(JSON_OPTIONS, wanted, strict=True):
        ours = make_format("json", rows.schema, options, to_encode=True).encode(rows).to_pylist()
        assert [payload.decode() for payload in ours] == texts, options


CSV_OPTIONS: list[dict[str, str]] = [
    {},
    {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
    {"quoteAll": "true", "nullValue": "NULL", "emptyValue": "EMPTY"},
    {"escape": '"', "sep": ";", "nullValue": "-"},
    {"escapeQuotes": "false", "sep": "||", "quote": "'"},
    {"charToEscapeQuoteEscaping": "#", "sep": r"\t", "emptyValue": "'a,b'", "nullValue": 'q"'},
    {"comment": "a", "dateFormat": "dd.MM.yyyy", "timestampFormat": "yyyy-MM-dd, HH:mm:ss", "timeZone": "Asia/Kolkata"},
]


@pytest.mark.spark
def test_rows_become_the_csv_of_to_csv(spark: SparkSession) -> None:
    names = [field.split()[0] for field in SCALARS.split(", ")]
    frame = spark.createDataFrame(sample_rows(400, nested=False), SCALARS)
    for columns in (["text", *(name for name in names if name != "text")], ["text", "day"]):
        rows, wanted = encoded(frame.select(*columns), functions.to_csv, CSV_OPTIONS)
        for options, texts in zip(CSV_OPTIONS, wanted, strict=True):
            ours = make_format("csv", rows.schema, options, to_encode=True).encode(rows).to_pylist()
            different = [(our.decode(), text) for our, text in zip(ours, texts, strict=True) if our.decode() != text]
            assert not different[:5], options
