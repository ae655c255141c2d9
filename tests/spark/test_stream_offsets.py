"""Offsets of a streaming query: their format, where reading starts and continues, and lost messages."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from jetspark.errors import ConfigError
from jetspark.jetstream import RetentionPolicy, StreamConfig, StreamInfo, StreamState, Timestamp
from jetspark.spark.options.values import Position, PositionKind
from jetspark.spark.streams.offsets import (
    InitialSnapshot,
    StreamExtent,
    StreamOffset,
    decode_offsets,
    drops_single_messages,
    encode_offsets,
)
from jetspark.spark.streams.resume import Truncation, resume, start_offset

CREATED = 1_767_225_600_000_000_001
TEXT = "2026-01-01T00:00:00.000000001Z"


def extent(
    first: int, end: int, *, created_ns: int = CREATED, dropped_by: str = "", drops_single: bool = False
) -> StreamExtent:
    return StreamExtent("ORDERS", created_ns, first, end, 100, dropped_by, drops_single)


def test_an_offset_is_json_with_a_version_and_sorted_keys() -> None:
    offset = encode_offsets({"B": StreamOffset(CREATED, 7, start=4), "A": StreamOffset(CREATED, 3)})
    entry = '"A": {"created": "' + TEXT + '", "next": 3}, "B": {"created": "' + TEXT + '", "next": 7, "start": 4}'
    assert json.dumps(offset) == '{"streams": {' + entry + '}, "version": 1}'
    assert json.dumps(offset) == json.dumps(offset, sort_keys=True)


def test_an_offset_is_read_as_it_was_written() -> None:
    offsets = {"A": StreamOffset(CREATED, 3), "B": StreamOffset(CREATED + 1, 2**63, 2**62, CREATED + 2)}
    assert decode_offsets(json.loads(json.dumps(encode_offsets(offsets))), ["B", "A"]) == offsets


def test_offsets_of_earlier_versions_lack_the_time_and_later_ones_may_have_more_fields() -> None:
    entry: dict[str, object] = {"created": TEXT, "next": 7, "start": 4}
    (offset,) = decode_offsets({"streams": {"A": entry}, "version": 1}, ["A"]).values()
    assert offset == StreamOffset(CREATED, 7, 4)
    assert encode_offsets({"A": offset})["streams"] == {"A": entry}
    entry |= {"time": "2026-01-01T00:00:00.000000002Z", "unheard": "of"}
    (offset,) = decode_offsets({"streams": {"A": entry}, "version": 1}, ["A"]).values()
    assert offset == StreamOffset(CREATED, 7, 4, CREATED + 1)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, "has an offset of another source"),
        ({"partition-1": 5}, "has an offset of another source"),
        ({"version": 1, "streams": 3}, "has an offset of another source"),
        ({"version": 2, "streams": {}}, "newer jetspark.*version 2"),
        ({"version": 1, "streams": {"OTHER": {}}}, "is of stream OTHER, but option stream names ORDERS"),
        ({"version": 1, "streams": {"ORDERS": {}, "A": {}}}, "is of stream A, ORDERS, but option stream names ORDERS"),
        ({"version": 1, "streams": {"ORDERS": {"next": 3}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": "x"}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": "yesterday", "next": 3}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": 3, "start": "x"}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": 3, "time": "noon"}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": 3}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": float("inf")}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": float("nan")}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": 3.5}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": "3"}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": -3}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": 2**64}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": TEXT, "next": True}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": "9999-12-31T23:59:59-14:00", "next": 3}}}, "cannot be read"),
        ({"version": 1, "streams": {"ORDERS": {"created": [], "next": 3}}}, "cannot be read"),
    ],
)
def test_an_offset_of_another_query_is_refused(document: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        decode_offsets(document, ["ORDERS"])


@pytest.mark.parametrize(
    ("position", "found", "begins", "losses"),
    [
        (Position(PositionKind.EARLIEST), None, 5, []),
        (Position(PositionKind.LATEST), None, 11, []),
        (Position(PositionKind.SEQUENCE, 5), None, 5, []),
        (Position(PositionKind.SEQUENCE, 11), None, 11, []),
        (Position(PositionKind.SEQUENCE, 2), None, 5, [(2, 4)]),
        (Position(PositionKind.TIME, 1), 8, 8, []),
        (Position(PositionKind.TIME, 1), 1, 5, []),
        (Position(PositionKind.TIME, 1), 99, 11, []),
    ],
)
def test_a_new_query_starts_at_the_position_of_the_options(
    position: Position, found: int | None, begins: int, losses: list[tuple[int, int]]
) -> None:
    offset, lost = start_offset(extent(5, 11), position, found)
    assert offset == StreamOffset(CREATED, begins)
    assert [(each.first, each.last) for each in lost] == losses


def test_a_new_query_waits_for_a_sequence_past_the_end_of_the_stream() -> None:
    offset, lost = start_offset(extent(5, 11), Position(PositionKind.SEQUENCE, 14))
    assert (offset, lost) == (StreamOffset(CREATED, 14, ahead=True), [])
    assert decode_offsets(encode_offsets({"ORDERS": offset}), ["ORDERS"]) == {"ORDERS": offset}
    assert not offset.is_past_end(CREATED, 10)
    assert resume(offset, extent(5, 11)) == (offset, [])
    assert len(resume(offset, extent(16, 20))[1]) == 1  # what it waits for came, and was removed
    assert len(resume(offset, extent(5, 11, created_ns=CREATED + 1))[1]) == 1


@pytest.mark.parametrize("place", [5, 8, 11])
def test_nothing_is_lost_if_the_stream_has_the_next_sequence(place: int) -> None:
    offset = StreamOffset(CREATED, place)
    assert resume(offset, extent(5, 11)) == (offset, [])


def test_lost_messages_are_named_with_the_limits_that_may_have_removed_them() -> None:
    offset, (loss,) = resume(StreamOffset(CREATED, 2), extent(5, 11))
    assert offset == StreamOffset(CREATED, 5)
    assert str(loss) == (
        "stream ORDERS: sequences 2 to 4 are gone: the stream starts at 5 now; they were purged or deleted"
    )
    _, (loss,) = resume(StreamOffset(CREATED, 4), extent(5, 11, dropped_by="max_age 1h0m0s"))
    assert str(loss).endswith("they were dropped by its limits (max_age 1h0m0s), purged or deleted")
    assert "sequence 4 is gone" in str(loss)


def test_a_stream_that_drops_single_messages_loses_nothing_at_its_start() -> None:
    assert resume(StreamOffset(CREATED, 2), extent(5, 11, drops_single=True)) == (StreamOffset(CREATED, 5), [])


def test_a_recreated_stream_is_named_with_both_times() -> None:
    offset, (loss,) = resume(StreamOffset(CREATED, 8), extent(1, 3, created_ns=CREATED + 10**9))
    assert offset == StreamOffset(CREATED + 10**9, 1)
    assert f"is at sequence 8 of the stream that was created at {TEXT}" in str(loss)
    assert "created at 2026-01-01T00:00:01.000000001Z, and is read from sequence 1" in str(loss)


def test_a_checkpoint_ahead_of_the_stream_is_moved_to_its_end() -> None:
    offset, (loss,) = resume(StreamOffset(CREATED, 20), extent(5, 11), Truncation(11, None))
    assert offset == StreamOffset(CREATED, 11)
    assert (loss.first, loss.last) == (11, 19)
    assert "the checkpoint is ahead of the stream, which ends at 10: an older state was restored" in str(loss)


def test_a_stream_that_was_filled_again_is_named_with_the_times_of_both_messages() -> None:
    offset, (loss,) = resume(StreamOffset(CREATED, 20, 12, CREATED), extent(5, 31), Truncation(16, CREATED + 10**9))
    assert offset == StreamOffset(CREATED, 16)
    assert str(loss) == (
        "stream ORDERS: sequences 16 to 19 are gone: an older state of the stream was restored and filled again: "
        f"the message 19 that was read was stored at {TEXT}, the present one at "
        "2026-01-01T00:00:01.000000001Z; new messages with these sequences are read"
    )


@pytest.mark.parametrize(
    ("config", "subjects", "expected"),
    [
        ({}, (), False),
        ({"max_msgs_per_subject": -1}, (), False),
        ({"max_msgs_per_subject": 1}, (), True),
        ({"allow_msg_ttl": True}, (), True),
        ({"retention": RetentionPolicy.WORK_QUEUE}, (), False),
        ({"retention": RetentionPolicy.WORK_QUEUE}, ("a.>",), True),
        ({"retention": RetentionPolicy.INTEREST}, ("a.>",), True),
        ({"retention": RetentionPolicy.LIMITS}, ("a.>",), False),
    ],
)
def test_streams_that_drop_single_messages_are_recognised(
    config: dict[str, object], subjects: tuple[str, ...], expected: bool
) -> None:
    assert drops_single_messages(StreamConfig(name="S", **config), subjects) is expected  # type: ignore[arg-type]  # by name


def test_the_extent_of_a_stream_is_read_from_the_server() -> None:
    config = StreamConfig(name="ORDERS", max_age=timedelta(hours=1), max_msgs=7, max_bytes=-1)
    state = StreamState(
        messages=4,
        bytes=402,
        first_sequence=3,
        first_ts=Timestamp.from_ns(CREATED + 5),
        last_sequence=9,
        last_ts=Timestamp.from_ns(CREATED + 7),
    )
    info = StreamInfo(config, Timestamp.from_ns(CREATED), state)
    assert StreamExtent.of(info, ()) == StreamExtent(
        "ORDERS",
        CREATED,
        3,
        10,
        100,
        "max_age 1h0m0s, max_msgs 7",
        first_ns=CREATED + 5,
        last_ns=CREATED + 7,
        stored_bytes=402,
    )
    empty = StreamInfo(StreamConfig(name="ORDERS"), Timestamp.from_ns(CREATED))
    assert StreamExtent.of(empty, ()) == StreamExtent("ORDERS", CREATED, 1, 1, 1)
    purged = StreamInfo(
        StreamConfig(name="ORDERS"), Timestamp.from_ns(CREATED), StreamState(first_sequence=8, last_sequence=7)
    )
    assert StreamExtent.of(purged, ()) == StreamExtent("ORDERS", CREATED, 8, 8, 1)


def test_an_offset_keeps_the_snapshot_of_its_bucket() -> None:
    offset = StreamOffset(CREATED, 7, start=4, ahead=True, snapshot=InitialSnapshot(10, 5))
    document = encode_offsets({"KV_B": offset})
    assert json.dumps(document) == json.dumps(document, sort_keys=True)
    assert decode_offsets(document, ["KV_B"]) == {"KV_B": offset}
    assert (offset.in_snapshot, offset.at_whole_snapshot) == (True, True)
    after = StreamOffset(CREATED, 11, snapshot=InitialSnapshot(10, 5))
    assert (after.in_snapshot, after.at_whole_snapshot) == (False, False)
    assert not StreamOffset(CREATED, 7, snapshot=InitialSnapshot(10, 1)).at_whole_snapshot
    for wrong in ({"snapshot": -1, "history": 1}, {"snapshot": 1}, {"snapshot": "1", "history": 1}):
        entry = {"created": TEXT, "next": 7, **wrong}
        with pytest.raises(ConfigError, match="cannot be read"):
            decode_offsets({"streams": {"KV_B": entry}, "version": 1}, ["KV_B"])


def test_a_snapshot_ends_where_its_bucket_lost_its_end() -> None:
    offset = StreamOffset(CREATED, 7, snapshot=InitialSnapshot(10, 1))
    at, _ = resume(offset, extent(9, 20, drops_single=True))
    assert (at.next, at.snapshot) == (9, InitialSnapshot(10, 1))
    at, _ = resume(offset, extent(1, 5), Truncation(5, None))
    assert (at.next, at.snapshot, at.in_snapshot) == (5, InitialSnapshot(4, 1), False)
    at, losses = resume(offset, extent(1, 5, created_ns=CREATED + 1))
    assert (at.next, at.snapshot, at.in_snapshot, len(losses)) == (1, InitialSnapshot(0, 1), False, 1)
