"""Options of a streaming read: defaults, and conflicts, which name both options."""

from __future__ import annotations

import pytest

from jetspark.errors import ConfigError
from jetspark.spark.options.batch import read_options
from jetspark.spark.options.stream_read import CommitMode, StreamReadOptions, TriggerLimits, stream_read_options
from jetspark.spark.options.values import Position, PositionKind


def options(**given: str) -> StreamReadOptions:
    return stream_read_options({"stream": "ORDERS", **given})


def test_a_streaming_read_starts_at_the_latest_message_by_default() -> None:
    read = options()
    assert read.read.starts == {"ORDERS": Position(PositionKind.LATEST)}
    assert read.limits == TriggerLimits()
    assert read.poll_interval == 1.0
    assert read.release.mode is CommitMode.NONE
    assert options(startingOffsets="earliest").read.starts == {"ORDERS": Position(PositionKind.EARLIEST)}
    assert options(startingOffsets='{"ORDERS": -1}').read.starts == {"ORDERS": Position(PositionKind.LATEST)}
    assert options(startingTimestamp="7").read.starts == {"ORDERS": Position(PositionKind.TIME, 7_000_000)}
    assert options(commitMode="purge").read.starts == {"ORDERS": Position(PositionKind.EARLIEST)}


def test_limits_are_parsed() -> None:
    read = options(
        maxOffsetsPerTrigger="5",
        MAXBYTESPERTRIGGER="1k",
        minOffsetsPerTrigger="5",
        maxTriggerDelay="2s",
        pollInterval="3s",
    )
    assert read.limits == TriggerLimits(max_offsets=5, max_bytes=1024, min_offsets=5, max_delay=2.0)
    assert read.poll_interval == 3.0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is for batch reads"),
        ({"endingTimestamp": "7"}, "option endingTimestamp is for batch reads"),
        ({"endingOffsetsByTimestamp": '{"ORDERS": 7}'}, "option endingOffsetsByTimestamp is for batch reads"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            r"minOffsetsPerTrigger \(5\) and maxOffsetsPerTrigger \(4\) contradict",
        ),
        ({"maxTriggerDelay": "1s"}, "maxTriggerDelay needs option minOffsetsPerTrigger"),
        ({"commitMode": "consumer"}, "commitMode = consumer needs option commitConsumer"),
        ({"commitConsumer": "a"}, "commitConsumer and commitMode = none contradict"),
        ({"commitConsumer": "a", "commitMode": "purge"}, "commitConsumer and commitMode = purge contradict"),
        ({"allowPurge": "true"}, "allowPurge and commitMode = none contradict"),
        ({"commitMode": "purge", "startingOffsets": "latest"}, "commitMode = purge and startingOffsets contradict"),
        (
            {"commitMode": "purge", "startingOffsets": '{"ORDERS": 5}'},
            "commitMode = purge and startingOffsets contradict",
        ),
        ({"commitMode": "purge", "startingTimestamp": "7"}, "commitMode = purge and startingTimestamp contradict"),
        ({"commitMode": "ack"}, "option commitMode is 'ack': it must be none or consumer or purge"),
        ({"commitMode": "consumer", "commitConsumer": "a.b"}, "option commitConsumer is 'a.b'"),
        ({"maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger"),
    ],
)
def test_conflicting_options_are_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        options(**given)


def test_a_purge_can_start_at_the_earliest_message() -> None:
    assert options(commitMode="purge", startingOffsets="earliest").release.mode is CommitMode.PURGE


def test_options_of_a_streaming_read_are_allowed_in_a_batch_read() -> None:
    read = read_options({"stream": "ORDERS", "maxOffsetsPerTrigger": "5", "commitMode": "purge"})
    assert read.starts == {"ORDERS": Position(PositionKind.EARLIEST)}
