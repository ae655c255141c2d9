"""Deleted commit consumers: messages that an interest stream may have dropped are reported, and no others."""

from __future__ import annotations

import re

import pytest
from tests.spark.committing import (
    CONSUMER,
    INTEREST,
    kept,
    read_of,
    reader,
    sequences,
    with_another,
)
from tests.spark.support import Nats

from jetspark.errors import DataLossError
from jetspark.jetstream.api import (
    ConsumerDeleteRequest,
    MessageDeleteRequest,
)


def test_a_commit_consumer_that_is_deleted_while_the_query_is_stopped_is_reported(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages that it held may be lost in the middle of the stream, where no sequence shows it."""
    stream = with_another(nats, filter_subject="*.b")
    made = reader(nats, stream, CONSUMER)
    start = made.initialOffset()
    nats.publish([f"{stream}.a"] * 3)
    one = made.latestOffset(start, made.getDefaultReadLimit())
    made.commit(one)
    nats.connection.request(ConsumerDeleteRequest(stream, "spark"))
    nats.publish([f"{stream}.{token}" for token in "baaab"])  # 4 to 8, of which 4 and 8 are kept for the other consumer
    text = f"stream {stream}: consumer spark.*was deleted and created again; of sequences 4 to 8 the stream has dropped"
    for _ in range(2):  # it stays an error until a user accepts it
        made = reader(nats, stream, CONSUMER)
        with pytest.raises(DataLossError, match=text):
            made.latestOffset(one, made.getDefaultReadLimit())
    nats.publish([f"{stream}.a"])
    made = reader(nats, stream, {**CONSUMER, "failOnDataLoss": "false"})
    two = made.latestOffset(one, made.getDefaultReadLimit())
    assert sequences(made, one, two) == [4, 8, 9]
    assert caplog.text.count("of sequences 4 to 8 the stream has dropped") == 1
    made.commit(two)
    made = reader(nats, stream, CONSUMER)
    assert made.latestOffset(two, made.getDefaultReadLimit()) == two


def test_a_commit_consumer_that_is_deleted_while_the_query_runs_is_reported(nats: Nats) -> None:
    stream = with_another(nats, filter_subject="*.b")
    made = reader(nats, stream, CONSUMER)
    start = made.initialOffset()
    nats.publish([f"{stream}.{token}" for token in "ba"])
    one = made.latestOffset(start, made.getDefaultReadLimit())
    nats.connection.request(ConsumerDeleteRequest(stream, "spark"))
    nats.publish([f"{stream}.{token}" for token in "ab"])  # 3 is dropped
    two = made.latestOffset(one, made.getDefaultReadLimit())
    made.commit(one)
    with pytest.raises(DataLossError, match="of sequences 3 to 4 the stream has dropped"):
        made.partitions(one, two)


def test_a_commit_consumer_that_is_deleted_while_nothing_is_published_loses_nothing(nats: Nats) -> None:
    stream = with_another(nats)
    made = reader(nats, stream, {**CONSUMER, "maxOffsetsPerTrigger": "4"})
    start = made.initialOffset()
    nats.publish([f"{stream}.a"] * 10)
    one = made.latestOffset(start, made.getDefaultReadLimit())
    made.commit(one)
    nats.connection.request(ConsumerDeleteRequest(stream, "spark"))
    made = reader(nats, stream, CONSUMER)
    two = made.latestOffset(one, made.getDefaultReadLimit())
    assert sequences(made, one, two) == [5, 6, 7, 8, 9, 10]


def test_a_new_query_on_an_interest_stream_with_gaps_misses_nothing(nats: Nats) -> None:
    stream = with_another(nats)
    nats.publish([f"{stream}.a"] * 6)
    nats.connection.request(MessageDeleteRequest(stream, 4))
    made = reader(nats, stream, {**CONSUMER, "maxOffsetsPerTrigger": "1"})
    start = made.initialOffset()
    one = made.latestOffset(start, made.getDefaultReadLimit())
    again = reader(nats, stream, CONSUMER)
    assert sequences(again, one, again.latestOffset(one, again.getDefaultReadLimit())) == [2, 3, 5, 6]


def test_messages_of_a_repeated_first_micro_batch_are_still_retained(nats: Nats) -> None:
    """Spark asks again where the query starts, and now that is after the messages of the batch."""
    stream = nats.stream(**INTEREST)
    options = {**CONSUMER, "startingOffsets": "latest"}
    made = reader(nats, stream, options)
    start = made.initialOffset()
    nats.publish([f"{stream}.a"] * 3)
    end = made.latestOffset(start, made.getDefaultReadLimit())
    again = reader(nats, stream, options)
    assert sequences(again, again.initialOffset(), end) == [1, 2, 3]
    again.commit(end)
    assert kept(nats, stream) == []


def test_a_commit_consumer_that_is_deleted_before_the_first_micro_batch_is_repeated_is_reported(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark asks where the query starts, as if it were a new one, and the stream still starts at the same sequence."""
    stream = with_another(nats, filter_subject="*.b")
    made = reader(nats, stream, CONSUMER)
    start = made.initialOffset()
    nats.publish([f"{stream}.{token}" for token in "baa"])
    end = made.latestOffset(start, made.getDefaultReadLimit())
    nats.connection.request(ConsumerDeleteRequest(stream, "spark"))
    nats.publish([f"{stream}.{token}" for token in "ab"])  # 4 is dropped, like the two before it may be by now
    text = f"stream {stream}: consumer spark.*was deleted and created again; of sequences 1 to 5 the stream has dropped"
    for _ in range(2):  # even if the run that created the consumer again ends before anything is read
        again = reader(nats, stream, CONSUMER)
        begin = again.initialOffset()
        with pytest.raises(DataLossError, match=text):
            again.partitions(begin, end)
    again = reader(nats, stream, {**CONSUMER, "failOnDataLoss": "false"})
    assert 1 in sequences(again, again.initialOffset(), end)
    assert "of sequences 1 to 5 the stream has dropped" in caplog.text
    more = again.latestOffset(end, again.getDefaultReadLimit())
    again.commit(end)
    assert sequences(again, end, more) == [5]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_commit_consumer_that_is_deleted_before_the_tasks_of_a_micro_batch_read_is_reported(
    nats: Nats, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The stream starts at the same sequence, and the dropped messages cannot be counted."""
    stream = with_another(nats, filter_subject="*.b")
    made = reader(nats, stream, {**CONSUMER, "failOnDataLoss": fail, "minPartitions": "2"})
    start = made.initialOffset()
    nats.publish([f"{stream}.{token}" for token in "baaa"])
    end = made.latestOffset(start, made.getDefaultReadLimit())
    one, two = made.partitions(start, end)
    assert read_of(made, one) == [1, 2]
    nats.connection.request(ConsumerDeleteRequest(stream, "spark"))  # 2, 3 and 4 are dropped with it
    assert kept(nats, stream) == [1]
    text = f"stream {stream}: consumer spark.* was deleted while sequences 3 to 4 were read"
    if fail == "true":
        with pytest.raises(DataLossError, match=text):
            read_of(made, two)
        return
    assert read_of(made, two) == []
    assert re.search(text, caplog.text)


def test_a_run_that_ends_before_planning_leaves_a_commit_consumer_for_the_next(nats: Nats) -> None:
    stream = nats.stream(**INTEREST)
    reader(nats, stream, CONSUMER).initialOffset()
    nats.publish([f"{stream}.a"] * 3)
    made = reader(nats, stream, CONSUMER)
    start = made.initialOffset()
    end = made.latestOffset(start, made.getDefaultReadLimit())
    assert sequences(made, start, end) == [1, 2, 3]
    made.commit(end)
    assert kept(nats, stream) == []
