"""Batch writes in Spark: the published messages, and that a repeated task publishes nothing twice."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.types import MapType, StringType, StructField, StructType
from tests.spark.sink import until_lost
from tests.spark.support import Nats

from jetspark import bulk
from jetspark.errors import BadHeadersError, BadSubjectError, MaxPayloadError
from jetspark.spark.options.batch import write_options
from jetspark.spark.write.batch_writer import JetStreamWriter, plan_write
from jetspark.spark.write.commit_message import StreamRowCounts, TaskCommitMessage
from jetspark.spark.write.message_ids import message_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

spark_test = pytest.mark.spark


def save(nats: Nats, frame: DataFrame, **options: str) -> None:
    frame.write.format("jetstream").options(servers=nats.url, **options).mode("append").save()


def data(nats: Nats, stream: str) -> list[object]:
    return [row["data"] for row in nats.rows(stream, "data")]


@spark_test
def test_subject_and_data_are_published(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()
    rows = spark.range(1000).selectExpr(f"concat('{stream}.', id % 3) as subject", "cast(id as string) as data")
    save(nats, rows)
    found = nats.rows(stream, "subject", "data")
    assert sorted((str(row["subject"]), row["data"]) for row in found) == sorted(
        (f"{stream}.{number % 3}", b"%d" % number) for number in range(1000)
    )


@spark_test
@pytest.mark.parametrize("kind", ["map<string,array<string>>", "map<string,string>"])
def test_headers_and_message_ids_are_published(spark: SparkSession, nats: Nats, kind: str) -> None:
    stream = nats.stream()
    value = "array('v', 'w')" if "array" in kind else "'v'"
    rows = spark.sql(f"SELECT '{stream}.a' AS subject, X'00FF' AS data, map('k', {value}) AS headers, 'id-1' AS msg_id")
    save(nats, rows.union(rows))
    save(nats, rows)
    (row,) = nats.rows(stream)
    assert row["headers"] == [("k", ["v", "w"] if "array" in kind else ["v"]), ("Nats-Msg-Id", ["id-1"])]
    assert row["data"] == b"\x00\xff"


@spark_test
def test_the_subject_option_takes_precedence_over_the_column(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()
    save(nats, spark.sql("SELECT 'x' AS data, 'ignored' AS subject"), subject=f"{stream}.one")
    save(nats, spark.sql("SELECT 'y' AS DATA"), subject=f"{stream}.two")
    assert [(row["subject"], row["data"]) for row in nats.rows(stream)] == [
        (f"{stream}.one", b"x"),
        (f"{stream}.two", b"y"),
    ]


@spark_test
def test_a_null_payload_is_stored_as_empty(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()
    save(nats, spark.sql(f"SELECT '{stream}.a' AS subject, CAST(NULL AS BINARY) AS data"))
    assert data(nats, stream) == [b""]


@spark_test
def test_rows_of_a_read_can_be_written_unchanged(spark: SparkSession, nats: Nats) -> None:
    source, target = nats.stream(), nats.stream(subject_transform=None)
    ids = [[("Nats-Msg-Id", ["one"]), ("k", ["v"])], None]
    kind = pa.map_(pa.string(), pa.list_(pa.string()))
    bulk.publish(
        nats.connection,
        pa.record_batch({"subject": [f"{source}.a"] * 2, "data": [b"1", b"2"], "headers": pa.array(ids, kind)}),
        control_headers="keep",
    )
    reader = spark.read.format("jetstream").options(servers=nats.url, stream=source, includeHeaders="true")
    rows = reader.load()
    save(nats, rows, subject=f"{target}.copy")
    one, two = nats.rows(target)
    assert isinstance(one["headers"], list)
    assert isinstance(two["headers"], list)
    assert [key for key, _ in one["headers"]] == ["k", "Nats-Msg-Id"]
    assert ("Nats-Msg-Id", ["one"]) not in one["headers"]
    assert [key for key, _ in two["headers"]] == ["Nats-Msg-Id"]
    assert [one["data"], two["data"]] == [b"1", b"2"]
    save(nats, rows, subject=f"{target}.kept", controlHeaders="keep")
    kept = nats.rows(target)[2]
    assert kept["headers"] == [("Nats-Msg-Id", ["one"]), ("k", ["v"])]  # the id of the row, and no second one


@spark_test
def test_every_row_gets_an_id_unless_disabled(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()
    rows = spark.range(0, 100, 1, 2).selectExpr("'same' as data")
    save(nats, rows, subject=f"{stream}.on")
    save(nats, rows, subject=f"{stream}.on")  # another job: other ids
    save(nats, rows, subject=f"{stream}.off", dedup="off")
    found = nats.rows(stream)
    assert len(found) == 300
    ids = {str(row["headers"]) for row in found if row["subject"] == f"{stream}.on"}
    assert len(ids) == 200
    assert all(row["headers"] is None for row in found if row["subject"] == f"{stream}.off")


@spark_test
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_task_that_fails_and_is_repeated_publishes_nothing_twice(spark: SparkSession, nats: Nats) -> None:
    stream = nats.stream()

    def fail_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 30 and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        rows = spark.range(0, 8000, 1, 2).mapInArrow(fail_once, "id long").selectExpr("cast(id as string) as data")
        save(nats, rows, subject=f"{stream}.a")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert sorted(int(str(each, "ascii")) for each in data(nats, stream) if isinstance(each, bytes)) == list(
        range(8000)
    )


ROWS = StructType().add("subject", "string").add("data", "binary")


def writer(nats: Nats, schema: StructType = ROWS, **options: str) -> JetStreamWriter:
    return plan_write(schema, write_options({"servers": nats.url, **options}), overwrite=False)


def batches(stream: str, numbers: Iterable[int], size: int = 100) -> list[pa.RecordBatch]:
    rows = list(numbers)
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    return [
        pa.record_batch({"subject": [f"{stream}.a"] * len(part), "data": [b"%d" % number for number in part]})
        for part in parts
    ]


def test_a_repeated_task_is_answered_with_duplicates(nats: Nats) -> None:
    stream = nats.stream()
    job = writer(nats)
    with pytest.raises(ConnectionResetError):
        job.write(until_lost(nats, batches(stream, range(1000)), 4))
    done = job.write(iter(batches(stream, range(1000))))
    assert done.partition == 0
    assert done.streams[stream] == StreamRowCounts(1000, 400, 401, 1000)
    assert data(nats, stream) == [b"%d" % number for number in range(1000)]


def test_a_repeated_task_with_rows_in_another_order_loses_none(nats: Nats) -> None:
    stream = nats.stream()
    job = writer(nats)
    job.write(iter(batches(stream, range(500))))
    job.write(iter(batches(stream, [*range(250), *reversed(range(250, 1000))])))
    found = data(nats, stream)
    assert set(found) == {b"%d" % number for number in range(1000)}
    assert found.count(b"10") == 1


def test_jobs_partitions_and_rows_have_different_ids() -> None:
    batch = batches("S", [1, 1, 2])[0]
    ids = message_ids("job-0", 7, batch).to_pylist()
    assert len(set(ids)) == 3
    assert ids[0].startswith("job-0-7-")
    assert ids == message_ids("job-0", 7, batch).to_pylist()
    assert not set(ids) & set(message_ids("job-1", 7, batch).to_pylist())
    assert not set(ids) & set(message_ids("job-0", 10, batch).to_pylist())


@pytest.mark.parametrize("seed", ["0", "random", None])
def test_ids_distinguish_contents_with_and_without_a_hash_seed(
    monkeypatch: pytest.MonkeyPatch, seed: str | None
) -> None:
    if seed is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    kind = pa.map_(pa.string(), pa.list_(pa.string()))

    def one_id(subject: str | None, payload: bytes | None, headers: list[tuple[str, list[str]]] | None) -> str:
        batch = pa.record_batch(
            {
                "subject": pa.array([subject], pa.string()),
                "data": pa.array([payload], pa.binary()),
                "headers": pa.array([headers], kind),
            }
        )
        found: str = message_ids("j", 0, batch)[0].as_py()
        return found

    rows = [
        ("a", b"b", None),
        ("ab", b"", None),
        ("a", b"c", None),
        ("a", None, None),
        ("a", b"b", [("k", ["v"])]),
        ("a", b"b", [("k", ["v", "v"])]),
        ("a", b"b", [("K", ["v"])]),
    ]
    assert len({one_id(*row) for row in rows}) == len(rows)
    assert [one_id(*row) for row in rows] == [one_id(*row) for row in rows]


def test_a_batch_that_cannot_be_sent_names_the_row_and_sends_none_of_it(nats: Nats) -> None:
    stream = nats.stream()
    schema = StructType([*ROWS.fields, StructField("headers", MapType(StringType(), StringType()))])
    kind = pa.map_(pa.string(), pa.string())
    bad = pa.record_batch(
        {
            "subject": [f"{stream}.a", f"{stream}.b"],
            "data": [b"fine", b"bad"],
            "headers": pa.array([[("k", "v")], [("k", "line\nbreak")]], kind),
        }
    )
    with pytest.raises(BadHeadersError, match=f"row 1 .*{stream}.b.*bad"):
        writer(nats, schema).write(iter([bad]))
    large = pa.record_batch({"subject": [f"{stream}.a", f"{stream}.b"], "data": [b"fine", b"x" * (1 << 20)]})
    with pytest.raises(MaxPayloadError, match=f"row 1 .*{stream}.b.*max_payload of 1048576"):
        writer(nats).write(iter([large]))  # the payload would just fit; the message id does not
    assert nats.rows(stream) == []


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (None, "the subject is null"),
        ("", "subject is empty"),
        ("a b", "has ' '"),
        ("a\r\nPUB x 0", "has '\\r'"),
        ("a..b", "has an empty token"),
        ("a.", "has an empty token"),
        ("a.*", "has the wildcard"),
        (">", "has the wildcard"),
        ("x" * 5000, "a control line of the server has room for"),
    ],
)
def test_a_subject_that_cannot_be_published_to_is_reported_with_its_row(
    nats: Nats, subject: str | None, said: str
) -> None:
    stream = nats.stream()
    rows = pa.record_batch({"subject": [f"{stream}.good", subject], "data": [b"good", b"lost"]})
    with pytest.raises(BadSubjectError) as caught:
        writer(nats).write(iter([rows]))
    assert said in str(caught.value)
    shown = repr(subject if subject is None else subject[:60])
    assert f"row 1 (subject {shown}" in str(caught.value)
    assert "data b'lost'" in str(caught.value)
    assert nats.rows(stream) == []


COMMANDS = [
    "Nats-Msg-Id",
    "Nats-Rollup",
    "Nats-TTL",
    "Nats-Incr",
    "Nats-Expected-Stream",
    "Nats-Expected-Last-Sequence",
    "Nats-Expected-Last-Subject-Sequence",
    "Nats-Expected-Last-Subject-Sequence-Subject",
    "Nats-Expected-Last-Msg-Id",
    "Nats-Schedule",
    "Nats-Schedule-Target",
    "Nats-Scheduler",
    "Nats-Batch-Id",
    "Nats-Batch-Commit",
    "Nats-Trace-Only",
    "Nats-Marker-Reason",
    "Nats-Stream-Source",
    "Nats-Required-Api-Level",
]
PLAIN = ["nats-msg-id", "Nats-Rollup-Plan", "X-Nats-TTL", "KV-Operation", "traceparent"]


@pytest.mark.parametrize("atomic", ["false", "true"])
@pytest.mark.parametrize("values", [pa.string(), pa.list_(pa.string())])
def test_headers_that_command_the_server_are_left_out_with_one_warning(
    nats: Nats, caplog: pytest.LogCaptureFixture, values: pa.DataType, atomic: str
) -> None:
    stream = nats.stream(allow_atomic=True)
    is_map = values == pa.string()
    schema = StructType(ROWS.fields[:]).add("headers", MapType(StringType(), StringType()))
    own = [None, [*COMMANDS[:3], "a"], COMMANDS, [], *([name] for name in COMMANDS), PLAIN]
    maps = [None if names is None else [(name, "7" if is_map else ["7", "8"]) for name in names] for names in own]
    (rows,) = batches(stream, range(len(own)))
    rows = rows.append_column("headers", pa.array(maps, pa.map_(pa.string(), values)))
    parts = [rows.slice(1), rows.slice(0, 1)]  # a part of a larger array
    job = writer(nats, schema, atomic=atomic)
    job.commit([job.write(iter(parts))] * 2)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"left out: {', '.join(sorted(COMMANDS))};" in warning
    found = {bytes(row["data"]): row["headers"] for row in nats.rows(stream)}  # type: ignore[call-overload]
    assert len(found) == len(own)
    plain = {"nats-msg-id", "Nats-Rollup-Plan", "X-Nats-TTL", "KV-Operation", "traceparent", "a"}
    kept = {data: [key for key, _ in headers if key in plain] for data, headers in found.items()}  # type: ignore[attr-defined]
    assert kept == {b"%d" % at: [name for name in names or [] if name in plain] for at, names in enumerate(own)}
    assert all("7" not in dict(headers)["Nats-Msg-Id"] for headers in found.values())  # type: ignore[call-overload]


def test_headers_that_command_the_server_are_kept_on_request(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    stream = nats.stream()
    schema = StructType(ROWS.fields[:]).add("headers", MapType(StringType(), StringType()))
    (rows,) = batches(stream, range(1))
    maps = pa.array([[("Nats-Expected-Last-Sequence", "7")]], pa.map_(pa.string(), pa.string()))
    job = writer(nats, schema, controlHeaders="keep")
    with pytest.raises(bulk.PublishRefusedError, match="wrong last sequence"):
        job.write(iter([rows.append_column("headers", maps)]))
    assert not caplog.records


def test_rows_whose_own_ids_the_stream_had_are_counted_in_a_warning(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    stream = nats.stream()
    schema = StructType(ROWS.fields[:]).add("msg_id", "string")
    rows = [part.append_column("msg_id", part.column("data").cast(pa.string())) for part in batches(stream, range(10))]
    for expected in (0, 10):  # the purge removes the messages, but not their ids
        caplog.clear()
        job = writer(nats, schema)
        done = job.write(iter(rows))
        job.commit([done])
        assert done.streams[stream].duplicates == expected
        assert (f"10 of 10 rows in stream {stream}; this is normal if a task was run again" in caplog.text) == (
            expected == 10
        )
        nats.purge(stream)
    assert nats.rows(stream) == []
    resent = TaskCommitMessage(0, 1, {stream: StreamRowCounts(9, 5, 1, 4)}, resent=5, own_ids=True)
    caplog.clear()
    writer(nats, schema).commit([resent])
    assert not caplog.records  # they are duplicates of themselves


def test_commit_and_abort_report_the_stored_rows(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jetspark.spark")
    job = writer(nats)
    one = TaskCommitMessage(0, 10, {"A": StreamRowCounts(5, 1, 3, 6), "B": StreamRowCounts(1, 1, None, None)})
    two = TaskCommitMessage(1, 10, {"A": StreamRowCounts(2, 0, 1, 2)})
    job.commit([one, two])
    job.abort([two, None])
    job.commit([])
    assert [record.getMessage() for record in caplog.records] == [
        (
            "write done: stream A: 7 rows, stored at sequences 1 to 6, 1 already stored; "
            "stream B: 1 rows, 1 already stored; 20 bytes"
        ),
        (
            "write failed: 1 of 2 tasks were done, and their rows stay (stream A: 2 rows, stored at sequences 1 to 2; "
            "10 bytes); the other tasks may have stored rows"
        ),
        "write done: no rows",
    ]
