"""Object stores as sinks: options, columns, rows that are refused, and what is stored."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, MapType, StringType, StructType
from tests.bulk.object_stores import content, make
from tests.bulk.streams import Streams
from tests.spark.support import Nats

from jetspark.errors import BucketNotFoundError, ConfigError, InvalidObjectNameError, MaxPayloadError
from jetspark.spark.options.batch import write_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.object_writer import plan_object_stream_write, plan_object_write

ROWS = StructType().add("path", "string").add("content", BinaryType())
METADATA = (
    StructType().add("path", "string").add("content", "binary").add("metadata", MapType(StringType(), StringType()))
)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bucket": "b"}, "options objects and bucket contradict each other"),
        ({"stream": "S"}, "options objects and stream contradict each other"),
        ({"subject": "s"}, "options objects and subject contradict each other"),
        ({"atomic": "true"}, "options objects and atomic = true contradict each other"),
        ({"ledgerStream": "L"}, "options objects and ledgerStream contradict each other"),
        ({"objects": "a.b"}, "option objects is 'a.b': bucket name 'a.b' must be made of letters"),
        ({"maxObjectSize": "x"}, "option maxObjectSize is 'x'"),
    ],
)
def test_options_that_do_not_fit_objects_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        stream_write_options({"objects": "files", **given})
    with pytest.raises(ConfigError, match="option maxObjectSize needs option objects"):
        write_options({"maxObjectSize": "1m"})


def test_columns_and_stores_that_do_not_fit_are_refused_before_the_first_row(nats: Nats) -> None:
    files = make(Streams(nats.connection))
    options = write_options({"servers": nats.url, "objects": files.bucket})
    for schema, words in (
        (StructType().add("path", "string"), "the rows have no column content"),
        (StructType().add("path", "string").add("content", "string"), "column content can only be written from binary"),
        (StructType().add("path", "string").add("size", "long"), "there is no column size to write"),
        (StructType().add("path", "string").add("Path", "string"), "the rows have twice the column path"),
    ):
        with pytest.raises(ConfigError, match=words):
            plan_object_write(schema, options, overwrite=False)
    with pytest.raises(ConfigError, match="use mode append"):
        plan_object_stream_write(ROWS, options, overwrite=True)
    missing = write_options({"servers": nats.url, "objects": "none"})
    with pytest.raises(BucketNotFoundError):
        plan_object_write(ROWS, missing, overwrite=False)


@pytest.mark.conformance("KSP-21")
def test_a_row_that_cannot_be_written_is_shown_and_nothing_of_its_batch_is_stored(nats: Nats) -> None:
    streams = Streams(nats.connection)
    files = make(streams)
    options = write_options({"servers": nats.url, "objects": files.bucket, "maxObjectSize": "100"})
    kind = pa.map_(pa.string(), pa.string())
    for row, error, words in (
        ((None, b"x", None), InvalidObjectNameError, r"row 2 \(path None\)"),
        (("", b"x", None), InvalidObjectNameError, r"row 2 \(path ''\): .*empty"),
        (("big", b"x" * 101, None), ConfigError, r"row 2 \(path 'big'\): the object has 101 bytes"),
        (("meta", b"x", [("k", None)]), ConfigError, r"row 2 \(path 'meta'\): a text in headers or metadata is null"),
    ):
        rows = pa.record_batch(
            {"path": ["b", row[0]], "content": [b"y", row[1]], "metadata": pa.array([None, row[2]], kind)}
        )
        good = pa.record_batch({"path": ["a"], "content": [b"1"], "metadata": pa.array([None], kind)})
        with pytest.raises(error, match=words):
            plan_object_write(METADATA, options, overwrite=False).write(iter([good, rows]))
        assert content(streams, files) == {"a": b"1"}
    large = pa.record_batch({"path": ["m"], "content": [b"y"], "metadata": pa.array([[("k", "x" * 2_000_000)]], kind)})
    with pytest.raises(MaxPayloadError, match=r"row 0 \(path 'm'\)"):
        plan_object_write(METADATA, options, overwrite=False).write(iter([large]))
    assert content(streams, files) == {"a": b"1"}


@pytest.mark.spark
@pytest.mark.conformance("KSP-21")
def test_rows_of_spark_are_written_as_objects_and_a_repeat_stores_nothing(spark: SparkSession, nats: Nats) -> None:
    streams = Streams(nats.connection)
    files, large = make(streams), os.urandom(300_000)
    frame = spark.createDataFrame(
        [("dir/a", large, {"k": "v"}), ("empty", b"", None), ("gone", b"1", None)],
        "path string, content binary, metadata map<string,string>",
    )

    def save(rows: object) -> None:
        rows.write.format("jetstream").options(servers=nats.url, objects=files.bucket).mode("append").save()  # type: ignore[attr-defined]

    save(frame)
    last = nats.info(files.stream).state.last_sequence
    save(frame)
    assert nats.info(files.stream).state.last_sequence == last
    save(spark.sql("SELECT 'gone' AS path, null AS content, 0L AS length, current_timestamp() AS modificationTime"))
    assert content(streams, files) == {"dir/a": large, "empty": b""}
    with pytest.raises(PySparkException, match="mode append"):
        frame.write.format("jetstream").options(servers=nats.url, objects=files.bucket).mode("overwrite").save()
