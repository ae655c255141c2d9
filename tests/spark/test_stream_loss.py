"""Messages that are lost before a micro-batch reads them are reported once, and other cases are not losses."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from tests.spark.micro_batches import latest, moved, nexts, reader, rows
from tests.spark.support import Nats

from jetspark.errors import ConfigError, DataLossError, StreamNotFoundError
from jetspark.jetstream import (
    ClusterInfo,
    PeerInfo,
    StreamConfig,
    StreamInfo,
    StreamState,
    Timestamp,
)
from jetspark.spark.streams.offsets import StreamOffset
from jetspark.spark.streams.state import has_stale_leader


@pytest.mark.parametrize("fail", ["true", "false"])
def test_messages_that_are_purged_before_they_are_read_are_reported_once(
    nats: Nats, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, failOnDataLoss=fail, maxOffsetsPerTrigger="2")
    start = latest(made, made.initialOffset())
    nats.purge(stream, before=6)
    text = f"stream {stream}: sequences 3 to 5 are gone: the stream starts at 6 now; they were purged or deleted"
    if fail == "true":
        with pytest.raises(DataLossError, match=text) as caught:
            latest(made, start)
        assert (caught.value.stream, caught.value.first, caught.value.last) == (stream, 3, 5)
        return
    end = latest(made, start)
    assert rows(made, start, end) == [6, 7]
    assert caplog.text.count(text) == 1
    nats.purge(stream)
    for _ in range(3):
        assert latest(made, end) == end
    assert caplog.text.count("data loss") == 2


def test_expired_messages_are_reported_with_the_limit_that_removed_them(nats: Nats) -> None:
    stream = nats.filled(10, max_msgs=4, max_age=timedelta(hours=2))
    made = reader(nats, stream)
    start = moved(made.initialOffset(), -2)
    limits = r"they were dropped by its limits \(max_age 2h0m0s, max_msgs 4\), purged or deleted"
    with pytest.raises(DataLossError, match=f"sequences 5 to 6 are gone: the stream starts at 7 now; {limits}"):
        latest(made, start)


def test_a_key_value_bucket_loses_nothing_if_keys_are_overwritten(nats: Nats) -> None:
    stream = nats.filled(10, max_msgs_per_subject=1)
    made = reader(nats, stream)
    start = moved(made.initialOffset(), -9)
    end = latest(made, start)
    parts = made.partitions(start, end)
    nats.publish([f"{stream}.a"])
    assert [batch for part in parts for batch in made.read(part)] == []
    assert rows(made, end, latest(made, end)) == [11]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_recreated_stream_is_a_different_stream(nats: Nats, fail: str, caplog: pytest.LogCaptureFixture) -> None:
    stream = nats.filled(10)
    start = latest(reader(nats, stream), reader(nats, stream).initialOffset())
    nats.delete(stream)
    nats.stream(stream)
    nats.publish([f"{stream}.a"] * 3)
    made = reader(nats, stream, failOnDataLoss=fail)
    text = f"stream {stream}: it was deleted and created again: the checkpoint is at sequence "
    if fail == "true":
        with pytest.raises(DataLossError, match=text):
            latest(made, start)
        with pytest.raises(DataLossError, match=text):
            reader(nats, stream).partitions(moved(start, -5), start)
        return
    end = latest(made, start)
    assert nexts(end) == [4]
    assert rows(made, start, end) == [1, 2, 3]
    assert latest(made, end) == end
    assert caplog.text.count(text) == 1
    assert rows(reader(nats, stream, failOnDataLoss=fail), moved(start, -5), start) == []


def test_a_start_past_the_end_waits_for_its_sequence(nats: Nats) -> None:
    waiting, busy = nats.filled(10), nats.filled(3)
    made = reader(nats, waiting, busy, startingOffsets=json.dumps({waiting: 14, busy: 1}))
    start = made.initialOffset()
    end = latest(made, start)
    assert nexts(start) == [14, 1]
    assert len(rows(made, start, end)) == 3
    made = reader(nats, waiting, busy)  # a restart, from the checkpoint
    assert len(rows(made, start, end)) == 3
    nats.publish([f"{waiting}.a"] * 3)
    assert latest(made, end) == end
    nats.publish([f"{waiting}.a"] * 2)
    assert rows(made, end, latest(made, end)) == [14, 15]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stream_that_is_made_again_while_a_query_waits_is_a_loss(nats: Nats, restarts: bool) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, startingOffsets=json.dumps({stream: 14}))
    start = made.initialOffset()
    assert latest(made, start) == start
    nats.delete(stream)
    nats.stream(stream)
    with pytest.raises(DataLossError, match="it was deleted and created again"):
        latest(reader(nats, stream) if restarts else made, start)


@pytest.mark.parametrize(
    ("replicas", "created_ns", "reached", "lagging"),
    [(2, 7, 12, True), (2, 7, 11, False), (2, 8, 12, False), (0, 7, 12, False)],
)
def test_a_new_leader_that_lags_is_distinguished_from_a_loss(
    replicas: int, created_ns: int, reached: int, lagging: bool
) -> None:
    members = ClusterInfo(leader="a", replicas=[PeerInfo(name="b")] * replicas)
    state = StreamState(messages=10, first_sequence=1, last_sequence=10)
    info = StreamInfo(StreamConfig(name="S"), Timestamp.from_ns(7), state, cluster=members)
    assert has_stale_leader(info, StreamOffset(created_ns, reached)) is lagging
    info.cluster = None
    assert not has_stale_leader(info, StreamOffset(created_ns, reached))


def test_a_deleted_stream_is_an_error_for_every_value_of_the_option(nats: Nats) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, failOnDataLoss="false")
    start = latest(made, made.initialOffset())
    nats.delete(stream)
    with pytest.raises(StreamNotFoundError, match=rf"{stream}.*10059"):
        latest(made, start)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_checkpoint_ahead_of_the_stream_is_reported_and_moved_to_its_end(
    nats: Nats, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, failOnDataLoss=fail)
    ahead = moved(latest(made, made.initialOffset()), 5)
    text = f"stream {stream}: sequences 11 to 15 are gone: the checkpoint is ahead of the stream, which ends at 10"
    if fail == "true":
        with pytest.raises(DataLossError, match=text):
            latest(made, ahead)
        return
    back = latest(made, ahead)
    assert rows(made, ahead, back) == []
    assert latest(made, back) == back
    assert caplog.text.count(text) == 1
    nats.publish([f"{stream}.a"] * 7)
    assert rows(made, back, latest(made, back)) == list(range(11, 18))


def test_a_checkpoint_of_another_stream_is_refused_with_both_names(nats: Nats) -> None:
    one, other = nats.filled(3), nats.filled(3)
    start = reader(nats, one).initialOffset()
    with pytest.raises(ConfigError, match=f"is of stream {one}, but option stream names {other}"):
        latest(reader(nats, other), start)
