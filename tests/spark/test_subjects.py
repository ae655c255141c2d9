"""What subject filters have in common, compared with matching subjects one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.jetstream.names import subject_matches
from jetspark.spark.subjects import common_filters, intersection, reduce_filters

tokens = st.sampled_from(["a", "b", "*"])
patterns = st.builds(
    lambda row, rest: ".".join([*row, *([">"] if rest or not row else [])]), st.lists(tokens, max_size=3), st.booleans()
)
subjects = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5).map(".".join)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("a.>", "*.b", "a.b"),
        ("a.>", "a", None),
        (">", "a.b", "a.b"),
        ("a.>", "*.>", "a.>"),
        ("a.*", "*.b", "a.b"),
        ("a.*.c", "a.>", "a.*.c"),
        ("a", "b", None),
        ("a.b", "a.b.c", None),
    ],
)
def test_what_two_filters_have_in_common(one: str, other: str, common: str | None) -> None:
    assert intersection(one, other) == common
    assert intersection(other, one) == common


@given(patterns, patterns, subjects)
def test_the_intersection_matches_what_both_match(one: str, other: str, subject: str) -> None:
    both = subject_matches(one, subject) and subject_matches(other, subject)
    common = intersection(one, other)
    assert (common is not None and subject_matches(common, subject)) == both


@given(st.lists(patterns, max_size=5), subjects)
def test_reducing_changes_nothing_that_matches(filters: list[str], subject: str) -> None:
    reduced = reduce_filters(filters)
    assert any(subject_matches(each, subject) for each in filters) == any(subject_matches(r, subject) for r in reduced)
    for one in reduced:
        for other in reduced:
            assert one == other or intersection(one, other) != one


@given(st.lists(patterns, max_size=4), st.lists(patterns, max_size=4), subjects)
def test_common_filters_match_what_both_lists_match(some: list[str], others: list[str], subject: str) -> None:
    both = all(any(subject_matches(each, subject) for each in each_list) for each_list in (some, others))
    assert any(subject_matches(each, subject) for each in common_filters(some, others)) == both
