"""Messages that a read cannot decode become dead letters, once, and with a count."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.spark.dead_letters import letters
from tests.spark.micro_batches import latest
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.bulk.dead_letters import TooManyDeadLettersError
from jetspark.errors import ConfigError
from jetspark.jetstream.config import StreamSource
from jetspark.spark.options.batch import read_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.source import JetStreamDataSource

MAP = pa.map_(pa.string(), pa.list_(pa.string()))
ORDERS = StructType().add("id", "integer").add("sequence", "long")


def orders(nats: Nats, count: int = 30, bad: int = 3, **config: object) -> str:
    """Return a stream with orders as JSON; those with a multiple of `bad` as their number are no JSON."""
    stream = nats.stream(None, **config)
    payloads = [b"{]" if number % bad == 0 else b'{"id": %d}' % number for number in range(count)]
    headers = [[("k", ["v"]), ("Nats-Msg-Id", [f"{stream}-own-{number}"])] for number in range(count)]
    rows = pa.record_batch(
        {
            "subject": [f"{stream}.{number}" for number in range(count)],
            "data": payloads,
            "headers": pa.array(headers, MAP),
        }
    )
    bulk.publish(nats.connection, rows, control_headers="keep")
    return stream


def read_options_of(nats: Nats, stream: str, **options: str) -> dict[str, str]:
    return {"servers": nats.url, "stream": stream, "payloadFormat": "json", **options}


def batch_read(nats: Nats, stream: str, schema: StructType = ORDERS, /, **options: str) -> list[dict[str, object]]:
    """Read as Spark's planner and tasks do."""
    source = JetStreamDataSource(read_options_of(nats, stream, **options))
    made = source.reader(schema)
    return [row for part in made.partitions() for batch in made.read(part) for row in batch.to_pylist()]


