"""Bad rows of reads and writes become dead letters, once, and with a count."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.spark.micro_batches import latest
from tests.spark.sink import ROWS, SHORT, WITH_IDS, data, forget, forget_records, recorded, task, writer
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.bulk.dead_letters import TooManyDeadLettersError
from jetspark.errors import ConfigError
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamUpdateRequest
from jetspark.jetstream.config import StreamSource
from jetspark.spark.options.batch import read_options, write_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.source import JetStreamDataSource
from jetspark.spark.write.batch_writer import JetStreamWriter, plan_write

Letter = dict[str, str]
MAP = pa.map_(pa.string(), pa.list_(pa.string()))


@pytest.fixture(autouse=True)
def no_records(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "nats" in request.fixturenames:
        forget_records(request.getfixturevalue("nats"))


def letters(nats: Nats, dead: str) -> list[Letter]:
    """Return the headers of the dead letters, and their payloads."""
    found = []
    for row in nats.rows(dead, "data", "headers"):
        headers = row["headers"]
        assert isinstance(headers, list)
        assert isinstance(row["data"], bytes)
        found.append({**{name: values[0] for name, values in headers}, "data": row["data"].decode()})
    return found


def numbered(stream: str, count: int, bad: int = 3) -> list[pa.RecordBatch]:
    """Return rows of which every one with a multiple of `bad` as its number is too large for the stream."""
    payloads = [b"%0*d" % (500 if number % bad == 0 else 3, number) for number in range(count)]
    rows = pa.record_batch({"subject": [f"{stream}.a"] * count, "data": payloads})
    return [rows.slice(at, 100) for at in range(0, count, 100)]


def small(nats: Nats, **config: object) -> str:
    return nats.stream(None, max_msg_size=200, **config)


def batch_writer(nats: Nats, schema: StructType = ROWS, /, **options: str) -> JetStreamWriter:
    return plan_write(schema, write_options({"servers": nats.url, **options}), overwrite=False)


def test_a_batch_write_stores_the_good_rows_and_publishes_the_bad_ones(spark: SparkSession, nats: Nats) -> None:
    stream, other, dead = nats.stream(max_msg_size=2_000), nats.stream(), nats.stream()
    rows = spark.sql(f"""
        SELECT CASE WHEN id = 3 THEN NULL WHEN id = 4 THEN 'a b' WHEN id = 5 THEN 'nowhere.a'
                    WHEN id = 6 THEN '{other}.a' WHEN id = 7 THEN concat('{stream}.', repeat('x', 5000))
                    ELSE '{stream}.a' END AS subject,
               CASE WHEN id = 8 THEN repeat('x', 1048576) WHEN id = 9 THEN repeat('x', 5000)
                    ELSE string(id) END AS data,
               map(IF(id = 2, 'bad name', 'k'), array('v')) AS headers
        FROM range(0, 20, 1, 2)
    """)
    rows.write.format("jetstream").option("servers", nats.url).option("expectedStream", stream).option(
        "deadLetterSubject", f"{dead}.rows"
    ).mode("append").save()
    assert sorted(data(nats, stream)) == [0, 1, *range(10, 20)]
    found = {letter["data"][:5]: letter for letter in letters(nats, dead)}
    assert sorted(found) == ["2", "3", "4", "5", "6", "7", "xxxxx"]
    assert len(letters(nats, dead)) == 8
    for letter in letters(nats, dead):
        assert letter["Jetspark-Stream"] == stream
        assert letter["Jetspark-Error"]
        assert letter["Jetspark-Query"]
        assert letter["Nats-Msg-Id"].startswith(letter["Jetspark-Msg-Id"])
    assert "no stream captures the subject" in found["5"]["Jetspark-Error"]
    assert "10060" in found["6"]["Jetspark-Error"]
    assert found["4"]["Jetspark-Subject"] == "a b"
    assert found["2"]["Jetspark-Headers-Left-Out"] == "1"


def test_the_counts_are_in_the_commit_message_and_in_the_logs(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jetspark.spark")
    stream, dead = small(nats), nats.stream()
    options = {"deadLetterSubject": f"{dead}.rows"}
    job = batch_writer(nats, ROWS, **options)
    done = job.write(iter(numbered(stream, 30)))
    assert (done.streams[stream].count, done.dead_letters) == (20, 10)
    job.commit([done, done])
    query = writer(nats, **options)
    done = query.publish(task(), iter(numbered(stream, 30)))
    query.commit([done], 7)
    assert "partition 0: stream" in caplog.text
    assert "20 rows, stored at sequences 1 to 20; 10 dead letters" in caplog.text
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text for text in warnings if text.startswith("20 rows can never be stored")]
    assert [text for text in warnings if text.startswith("batch 7: 10 rows can never be stored")]
    assert all("10054" in text for text in warnings if "never be stored" in text)


def test_a_repeated_micro_batch_has_each_dead_letter_once(nats: Nats) -> None:
    stream, dead = small(nats), nats.stream()
    for _ in range(2):
        done = writer(nats, deadLetterSubject=f"{dead}.rows").publish(task(), iter(numbered(stream, 300)))
        assert (done.streams[stream].count, done.dead_letters) == (200, 100)
    assert (len(data(nats, stream)), len(letters(nats, dead))) == (200, 100)
    writer(nats, deadLetterSubject=f"{dead}.rows").publish(task(1), iter(numbered(stream, 300)))
    assert (len(data(nats, stream)), len(letters(nats, dead))) == (400, 200)


def test_two_queries_with_the_same_ids_both_have_their_dead_letters(nats: Nats) -> None:
    stream, dead = small(nats), nats.stream()
    row = pa.record_batch({"subject": [f"{stream}.a"], "data": [bytes(500)], "msg_id": ["ORDERS-17"]})
    for _ in range(2):  # each job of a batch is a query of its own
        batch_writer(nats, WITH_IDS, deadLetterSubject=f"{dead}.rows").write(iter([row]))
    assert Counter(letter["Jetspark-Msg-Id"] for letter in letters(nats, dead)) == {"ORDERS-17": 2}


@pytest.mark.parametrize("finished", [True, False])
def test_with_a_record_a_dead_letter_has_no_other_outcome_later(nats: Nats, finished: bool) -> None:
    """The stream takes large messages when the micro-batch is repeated, long after the duplicate window."""
    stream, dead = small(nats, duplicate_window=SHORT), nats.stream(duplicate_window=SHORT)
    options = {"deadLetterSubject": f"{dead}.rows"}
    parts = numbered(stream, 300)

    def lost() -> Iterator[pa.RecordBatch]:
        yield from parts[:2]
        raise ConnectionResetError("the task is lost")

    if finished:
        assert recorded(nats, **options).publish(task(), iter(parts)).dead_letters == 100
    else:
        with pytest.raises(ConnectionResetError):
            recorded(nats, **options).publish(task(), lost())
    before = len(letters(nats, dead))
    assert before == (100 if finished else 67)
    forget(nats, stream)
    forget(nats, dead)
    nats.connection.request(StreamUpdateRequest(StreamConfig(name=stream, subjects=[f"{stream}.>"])))
    done = recorded(nats, **options).publish(task(), iter(parts))
    assert len(letters(nats, dead)) == before
    stored = Counter(data(nats, stream))
    assert set(stored.values()) == {1}
    if finished:
        assert (done.skipped, done.dead_letters, len(stored)) == (300, 0, 200)
    else:
        assert (done.skipped, done.dead_letters, len(stored)) == (133, 67, 233)  # the last batch is stored as a whole


def test_more_dead_letters_than_allowed_fail_the_task(nats: Nats) -> None:
    stream, dead = small(nats), nats.stream()
    options = {"deadLetterSubject": f"{dead}.rows", "maxDeadLetters": "50"}
    with pytest.raises(TooManyDeadLettersError, match=r"67 bad rows or more.*publish 50.*10054.*maxDeadLetters"):
        writer(nats, **options).publish(task(), iter(numbered(stream, 300)))
    assert (len(letters(nats, dead)), len(data(nats, stream))) == (50, 133)
    assert (
        write_options({"deadLetterSubject": "dlq"}).dead_letters
        == stream_write_options({"deadLetterSubject": "dlq", "maxDeadLetters": "1000"}).write.dead_letters
    )


@pytest.mark.parametrize("plan", [batch_writer, writer])
def test_a_subject_that_no_stream_takes_is_reported_before_the_first_row(nats: Nats, plan: object) -> None:
    assert callable(plan)
    with pytest.raises(ConfigError, match=r"deadLetterSubject: no stream takes the subject dlq\.nowhere"):
        plan(nats, deadLetterSubject="dlq.nowhere")
    dead = nats.stream(no_ack=True)
    with pytest.raises(ConfigError, match=f"deadLetterSubject: stream {dead}.* acknowledges nothing"):
        plan(nats, deadLetterSubject=f"{dead}.rows")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"maxDeadLetters": "1"}, "maxDeadLetters needs option deadLetterSubject"),
        ({"deadLetterSubject": "d", "subject": "d"}, "subject and deadLetterSubject are both d"),
        ({"deadLetterSubject": "d", "atomic": "true"}, "atomic and deadLetterSubject contradict each other"),
        ({"deadLetterSubject": "d", "bucket": "b"}, "bucket and deadLetterSubject contradict each other"),
        ({"deadLetterSubject": "d", "objects": "b"}, "objects and deadLetterSubject contradict each other"),
        ({"deadLetterSubject": "d.*"}, "deadLetterSubject is 'd.\\*'"),
        ({"deadLetterSubject": "d", "maxDeadLetters": "0"}, "maxDeadLetters is '0'"),
    ],
)
def test_options_that_contradict_each_other_are_both_named(options: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        write_options(options)
    with pytest.raises(ConfigError, match=named):
        stream_write_options(options)


# -- reads ----------------------------------------------------------------------------------------------------------

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


# -- rows that a format cannot encode -------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [{1}, {0, 2}, {0, 1, 2}])
def test_a_row_that_cannot_be_encoded_is_published_as_json(nats: Nats, bad: set[int]) -> None:
    stream, dead = nats.stream(), nats.stream()
    schema = StructType().add("line", "string").add("msg_id", "string")
    options = {"payloadFormat": "text", "subject": f"{stream}.a", "deadLetterSubject": f"{dead}.rows"}
    lines = [None if number in bad else f"line {number}" for number in range(3)]
    rows = pa.record_batch({"line": pa.array(lines, pa.string()), "msg_id": ["a", "b", "c"]})
    for _ in range(2):
        done = writer(nats, schema, **options).publish(task(), iter([rows, rows.slice(1, 1)]))
        assert done.dead_letters == len(bad) + (1 in bad)
        assert done.dead_letter_reason is not None
        assert "a payload of text cannot be null" in done.dead_letter_reason
    assert [row["data"] for row in nats.rows(stream, "data")] == [line.encode() for line in lines if line]
    found = {letter["Jetspark-Msg-Id"]: letter for letter in letters(nats, dead)}
    assert sorted(found) == sorted("abc"[number] for number in bad)
    assert {letter["data"] for letter in found.values()} == {'{"line":null}'}
    assert all("column line" in letter["Jetspark-Error"] for letter in found.values())
