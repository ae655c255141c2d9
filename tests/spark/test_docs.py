"""The pages about Spark: the table of options matches the code, and the examples run."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.bulk.object_stores import content
from tests.bulk.streams import Streams
from tests.pages import DOCS, examples
from tests.spark.buckets import DEL, Bucket
from tests.spark.support import running

from jetspark.bulk.object_put import find_object_store
from jetspark.jetstream import RetentionPolicy
from jetspark.jetstream.object_store.config import ObjectStoreConfig, stream_config
from jetspark.spark.options.table import OPTIONS, markdown_table
from jetspark.spark.streams.offsets import decode_offsets, encode_offsets, planned_cores

PAGE = DOCS / "spark.md"
PAGES = (PAGE, DOCS / "reading.md", DOCS / "buckets.md", DOCS / "writing.md", DOCS / "monitoring.md")
SPARKS_OWN = {"path", "checkpointLocation"}
UPDATE = "JETSPARK_UPDATE_DOCS"
MARKS = re.compile(r"(?<=<!-- options -->\n).*(?=<!-- /options -->)", re.DOTALL)


def test_the_table_of_options_is_up_to_date() -> None:
    page = PAGE.read_text()
    if os.environ.get(UPDATE):
        PAGE.write_text(MARKS.sub(lambda _: markdown_table(), page))
        page = PAGE.read_text()
    found = MARKS.search(page)
    assert found is not None
    assert found[0] == markdown_table(), f"run this test with {UPDATE}=1"


def test_only_one_page_shows_the_setting_that_breaks_other_queries() -> None:
    """Spark 4.1 to 4.3 applies the conditions of one scan to all scans of a DataFrame."""
    naming = {page.name for page in DOCS.glob("*.md") if "filterPushdown" in page.read_text()}
    assert naming == {"reading.md", "spark.md"}
    assert "filterPushdown" not in MARKS.sub("", PAGE.read_text())
    assert "filterPushdown" not in (DOCS.parent / "README.md").read_text()


def test_options_named_on_the_page_exist() -> None:
    text = "".join(MARKS.sub("", page.read_text()) for page in PAGES)
    given = re.findall(r'\.option\(\s*"(\w+)"', text)
    assert given
    assert set(given) <= {option.name for option in OPTIONS} | SPARKS_OWN


def test_the_offset_on_the_page_has_the_real_format() -> None:
    """After writing and reading it is the same, including keys and order."""
    shown = re.search(r"```json\n(.*?)```", (DOCS / "reading.md").read_text(), re.DOTALL)
    assert shown is not None
    document = json.loads(shown[1])
    again = encode_offsets(decode_offsets(document, ["ORDERS"]), planned_cores(document))
    assert json.dumps(again) == json.dumps(document)


@pytest.mark.spark
def test_the_sql_examples_run(spark: SparkSession) -> None:
    found = re.search(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    with running() as nats:
        nats.stream("ORDERS", subjects=["orders.>"])
        nats.stream("DELAYS", subjects=["delays.>"])
        nats.publish(["orders.eu", "orders.us", "orders.eu"], [b"{}"] * 3)
        statements = found[1].replace("nats://localhost:4222", nats.url).split(";")[:-1]
        try:
            columns, view, counts, table, insert, rows = (spark.sql(each).collect() for each in statements)
            nats.publish(["orders.eu"] * 3)
            later = spark.sql(statements[2]).collect()
        finally:
            spark.sql("DROP VIEW IF EXISTS orders")
            spark.sql("DROP TABLE IF EXISTS jetstream")
            spark.sql("DROP TABLE IF EXISTS delays")
    assert (columns, view, table, insert) == ([], [], [], [])
    assert {row[0]: row[1] for row in counts} == {"orders.eu": 2, "orders.us": 1}
    assert {row[0]: row[1] for row in later} == {"orders.eu": 5, "orders.us": 1}
    assert [tuple(row) for row in rows] == [("delays.UA", "{}")]


@pytest.mark.spark
def test_the_examples_run(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (first,) = examples("spark.md")
    read, pushed, newest = examples("reading.md")[:3]
    write, copy, dead, put, change, *feeds, objects = (
        text.replace("/tmp/", f"{tmp_path}/") for text in examples("writing.md")
    )
    assert "configure(SparkSession.builder" in first  # as in the README, whose examples run as scripts
    with running() as nats:
        orders = nats.stream("ORDERS", subjects=["orders.>"])
        delays = nats.stream("DELAYS", subjects=["delays.>"])
        nats.publish(["orders.eu.de.1", "orders.eu.fr.2", "orders.us.3"], [b'{"n": 1}'] * 3)
        frame = spark.sql("SELECT 'UA' AS carrier, 3.5 AS delay")
        names: dict[str, object] = {"spark": spark, "delays": frame}
        exec(read.replace("nats://localhost:4222", nats.url).replace("2026-03-01", "2020-03-01"), names)
        assert '{"n": 1}' in capsys.readouterr().out
        exec(write.replace("nats://localhost:4222", nats.url), names)
        assert nats.info(orders).state.messages == 3
        capsys.readouterr()
        letters = nats.stream("DEAD_LETTERS", subjects=["dlq.>"])
        exec(
            dead.replace("nats://localhost:4222", nats.url).replace("mode(", 'option("subject", "a.nowhere").mode('),
            names,
        )
        assert nats.info(letters).state.messages == 1
        exec(pushed.replace("nats://localhost:4222", nats.url), names)
        explained = capsys.readouterr().out
        assert "GreaterThan(sequence,1)" in explained
        assert "length(data" in explained
        (row,) = nats.rows(delays, "subject", "data")
        assert row == {"subject": "delays.UA", "data": b'{"carrier":"UA","delay":3.5}'}
        nats.stream("SENSORS", subjects=["temperature.*"])
        nats.publish(["temperature.a", "temperature.a"], [b"20.5", b"21"])
        exec(newest.replace("nats://localhost:4222", nats.url), names)
        exec("found = temperatures.collect()", names)
        assert str(names["found"]) == "[Row(sensor='a', degrees=21.0)]"
        bucket = Bucket(nats, "users")
        bucket.put("ada", value=b'{"name": "Ada"}')
        exec(examples("buckets.md")[0].replace("nats://localhost:4222", nats.url), names)
        assert "|ada| Ada|" in capsys.readouterr().out
        names["users"] = spark.sql("SELECT 'bob' AS id, 7 AS age")
        target = Bucket(nats, "users_copy")
        for example in (put, change, *feeds):
            exec(example.replace("nats://localhost:4222", nats.url), names)
        wanted = {"ada": b'{"NAME": "ADA"}', "bob": b'{"ID":"BOB","AGE":7}'}
        assert {row["key"]: row["value"] for row in target.batch()} == wanted
        streams = Streams(nats.connection)
        streams.make_as(stream_config(ObjectStoreConfig(bucket="files")))
        names["reports"] = spark.sql("SELECT 'monday' AS day, 'a,b' AS text")
        exec(objects.replace("nats://localhost:4222", nats.url), names)
        assert content(streams, find_object_store(nats.connection, "files")) == {"reports/monday.csv": b"a,b"}
        exec(examples("buckets.md")[2].replace("nats://localhost:4222", nats.url), names)
        assert "|reports/monday.csv|     3| a,b|" in capsys.readouterr().out
        nats.stream("COPY", subjects=["copy.>"])
        exec(copy.replace("nats://localhost:4222", nats.url), names)
        copied = nats.rows("COPY", "subject", "headers")
        assert sorted(str(row["subject"]) for row in copied) == [
            "copy.orders.eu.de.1",
            "copy.orders.eu.fr.2",
            "copy.orders.us.3",
        ]
        assert "('Nats-Msg-Id', ['ORDERS-1'])" in str(copied)


@pytest.mark.spark
@pytest.mark.slow
def test_the_streaming_examples_run(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, _, stream, dead, release = (text.replace("/tmp/", f"{tmp_path}/") for text in examples("reading.md"))
    last, listen, *_ = examples("monitoring.md")  # tests/spark/test_metrics.py runs the others
    with running() as nats:
        jobs = nats.stream("JOBS", retention=RetentionPolicy.WORK_QUEUE, allow_direct=True)
        nats.publish([f"{jobs}.1", f"{jobs}.2"], [b'{"n": 1}'] * 2)
        names: dict[str, object] = {"spark": spark}
        exec(listen, names)
        exec(
            stream.replace("nats://localhost:4222", nats.url).replace("ORDERS", jobs).replace("/orders", "/jobs"), names
        )
        assert spark.read.parquet(f"{tmp_path}/jobs").count() == 2
        nats.stream("ORDERS", subjects=["orders.>"])
        letters = nats.stream("DEAD_LETTERS", subjects=["dlq.>"])
        nats.publish(["orders.1", "orders.2"], [b'{"id": 1}', b"{"])
        capsys.readouterr()
        exec(
            dead.replace("nats://localhost:4222", nats.url).replace(
                '"stream"', '"startingOffsets", "earliest").option("stream"'
            ),
            {"spark": spark},
        )
        assert nats.info(letters).state.messages == 1
        bucket = Bucket(nats, "users")
        bucket.put("ada", "bob")
        changes = examples("buckets.md")[1].replace("/tmp/", f"{tmp_path}/").replace("nats://localhost:4222", nats.url)
        queries: dict[str, object] = {"spark": spark}
        exec(changes, queries)
        bucket.mark(DEL, "bob")
        exec(changes, queries)
        found = spark.read.parquet(f"{tmp_path}/users-changes").select("key", "revision", "operation").collect()
        assert sorted(map(tuple, found)) == [("ada", 1, "PUT"), ("bob", 2, "PUT"), ("bob", 3, "DEL")]
        exec(last.replace("ORDERS", jobs), names)
        printed = capsys.readouterr().out
        assert "0 2 0 0 0.0\n()\n" in printed
        exec(release.replace("nats://localhost:4222", nats.url), names)
        assert nats.info(jobs).state.messages == 0
    deadline = time.monotonic() + 30.0
    while "0 0\n" not in printed:
        assert time.monotonic() < deadline
        time.sleep(0.05)  # Spark calls its listeners later
        printed += capsys.readouterr().out
    spark.streams.removeListener(names["listener"])  # type: ignore[arg-type]  # the example's
