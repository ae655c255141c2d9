"""Operations on subject filters: coverage, intersection, and lists in which no filter covers another.

A filter is a sequence of tokens; `*` matches one token, `>` at the end matches one or more. The intersection of two
filters is again one filter, or empty. The server accepts several filters for a consumer only if none covers another
(10138), so lists are reduced before they are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["EVERYTHING", "common_filters", "covers", "intersection", "reduce_filters"]

EVERYTHING: Final = ">"


def intersection(one: str, other: str) -> str | None:
    """Return the filter for all subjects that both filters match, None if there are none."""
    a, b = one.split("."), other.split(".")
    common: list[str] = []
    for x, y in zip(a, b, strict=False):
        at = len(common)
        if x == ">":
            return ".".join(common + b[at:])
        if y == ">":
            return ".".join(common + a[at:])
        if x != y and "*" not in {x, y}:
            return None
        common.append(y if x == "*" else x)
    return ".".join(common) if len(a) == len(b) else None


def covers(wide: str, narrow: str) -> bool:
    """Return whether `wide` matches every subject that `narrow` matches; each filter covers itself."""
    return intersection(wide, narrow) == narrow


def reduce_filters(filters: Iterable[str]) -> tuple[str, ...]:
    """Return filters that match the same subjects, none of which covers another."""
    kept: list[str] = []
    for subject in dict.fromkeys(filters):
        if any(covers(other, subject) for other in kept):
            continue
        kept = [other for other in kept if not covers(subject, other)]
        kept.append(subject)
    return tuple(kept)


def common_filters(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return reduced filters for all subjects that both lists match; an empty list matches nothing."""
    pairs = (intersection(one, other) for one in some for other in others)
    return reduce_filters(subject for subject in pairs if subject is not None)
