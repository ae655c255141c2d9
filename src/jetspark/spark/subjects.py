"""Algebra of subject filters: what two of them have in common, and lists in which none contains another.

A filter is a row of tokens; `*` stands for one, `>` at the end for one or more. What two filters have in common is
again one filter, or nothing. The server takes several filters for a consumer only when none contains another (10138),
so lists are reduced before they are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["EVERYTHING", "common_filters", "intersection", "reduce_filters"]

EVERYTHING = ">"


def intersection(one: str, other: str) -> str | None:
    """Return the filter that matches what both match, None when there is no such subject."""
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


def reduce_filters(filters: Iterable[str]) -> tuple[str, ...]:
    """Return filters that match the same, none of which contains another."""
    kept: list[str] = []
    for subject in dict.fromkeys(filters):
        if any(intersection(other, subject) == subject for other in kept):
            continue
        kept = [other for other in kept if intersection(other, subject) != other]
        kept.append(subject)
    return tuple(kept)


def common_filters(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return filters that match what both lists match, reduced; an empty list matches nothing."""
    pairs = (intersection(one, other) for one in some for other in others)
    return reduce_filters(subject for subject in pairs if subject is not None)
