"""Micro-batches as the driver plans them, without Spark: offsets, limits, losses, faults, and their cost."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.spark.micro_batches import Offset, latest, nexts, reader, rows
from tests.spark.support import Nats, running

from jetspark.errors import AuthenticationError, ConfigError, ConnectError
from jetspark.jetstream import (
    RetentionPolicy,
)
from jetspark.spark.read import stream_reader
from jetspark.spark.read.partitions import StreamPartition
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.source import JetStreamDataSource


def test_a_query_reads_existing_and_then_new_messages(nats: Nats) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream)
    start = made.initialOffset()
    assert made.initialOffset() == start
    first = latest(made, start)
    assert (nexts(start), nexts(first)) == ([1], [11])
    assert rows(made, start, first) == list(range(1, 11))
    assert latest(made, first) == first
    assert made.partitions(first, first) == []
    nats.publish([f"{stream}.a"] * 5)
    second = latest(made, first)
    assert rows(made, first, second) == list(range(11, 16))
    assert nexts(made.reportLatestOffset()) == nexts(second)
    made.commit(second)
    assert nats.consumers_left(stream) == 0


def test_a_query_starts_after_the_last_message_by_default(nats: Nats) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, startingOffsets="latest")
    assert nexts(made.initialOffset()) == [11]
    made = reader(nats, stream, startingTimestamp="2020-01-01T00:00:00Z")
    assert nexts(made.initialOffset()) == [1]
    made = reader(nats, stream, startingTimestamp="2100-01-01T00:00:00Z")
    assert nexts(made.initialOffset()) == [11]
    made = reader(nats, stream, startingOffsets=json.dumps({stream: 4}))
    assert nexts(made.initialOffset()) == [4]


def test_a_query_whose_start_time_has_no_message_fails_if_the_strategy_says_so(nats: Nats) -> None:
    stream, empty = nats.filled(10), nats.stream()
    strict = {"startingOffsetsByTimestampStrategy": "ERROR"}
    assert nexts(reader(nats, stream, startingTimestamp="2020-01-01T00:00:00Z", **strict).initialOffset()) == [1]
    for times in (
        {"startingTimestamp": "2100-01-01T00:00:00Z"},
        {"startingOffsetsByTimestamp": json.dumps({stream: "2100-01-01T00:00:00Z", empty: 0})},
    ):
        with pytest.raises(ConfigError, match=rf"stream {stream} has no message at or after 2100-01-01T00:00:00Z"):
            reader(nats, stream, empty, **times, **strict).initialOffset()
        made = reader(nats, stream, empty, **times, startingOffsetsByTimestampStrategy="latest")
        assert nexts(made.initialOffset()) == [11, 1]
    assert nexts(reader(nats, empty, **strict).initialOffset()) == [1]  # it is about times only


def test_the_limit_of_spark_applies(nats: Nats) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, maxOffsetsPerTrigger="4")
    assert made.getDefaultReadLimit() == ReadMaxRows(4)
    start = made.initialOffset()
    assert nexts(latest(made, start)) == [5]
    assert nexts(latest(made, start, ReadMaxRows(3))) == [4]
    assert nexts(latest(made, start, ReadAllAvailable())) == [11]  # Trigger.Once


def test_a_message_of_a_slow_stream_is_in_the_next_micro_batch(nats: Nats) -> None:
    slow, fast = nats.filled(1), nats.filled(5000)
    made = reader(nats, slow, fast, maxOffsetsPerTrigger="10")
    offset = latest(made, made.initialOffset())
    assert nexts(offset) == [2, 10]
    for _ in range(3):
        nats.publish([f"{slow}.a"] * 3)
        start, offset = offset, latest(made, offset)
        slow_rows, fast_rows = (end - begin for begin, end in zip(nexts(start), nexts(offset), strict=True))
        assert (slow_rows, fast_rows) == (3, 7)


def test_the_progress_shows_the_filters_and_the_lag_of_each_stream(nats: Nats) -> None:
    one, other = nats.filled(10), nats.filled(3)
    made = reader(nats, one, other, maxOffsetsPerTrigger="8", subject="*.a")
    start = made.initialOffset()
    assert "lag" not in str(made.reportLatestOffset())  # Spark has not asked for a micro-batch yet
    latest(made, start)
    streams = made.reportLatestOffset()["streams"]
    assert isinstance(streams, dict)
    assert [(each["lag"], each["subjects"]) for each in streams.values()] == [(5, ["*.a"]), (0, ["*.a"])]


def test_streams_take_turns_if_there_is_no_room_for_all(nats: Nats) -> None:
    streams = [nats.filled(4) for _ in range(3)]
    made = reader(nats, *streams, maxOffsetsPerTrigger="2")
    offset, batches = made.initialOffset(), []
    for _ in range(3):
        offset = latest(made, offset)
        batches.append(nexts(offset))
    assert batches == [[2, 2, 1], [3, 2, 2], [3, 3, 3]]


def test_bytes_are_limited_by_the_average_message_size(nats: Nats) -> None:
    stream = nats.stream()
    nats.publish([f"{stream}.a"] * 100, [bytes(1000)] * 100)
    made = reader(nats, stream, maxBytesPerTrigger="10k")
    (end,) = nexts(latest(made, made.initialOffset()))
    assert 8 <= end - 1 <= 10


class Clock:
    """The clock of the reader: it goes on only while the reader sleeps, or by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def time_of_poll(self, made: JetStreamStreamReader, end: Offset) -> float:
        """Return how long a poll without new messages takes. Spark pauses before each one."""
        begin = self.now
        self.now += 0.011
        assert latest(made, end) == end
        return self.now - begin


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stream_reader, "time", clock)
    return clock


