"""The release after a commit: exactly the committed messages, once or twice, and never others."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from tests.spark.committing import (
    CONSUMER,
    INTEREST,
    PURGE,
    WORK_QUEUE,
    await_interest,
    commit_consumer,
    ends,
    kept,
    reader,
    sequences,
)
from tests.spark.support import Nats, running

from jetspark import bulk
from jetspark.errors import ConfigError
from jetspark.jetstream import AckPolicy, ConsumerConfig
from jetspark.jetstream.api import (
    ConsumerCreateRequest,
    ConsumerDeleteRequest,
)
from jetspark.server import NatsCluster
from jetspark.spark.commit.checkpoint import committed_offset
from jetspark.spark.commit.commit_consumer import check_reset_version
from jetspark.spark.commit.releaser import Releaser, purge_requests
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.streams.offsets import StreamOffset, decode_offsets, encode_offsets
from jetspark.spark.streams.state import StreamStates


def test_a_purge_deletes_exactly_the_committed_messages(nats: Nats) -> None:
    stream = nats.filled(10, **WORK_QUEUE)
    made = reader(nats, stream, {**PURGE, "maxOffsetsPerTrigger": "4"})
    start, one, two, _ = ends(made, 3)
    made.commit(start)
    assert kept(nats, stream) == list(range(1, 11))
    for _ in range(2):
        made.commit(one)
        assert kept(nats, stream) == [5, 6, 7, 8, 9, 10]
    made.commit(two)
    reader(nats, stream, PURGE).commit(one)  # an older commit, reported by another run
    assert kept(nats, stream) == [9, 10]


def test_a_purge_leaves_messages_outside_the_filters(nats: Nats) -> None:
    stream = nats.filled(9, ("a", "b", "c"), **WORK_QUEUE)
    made = reader(nats, stream, {**PURGE, "subject": f"{stream}.a,{stream}.c", "maxOffsetsPerTrigger": "6"})
    _, one = ends(made, 1)
    made.commit(one)
    assert kept(nats, stream) == [2, 5, 7, 8, 9]


@pytest.mark.parametrize(
    ("options", "count"),
    [(PURGE, 3), ({**PURGE, "subject": "{0}.a,{0}.c"}, 4), (CONSUMER, 4)],
    ids=["purge", "purge with two filters", "consumer"],
)
def test_a_release_sends_a_fixed_number_of_requests(nats: Nats, options: dict[str, str], count: int) -> None:
    stream = nats.filled(9, ("a", "b", "c"), **(INTEREST if options is CONSUMER else WORK_QUEUE))
    options = {name: value.format(stream) for name, value in options.items()}
    made = reader(nats, stream, {**options, "maxOffsetsPerTrigger": "6"})
    start = made.initialOffset()
    nats.publish([f"{stream}.a"] * 9)
    end = made.latestOffset(start, made.getDefaultReadLimit())
    with nats.watched(">") as requests:
        requests.count()  # those of `watched` itself
        for _ in range(2):
            made.commit(end)  # the second time it knows
        assert requests.count() == count


def test_a_purge_of_another_retention_must_be_allowed_explicitly(nats: Nats) -> None:
    limits, interest = nats.filled(10), nats.stream(**INTEREST)
    for stream, retention in ((limits, "limits"), (interest, "interest")):
        with pytest.raises(ConfigError, match=f"stream {stream} has retention {retention}.*allowPurge = true"):
            reader(nats, stream, PURGE).initialOffset()
    assert kept(nats, limits) == list(range(1, 11))
    made = reader(nats, limits, {**PURGE, "allowPurge": "true"})
    _, one = ends(made, 1)
    made.commit(one)
    assert kept(nats, limits) == []


def test_a_purge_that_the_stream_denies_is_refused_at_the_start(nats: Nats) -> None:
    stream = nats.filled(10, deny_purge=True, **WORK_QUEUE)
    with pytest.raises(ConfigError, match="deny_purge"):
        reader(nats, stream, PURGE).initialOffset()


def test_a_recreated_stream_is_not_purged(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    stream = nats.filled(10, **WORK_QUEUE)
    made = reader(nats, stream, PURGE)
    _, one = ends(made, 1)
    nats.delete(stream)
    nats.stream(stream, **WORK_QUEUE)
    nats.publish([f"{stream}.a"] * 3)
    made.commit(one)
    assert kept(nats, stream) == [1, 2, 3]
    assert f"stream {stream} was deleted and created again; nothing of the new stream is released" in caplog.text


def test_a_recreated_stream_is_checked_and_reported_once_for_each_offset(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    """As in an available-now run whose other streams continue: each commit has the same offset."""
    stream = nats.filled(10, **WORK_QUEUE)
    options = {**PURGE, "maxOffsetsPerTrigger": "4", "failOnDataLoss": "false"}
    made = reader(nats, stream, options)
    _, one, two = ends(made, 2)
    nats.delete(stream)
    nats.stream(stream, **WORK_QUEUE)
    nats.publish([f"{stream}.a"] * 9)
    for count, end in enumerate((one, two), 1):
        (offset,) = decode_offsets(end, [stream]).values()
        idle = encode_offsets({stream: replace(offset, start=offset.next)})  # of a micro-batch that read only others
        with nats.watched(f"STREAM.INFO.{stream}") as requests:
            for again in (end, idle, idle):
                made.commit(again)
            assert requests.count() == 1
        assert caplog.text.count(f"stream {stream} was deleted and created again") == count
    read = stream_read_options({"servers": nats.url, "stream": stream, **options})
    releaser = Releaser(read, StreamStates(read))
    for _ in range(2):
        assert releaser.release(decode_offsets(two, [stream]), strict=True) == {stream}
    assert kept(nats, stream) == list(range(1, 10))
    made.commit(made.latestOffset(two, made.getDefaultReadLimit()))
    assert kept(nats, stream) == [5, 6, 7, 8, 9]  # messages that were read of the new one are released


def test_an_interest_stream_keeps_uncommitted_messages_and_shows_the_lag(nats: Nats) -> None:
    stream = nats.stream(**INTEREST)
    made = reader(nats, stream, {**CONSUMER, "maxOffsetsPerTrigger": "4"})
    start = made.initialOffset()  # from here on there is interest
    nats.publish([f"{stream}.a"] * 10)
    commit_consumer(nats, stream, pending=10)
    one = made.latestOffset(start, made.getDefaultReadLimit())
    two = made.latestOffset(one, made.getDefaultReadLimit())
    for _ in range(2):
        made.commit(one)
        info = commit_consumer(nats, stream)
        assert (info.ack_floor.stream_sequence, info.num_pending, info.num_ack_pending) == (4, 6, 0)
        assert kept(nats, stream) == [5, 6, 7, 8, 9, 10]
    made.commit(two)
    reader(nats, stream, CONSUMER).commit(one)  # never backwards
    assert commit_consumer(nats, stream).ack_floor.stream_sequence == 8
    assert kept(nats, stream) == [9, 10]


def test_a_query_that_waits_past_the_end_of_an_interest_stream_gets_its_first_message(nats: Nats) -> None:
    stream = nats.stream(**INTEREST)
    made = reader(nats, stream, {**CONSUMER, "startingOffsets": json.dumps({stream: 4})})
    start = made.initialOffset()
    assert made.latestOffset(start, made.getDefaultReadLimit()) == start
    nats.publish([f"{stream}.a"] * 5)
    end = made.latestOffset(start, made.getDefaultReadLimit())
    assert sequences(made, start, end) == [4, 5]
    made.commit(end)
    assert commit_consumer(nats, stream).ack_floor.stream_sequence == 5
    assert kept(nats, stream) == []


@pytest.mark.slow
@pytest.mark.matrix
def test_a_replicated_interest_stream_releases_messages_under_every_leader() -> None:
    with NatsCluster(3) as cluster, bulk.connect(cluster.urls) as connection:
        nats = Nats(cluster[0], connection)
        stream = nats.stream(num_replicas=3, **INTEREST)
        options = {**CONSUMER, "servers": ",".join(cluster.urls), "maxOffsetsPerTrigger": "4"}
        made = reader(nats, stream, options)
        offset = made.initialOffset()
        await_interest(cluster, stream)
        nats.publish([f"{stream}.a"] * 8)
        for committed in (4, 8):
            offset = made.latestOffset(offset, made.getDefaultReadLimit())
            made.commit(offset)
            assert commit_consumer(nats, stream).ack_floor.stream_sequence == committed
            deadline = time.monotonic() + 60.0
            while nats.info(stream).state.messages > 8 - committed and time.monotonic() < deadline:
                time.sleep(0.02)  # each server releases by itself
            assert nats.info(stream).state.messages == 8 - committed
            if committed == 4:
                cluster.wait_stream_leader(stream).kill()
                cluster.wait_stream_leader(stream)
                connection.reconnect()


def test_a_commit_consumer_uses_the_filters_and_keeps_the_interest_of_others(nats: Nats) -> None:
    stream = nats.stream(**INTEREST)
    other = ConsumerConfig(durable_name="other", ack_policy=AckPolicy.EXPLICIT, filter_subject=f"{stream}.b")
    nats.connection.request(ConsumerCreateRequest(stream, other))
    made = reader(nats, stream, {**CONSUMER, "subject": f"{stream}.a"})
    start = made.initialOffset()
    nats.publish([f"{stream}.{token}" for token in "abcabc"])
    commit_consumer(nats, stream, pending=2)
    made.commit(made.latestOffset(start, made.getDefaultReadLimit()))
    assert commit_consumer(nats, stream).num_pending == 0
    assert kept(nats, stream) == [2, 5]


def test_a_limits_stream_keeps_everything_and_shows_the_lag(nats: Nats) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, {**CONSUMER, "startingOffsets": f'{{"{stream}": 3}}'})
    start, one = ends(made, 1)
    assert commit_consumer(nats, stream).ack_floor.stream_sequence == 2  # it starts where the query does
    made.commit(start)
    assert commit_consumer(nats, stream).num_pending == 8
    made.commit(one)
    assert commit_consumer(nats, stream).num_pending == 0
    assert kept(nats, stream) == list(range(1, 11))


def test_a_deleted_commit_consumer_is_created_again(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, CONSUMER)
    _, one = ends(made, 1)
    nats.connection.request(ConsumerDeleteRequest(stream, "spark"))
    made.commit(one)
    assert commit_consumer(nats, stream).ack_floor.stream_sequence == 10
    assert f"stream {stream}: consumer spark was deleted and is created again" in caplog.text


@pytest.mark.parametrize("mode", ["purge", "consumer"])
def test_a_crash_between_the_commit_of_spark_and_the_release_loses_and_repeats_nothing(nats: Nats, mode: str) -> None:
    config, options = (WORK_QUEUE, PURGE) if mode == "purge" else (INTEREST, CONSUMER)
    stream = nats.stream(**config)
    options = {**options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    made = reader(nats, stream, options)
    start = made.initialOffset()
    nats.publish([f"{stream}.a"] * 10)
    one = made.latestOffset(start, made.getDefaultReadLimit())
    two = made.latestOffset(one, made.getDefaultReadLimit())
    made.commit(one)
    planned = reader(nats, stream, options)  # the process died before Spark had committed the second micro-batch
    assert sequences(planned, one, two) == [5, 6, 7, 8]
    committed = reader(nats, stream, options)  # this one died after the commit and before the release
    assert kept(nats, stream) == [5, 6, 7, 8, 9, 10]
    three = committed.latestOffset(two, committed.getDefaultReadLimit())
    committed.commit(two)
    assert kept(nats, stream) == [9, 10]
    assert sequences(committed, two, three) == [9, 10]
    released = reader(nats, stream, options)  # this one died after the release, and Spark reports the commit again
    released.commit(two)
    assert kept(nats, stream) == [9, 10]
    released.commit(three)
    assert kept(nats, stream) == []


def test_a_consumer_that_is_not_the_commit_consumer_of_this_query_is_not_moved(nats: Nats) -> None:
    stream = nats.filled(10)
    config = ConsumerConfig(durable_name="spark", ack_policy=AckPolicy.EXPLICIT)
    nats.connection.request(ConsumerCreateRequest(stream, config))
    with pytest.raises(ConfigError, match=f"consumer spark of stream {stream} was not created for a Spark query"):
        reader(nats, stream, CONSUMER).initialOffset()
    other = nats.filled(10)
    reader(nats, other, {**CONSUMER, "subject": f"{other}.a"}).initialOffset()
    with pytest.raises(ConfigError, match=f"has the filter {other}.a, but option subject is >"):
        reader(nats, other, CONSUMER).initialOffset()


def test_a_work_queue_allows_no_commit_consumer(nats: Nats) -> None:
    stream = nats.filled(10, **WORK_QUEUE)
    with pytest.raises(ConfigError, match=f"stream {stream} is a work queue.*commitMode = purge"):
        reader(nats, stream, CONSUMER).initialOffset()


def test_the_next_release_completes_one_that_failed_temporarily(caplog: pytest.LogCaptureFixture) -> None:
    with running() as nats:
        stream = nats.filled(10, **WORK_QUEUE)
        made = reader(nats, stream, {**PURGE, "maxOffsetsPerTrigger": "4", "retryTimeout": "100ms"})
        _, one, two = ends(made, 2)
        nats.server.stop()
        made.commit(one)
        assert f"stream {stream}: cannot release up to sequence 4 now" in caplog.text
        nats.server.start()
        nats.connection.reconnect()
        assert kept(nats, stream) == list(range(1, 11))
        made.commit(two)
        assert kept(nats, stream) == [9, 10]


def test_a_release_is_off_by_default_and_sends_no_request() -> None:
    options = stream_read_options({"servers": "nats://127.0.0.1:1", "stream": "S"})
    releaser = Releaser(options, StreamStates(options))
    releaser.release({"S": StreamOffset(1, 2)})  # sends no request
    releaser.set_start({"S": StreamOffset(1, 2)})


def test_a_purge_never_means_everything() -> None:
    assert purge_requests("S", (), StreamOffset(1, 0)) == purge_requests("S", (), StreamOffset(1, 1)) == []
    assert [request.sequence for request in purge_requests("S", (), StreamOffset(1, 2))] == [2]


@pytest.mark.parametrize("version", ["2.14.0", "2.15.1-RC.1", "3.0.0", "2.14"])
def test_servers_that_can_reset_a_consumer_are_recognised(version: str) -> None:
    check_reset_version(version, "spark")


@pytest.mark.parametrize("version", ["2.13.9", "2.9.0", "1.4.1", ""])
def test_servers_that_cannot_reset_a_consumer_are_recognised(version: str) -> None:
    with pytest.raises(ConfigError, match=r"use 2\.14 or newer"):
        check_reset_version(version, "spark")


def test_the_offset_of_a_query_with_several_sources_is_found() -> None:
    ours = '{"streams": {"A": {"created": "2026-01-01T00:00:00Z", "next": 7}}, "version": 1}'
    other = '{"streams": {"B": {"created": "2026-01-01T00:00:00Z", "next": 9}}, "version": 1}'
    lines = ["v1", '{"batchWatermarkMs": 0}', '{"t": {"0": 5}}', "-", other, ours]
    assert committed_offset(lines, ["A"], "/checkpoint")["A"].next == 7
    named = ["v2", '{"batchWatermarkMs": 0}', f"orders:{ours}", f"rest:{other}", "third:-"]  # sources with names
    assert committed_offset(named, ["A"], "/checkpoint") == committed_offset(lines, ["A"], "/checkpoint")
    assert committed_offset(named, ["B"], "/checkpoint")["B"].next == 9
    with pytest.raises(ConfigError, match="the checkpoint /checkpoint is of B; A, but option stream names A, B"):
        committed_offset(lines, ["B", "A"], "/checkpoint")
    with pytest.raises(ConfigError, match="is of no jetstream source"):
        committed_offset(lines[:3], ["A"], "/checkpoint")
