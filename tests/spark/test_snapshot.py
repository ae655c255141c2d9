"""Batch reads of the last message of every subject."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, In, InputPartition, LessThan
from pyspark.sql.types import StructType
from tests.bulk.streams import HEADERS
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.errors import ConfigError, StreamNotFoundError
from jetspark.spark.options.batch import read_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.snapshot_reader import FilteringSnapshotReader, SnapshotReader
from jetspark.spark.schema import read_schema

MODE = {"readMode": "lastPerSubject"}


def bucket(nats: Nats, name: str) -> str:
    """A stream with the configuration of a key-value bucket."""
    return nats.stream(f"KV_{name}", subjects=[f"$KV.{name}.>"], max_msgs_per_subject=1, allow_rollup_hdrs=True)


def rows(nats: Nats, stream: str, schema: StructType | None = None, **options: str) -> list[dict[str, object]]:
    given = read_options({"servers": nats.url, "stream": stream, **MODE, **options})
    reader = SnapshotReader(schema or read_schema(include_headers=False), given)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.spark
def test_a_bucket_can_be_a_lookup_table(spark: SparkSession, nats: Nats) -> None:
    stream = bucket(nats, "AIRLINES")
    names = {"UA": "United", "AA": "American", "B6": "JetBlue", "XX": "gone", "YY": "expired"}
    subjects = [f"$KV.AIRLINES.{key}" for key in names]
    nats.publish(subjects, [b"old"] * 5)
    nats.publish(subjects, [name.encode() for name in names.values()])
    markers = pa.array([[("KV-Operation", ["DEL"])], [("Nats-Marker-Reason", ["MaxAge"])]], HEADERS)
    rows = pa.record_batch({"subject": subjects[3:], "data": [b"", b""], "headers": markers})
    bulk.publish(nats.connection, rows, control_headers="keep")
    reader = spark.read.format("jetstream").options(servers=nats.url, stream=stream, includeHeaders="true", **MODE)
    frame = reader.load().where("headers['KV-Operation'] IS NULL AND headers['Nats-Marker-Reason'] IS NULL")
    found = frame.selectExpr("split(subject, '[.]')[2] AS code", "CAST(data AS STRING) AS name")
    assert {row.code: row.name for row in found.collect()} == {"UA": "United", "AA": "American", "B6": "JetBlue"}
    assert reader.load().where("subject = '$KV.AIRLINES.UA' AND sequence > 1").count() == 1


def test_every_subject_of_every_stream_has_one_row(nats: Nats) -> None:
    one, two = nats.filled(30, ("a", "b", "c")), nats.filled(4, ("a", "b"))
    found = rows(nats, f"{one},{two}")
    assert [(row["stream"], row["subject"], row["sequence"]) for row in found] == [
        (one, f"{one}.a", 28),
        (one, f"{one}.b", 29),
        (one, f"{one}.c", 30),
        (two, f"{two}.a", 3),
        (two, f"{two}.b", 4),
    ]


def test_schema_filters_and_batch_sizes_work_like_in_other_reads(nats: Nats) -> None:
    stream = nats.filled(30, ("a", "b", "c"))
    schema = StructType().add("sequence", "integer").add("data", "string", nullable=False)
    assert rows(nats, stream, schema, subject=f"{stream}.b,{stream}.c", arrowBatchRows="1") == [
        {"sequence": 29, "data": "28"},
        {"sequence": 30, "data": "29"},
    ]
    assert rows(nats, nats.stream()) == []


def test_conditions_on_the_subject_go_to_the_server_and_those_on_the_sequence_do_not(nats: Nats) -> None:
    one, two = nats.filled(30, ("a", "b", "c")), nats.filled(3, ("a", "b", "c"))
    options = read_options({"servers": nats.url, "stream": f"{one},{two}", **MODE})
    reader = FilteringSnapshotReader(read_schema(include_headers=False), options)
    place = LessThan(("sequence",), 30)
    conditions = [In(("subject",), (f"{one}.a", f"{two}.c")), EqualTo(("stream",), one), place]
    assert list(reader.pushFilters([*conditions])) == [place]
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [(row["subject"], row["sequence"]) for row in found] == [(f"{one}.a", 28)]
    assert list(reader.pushFilters([EqualTo(("subject",), "a"), EqualTo(("subject",), "b")])) == []
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_invalid_options_are_refused(nats: Nats) -> None:
    for option, value in (
        ("startingOffsets", "earliest"),
        ("endingTimestamp", "2026-01-01T00:00:00Z"),
        ("minPartitions", "4"),
    ):
        with pytest.raises(ConfigError, match=f"options {option} and readMode = lastPerSubject contradict each other"):
            read_options({"stream": "S", **MODE, option: value})
    with pytest.raises(ConfigError, match="option readMode is 'last': it must be all or lastPerSubject"):
        read_options({"stream": "S", "readMode": "last"})
    with pytest.raises(ConfigError, match="readMode = lastPerSubject is for batch reads"):
        stream_read_options({"stream": "S", **MODE})
    assert not read_options({"stream": "S", "readMode": "ALL", "startingOffsets": "earliest"}).last_per_subject
    with pytest.raises(ConfigError, match="there is no column key"):
        rows(nats, "S", StructType().add("key", "string"))
    with pytest.raises(StreamNotFoundError):
        rows(nats, "NOBODY")