def test_an_idle_stream_is_polled_as_seldom_as_the_option_says(nats: Nats, clock: Clock) -> None:
    stream = nats.filled(3)
    made = reader(nats, stream, pollInterval="250ms")
    end = latest(made, made.initialOffset())
    while clock.now < 3.0:  # of which a fifth is more than twice what the option says
        clock.time_of_poll(made, end)
    with nats.watched(f"*.*.{stream}") as streams, nats.watched(f"*.*.*.{stream}") as messages:
        assert [clock.time_of_poll(made, end) for _ in range(16)] == pytest.approx([0.25] * 16)
        assert streams.count() == 16
        assert messages.count() == 0
    nats.publish([f"{stream}.a"])
    begin = clock.now
    assert len(rows(made, end, latest(made, end))) == 1
    assert clock.now - begin <= 0.25


def test_an_idle_stream_does_not_delay_other_sources_of_its_query(nats: Nats, clock: Clock) -> None:
    stream = nats.filled(3)
    made = reader(nats, stream, pollInterval="30s")
    end = latest(made, made.initialOffset())
    while clock.now < 10.0:
        waited = clock.time_of_poll(made, end)
    assert waited > 1.0
    made.commit(end)  # Spark reports each micro-batch of a query to all its sources
    assert clock.time_of_poll(made, end) == pytest.approx(0.011)


def test_a_micro_batch_waits_until_there_are_enough_messages(nats: Nats) -> None:
    stream = nats.filled(1)
    made = reader(nats, stream, minOffsetsPerTrigger="5", maxTriggerDelay="400ms", pollInterval="1ms")
    begin = time.monotonic()
    start = latest(made, made.initialOffset())
    assert nexts(start) == [2]  # the first one does not wait
    nats.publish([f"{stream}.a"])
    while (end := latest(made, start)) == start:
        pass
    assert 0.4 <= time.monotonic() - begin < 5.0
    assert nexts(end) == [3]
    nats.publish([f"{stream}.a"] * 5)
    assert nexts(latest(made, end)) == [8]


def test_an_available_now_run_ends_at_the_ends_of_the_streams_at_its_start(nats: Nats) -> None:
    small, large = nats.filled(3), nats.filled(9)
    made = reader(nats, small, large, maxOffsetsPerTrigger="4", minOffsetsPerTrigger="4")
    made.prepareForTriggerAvailableNow()
    nats.publish([f"{small}.a"] * 50)
    offset, batches = made.initialOffset(), []
    while (end := latest(made, offset)) != offset:
        batches.append(nexts(end))
        assert len(rows(made, offset, end)) <= 4
        offset = end
    assert batches == [[3, 3], [4, 6], [4, 10]]
    assert nexts(made.reportLatestOffset()) == [54, 10]  # the lag shows what is left for the next run


