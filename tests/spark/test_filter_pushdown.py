"""Which filters of Spark go to the server, in which form, and which stay with Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from jetspark.spark.read.filter_pushdown import MAX_SUBJECTS, PushedFilters, push_filters

ALL = frozenset({"subject", "data", "headers", "stream", "sequence", "timestamp", "timestamp_ns"})
SUBJECT, STREAM, SEQUENCE, TIMESTAMP, NS = ("subject",), ("stream",), ("sequence",), ("timestamp",), ("timestamp_ns",)
MICRO = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
MICRO_NS = 1_767_225_600_123_456_000


def push(
    *filters: Filter, subjects: tuple[str, ...] = (), natural: frozenset[str] = ALL
) -> tuple[PushedFilters, list[int]]:
    """Return the pushed filters, and the numbers of the filters that stay with Spark."""
    pushed, rest = push_filters(list(filters), subjects, natural)
    assert all(any(each is given for given in filters) for each in rest)
    return pushed, [number for number, each in enumerate(filters) if any(each is kept for kept in rest)]


@pytest.mark.parametrize(
    ("part", "subjects"),
    [
        (EqualTo(SUBJECT, "a.b"), ("a.b",)),
        (EqualNullSafe(SUBJECT, "a.b"), ("a.b",)),
        (In(SUBJECT, ("a.b", "c", None)), ("a.b", "c")),
        (StringStartsWith(SUBJECT, "a."), ("a.>",)),
        (StringStartsWith(SUBJECT, "a.b."), ("a.b.>",)),
        (EqualTo(("SUBJECT",), "a.b*"), ("a.b*",)),
    ],
)
def test_subject_conditions_are_evaluated_by_the_server_alone(part: Filter, subjects: tuple[str, ...]) -> None:
    pushed, kept = push(part)
    assert (pushed.subjects, kept, pushed.empty) == (subjects, [], False)


def test_a_prefix_within_a_token_is_evaluated_partly_by_the_server() -> None:
    pushed, kept = push(StringStartsWith(SUBJECT, "a.b"))
    assert (pushed.subjects, kept) == (("a.>",), [0])


@pytest.mark.parametrize(
    "part",
    [
        EqualTo(SUBJECT, "a.*"),
        EqualTo(SUBJECT, "a.>"),
        EqualTo(SUBJECT, ">"),
        In(SUBJECT, ("a", "b.*")),
        StringStartsWith(SUBJECT, "a.*."),
        StringStartsWith(SUBJECT, ">."),
        EqualTo(SUBJECT, "a b"),
        EqualTo(SUBJECT, "a..b"),
        EqualTo(SUBJECT, ""),
        StringStartsWith(SUBJECT, "a"),
        StringStartsWith(SUBJECT, ""),
        StringStartsWith(SUBJECT, "."),
        StringEndsWith(SUBJECT, ".a"),
        StringContains(SUBJECT, ".a."),
        Not(EqualTo(SUBJECT, "a")),
        GreaterThan(SUBJECT, "a"),
        EqualTo(("subject", "x"), "a"),
        EqualTo(("data",), b"x"),
        IsNotNull(("headers",)),
        IsNull(("headers",)),
        Not(IsNull(SUBJECT)),
        In(SUBJECT, tuple(f"s.{n}" for n in range(MAX_SUBJECTS + 1))),
    ],
)
def test_conditions_that_the_server_would_interpret_differently_stay_with_spark(part: Filter) -> None:
    pushed, kept = push(part, subjects=("x.>",))
    assert (pushed, kept) == (PushedFilters(("x.>",)), [0])


def test_filters_and_the_option_are_combined() -> None:
    assert push(StringStartsWith(SUBJECT, "a.b."), subjects=("a.*.c",))[0].subjects == ("a.b.c",)
    assert push(EqualTo(SUBJECT, "a.b"), subjects=("a.>", "b"))[0].subjects == ("a.b",)
    assert push(In(SUBJECT, ("a.x", "b", "c")), subjects=("a.>", "b"))[0].subjects == ("a.x", "b")
    assert push(StringStartsWith(SUBJECT, "a."), subjects=("*.x", "a.*"))[0].subjects == ("a.*",)
    assert push(StringStartsWith(SUBJECT, "a."), StringStartsWith(SUBJECT, "a.b."))[0].subjects == ("a.b.>",)


@pytest.mark.parametrize(
    "parts",
    [
        [EqualTo(SUBJECT, "a"), EqualTo(SUBJECT, "b")],
        [EqualTo(SUBJECT, "out.side")],
        [In(SUBJECT, (None,))],
        [EqualTo(SUBJECT, None)],
        [IsNull(SEQUENCE)],
        [GreaterThan(SEQUENCE, 5), LessThan(SEQUENCE, 6)],
        [EqualTo(SEQUENCE, 5), EqualTo(SEQUENCE, 6)],
        [GreaterThanOrEqual(TIMESTAMP, MICRO), LessThan(TIMESTAMP, MICRO)],
        [GreaterThanOrEqual(NS, 5), LessThan(NS, 5)],
        [EqualTo(STREAM, "A"), EqualTo(STREAM, "B")],
    ],
)
def test_a_contradiction_reads_nothing(parts: list[Filter]) -> None:
    assert push(*parts, subjects=("in.>",))[0].empty or push(*parts)[0].empty


@pytest.mark.parametrize(
    ("part", "low", "high"),
    [
        (GreaterThanOrEqual(SEQUENCE, 5), 5, None),
        (GreaterThan(SEQUENCE, 5), 6, None),
        (LessThan(SEQUENCE, 5), None, 5),
        (LessThanOrEqual(SEQUENCE, 5), None, 6),
        (EqualTo(SEQUENCE, 5), 5, 6),
        (EqualNullSafe(SEQUENCE, 5), 5, 6),
        (In(SEQUENCE, (7, 5, 6)), 5, 8),
    ],
)
def test_sequences_become_bounds(part: Filter, low: int | None, high: int | None) -> None:
    pushed, kept = push(part)
    assert (pushed.sequence.low, pushed.sequence.high, kept) == (low, high, [])


def test_sequences_with_holes_are_bounds_in_part() -> None:
    pushed, kept = push(In(SEQUENCE, (9, 5)))
    assert (pushed.sequence.low, pushed.sequence.high, kept) == (5, 10, [0])


@pytest.mark.parametrize(
    ("part", "low", "high"),
    [
        (GreaterThanOrEqual(TIMESTAMP, MICRO), MICRO_NS, None),
        (GreaterThan(TIMESTAMP, MICRO), MICRO_NS + 1000, None),
        (LessThan(TIMESTAMP, MICRO), None, MICRO_NS),
        (LessThanOrEqual(TIMESTAMP, MICRO), None, MICRO_NS + 1000),
        (EqualTo(TIMESTAMP, MICRO), MICRO_NS, MICRO_NS + 1000),
        (In(TIMESTAMP, (MICRO, MICRO + timedelta(seconds=1))), MICRO_NS, MICRO_NS + 1_000_001_000),
        (GreaterThan(TIMESTAMP, MICRO.astimezone(timezone(timedelta(hours=-7)))), MICRO_NS + 1000, None),
        (GreaterThanOrEqual(NS, MICRO_NS + 7), MICRO_NS + 7, None),
        (GreaterThan(NS, MICRO_NS + 7), MICRO_NS + 8, None),
        (LessThanOrEqual(NS, MICRO_NS + 7), None, MICRO_NS + 8),
    ],
)
def test_times_become_bounds_to_the_nanosecond_and_spark_checks_again(
    part: Filter, low: int | None, high: int | None
) -> None:
    pushed, kept = push(part)
    assert (pushed.time_ns.low, pushed.time_ns.high, kept) == (low, high, [0])


def test_bounds_are_combined() -> None:
    pushed, kept = push(
        IsNotNull(SEQUENCE), GreaterThan(SEQUENCE, 5), GreaterThan(SEQUENCE, 9), LessThan(SEQUENCE, 99), IsNotNull(NS)
    )
    assert (pushed.sequence.low, pushed.sequence.high, kept, pushed.empty) == (10, 99, [], False)


def test_streams_are_selected() -> None:
    pushed, kept = push(In(STREAM, ("A", "B")), EqualTo(STREAM, "B"))
    assert (pushed.streams, kept, pushed.empty) == (frozenset({"B"}), [], False)


@pytest.mark.parametrize(
    "part",
    [
        GreaterThan(SEQUENCE, 5.5),
        EqualTo(SEQUENCE, True),
        EqualTo(SEQUENCE, "5"),
        In(SEQUENCE, (5, 5.5)),
        GreaterThan(TIMESTAMP, MICRO.replace(tzinfo=None)),
        GreaterThan(TIMESTAMP, 5),
        GreaterThan(TIMESTAMP, None),
        Not(GreaterThan(SEQUENCE, 5)),
    ],
)
def test_literals_of_other_types_stay_with_spark(part: Filter) -> None:
    pushed, kept = push(part)
    assert (pushed, kept) == (PushedFilters(), [0])


def test_conditions_on_columns_with_another_type_stay_with_spark() -> None:
    pushed, kept = push(EqualTo(SEQUENCE, 5), EqualTo(SUBJECT, "a"), natural=frozenset({"subject"}))
    assert (pushed.sequence.low, pushed.subjects, kept) == (None, ("a",), [0])


@given(st.integers(-(10**12), 10**12), st.integers(-5, 5))
def test_the_server_and_spark_agree_on_every_time(micro: int, ns_off: int) -> None:
    literal = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micro)
    ns = micro * 1000 + ns_off * 250
    for part, passes in (
        (GreaterThan(TIMESTAMP, literal), ns // 1000 > micro),
        (GreaterThanOrEqual(TIMESTAMP, literal), ns // 1000 >= micro),
        (LessThan(TIMESTAMP, literal), ns // 1000 < micro),
        (LessThanOrEqual(TIMESTAMP, literal), ns // 1000 <= micro),
        (EqualTo(TIMESTAMP, literal), ns // 1000 == micro),
    ):
        bounds = push(part)[0].time_ns
        assert ((bounds.low is None or ns >= bounds.low) and (bounds.high is None or ns < bounds.high)) == passes
