"""Queries whose streams are deleted, added and left out: without Spark, on a real server."""

from __future__ import annotations

import json
import logging

import pytest
from tests.spark.changing_streams import Clock, fill, numbered, places, ranges, rows
from tests.spark.micro_batches import Offset, latest, reader
from tests.spark.support import Nats

from jetspark.errors import ConfigError, DataLossError, StreamNotFoundError
from jetspark.jetstream import RetentionPolicy
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.schema import read_schema
from jetspark.spark.streams import listing
from jetspark.spark.streams.state import StreamStates


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(listing, "time", clock)
    return clock


@pytest.fixture
def prefix(nats: Nats) -> str:
    """Begins the names of the streams of a test."""
    return f"{nats.stream()}_"


# -- streams that are deleted ----------------------------------------------------------------------------------------


@pytest.fixture
def deleted(nats: Nats, prefix: str) -> tuple[JetStreamStreamReader, Offset]:
    """A running query on A and B, after B was deleted."""
    fill(nats, f"{prefix}A", 2)
    fill(nats, f"{prefix}B", 3)
    made = reader(nats, streamPattern=f"{prefix}*")
    end = latest(made, made.initialOffset())
    nats.delete(f"{prefix}B")
    return made, end


def test_a_deleted_stream_is_a_loss(nats: Nats, prefix: str, deleted: tuple[JetStreamStreamReader, Offset]) -> None:
    made, end = deleted
    for query in (made, reader(nats, streamPattern=f"{prefix}*"), reader(nats, streamPattern="*" + prefix + "*")):
        with pytest.raises(DataLossError, match=f"stream {prefix}B: it was deleted.*up to sequence 3") as caught:
            latest(query, end)
        assert caught.value.stream == f"{prefix}B"


def test_without_the_option_a_query_does_not_continue_without_a_deleted_stream(
    nats: Nats, prefix: str, deleted: tuple[JetStreamStreamReader, Offset], caplog: pytest.LogCaptureFixture
) -> None:
    made = reader(nats, streamPattern=f"{prefix}*", failOnDataLoss="false")
    with pytest.raises(ConfigError, match=f"{prefix}B .*allowRemovedStreams = true"):
        latest(made, deleted[1])
    assert f"data loss: stream {prefix}B: it was deleted" in caplog.text
    strict = reader(nats, streamPattern=f"{prefix}*", allowRemovedStreams="true")
    with pytest.raises(DataLossError):
        latest(strict, deleted[1])


def test_with_the_option_a_query_continues_and_reads_a_new_stream_of_that_name(
    nats: Nats, prefix: str, deleted: tuple[JetStreamStreamReader, Offset], caplog: pytest.LogCaptureFixture
) -> None:
    both = {"failOnDataLoss": "false", "allowRemovedStreams": "true"}
    made = reader(nats, streamPattern=f"{prefix}*", **both)
    end = latest(made, deleted[1])
    assert places(end, prefix) == {"A": 3}
    assert made.partitions(deleted[1], end) == []
    made.commit(end)
    fill(nats, f"{prefix}A", 1)
    following = latest(made, end)
    assert rows(made, end, following) == numbered(f"{prefix}A", 3)
    assert caplog.text.count("data loss") == 1
    fill(nats, f"{prefix}B", 2)
    again = latest(reader(nats, streamPattern=f"{prefix}*"), following)  # the option is needed for one run
    assert rows(made, following, again) == numbered(f"{prefix}B", 1, 2)


