"""Micro-batches that are written twice, in another order, or by abandoned attempts: each row is stored once."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType
from tests.spark.sink import (
    PROGRESS,
    QUERY,
    ROWS,
    WITH_IDS,
    batches,
    data,
    forget_records,
    recorded,
    task,
    until_lost,
    writer,
)
from tests.spark.support import Nats, running

from jetspark.bulk import PublishRefusedError
from jetspark.errors import (
    BadSubjectError,
    ConfigError,
    ConnectError,
    DisconnectedError,
    PermissionsViolationError,
    ProtocolError,
    WrongStreamError,
)
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.commit_message import StreamRowCounts, TaskCommitMessage
from jetspark.spark.write.stream_writer import plan_stream_write


@pytest.fixture(autouse=True, scope="module")
def without_records(nats: Nats) -> None:
    forget_records(nats)


# -- within the duplicate window -------------------------------------------------------------------------------------


def test_a_micro_batch_that_is_written_again_is_stored_once(nats: Nats) -> None:
    stream = nats.stream()
    first = writer(nats).publish(task(), iter(batches(stream, range(500))))
    assert (first.partition, first.skipped, first.resent) == (0, 0, 0)
    assert first.streams == {stream: StreamRowCounts(500, 0, 1, 500)}
    assert first.bytes > 500 * 50
    again = writer(nats).publish(task(), iter(batches(stream, range(500), size=70)))  # a restart, with other batches
    assert again.streams == {stream: StreamRowCounts(500, 500, None, None)}
    other = writer(nats).publish(task(1), iter(batches(stream, range(500))))  # the next micro-batch, in its own order
    assert other.streams[stream].duplicates == 0
    assert data(nats, stream) == [*range(500), *range(500)]
    ids = [str(row["headers"]) for row in nats.rows(stream, "headers")]
    assert len(set(ids)) == 1000
    assert f"('Nats-Msg-Id', ['{QUERY}-0-0-7-" in ids[7]


def test_rows_that_arrive_in_another_order_are_not_lost(nats: Nats) -> None:
    stream = nats.stream()
    writer(nats).publish(task(), iter(batches(stream, range(500))))
    writer(nats).publish(task(), iter(batches(stream, [*range(250), *reversed(range(250, 1000))])))
    found = data(nats, stream)
    assert set(found) == set(range(1000))
    assert found.count(10) == 1


def test_an_abandoned_attempt_stores_nothing_twice(nats: Nats) -> None:
    stream = nats.stream()
    parts = batches(stream, range(1000))
    zombie = iter(parts)
    ahead = [next(zombie) for _ in range(3)]
    with pytest.raises(ConnectionResetError):
        writer(nats).publish(task(), until_lost(nats, parts, 5))
    writer(nats).publish(task(), iter(parts))
    late = writer(nats).publish(task(), iter([*ahead, *zombie]))
    assert late.streams[stream].duplicates == 1000
    assert data(nats, stream) == list(range(1000))


def test_ids_of_the_user_take_precedence_and_rows_without_one_get_an_id(nats: Nats) -> None:
    stream = nats.stream()
    part = pa.record_batch(
        {
            "subject": [f"{stream}.a"] * 3,
            "data": [b"1", b"2", b"3"],
            "msg_id": pa.array(["mine", None, "yours"]),
        }
    )
    for partition in (0, 1):
        writer(nats, WITH_IDS).publish(task(partition=partition), iter([part]))
    assert data(nats, stream) == [1, 2, 3, 2]
    assert "mine" in str(nats.rows(stream, "headers")[0])


def test_atomic_batches_are_stored_once_as_well(nats: Nats) -> None:
    stream = nats.stream(allow_atomic=True)
    made = writer(nats, atomic="true")
    with pytest.raises(ConnectionResetError):
        made.publish(task(), until_lost(nats, batches(stream, range(3000)), 25, together=1000))
    assert data(nats, stream) == list(range(2000))
    done = made.publish(task(), iter(batches(stream, range(3000))))
    assert (done.streams[stream].count, done.streams[stream].duplicates) == (3000, 2000)
    assert data(nats, stream) == list(range(3000))


def test_a_task_without_rows_opens_no_connection() -> None:
    options = stream_write_options({"servers": "nats://127.0.0.1:1", "retryTimeout": "1ms"})
    made = plan_stream_write(ROWS, options, overwrite=False)
    assert made.publish(task(partition=7), iter([])) == TaskCommitMessage(7, 0)
    with pytest.raises(ConnectError):
        made.publish(task(), iter(batches("S", range(1))))


# -- reports and refusals ------------------------------------------------------------------------------------------


def test_a_window_that_may_be_too_short_is_reported_once_in_each_run_of_a_query_with_both_durations(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    stream = nats.stream(duplicate_window=timedelta(minutes=5))
    said = (
        f"stream {stream} recognises duplicates for 5m0s (duplicate_window), but a micro-batch may be run again up to "
    )

    def run_batch(run: str, number: int, **options: str) -> str:
        """Return the log of the driver for a micro-batch of two tasks."""
        caplog.clear()
        made = writer(nats, **options)
        rows = [batches(stream, range(each, each + 1)) for each in range(2)]
        done = [made.publish(task(number, each), iter(rows[each]), run) for each in range(2)]
        made.commit([pickle.loads(pickle.dumps(each)) for each in done], number)
        return caplog.text

    for run, delay, shown in (("one", "1h", "1h0m0s"), ("two", "10m", "10m0s")):  # the second one is a restart
        assert run_batch(run, 0, maxReplayDelay=delay).count(f"{said}{shown} later") == 1
        assert run_batch(run, 1, maxReplayDelay=delay) == ""
    for number, options in enumerate([{"maxReplayDelay": "1s"}, {"ledgerStream": PROGRESS}]):
        said = "send rows again up to 6m1s later (options retryTimeout and ackTimeout)"
        given = {"retryTimeout": "6m", "ackTimeout": "1s", **options}
        assert run_batch(f"outage{number}", number, **given).count(said) == 1
        assert run_batch(f"outage{number}", number + 1, **given) == ""
    for number, options in enumerate([{"maxReplayDelay": "5m"}, {"dedup": "off"}, {"ledgerStream": PROGRESS}]):
        assert run_batch(f"other{number}", 5, **options) == ""


def test_rows_whose_own_ids_the_stream_had_are_counted_in_one_warning_of_a_run(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    stream = nats.stream()
    for number in range(3):
        caplog.clear()
        made = writer(nats, WITH_IDS, maxReplayDelay="1m")
        made.commit([made.publish(task(number), iter(batches(stream, range(10), ids="own")), "run")], number)
        said = f"within its duplicate window: 10 of 10 rows in stream {stream};"
        assert caplog.text.count(said) == (number == 1)


def test_a_row_of_another_stream_is_refused(nats: Nats) -> None:
    one, two = nats.stream(), nats.stream()
    with pytest.raises(PublishRefusedError) as caught:
        writer(nats, expectedStream=one).publish(task(), iter(batches(two, range(10))))
    assert isinstance(caught.value.error, WrongStreamError)
    assert str(caught.value).endswith(f"; the row was expected in stream {one}")


def test_a_row_that_cannot_be_sent_is_shown(nats: Nats) -> None:
    stream = nats.stream()
    rows = pa.record_batch({"subject": [f"{stream}.good", "a b"], "data": [b"good", b"lost"]})
    for options in ({}, {"ledgerStream": PROGRESS}):
        with pytest.raises(BadSubjectError, match=r"row 1 \(subject 'a b', .*data b'lost'"):
            writer(nats, **options).publish(task(6), iter([rows]))
    assert nats.rows(stream) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ledgerStream": "P", "dedup": "off"}, "options ledgerStream and dedup = off contradict each other"),
        ({"ledgerStream": "a.b"}, "option ledgerStream is 'a.b'"),
        ({"expectedStream": "a b"}, "option expectedStream is 'a b'"),
        ({"maxReplayDelay": "soon"}, "option maxReplayDelay is 'soon'"),
        ({"ledgerRetention": "30d"}, "option ledgerRetention needs option ledgerStream"),
        ({"ledgerStream": "P", "ledgerRetention": "10ms"}, "option ledgerRetention is '10ms'.*1.0 or more"),
        (
            {"ledgerStream": "P", "ledgerRetention": "1m"},
            r"options ledgerRetention \(60 s\) and maxReplayDelay \(3600 s\) contradict each other",
        ),
        ({"atomic": "yes"}, "option atomic is 'yes'"),
        ({"ledgrStream": "P"}, "there is no option 'ledgrStream'; did you mean ledgerStream?"),
        ({"subject": "a,b"}, "names 2 subjects"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        stream_write_options(options)


def test_options_of_spark_are_not_checked() -> None:
    stream_write_options({"checkpointlocation": "/tmp/x", "queryname": "q", "asyncProgressTrackingEnabled": "false"})


def test_only_append_is_accepted(nats: Nats) -> None:
    with pytest.raises(ConfigError, match="output mode complete"):
        plan_stream_write(ROWS, stream_write_options({"servers": nats.url}), overwrite=True)
    with pytest.raises(ConfigError, match="no column data"):
        writer(nats, StructType().add("subject", "string"))
    with pytest.raises(ConfigError, match="in a task of Spark"):
        writer(nats).write(iter([]))


def test_a_ledger_stream_with_another_purpose_is_refused(nats: Nats) -> None:
    stream = nats.filled(1)
    with pytest.raises(ConfigError, match=rf"stream {stream} exists, but must have .*\$JETSPARK\.{stream}"):
        writer(nats, ledgerStream=stream)
    odd = nats.stream("ODD", subjects=["$JETSPARK.ODD.>"], max_msgs_per_subject=1)
    nats.publish([f"$JETSPARK.ODD.{QUERY}.0"], [b"not json"])
    with pytest.raises(ConfigError, match="is not the record of a task"):
        writer(nats, ledgerStream=odd).publish(task(), iter(batches(stream, range(1))))


def test_commit_and_abort_report_the_stored_rows(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jetspark.spark")
    made = writer(nats)
    one = TaskCommitMessage(0, 10, {"A": StreamRowCounts(5, 1, 3, 6)}, resent=2, skipped=3)
    made.commit([one, TaskCommitMessage(1, 0)], 17)
    made.abort([one, None], 18)
    text = (
        "stream A: 5 rows, stored at sequences 3 to 6, 1 already stored; 3 rows skipped, which were stored before; "
        "2 rows sent again; 10 bytes"
    )
    assert [record.getMessage() for record in caplog.records] == [
        f"batch 17 done: {text}",
        (
            f"batch 18 failed: 1 of 2 tasks were done ({text}), the other tasks may have stored rows; stored rows "
            "stay, and keep their message ids when the batch is run again"
        ),
    ]


def test_without_dedup_only_rows_with_their_own_ids_wait_for_a_missing_server() -> None:
    with running() as nats:
        stream = nats.stream()

        def restarting(ids: str | None) -> Iterator[pa.RecordBatch]:
            yield from batches(stream, range(500), ids=ids)
            nats.server.restart()
            yield from batches(stream, range(500, 1000), ids=ids)

        own = writer(nats, WITH_IDS, dedup="off", retryTimeout="20s")
        assert own.publish(task(), restarting("own")).streams[stream].count == 1000
        nats.connection.reconnect()
        assert sorted(data(nats, stream)) == list(range(1000))
        with pytest.raises(DisconnectedError):
            writer(nats, dedup="off", retryTimeout="20s").publish(task(), restarting(None))
        nats.connection.reconnect()


def test_a_server_that_is_briefly_away_is_waited_for() -> None:
    with running() as nats:
        stream = nats.stream()
        made = recorded(nats, retryTimeout="20s")
        made.publish(task(), iter(batches(stream, range(100))))

        def restarting() -> Iterator[pa.RecordBatch]:
            yield from batches(stream, range(100, 600))
            nats.server.restart()
            yield from batches(stream, range(600, 1000))

        made.publish(task(1), restarting())
        nats.connection.reconnect()
        assert sorted(data(nats, stream)) == list(range(1000))


def test_a_missing_permission_is_reported_with_the_needed_grant(caplog: pytest.LogCaptureFixture) -> None:
    admin = {"user": "admin", "password": "admin"}
    some = {"user": "some", "password": "some"}
    may = {"publish": ["MINE.>"], "subscribe": ["_INBOX.>"]}
    users = {"authorization": {"users": [admin, {**some, "permissions": may}]}}
    with running(admin, config=users) as nats:
        mine, other = nats.stream("MINE"), nats.stream("OTHER")
        made = writer(nats, **some)
        for number in range(2):
            made.commit([made.publish(task(), iter(batches(mine, range(10))), "blind")], number)
        assert caplog.text.count(f"stream {mine}: cannot read its duplicate window") == 1
        assert f"grant the user the permission to publish to '$JS.API.STREAM.INFO.{mine}'" in caplog.text
        with pytest.raises(PermissionsViolationError, match=f"permission to publish to '{other}.0'"):
            writer(nats, **some).publish(task(), iter(batches(other, range(10))))
        with pytest.raises(PermissionsViolationError, match=r"permission to publish to '\$JS\.API\.STREAM\.INFO\.P'"):
            writer(nats, **some, ledgerStream="P")
        assert data(nats, mine) == list(range(10))


def test_a_spark_without_the_properties_is_reported(monkeypatch: pytest.MonkeyPatch, nats: Nats) -> None:
    class Context:
        """A task context without properties, as another Spark might have."""

        @classmethod
        def get(cls) -> Context:
            return cls()

        def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
            return None

    monkeypatch.setattr("jetspark.spark.write.stream_writer.TaskContext", Context)
    with pytest.raises(ProtocolError, match="Spark did not set the query and micro-batch"):
        writer(nats).write(iter([]))