def test_a_batch_that_is_repeated_after_a_restart_reads_the_same(nats: Nats) -> None:
    """R61: the checkpoint has the progress of a query as ranges. Acknowledgements do not decide it."""
    stream = nats.filled(10, ("a", "b"))
    made = reader(nats, stream, subject=f"{stream}.b")
    start = made.initialOffset()
    end = latest(made, start)
    nats.publish([f"{stream}.b"] * 5)
    assert rows(made, start, end) == rows(reader(nats, stream, subject=f"{stream}.b"), start, end) == [2, 4, 6, 8, 10]


def test_the_consumers_of_tasks_have_an_inactive_threshold_of_a_minute_at_most(nats: Nats) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream)
    start = made.initialOffset()
    end = latest(made, start)
    with nats.watched() as requests:
        rows(made, start, end)
        configs = requests.configs()
    assert configs
    for config in configs:
        threshold = config["inactive_threshold"]
        assert isinstance(threshold, int)
        assert 0 < threshold <= 60 * 10**9
        assert (config["ack_policy"], config["mem_storage"], config.get("durable_name")) == ("none", True, None)


@pytest.mark.slow
@pytest.mark.matrix
def test_the_consumer_of_a_task_that_is_killed_is_gone_within_a_minute(nats: Nats) -> None:
    stream = nats.stream()
    nats.publish([f"{stream}.a"] * 2_000, [bytes(1_000)] * 2_000)
    program = f"""
import signal
from tests.spark.micro_batches import latest, Nats, reader
server = type("Server", (), {{"url": {nats.url!r}}})
made = reader(Nats(server, None), {stream!r}, arrowBatchRows="10", maxBytesInFlight="16k")
start = made.initialOffset()
batches = made.read(made.partitions(start, latest(made, start))[0])
print(len(next(batches)), flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as task:
        assert task.stdout is not None
        assert task.stdout.readline() == "10\n"
        assert nats.info(stream).state.consumer_count == 1
        task.kill()
    deadline = time.monotonic() + 60.0
    while nats.info(stream).state.consumer_count and time.monotonic() < deadline:
        time.sleep(0.2)  # the server sends no event when it removes one
    assert nats.info(stream).state.consumer_count == 0


def test_no_connection_is_opened_before_it_is_needed() -> None:
    """Spark creates a second reader, only to send it to the tasks."""
    source = JetStreamDataSource({"servers": "nats://127.0.0.1:1", "stream": "S", "startingOffsets": "latest"})
    made = pickle.loads(pickle.dumps(source.streamReader(source.schema())))
    assert made.getDefaultReadLimit() == ReadAllAvailable()
    made.stop()
    with pytest.raises(ConnectError):
        made.initialOffset()


def test_partitions_are_split_as_the_options_say(nats: Nats) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, minPartitions="3", maxRecordsPerPartition="3")
    start = made.initialOffset()
    parts = made.partitions(start, latest(made, start))
    assert all(isinstance(part, StreamPartition) and part.end - part.start <= 3 for part in parts)
    assert len(parts) == 4


def test_an_available_now_run_ends_although_others_keep_consuming(nats: Nats) -> None:
    stream = nats.filled(6, ("a", "b"), retention=RetentionPolicy.WORK_QUEUE, allow_direct=True)
    made = reader(nats, stream, subject=f"{stream}.b")
    made.prepareForTriggerAvailableNow()
    end = latest(made, made.initialOffset())
    assert nexts(end) == [7]
    nats.publish([f"{stream}.a"] * 3)
    nats.purge(stream, before=9)
    assert latest(made, end) == end
    made = reader(nats, stream, subject=f"{stream}.b")
    made.prepareForTriggerAvailableNow()
    nats.publish([f"{stream}.a"] * 3)
    nats.purge(stream)  # after the end of the run
    assert latest(made, end) == end


def test_an_available_now_run_leaves_a_stream_that_was_created_meanwhile_to_the_next(nats: Nats) -> None:
    stream = nats.filled(6)
    made = reader(nats, stream, failOnDataLoss="false", maxOffsetsPerTrigger="4")
    made.prepareForTriggerAvailableNow()
    end = latest(made, made.initialOffset())
    nats.delete(stream)
    nats.stream(stream)
    nats.publish([f"{stream}.a"] * 9)
    assert latest(made, end) == end
    assert nexts(latest(reader(nats, stream, failOnDataLoss="false"), end)) == [10]


def test_the_source_process_of_spark_unwinds_on_sigterm() -> None:
    """`test_streaming.py` checks that a query leaves no connection open when Spark ends the real process."""
    program = """
