"""Writes with `payloadFormat` without the processes of Spark: which columns become the payload, and what is refused."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType
from tests.spark.buckets import Bucket
from tests.spark.support import Nats

from jetspark.errors import ConfigError, PayloadError
from jetspark.spark.options.batch import write_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.batch_writer import plan_write
from jetspark.spark.write.ledger import TaskName
from jetspark.spark.write.rows import plan_columns
from jetspark.spark.write.stream_writer import plan_stream_write

TEXT = StringType()


def columns(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def batches(schema: StructType, *parts: Sequence[Sequence[Any]]) -> Iterator[pa.RecordBatch]:
    arrow = to_arrow_schema(schema, timezone="UTC")
    for rows in parts:
        yield pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=arrow)


def write(nats: Nats, schema: StructType, *parts: Sequence[Sequence[Any]], **options: str) -> None:
    given = write_options({"servers": nats.url, "payloadFormat": "text", **options})
    writer = pickle.loads(pickle.dumps(plan_write(schema, given, overwrite=False)))
    writer.commit([writer.write(batches(schema, *parts))])


def test_columns_that_are_none_of_messages_become_the_payload(nats: Nats) -> None:
    stream = nats.stream()
    schema = columns(line=TEXT, Subject=TEXT, msg_id=TEXT)
    write(nats, schema, [("one", f"{stream}.a", "1"), ("two", f"{stream}.b", "2")], [("three", f"{stream}.a", "2")])
    assert nats.rows(stream, "subject", "data") == [
        {"subject": f"{stream}.a", "data": b"one"},
        {"subject": f"{stream}.b", "data": b"two"},
    ]
    write(nats, columns(body=TEXT), [("four",)], subject=f"{stream}.c")
    assert nats.rows(stream, "subject", "data")[-1] == {"subject": f"{stream}.c", "data": b"four"}


def test_with_a_prefix_a_field_may_have_the_name_of_a_column_of_messages(nats: Nats) -> None:
    stream = nats.stream()
    write(nats, columns(subject=TEXT, _subject=TEXT), [("greetings", f"{stream}.a")], metadataPrefix="_")
    assert nats.rows(stream, "subject", "data") == [{"subject": f"{stream}.a", "data": b"greetings"}]


def test_columns_that_say_where_a_message_was_are_not_written_and_a_warning_says_so(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    stream = nats.stream()
    schema = columns(line=TEXT, sequence=LongType(), timestamp=TimestampType(), stream=TEXT)
    with caplog.at_level(logging.WARNING, "jetspark.spark"):
        write(nats, schema, [("one", 7, None, "OTHER")], subject=f"{stream}.a")
    assert nats.rows(stream, "data") == [{"data": b"one"}]
    assert "columns sequence, timestamp, stream have the names of columns of messages" in caplog.text
    caplog.clear()
    given = stream_write_options({"servers": nats.url, "payloadFormat": "text", "subject": f"{stream}.b"})
    writer = plan_stream_write(schema, given, overwrite=False)
    for number in range(2):
        done = writer.publish(TaskName("query", number, 0), batches(schema, [(f"batch {number}", 7, None, "O")]), "r1")
        writer.commit([done], number)
    assert [row["data"] for row in nats.rows(stream, "data")] == [b"one", b"batch 0", b"batch 1"]
    assert caplog.text.count("columns sequence, timestamp, stream") == 1


def test_a_null_that_the_format_cannot_encode_names_row_and_column(nats: Nats) -> None:
    stream = nats.stream()
    with pytest.raises(PayloadError, match=r"^row 1, column line: a payload of text cannot be null"):
        write(nats, columns(line=TEXT), [("one",), (None,)], subject=f"{stream}.a")
    with pytest.raises(PayloadError, match=r"counted from row 2 on: row 0, column line"):
        write(nats, columns(line=TEXT), [("one",), ("two",)], [(None,)], subject=f"{stream}.a")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            columns(subject=TEXT, data=TEXT, line=TEXT),
            "column data and option payloadFormat = text contradict each other",
        ),
        (columns(subject=TEXT), "no column of the rows is a field of the payload: subject"),
        (columns(line=TEXT), "no column subject .string., and option subject is not given; they have line string"),
        (columns(subject=TEXT, n=IntegerType()), "one column of type string; the schema has: n int32"),
        (columns(subject=TEXT, line=TEXT, timestamp=TEXT), r"column timestamp string.*metadataPrefix.*_subject"),
        (columns(subject=IntegerType(), line=TEXT), r"column subject int has the name of a column of messages"),
        (columns(subject=TEXT, SUBJECT=TEXT, line=TEXT), "column subject twice"),
    ],
)
def test_columns_that_cannot_be_written_are_refused_before_the_first_row(schema: StructType, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_columns(schema, write_options({"payloadFormat": "text"}))


def test_fields_become_values_of_a_bucket(nats: Nats) -> None:
    users = Bucket(nats, history=5)
    schema = columns(key=TEXT, name=TEXT, operation=TEXT, revision=LongType())
    rows = [("ada", "Ada", None, 1), ("bob", None, "DEL", 2), ("cyd", "Cyd", "PUT", 3)]
    write(nats, schema, rows, bucket=users.name)
    assert [(row["key"], row["value"], row["operation"]) for row in users.batch(history="true")] == [
        ("ada", b"Ada", "PUT"),
        ("bob", None, "DEL"),
        ("cyd", b"Cyd", "PUT"),
    ]
    for given, message in (
        (columns(name=TEXT), r"no column key \(string\)"),
        (columns(key=TEXT, value=TEXT, name=TEXT), "column value and option payloadFormat = text contradict"),
    ):
        with pytest.raises(ConfigError, match=message):
            plan_columns(given, write_options({"bucket": users.name, "payloadFormat": "text"}))
