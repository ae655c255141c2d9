"""Algebra of subject filters: which covers another, what two have in common, lists in which none covers another.

A filter is a row of tokens; `*` stands for one, `>` at the end for one or more. What two filters have in common is
again one filter, or nothing. The server takes several filters for a consumer only when none covers another (10138),
so lists are reduced before they are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["EVERYTHING", "common_filters", "covers", "intersection", "reduce_filters"]

EVERYTHING: Final = ">"


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


def covers(wide: str, narrow: str) -> bool:
    """Tell whether all that falls under one filter falls under another; each covers itself."""
    return intersection(wide, narrow) == narrow


def reduce_filters(filters: Iterable[str]) -> tuple[str, ...]:
    """Return filters that match the same, none of which covers another."""
    kept: list[str] = []
    for subject in dict.fromkeys(filters):
        if any(covers(other, subject) for other in kept):
            continue
        kept = [other for other in kept if not covers(subject, other)]
        kept.append(subject)
    return tuple(kept)


def common_filters(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return filters that match what both lists match, reduced; an empty list matches nothing."""
    pairs = (intersection(one, other) for one in some for other in others)
    return reduce_filters(subject for subject in pairs if subject is not None)