import signal, sys, types
from jetspark.spark.read import source_process
sys.modules["__main__"].__spec__ = types.SimpleNamespace(name="pyspark.sql.streaming.python_streaming_source_runner")
source_process.exit_on_sigterm()
try:
    print("ready", flush=True)
    signal.pause()
finally:
    print("stopped", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.stdout.readline() == "stopped\n"
        assert process.wait(10) == 0


def test_a_server_that_restarts_between_two_batches_is_waited_for() -> None:
    with running() as nats:
        stream = nats.filled(10)
        made = reader(nats, stream)
        start = latest(made, made.initialOffset())
        nats.server.kill()
        nats.server.restart()
        nats.connection.reconnect()
        nats.publish([f"{stream}.a"] * 5)
        end = latest(made, start)
        parts = made.partitions(start, end)
        nats.server.restart()
        assert [len(batch) for part in parts for batch in made.read(part)] == [5]


def test_a_server_that_stays_away_is_an_error_after_the_retry_timeout() -> None:
    with running() as nats:
        stream = nats.filled(10)
        made = reader(nats, stream, retryTimeout="300ms")
        start = made.initialOffset()
        nats.server.stop()
        with pytest.raises(ConnectError, match=str(nats.server.port)):
            latest(made, start)
        with pytest.raises(ConnectError):  # the first poll does not wait at all
            reader(nats, stream, retryTimeout="1h").initialOffset()


def test_a_missing_permission_is_reported_with_its_subject() -> None:
    users = [
        {"user": "all", "password": "a"},
        {"user": "few", "password": "f", "permissions": {"publish": {"deny": ["$JS.API.STREAM.INFO.>"]}}},
        {"user": "some", "password": "s", "permissions": {"publish": {"deny": ["$JS.API.CONSUMER.CREATE.>"]}}},
        {"user": "kept", "password": "k", "permissions": {"publish": {"deny": ["$JS.API.STREAM.PURGE.>"]}}},
        {"user": "held", "password": "h", "permissions": {"publish": {"deny": ["$JS.API.CONSUMER.RESET.>"]}}},
        {"user": "blind", "password": "b", "permissions": {"publish": {"deny": ["$JS.API.DIRECT.GET.>"]}}},
    ]
    login = {"user": "all", "password": "a"}
    with running(login, config={"authorization": {"users": users}}) as nats:
        stream = nats.filled(10, retention=RetentionPolicy.WORK_QUEUE, allow_direct=True)
        limits = nats.filled(10)
        with pytest.raises(AuthenticationError):
            reader(nats, stream, user="all", password="x").initialOffset()
        with pytest.raises(PermissionError, match=rf"publish to '\$JS.API.STREAM.INFO.{stream}'"):
            reader(nats, stream, user="few", password="f").initialOffset()
        made = reader(nats, limits, user="some", password="s")
        start = made.initialOffset()
        with pytest.raises(PermissionError, match=rf"publish to '\$JS.API.CONSUMER.CREATE.{limits}"):
            rows(made, start, latest(made, start))
        made = reader(nats, stream, user="kept", password="k", commitMode="purge")
        end = latest(made, made.initialOffset())
        with pytest.raises(PermissionError, match=rf"publish to '\$JS.API.STREAM.PURGE.{stream}'"):
            made.commit(end)
        made = reader(nats, stream, user="blind", password="b")
        with pytest.raises(PermissionError, match=rf"publish to '\$JS.API.DIRECT.GET.{stream}"):
            rows(made, made.initialOffset(), end)
        made = reader(nats, limits, user="held", password="h", commitMode="consumer", commitConsumer="spark")
        end = latest(made, made.initialOffset())
        with pytest.raises(PermissionError, match=rf"publish to '\$JS.API.CONSUMER.RESET.{limits}.spark'"):
            made.commit(end)