@pytest.mark.spark
@pytest.mark.matrix
def test_a_query_that_repeats_its_micro_batch_has_each_dead_letter_once(
    spark: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    stream, dead = orders(nats), nats.stream()
    given = read_options_of(nats, stream, deadLetterSubject=f"{dead}.orders")
    frame = spark.read.format("jetstream").options(**given).schema(ORDERS).load()
    assert (frame.count(), frame.agg({"id": "sum"}).first()) == (20, (sum(each for each in range(30) if each % 3),))
    assert len(letters(nats, dead)) == 10
    checkpoint, ids = tmp_path / "checkpoint", set()
    for _ in range(2):
        reading = spark.readStream.format("jetstream").options(**given).option("startingOffsets", "earliest")
        writing = reading.schema(ORDERS).load().writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        ids.add(query.id)
        (checkpoint / "commits" / "0").unlink()  # as if the driver was killed before the commit
        (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 20
    found = Counter(letter["Jetspark-Query"] for letter in letters(nats, dead))
    assert found.pop(ids.pop()) == 10  # the query is another job than the batch
    assert list(found.values()) == [10]


def test_a_message_that_cannot_be_decoded_is_published_as_it_came(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jetspark.spark")
    stream, dead = orders(nats), nats.stream()
    rows = batch_read(nats, stream, deadLetterSubject=f"{dead}.orders", minPartitions="2")
    assert [row["id"] for row in rows] == [number for number in range(30) if number % 3]
    found = letters(nats, dead)
    assert sorted(int(letter["Jetspark-Sequence"]) for letter in found) == list(range(1, 31, 3))
    for letter in found:
        sequence = int(letter["Jetspark-Sequence"])
        assert letter["data"] == "{]"
        assert letter["k"] == "v"
        assert letter["Jetspark-Stream"] == stream
        assert letter["Jetspark-Subject"] == f"{stream}.{sequence - 1}"
        assert letter["Jetspark-Msg-Id"] == f"{stream}-own-{sequence - 1}"
        assert letter["Jetspark-Error"]
        assert letter["Jetspark-Query"]
        assert letter["Nats-Msg-Id"].startswith(f"{stream}-{sequence}-")
    assert (
        caplog.text.count(f"5 payloads could not be decoded as json; they were published as dead letters to {dead}")
        == 2
    )


def test_a_second_read_of_the_same_messages_publishes_no_dead_letter_again(nats: Nats) -> None:
    stream, dead = orders(nats), nats.stream()
    for mode in (None, "DROPMALFORMED", "PERMISSIVE"):
        options = {"deadLetterSubject": f"{dead}.orders", **({} if mode is None else {"mode": mode})}
        rows = batch_read(nats, stream, **options)
        assert len(rows) == (30 if mode == "PERMISSIVE" else 20)
        assert len(letters(nats, dead)) == 10
    nats.delete(stream)
    orders_again = nats.stream(stream)
    nats.publish([f"{stream}.a"], [b"{]"])
    batch_read(nats, orders_again, deadLetterSubject=f"{dead}.orders")
    assert len(letters(nats, dead)) == 11  # another message has this sequence now


def test_a_repeated_micro_batch_of_a_read_has_each_dead_letter_once(nats: Nats) -> None:
    stream, dead = orders(nats), nats.stream()
    given = read_options_of(nats, stream, deadLetterSubject=f"{dead}.orders", startingOffsets="earliest")
    for _ in range(2):
        made = JetStreamDataSource(given).streamReader(ORDERS)
        assert isinstance(made, JetStreamStreamReader)
        start = made.initialOffset()
        end = latest(made, start)
        rows = [row for part in made.partitions(start, end) for batch in made.read(part) for row in batch.to_pylist()]
        assert (len(rows), len(letters(nats, dead))) == (20, 10)
    nats.publish([f"{stream}.a"])
    latest(made, end)
    assert made.reportLatestOffset()["deadLetters"] == {f"{dead}.orders": 10}


def test_a_stream_of_a_pattern_that_would_bring_the_dead_letters_ends_the_query(nats: Nats) -> None:
    dead, name = nats.stream(), f"{nats.stream()}_NEW"
    nats.stream(f"{name}_1")
    given = {"servers": nats.url, "streamPattern": f"{name}_*", "payloadFormat": "json", "pollInterval": "10ms"}
    made = JetStreamDataSource({**given, "deadLetterSubject": f"{dead}.orders"}).streamReader(ORDERS)
    assert isinstance(made, JetStreamStreamReader)
    start = made.initialOffset()
    nats.stream(f"{name}_2", subjects=None, sources=[StreamSource(name=dead)])

    def poll(times: int = 100) -> None:
        for _ in range(times):
            latest(made, start)

    with pytest.raises(ConfigError, match=f"stream {dead} .*reads stream {name}_2, so it would read its own dead"):
        poll()


def test_the_newest_messages_of_subjects_have_dead_letters_too(nats: Nats) -> None:
    stream, dead = orders(nats), nats.stream()
    rows = batch_read(nats, stream, deadLetterSubject=f"{dead}.orders", readMode="lastPerSubject")
    assert (len(rows), len(letters(nats, dead))) == (20, 10)
    batch_read(nats, stream, deadLetterSubject=f"{dead}.orders")
    assert len(letters(nats, dead)) == 10


def test_more_bad_messages_than_allowed_fail_the_task(nats: Nats) -> None:
    stream, dead = orders(nats, 300), nats.stream()
    with pytest.raises(TooManyDeadLettersError, match=r"100 bad rows or more.*publish 50"):
        batch_read(nats, stream, deadLetterSubject=f"{dead}.orders", maxDeadLetters="50", minPartitions="1")
    assert len(letters(nats, dead)) == 50
    assert len(batch_read(nats, stream, deadLetterSubject=f"{dead}.orders", minPartitions="1")) == 200


def test_a_read_that_would_read_its_own_dead_letters_is_refused(nats: Nats) -> None:
    stream = nats.filled(3, ("a", "b"))
    mirror = nats.stream(None, subjects=None, mirror=StreamSource(name=stream))
    collecting = nats.stream(None, subjects=None, sources=[StreamSource(name=mirror)])
    for read in (stream, mirror, collecting):
        with pytest.raises(ConfigError, match=f"deadLetterSubject: stream {stream} .*its own dead letters"):
            batch_read(nats, read, deadLetterSubject=f"{stream}.dead")
        given = read_options_of(nats, read, deadLetterSubject=f"{stream}.dead")
        made = JetStreamDataSource(given).streamReader(ORDERS)
        assert isinstance(made, JetStreamStreamReader)
        with pytest.raises(ConfigError, match="its own dead letters"):
            made.initialOffset()
    batch_read(nats, stream, deadLetterSubject=f"{stream}.dead", subject=f"{stream}.b")  # the filter leaves them out
    assert nats.subjects(stream) == [f"{stream}.{token}" for token in ("a", "b", "dead")]
    with pytest.raises(ConfigError, match=r"deadLetterSubject: no stream takes the subject dlq\.nowhere"):
        batch_read(nats, stream, deadLetterSubject="dlq.nowhere")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"payloadFormat": "json", "mode": "FAILFAST"}, "deadLetterSubject and mode = FAILFAST contradict each other"),
        ({}, "deadLetterSubject of a read needs option payloadFormat"),
        ({"payloadFormat": "json", "bucket": "b"}, "bucket and deadLetterSubject contradict each other"),
    ],
)
def test_options_of_a_read_that_contradict_each_other_are_both_named(options: dict[str, str], named: str) -> None:
    given = {"deadLetterSubject": "d", **({} if "bucket" in options else {"stream": "S"}), **options}
    with pytest.raises(ConfigError, match=named):
        read_options(given)
    with pytest.raises(ConfigError, match=named):
        stream_read_options(given)