def test_a_planned_batch_with_a_deleted_stream_keeps_its_other_partitions(nats: Nats, prefix: str) -> None:
    a, b = fill(nats, f"{prefix}A", 2), fill(nats, f"{prefix}B", 3)
    lenient = {"failOnDataLoss": "false"}
    made = reader(nats, streamPattern=f"{prefix}*", **lenient)
    start = made.initialOffset()
    end = latest(made, start)
    assert ranges(made, start, end) == [(a, 1, 3), (b, 1, 4)]
    nats.delete(b)
    for query in (made, reader(nats, streamPattern=f"{prefix}*", **lenient)):
        assert rows(query, start, end) == numbered(a, 1, 2)
    assert ranges(reader(nats, streamPattern=f"{prefix}*", **lenient), start, end) == [(a, 1, 3), (b, 4, 4)]
    with pytest.raises(DataLossError, match=f"stream {b}"):
        rows(reader(nats, streamPattern=f"{prefix}*"), start, end)


def test_a_stream_that_is_deleted_while_a_batch_is_planned_is_no_other_failure(
    nats: Nats, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = fill(nats, f"{prefix}A", 2), fill(nats, f"{prefix}B", 3)
    made = reader(nats, streamPattern=f"{prefix}*", failOnDataLoss="false", allowRemovedStreams="true")
    end = latest(made, made.initialOffset())
    fill(nats, a, 1)
    fill(nats, b, 1)
    truncation = StreamStates.truncation

    def after_a_deletion(*args: object) -> object:
        monkeypatch.setattr(StreamStates, "truncation", truncation)
        nats.delete(b)
        raise StreamNotFoundError(404, 10059, "stream not found")

    monkeypatch.setattr(StreamStates, "truncation", after_a_deletion)
    following = latest(made, end)
    assert rows(made, end, following) == numbered(a, 3)
    assert places(following, prefix) == {"A": 4}


def test_a_query_that_releases_messages_goes_on_after_a_deletion(nats: Nats, prefix: str) -> None:
    queue = {"retention": RetentionPolicy.WORK_QUEUE, "allow_direct": True}
    a, b = fill(nats, f"{prefix}A", 2, **queue), fill(nats, f"{prefix}B", 3, **queue)
    options = {"commitMode": "purge", "failOnDataLoss": "false", "allowRemovedStreams": "true"}
    made = reader(nats, streamPattern=f"{prefix}*", **options)
    start = made.initialOffset()
    end = latest(made, start)
    assert len(rows(made, start, end)) == 5
    c = fill(nats, f"{prefix}C", 1, **queue)
    following = latest(made, end)
    nats.delete(b)
    made.commit(end)
    made.commit(following)
    assert [nats.info(stream).state.messages for stream in (a, c)] == [0, 0]


def test_an_interest_stream_that_appears_gets_the_commit_consumer(nats: Nats, prefix: str) -> None:
    made = reader(nats, streamPattern=f"{prefix}*", commitMode="consumer", commitConsumer=f"{prefix}spark")
    start = made.initialOffset()
    a = nats.stream(f"{prefix}A", retention=RetentionPolicy.INTEREST, allow_direct=True)
    end = latest(made, start)
    assert nats.info(a).state.consumer_count == 1
    fill(nats, a, 3)
    following = latest(made, end)
    assert rows(made, end, following) == numbered(a, 1, 2, 3)
    made.commit(following)
    assert nats.info(a).state.messages == 0


# -- lists that change between runs ----------------------------------------------------------------------------------


def test_a_list_may_grow_and_its_new_streams_start_at_their_first_message(nats: Nats, prefix: str) -> None:
    a, b, c = (fill(nats, f"{prefix}{name}", 2) for name in "ABC")
    options = {"servers": nats.url, "failOnDataLoss": "true"}

    def made(*streams: str, **given: str) -> JetStreamStreamReader:
        checked = stream_read_options({**options, "stream": ",".join(streams), **given})
        return JetStreamStreamReader(read_schema(include_headers=False), checked)

    one = made(b)
    start = one.initialOffset()
    assert places(start, prefix) == {"B": 3}  # a new query begins at the end by default
    fill(nats, b, 1)
    end = latest(one, start)
    grown = latest(made(c, b, a), end)
    assert places(grown, prefix) == {"A": 3, "B": 4, "C": 3}
    assert rows(made(a, b, c), end, grown) == [*numbered(a, 1, 2), *numbered(c, 1, 2)]
    assert ranges(made(a, c, b), end, grown) == ranges(made(c, b, a), end, grown)
    at_end = latest(made(a, b, startingOffsets="latest"), end)
    assert places(at_end, prefix) == {"A": 3, "B": 4}
    assert rows(made(a, b), end, at_end) == []
    fill(nats, a, 1)
    assert rows(made(a, b), at_end, latest(made(a, b), at_end)) == numbered(a, 3)
    chosen = latest(made(a, b, startingOffsets=json.dumps({a: 2, b: 1})), end)
    assert rows(made(a, b), end, chosen) == numbered(a, 2, 3)
    late = {"startingTimestamp": "2100-01-01T00:00:00Z", "startingOffsetsByTimestampStrategy": "error"}
    with pytest.raises(ConfigError, match=f"stream {a} has no message at or after 2100"):
        latest(made(a, b, **late), end)


def test_a_stream_that_is_left_out_needs_the_option(nats: Nats, prefix: str) -> None:
    a, b = fill(nats, f"{prefix}A", 2), fill(nats, f"{prefix}B", 2)
    both = reader(nats, a, b)
    start = both.initialOffset()
    end = latest(both, start)
    fill(nats, a, 1)
    for offsets in ((start, end), (end, end)):
        made = reader(nats, a)
        with pytest.raises(ConfigError, match=f"is of stream {b}, but option stream names {a}.*allowRemovedStreams"):
            made.partitions(*offsets) if offsets[0] != end else latest(made, end)
    with pytest.raises(ConfigError, match=f"{b}.*streamPattern = {prefix}A.*allowRemovedStreams"):
        latest(reader(nats, streamPattern=f"{prefix}A"), end)
    made = reader(nats, a, allowRemovedStreams="true")
    assert rows(made, start, end) == [*numbered(a, 1, 2), *numbered(b, 1, 2)]  # it was planned with both
    following = latest(made, end)
    assert places(following, prefix) == {"A": 4}
    assert rows(made, end, following) == numbered(a, 3)
    assert rows(reader(nats, a), end, following) == numbered(a, 3)
    nats.delete(b)
    assert places(latest(reader(nats, a, allowRemovedStreams="true"), end), prefix) == {"A": 4}
    with pytest.raises(StreamNotFoundError):
        latest(reader(nats, a, b), end)


def test_a_stream_that_comes_back_after_it_was_left_out_is_new(nats: Nats, prefix: str) -> None:
    a, b = fill(nats, f"{prefix}A", 1), fill(nats, f"{prefix}B", 2)
    both = reader(nats, a, b)
    end = latest(both, both.initialOffset())
    without = latest(reader(nats, a, allowRemovedStreams="true"), end)
    again = latest(reader(nats, a, b), without)
    assert rows(both, without, again) == numbered(b, 1, 2)


def test_a_list_becomes_a_pattern(nats: Nats, prefix: str) -> None:
    a, b = fill(nats, f"{prefix}A", 2), fill(nats, f"{prefix}B", 1)
    one = reader(nats, a)
    end = latest(one, one.initialOffset())
    fill(nats, a, 1)
    made = reader(nats, streamPattern=f"{prefix}*")
    assert rows(made, end, latest(made, end)) == [*numbered(a, 3), *numbered(b, 1)]


def test_the_option_logs_which_streams_join_and_leave(
    nats: Nats, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = fill(nats, f"{prefix}A", 1), fill(nats, f"{prefix}B", 1)
    one = reader(nats, a)
    end = latest(one, one.initialOffset())
    with caplog.at_level(logging.INFO):
        latest(reader(nats, b, allowRemovedStreams="true"), end)
    assert f"streams that have joined the query: {b}" in caplog.text
    assert f"streams that have left the query: {a}" in caplog.text
