"""Bad rows of a write become dead letters, once, and with a count."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.spark.dead_letters import letters
from tests.spark.sink import ROWS, SHORT, WITH_IDS, data, forget, forget_records, recorded, task, writer
from tests.spark.support import Nats

from jetspark.bulk.dead_letters import TooManyDeadLettersError
from jetspark.errors import ConfigError
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamUpdateRequest
from jetspark.spark.options.batch import write_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.batch_writer import JetStreamWriter, plan_write

MAP = pa.map_(pa.string(), pa.list_(pa.string()))


@pytest.fixture(autouse=True)
def no_records(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "nats" in request.fixturenames:
        forget_records(request.getfixturevalue("nats"))


def numbered(stream: str, count: int, bad: int = 3) -> list[pa.RecordBatch]:
    """Return rows of which every one with a multiple of `bad` as its number is too large for the stream."""
    payloads = [b"%0*d" % (500 if number % bad == 0 else 3, number) for number in range(count)]
    rows = pa.record_batch({"subject": [f"{stream}.a"] * count, "data": payloads})
    return [rows.slice(at, 100) for at in range(0, count, 100)]


def small(nats: Nats, **config: object) -> str:
    return nats.stream(None, max_msg_size=200, **config)


def batch_writer(nats: Nats, schema: StructType = ROWS, /, **options: str) -> JetStreamWriter:
    return plan_write(schema, write_options({"servers": nats.url, **options}), overwrite=False)


@pytest.mark.spark
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
