"""The size of a micro-batch, when it is due, and how often an idle server is polled."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)

from jetspark.spark.options.stream_read import TriggerLimits
from jetspark.spark.read.admission import (
    Backlog,
    IdlePoll,
    TriggerPacer,
    Turns,
    allocate,
    default_read_limit,
    effective_limits,
)


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (TriggerLimits(), ReadAllAvailable()),
        (TriggerLimits(max_offsets=5, max_bytes=7, min_offsets=2), ReadMaxRows(5)),
        (TriggerLimits(max_bytes=7, min_offsets=2), ReadMaxBytes(7)),
        (TriggerLimits(min_offsets=2), ReadMinRows(2)),
    ],
)
def test_the_limit_given_to_spark_is_returned_unchanged(limits: TriggerLimits, limit: ReadLimit) -> None:
    assert default_read_limit(limits) == limit
    assert effective_limits(limits, limit) == limits


def test_the_limit_of_spark_takes_precedence_over_the_option() -> None:
    limits = TriggerLimits(max_offsets=5, max_bytes=7, min_offsets=2)
    assert effective_limits(limits, ReadMaxRows(3)).max_offsets == 3
    assert effective_limits(limits, ReadMaxBytes(3)).max_bytes == 3
    assert effective_limits(limits, ReadMinRows(3)).min_offsets == 3
    assert effective_limits(limits, ReadMaxFiles(1)) == limits


def test_no_limit_applies_if_spark_asks_for_everything() -> None:
    assert (
        effective_limits(TriggerLimits(max_offsets=5, max_bytes=7, min_offsets=2), ReadAllAvailable())
        == TriggerLimits()
    )


@pytest.mark.parametrize(
    ("sizes", "limits", "allocated"),
    [
        ([10, 20], TriggerLimits(), [10, 20]),
        ([0, 0], TriggerLimits(max_offsets=5), [0, 0]),
        ([], TriggerLimits(max_offsets=5), []),
        ([10], TriggerLimits(max_offsets=4), [4]),
        ([10, 30], TriggerLimits(max_offsets=8), [4, 4]),
        ([3, 30], TriggerLimits(max_offsets=8), [3, 5]),
        ([30, 3], TriggerLimits(max_offsets=8), [5, 3]),
        ([9, 9, 2], TriggerLimits(max_offsets=9), [3, 4, 2]),
        ([10, 30], TriggerLimits(max_offsets=100), [10, 30]),
        ([1, 1_000_000], TriggerLimits(max_offsets=10), [1, 9]),
        ([5, 5, 5], TriggerLimits(max_offsets=1), [1, 0, 0]),
        ([0, 5, 5], TriggerLimits(max_offsets=1), [0, 1, 0]),
        ([5, 5], TriggerLimits(max_bytes=50), [1, 0]),
        ([10, 0], TriggerLimits(max_offsets=5), [5, 0]),
        ([1, 1, 4], TriggerLimits(max_offsets=3), [1, 1, 1]),
        ([100], TriggerLimits(max_bytes=1000), [10]),
        ([100], TriggerLimits(max_bytes=50), [1]),
        ([100], TriggerLimits(max_bytes=10_000), [100]),
        ([100], TriggerLimits(max_offsets=20, max_bytes=1000), [10]),
        ([100], TriggerLimits(max_offsets=5, max_bytes=1000), [5]),
    ],
)
def test_streams_share_the_granted_limit(sizes: list[int], limits: TriggerLimits, allocated: list[int]) -> None:
    assert allocate([Backlog(size, 100) for size in sizes], limits) == allocated


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), max_size=6),
    st.one_of(st.none(), st.integers(1, 10**6)),
    st.one_of(st.none(), st.integers(1, 10**9)),
)
def test_a_micro_batch_never_exceeds_its_limits(
    streams: list[tuple[int, int]], most: int | None, most_bytes: int | None
) -> None:
    backlogs = [Backlog(*each) for each in streams]
    allocated = allocate(backlogs, TriggerLimits(max_offsets=most, max_bytes=most_bytes))
    assert all(0 <= count <= each.size for each, count in zip(backlogs, allocated, strict=True))
    assert any(allocated) == any(each.size for each in backlogs)
    if most is not None:
        assert sum(allocated) <= most
    if most_bytes is not None and sum(allocated) > 1:  # one message is always read, however large it is
        assert sum(count * each.message_bytes for each, count in zip(backlogs, allocated, strict=True)) <= most_bytes


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
    st.integers(1, 10**6),
)
def test_a_limit_is_used_up_in_equal_shares(sizes: list[int], most: int) -> None:
    allocated = allocate([Backlog(size, 100) for size in sizes], TriggerLimits(max_offsets=most))
    assert sum(allocated) == min(sum(sizes), most)
    assert all(count == size or count >= max(allocated) - 1 for count, size in zip(allocated, sizes, strict=True))


@given(
    st.lists(st.integers(1, 10**9), max_size=6),
    st.integers(0, 6),
    st.integers(1, 100),
    st.integers(0, 10**6),
)
def test_a_message_of_a_slow_stream_is_in_the_next_micro_batch_whatever_the_others_have(
    others: list[int], place: int, spare: int, more_bytes: int
) -> None:
    sizes = [*others[:place], 1, *others[place:]]
    slow = min(place, len(others))
    most = len(sizes) - 1 + spare
    limits = TriggerLimits(max_offsets=most, max_bytes=100 * most + more_bytes)
    assert allocate([Backlog(size, 100) for size in sizes], limits)[slow] == 1


@pytest.mark.parametrize(("size", "allocated"), [(1000, [5, 995]), (10**6, [9, 991])])
def test_a_stream_of_small_messages_uses_what_one_of_large_messages_cannot(size: int, allocated: list[int]) -> None:
    large, small = Backlog(size, 1 << 20), Backlog(10**6, 1)
    assert allocate([large, small], TriggerLimits(max_offsets=1000, max_bytes=10 << 20)) == allocated


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 20))
def test_streams_take_turns_if_a_micro_batch_has_no_room_for_all(count: int, most: int, batches: int) -> None:
    names = [f"S{at}" for at in range(count)]
    turns = Turns([*names, "QUIET"])
    waits = dict.fromkeys(names, 0)

    def run(quiet: int) -> int:
        sizes = {**dict.fromkeys(names, 10**6), "QUIET": quiet}
        order = list(turns.order)
        allocated = dict(
            zip(
                order,
                allocate([Backlog(sizes[name], 100) for name in order], TriggerLimits(max_offsets=most)),
                strict=True,
            )
        )
        turns.mark_batch([name for name in order if allocated[name]])
        for name in names:
            waits[name] = 0 if allocated[name] else waits[name] + 1
        return allocated["QUIET"]

    for _ in range(batches):
        run(quiet=0)
        assert max(waits.values()) < math.ceil(count / most)
    served_since = batches * most >= count
    assert run(quiet=1) == 1 or not served_since


def test_a_micro_batch_waits_for_enough_messages_or_for_its_time() -> None:
    pacer, limits = TriggerPacer(), TriggerLimits(min_offsets=10, max_delay=60.0)
    assert not pacer.is_due(0, limits, 0.0)
    assert pacer.is_due(1, limits, 0.0)  # the first one
    pacer.mark_batch(0.0)
    assert not pacer.is_due(9, limits, 59.9)
    assert pacer.is_due(10, limits, 1.0)
    assert pacer.is_due(1, limits, 60.0)
    assert not pacer.is_due(0, limits, 60.0)
    assert pacer.is_due(1, TriggerLimits(), 0.1)


def poll_times(poll: IdlePoll, until: float, pause: float = 0.011) -> list[float]:
    """Return when an idle server is polled by a Spark that returns after a pause."""
    now, asked = 0.0, []
    while now < until:
        now += poll.delay(now)
        asked.append(now)
        poll.mark_poll(now, found=False)
        now += pause
    return asked


def test_an_idle_server_is_polled_less_and_less_often() -> None:
    asked = poll_times(IdlePoll(1.0), 60.0)
    between = [after - before for before, after in itertools.pairwise(asked)]
    assert between[0] == pytest.approx(0.011)
    assert all(after > before - 1e-6 for before, after in itertools.pairwise(between))
    assert max(between) == pytest.approx(1.0)
    assert sum(each < 1.0 for each in asked) < 25
    assert sum(each < 10.0 for each in asked) < 40
    assert sum(each >= 50.0 for each in asked) in {9, 10, 11}
    assert all(gap <= max(0.012, 0.2 * at) + 1e-6 for at, gap in zip(asked, between, strict=False))


def test_new_messages_are_followed_by_a_poll_at_once() -> None:
    poll = IdlePoll(1.0)
    last = poll_times(poll, 30.0)[-1]
    assert poll.delay(last) == pytest.approx(1.0)
    assert poll.delay(last + 0.09) == pytest.approx(0.91)
    poll.mark_poll(last, found=True)
    assert poll.delay(last) == 0.0
    poll.mark_poll(last, found=False)
    assert poll.delay(last) == pytest.approx(0.01)


def test_spark_is_not_delayed_after_a_long_pause() -> None:
    poll = IdlePoll(1.0)
    last = poll_times(poll, 30.0)[-1]
    assert poll.delay(last + 0.11) == 0.0
    assert len(poll_times(IdlePoll(1.0), 10.0, pause=0.2)) == pytest.approx(
        50, abs=1
    )  # a trigger with its own interval


def turn(polls: list[IdlePoll], now: float, due: float, length: float = 0.1) -> tuple[float, float | None]:
    """Poll all sources of a query in turn, like Spark. A message that is due comes from the first source.

    Returns
    -------
    tuple[float, float | None]
        When Spark polls again: after 10 ms, or after the micro-batch; and when the message was found, or None.
    """
    found = None
    for poll in polls:
        now += 0.002 + poll.delay(now + 0.002)
        if poll is polls[0] and due <= now:
            found = now
        poll.mark_poll(now, found=found is not None and poll is polls[0])
    if found is None:
        return now + 0.01, None
    for poll in polls:  # Spark commits the last micro-batch to all sources, and then this one runs
        poll.mark_batch()
    return now + length, found


@pytest.mark.parametrize("quiet", [1, 3])
def test_idle_sources_of_a_query_do_not_delay_a_busy_one(quiet: int) -> None:
    polls = [IdlePoll(1.0) for _ in range(1 + quiet)]
    now, due = 0.0, 0.3
    waits: list[float] = []
    while now < 60.0:
        now, found = turn(polls, now, due)
        while found is not None and due <= found:
            waits.append(found - due)
            due += 0.3
    assert sum(waits) / len(waits) < 0.1
    assert max(waits) < 0.2
    silent, late = now, 0
    while now < silent + 60.0:
        now, _ = turn(polls, now, math.inf)
        late += now > silent + 10.0
    assert 45 <= late <= 51  # if all are idle, all are polled once a second again


@pytest.mark.parametrize("quiet", [0, 1, 3])
@pytest.mark.parametrize("length", [0.1, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
@pytest.mark.parametrize("gap", [0.02, 0.05, 0.09])
def test_the_duration_of_a_micro_batch_does_not_count_as_idle_time(gap: float, length: float, quiet: int) -> None:
    """A message right after a long micro-batch is found as soon as a message after a short one."""
    polls = [IdlePoll(1.0) for _ in range(1 + quiet)]
    now, due = 0.0, 0.3
    waits: list[float] = []
    while len(waits) < 20:
        now, found = turn(polls, now, due, length)
        if found is not None:
            waits.append(found - due)
            due = now + gap  # `now` is when the micro-batch has ended
    assert max(waits[1:]) < 0.03


def test_an_interval_below_the_first_wait_is_kept() -> None:
    poll = IdlePoll(0.005)
    poll.mark_poll(0.0, found=False)
    assert poll.delay(0.0) == pytest.approx(0.005)
