"""The algebra of subject filters, compared with a match of every short subject.

The filters have up to three tokens of `a`, `b` and `*` before a `>`. A third letter and a fifth token give a
subject for every difference between two filters, so the model below is exact.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.jetstream.names import subject_matches
from jetspark.jetstream.subject_filters import common_filters, covers, intersection, reduce_filters

SUBJECTS = [".".join(row) for length in range(1, 6) for row in product("abc", repeat=length)]

tokens = st.sampled_from(["a", "b", "*"])
patterns = st.builds(
    lambda row, rest: ".".join([*row, *([">"] if rest or not row else [])]), st.lists(tokens, max_size=3), st.booleans()
)


def matched(*filters: str) -> set[str]:
    """Return the subjects that match at least one of the filters."""
    return {subject for subject in SUBJECTS if any(subject_matches(each, subject) for each in filters)}


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
def test_the_intersection_of_two_filters_is_correct(one: str, other: str, common: str | None) -> None:
    assert intersection(one, other) == common
    assert intersection(other, one) == common


@given(patterns, patterns)
def test_the_intersection_matches_the_subjects_that_both_match(one: str, other: str) -> None:
    common = intersection(one, other)
    assert matched(*([] if common is None else [common])) == matched(one) & matched(other)
    assert (common is None) == matched(one).isdisjoint(matched(other))


@given(patterns, patterns)
def test_a_filter_covers_another_if_it_matches_all_its_subjects(wide: str, narrow: str) -> None:
    assert covers(wide, narrow) == (matched(narrow) <= matched(wide))


@given(st.lists(patterns, max_size=5))
def test_reducing_keeps_all_matches_and_leaves_no_covered_filter(filters: list[str]) -> None:
    reduced = reduce_filters(filters)
    assert matched(*reduced) == matched(*filters)
    assert set(reduced) <= set(filters)
    for at, one in enumerate(reduced):
        assert not any(matched(one) <= matched(other) for other in reduced[:at] + reduced[at + 1 :])


@given(st.lists(patterns, max_size=3), st.lists(patterns, max_size=3))
def test_common_filters_match_the_subjects_that_both_lists_match(some: list[str], others: list[str]) -> None:
    assert matched(*common_filters(some, others)) == matched(*some) & matched(*others)
