"""Positions become sequences, and sequences become partitions: nothing twice, nothing left out."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import ConfigError
from jetspark.jetstream import StreamState
from jetspark.spark.options.values import Position, PositionKind
from jetspark.spark.read.partitions import MAX_PARTITIONS, StreamPartition, split_ranges
from jetspark.spark.streams.ranges import Bounds, Loss, StreamRange, resolve_range

EARLIEST, LATEST = Position(PositionKind.EARLIEST), Position(PositionKind.LATEST)
STATE = StreamState(first_sequence=10, last_sequence=19)

numbers = st.integers(1, 30)
starts = st.one_of(st.just(EARLIEST), numbers.map(lambda n: Position(PositionKind.SEQUENCE, n)))
ends = st.one_of(st.just(LATEST), numbers.map(lambda n: Position(PositionKind.SEQUENCE, n)))
bounds = st.builds(Bounds, st.none() | numbers, st.none() | numbers)


def at(sequence: int) -> Position:
    return Position(PositionKind.SEQUENCE, sequence)


def resolve(
    start: Position, end: Position, filters: Bounds | None = None, state: StreamState = STATE
) -> tuple[tuple[int, int], list[tuple[int | None, int | None]]]:
    each, losses = resolve_range("S", state, start, end, filters or Bounds(), lambda ns: ns)
    return (each.start, each.end), [(loss.first, loss.last) for loss in losses]


@pytest.mark.parametrize(
    ("start", "end", "expected", "lost"),
    [
        (EARLIEST, LATEST, (10, 20), []),
        (at(10), at(20), (10, 20), []),
        (at(12), at(15), (12, 15), []),
        (at(20), LATEST, (20, 20), []),
        (at(5), LATEST, (10, 20), [(5, 9)]),
        (at(5), at(8), (10, 10), [(5, 7)]),
        (EARLIEST, at(8), (10, 10), [(1, 7)]),
        (EARLIEST, at(25), (10, 20), [(20, 24)]),
        (at(25), LATEST, (20, 20), []),
        (at(23), at(26), (20, 20), [(23, 25)]),
        (at(5), at(25), (10, 20), [(5, 9), (20, 24)]),
        (Position(PositionKind.TIME, 12), Position(PositionKind.TIME, 14), (12, 14), []),
        (Position(PositionKind.TIME, 20), LATEST, (20, 20), []),
        (Position(PositionKind.TIME, 15), at(12), (15, 15), []),
    ],
)
def test_positions_become_sequences_and_missing_ones_are_reported(
    start: Position, end: Position, expected: tuple[int, int], lost: list[tuple[int, int]]
) -> None:
    assert resolve(start, end) == (expected, lost)


def test_a_start_time_without_a_message_is_an_error_if_the_strategy_says_so() -> None:
    for last, state in ((19, STATE), (0, StreamState())):
        with pytest.raises(ConfigError, match=r"startingOffsetsByTimestampStrategy = error: stream S has no message"):
            resolve(Position(PositionKind.TIME, last + 1, must_exist=True), LATEST, state=state)
    assert resolve(Position(PositionKind.TIME, 19, must_exist=True), LATEST) == ((19, 20), [])
    assert resolve(EARLIEST, Position(PositionKind.TIME, 20)) == ((10, 20), [])


def test_an_empty_stream_has_nothing_to_read_and_nothing_to_lose() -> None:
    assert resolve(EARLIEST, LATEST, state=StreamState()) == ((1, 1), [])
    assert resolve(at(1), LATEST, state=StreamState()) == ((1, 1), [])
    assert resolve(EARLIEST, LATEST, state=StreamState(first_sequence=8, last_sequence=7)) == ((8, 8), [])
    assert resolve(at(3), LATEST, state=StreamState(first_sequence=8, last_sequence=7)) == ((8, 8), [(3, 7)])


def test_filters_narrow_a_range_and_do_not_count_as_requests_for_missing_messages() -> None:
    assert resolve(EARLIEST, LATEST, Bounds(5, 15)) == ((10, 15), [])
    assert resolve(EARLIEST, LATEST, Bounds(1, 5)) == ((10, 10), [])
    assert resolve(EARLIEST, LATEST, Bounds(30, None)) == ((20, 20), [])
    assert resolve(at(5), LATEST, Bounds(12, None)) == ((12, 20), [])
    assert resolve(at(5), LATEST, Bounds(7, None)) == ((10, 20), [(7, 9)])
    assert resolve(EARLIEST, at(25), Bounds(None, 18)) == ((10, 18), [])


@given(starts, ends, bounds)
def test_read_and_lost_sequences_add_up_to_the_request(start: Position, end: Position, filters: Bounds) -> None:
    (first, stop), lost = resolve(start, end, filters)
    low = max(start.value or 10, filters.low or 1)
    high = min(end.value or 20, 99 if filters.high is None else filters.high)
    assert set(range(first, stop)) == set(range(low, high)) & set(range(10, 20))
    for gone_from, gone_to in lost:
        assert gone_from is not None
        assert gone_to is not None
        assert not set(range(gone_from, gone_to + 1)) & set(range(10, 20))
    if start is not EARLIEST and end is not LATEST:
        gone = {n for a, b in lost if a and b for n in range(a, b + 1)}
        assert gone == set(range(low, high)) - set(range(10, 20))


def test_losses_say_which_sequences_are_gone_and_why() -> None:
    assert str(Loss("S", 1, 4, "it starts at 5")) == "stream S: sequences 1 to 4 are gone: it starts at 5"
    assert str(Loss("S", 4, 4, "it starts at 5")) == "stream S: sequence 4 is gone: it starts at 5"


def split(*sizes: int, least: int | None = None, most: int | None = None, cores: int = 2) -> list[StreamRange]:
    ranges = [StreamRange(f"S{number}", 100, 100 + size) for number, size in enumerate(sizes)]
    return split_ranges(ranges, min_partitions=least, max_records=most, cores=cores)


def counts(parts: list[StreamRange]) -> list[int]:
    names = [part.stream for part in parts]
    return [names.count(name) for name in dict.fromkeys(names)]


def test_by_default_there_are_as_many_partitions_as_cores_and_none_is_small() -> None:
    assert len(split(1_000_000, cores=4)) == 4
    assert len(split(120_000, cores=4)) == 2
    assert len(split(99_999, cores=4)) == 1
    assert len(split(1, cores=4)) == 1
    assert counts(split(10, 10, 10)) == [1, 1, 1]


def test_min_partitions_are_distributed_in_proportion() -> None:
    assert counts(split(100, 300, least=8)) == [2, 6]
    assert counts(split(1000, 1, least=10)) == [9, 1]
    assert counts(split(5, least=100)) == [5]
    assert counts(split(100, 100, 100, least=1)) == [1, 1, 1]


def test_max_records_limits_every_partition() -> None:
    parts = split(1000, most=300)
    assert [part.size for part in parts] == [250, 250, 250, 250]
    assert len(split(1000, least=10, most=300)) == 10


def test_too_many_partitions_are_refused_with_the_options() -> None:
    with pytest.raises(ConfigError, match="maxRecordsPerPartition make 1000000 partitions"):
        split(1_000_000, most=1)
    assert len(split(MAX_PARTITIONS, most=1)) == MAX_PARTITIONS


def test_an_empty_range_has_no_partition() -> None:
    assert split() == []
    assert split(0, 0, least=5) == []


@given(
    st.lists(st.integers(0, 1000), max_size=5),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 500),
    st.integers(1, 8),
)
def test_partitions_cover_the_ranges_exactly(sizes: list[int], least: int | None, most: int | None, cores: int) -> None:
    parts = split(*sizes, least=least, most=most, cores=cores)
    covered = [(part.stream, n) for part in parts for n in range(part.start, part.end)]
    assert covered == [(f"S{number}", 100 + n) for number, size in enumerate(sizes) for n in range(size)]
    assert all(part.size > 0 for part in parts)
    if least is not None:
        assert len(parts) >= min(least, sum(sizes))
    if most is not None:
        assert all(part.size <= most for part in parts)


@given(st.integers(1, 2**60), st.integers(1, 64))
def test_partitions_of_one_stream_are_even(size: int, least: int) -> None:
    sizes = [part.size for part in split(size, least=least)]
    assert max(sizes) - min(sizes) <= 1


def test_a_partition_can_be_sent_to_its_task() -> None:
    part = StreamPartition("S", 5, 1, 9)
    assert pickle.loads(pickle.dumps(part)) == part
