"""Typed rows without the processes of Spark: schemas, modes, batches exactly as declared, filters."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThan, IsNotNull
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)
from tests.spark.buckets import DEL, Bucket
from tests.spark.support import Nats

from jetspark.errors import ConfigError, PayloadError
from jetspark.spark.options.batch import read_options
from jetspark.spark.read.batch_reader import FilteringReader, JetStreamReader
from jetspark.spark.read.snapshot_reader import FilteringSnapshotReader, SnapshotReader
from jetspark.spark.source import JetStreamDataSource

TEXT = StructField("line", StringType())
PAYLOADS = [b"one", b"\xff\xfe", b"", b"\xffthree", "gr\u00fcn".encode()]


def columns(*fields: StructField | tuple[str, DataType]) -> StructType:
    return StructType([field if isinstance(field, StructField) else StructField(*field) for field in fields])


def reader(nats: Nats, schema: StructType, **options: str) -> DataSourceReader:
    given = read_options({"servers": nats.url, "payloadFormat": "text", **options})
    return (SnapshotReader if given.last_per_subject else JetStreamReader)(schema, given)


def read(nats: Nats, schema: StructType, **options: str) -> list[dict[str, object]]:
    """Read as Spark's processes do: the reader is pickled, and each batch has exactly the declared schema."""
    made = pickle.loads(pickle.dumps(reader(nats, schema, **options)))
    rows = []
    for part in made.partitions():
        for batch in made.read(pickle.loads(pickle.dumps(part))):
            assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
            rows += batch.to_pylist()
    return rows


@pytest.fixture
def stream(nats: Nats) -> str:
    name = nats.stream()
    nats.publish([f"{name}.{number}" for number in range(len(PAYLOADS))], PAYLOADS)
    return name


@contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    caplog.clear()
    lines: list[str] = []
    with caplog.at_level(logging.INFO, "jetspark.spark"):
        yield lines
    lines += [record.getMessage() for record in caplog.records if record.name.endswith("bad_records")]


def test_fields_and_columns_of_messages_come_in_the_order_of_the_schema(nats: Nats, stream: str) -> None:
    schema = columns(
        ("Sequence", IntegerType()),
        TEXT,
        ("stream", StringType()),
        ("data", BinaryType()),
        ("subject", StringType()),
        ("timestamp", TimestampNTZType()),
        ("timestamp_ns", LongType()),
        ("headers", MapType(StringType(), ArrayType(StringType()))),
    )
    rows = read(nats, schema, stream=stream)
    assert [(row["Sequence"], row["line"], row["data"], row["subject"]) for row in rows] == [
        (1, "one", b"one", f"{stream}.0"),
        (2, None, b"\xff\xfe", f"{stream}.1"),
        (3, "", b"", f"{stream}.2"),
        (4, None, b"\xffthree", f"{stream}.3"),
        (5, "gr\u00fcn", "gr\u00fcn".encode(), f"{stream}.4"),
    ]
    assert {row["stream"] for row in rows} == {stream}


def test_a_schema_of_fields_alone_is_enough(nats: Nats, stream: str) -> None:
    assert [row["line"] for row in read(nats, columns(TEXT), stream=stream)] == ["one", None, "", None, "gr\u00fcn"]


def test_permissive_keeps_bad_records_and_shows_their_text(
    nats: Nats, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema = columns(("_corrupt_record", StringType()), TEXT)
    with logged(caplog) as lines:
        rows = read(nats, schema, stream=stream)
    assert [row["_corrupt_record"] for row in rows] == [None, "\ufffd\ufffd", None, "\ufffdthree", None]
    assert lines[0].startswith(f"stream {stream}: sequence 2, subject {stream}.1: the payload is not UTF-8")
    assert lines[1].startswith(f"stream {stream}: 2 payloads could not be decoded as text; they were kept")
    raw = columns(("bad", BinaryType()), TEXT)
    found = read(nats, raw, stream=stream, columnNameOfCorruptRecord="bad")
    assert [row["bad"] for row in found] == [None, b"\xff\xfe", None, b"\xffthree", None]


def test_dropmalformed_leaves_bad_records_out_and_counts_them(
    nats: Nats, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema = columns(StructField("line", StringType(), nullable=False), ("sequence", LongType()))
    with logged(caplog) as lines:
        rows = read(nats, schema, stream=stream, mode="DROPMALFORMED", arrowBatchRows="2")
    assert [(row["sequence"], row["line"]) for row in rows] == [(1, "one"), (3, ""), (5, "gr\u00fcn")]
    assert lines[1:] == [f"stream {stream}: 2 payloads could not be decoded as text; they were left out"]


def test_failfast_names_the_message_and_the_fault_but_not_its_content(nats: Nats, stream: str) -> None:
    with pytest.raises(PayloadError) as error:
        read(nats, columns(TEXT), stream=stream, mode="FAILFAST", startingOffsets=f'{{"{stream}": 3}}')
    assert str(error.value).startswith(f"stream {stream}, sequence 4, subject {stream}.3: the payload is not UTF-8")
    assert "three" not in str(error.value)


def test_a_prefix_renames_the_columns_of_messages(nats: Nats, stream: str) -> None:
    schema = columns(("subject", StringType()), ("_Subject", StringType()), ("_sequence", LongType()))
    rows = read(nats, schema, stream=stream, metadataPrefix="_")
    assert tuple(rows[0].values()) == ("one", f"{stream}.0", 1)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (columns(("subject", LongType())), r"column subject bigint has the name of a column of messages.*metadataPref"),
        (columns(TEXT, ("timestamp", StringType())), r'option\("metadataPrefix", "_"\) makes them _subject, _data'),
        (columns(TEXT, ("data", StructType([TEXT]))), "column data struct<line:string>.*binary or string"),
        (columns(("subject", StringType()), ("Subject", StringType())), "the column Subject twice.*metadataPrefix"),
        (columns(TEXT, ("LINE", StringType())), "the column LINE twice$"),
        (columns(("subject", StringType())), "no column of the schema is a field of the payload: subject"),
        (columns(), "no column of the schema is a field of the payload"),
        (columns(("n", IntegerType())), r"one column of type string; the schema has: n int32"),
        (columns(TEXT, ("v", VariantType())), r"one column of type string|column v variant"),
        (columns(TEXT, ("_corrupt_record", LongType())), "columnNameOfCorruptRecord.*it is bigint"),
        (
            columns(TEXT, StructField("_corrupt_record", StringType(), nullable=False)),
            "nullable; it is string NOT NULL",
        ),
        (
            columns(StructField("line", StringType(), nullable=False)),
            "line is NOT NULL in the schema, but mode PERMISS",
        ),
        (columns(("a", ArrayType(StringType(), containsNull=False))), r"a\.element is NOT NULL in the schema"),
        (columns(("m", MapType(StringType(), LongType(), valueContainsNull=False))), r"m\.value is NOT NULL"),
        (columns(("s", StructType([StructField("x", LongType(), nullable=False)]))), r"s\.x is NOT NULL"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused_before_the_first_row(
    nats: Nats, schema: StructType, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        reader(nats, schema, stream="ORDERS")


def test_the_last_message_of_every_subject_has_typed_rows(nats: Nats, stream: str) -> None:
    nats.publish([f"{stream}.0"], [b"newest"])
    schema = columns(("subject", StringType()), TEXT)
    rows = read(nats, schema, stream=stream, readMode="lastPerSubject", mode="DROPMALFORMED")
    assert {row["subject"]: row["line"] for row in rows} == {
        f"{stream}.0": "newest",
        f"{stream}.2": "",
        f"{stream}.4": "gr\u00fcn",
    }


def test_filters_on_columns_of_messages_go_to_the_server_under_their_prefix(nats: Nats, stream: str) -> None:
    schema = columns(("subject", StringType()), ("_subject", StringType()), ("_sequence", LongType()))
    given = {"servers": nats.url, "stream": stream, "payloadFormat": "text", "metadataPrefix": "_"}
    made = FilteringReader(schema, read_options(given))
    ours = EqualTo(("subject",), "one")
    rest = list(made.pushFilters([ours, EqualTo(("_subject",), f"{stream}.0"), GreaterThan(("_sequence",), 0)]))
    assert rest == [ours]
    rows = [row for part in made.partitions() for batch in made.read(part) for row in batch.to_pylist()]
    assert [row["_sequence"] for row in rows] == [1]
    newest = FilteringSnapshotReader(schema, read_options({**given, "readMode": "lastPerSubject"}))
    sequence = GreaterThan(("_sequence",), 0)
    assert list(newest.pushFilters([ours, EqualTo(("_subject",), f"{stream}.0"), sequence])) == [ours, sequence]
    assert len([row for part in newest.partitions() for batch in newest.read(part) for row in batch.to_pylist()]) == 1


def test_fields_take_no_part_in_filters(nats: Nats, stream: str) -> None:
    made = FilteringReader(columns(TEXT), read_options({"stream": stream, "payloadFormat": "text"}))
    filters = [IsNotNull(("line",)), EqualTo(("line",), "one")]
    assert list(made.pushFilters(filters)) == filters


def test_values_of_a_bucket_become_fields(nats: Nats) -> None:
    users = Bucket(nats, history=5)
    users.put("ada", value=b"one")
    users.put("bob", value=b"two")
    users.mark(DEL, "bob")
    schema = columns(("key", StringType()), TEXT, ("revision", LongType()), ("operation", StringType()))
    rows = read(nats, schema, bucket=users.name, history="true")
    assert [tuple(row.values()) for row in rows] == [
        ("ada", "one", 1, "PUT"),
        ("bob", "two", 2, "PUT"),
        ("bob", None, 3, "DEL"),
    ]
    newest = columns(("key", StringType()), StructField("line", StringType(), nullable=False), ("value", BinaryType()))
    assert read(nats, newest, bucket=users.name, mode="FAILFAST") == [{"key": "ada", "line": "one", "value": b"one"}]
    with pytest.raises(ConfigError, match="line is NOT NULL in the schema, but it is null in rows of deleted keys"):
        reader(nats, newest, bucket=users.name, mode="FAILFAST", includeDeletes="true")
    raw = columns(TEXT, StructField("value", BinaryType(), nullable=False))
    with pytest.raises(ConfigError, match="value is NOT NULL in the schema, but it is null in rows of deleted keys"):
        reader(nats, raw, bucket=users.name, history="true")
    users.put("cyd", value=b"\xff")
    with pytest.raises(PayloadError, match=r"revision 4, key cyd: the payload is not UTF-8"):
        read(nats, newest, bucket=users.name, mode="FAILFAST")


def test_without_a_schema_the_columns_of_messages_follow_the_fields(nats: Nats, stream: str) -> None:
    source = JetStreamDataSource({"servers": nats.url, "stream": stream, "payloadFormat": "text"})
    assert source.schema().names == ["value", "subject", "stream", "sequence", "timestamp", "timestamp_ns"]
    assert source.schema()["timestamp"].dataType == TimestampType()
    assert len(read(nats, source.schema(), stream=stream)) == len(PAYLOADS)
    options = {"servers": nats.url, "bucket": "users", "payloadFormat": "text"}
    with pytest.raises(ConfigError, match=r'a field value.*option\("metadataPrefix", "_"\)'):
        JetStreamDataSource(options).schema()
    prefixed = JetStreamDataSource({**options, "metadataPrefix": "_", "includeHeaders": "true"}).schema()
    assert prefixed.names == ["value", "_key", "_revision", "_created", "_operation", "_headers"]


def test_fields_of_json_are_inferred_from_the_first_messages(nats: Nats) -> None:
    stream, other = nats.stream(), nats.stream()
    nats.publish([f"{stream}.a"] * 3, [b'{"id": 1, "tags": ["x"]}', b"{", b'{"id": 2.5, "later": true}'])
    nats.publish([f"{other}.a"], [b'{"other": {"x": 1}}'])
    options = {"servers": nats.url, "stream": f"{stream},{other}", "payloadFormat": "json"}
    found = JetStreamDataSource({**options, "includeHeaders": "true"}).schema()
    assert found.names[:4] == ["id", "later", "other", "tags"]
    assert found.names[4:] == ["subject", "headers", "stream", "sequence", "timestamp", "timestamp_ns"]
    assert found["tags"].dataType == ArrayType(StringType())
    assert found["other"].dataType == StructType([StructField("x", LongType())])
    rows = read(nats, found, payloadFormat="json", stream=f"{stream},{other}")
    assert [(row["id"], row["later"], row["sequence"]) for row in rows] == [
        (1.0, None, 1),
        (None, None, 2),
        (2.5, True, 3),
        (None, None, 1),
    ]
    assert JetStreamDataSource({**options, "samplingSize": "2"}).schema().names[:3] == ["id", "other", "tags"]
    later = {**options, "stream": stream, "startingOffsets": f'{{"{stream}": 3}}', "samplingSize": "1"}
    assert JetStreamDataSource(later).schema().names[:3] == ["id", "later", "subject"]


def test_inferred_fields_that_have_the_name_of_a_column_of_messages_ask_for_a_prefix(nats: Nats) -> None:
    stream = nats.stream()
    nats.publish([f"{stream}.a"], [b'{"Timestamp": "2026-03-01"}'])
    options = {"servers": nats.url, "stream": stream, "payloadFormat": "json"}
    with pytest.raises(ConfigError, match=r'a field Timestamp, and so have.*option\("metadataPrefix", "_"\)'):
        JetStreamDataSource(options).schema()
    assert JetStreamDataSource({**options, "metadataPrefix": "_"}).schema().names[:2] == ["Timestamp", "_subject"]


def test_nothing_can_be_inferred_from_nothing_and_the_error_shows_a_schema(nats: Nats) -> None:
    options = {"servers": nats.url, "stream": nats.stream(), "payloadFormat": "json", "metadataPrefix": "_"}
    with pytest.raises(ConfigError, match=r'no message in .*\.schema\("id BIGINT, name STRING, _subject STRING"\)'):
        JetStreamDataSource(options).schema()


def test_a_stream_of_json_needs_a_schema_and_the_error_shows_one(nats: Nats) -> None:
    stream = nats.stream()
    nats.publish([f"{stream}.a"], [b'{"id": 1}'])
    options = {"servers": nats.url, "stream": stream, "payloadFormat": "json"}
    source = JetStreamDataSource(options)
    schema = source.schema()
    planned = pickle.loads(pickle.dumps(source))  # as Spark keeps it
    planned.reader(schema)
    with pytest.raises(ConfigError, match=r'payloadFormat = json needs a schema.*\.schema\("id BIGINT'):
        planned.streamReader(schema)
    JetStreamDataSource(options).streamReader(schema)  # the user gave it
    text = JetStreamDataSource({**options, "payloadFormat": "text"})
    text.streamReader(text.schema())  # its fields are known
