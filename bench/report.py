"""Medians, ratios, the table and `build/bench.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from bench.registry import Figure


@dataclass(frozen=True)
class Summary:
    """The rounds of one figure."""

    name: str
    unit: str
    median: float
    min: float
    max: float
    rounds: int


@dataclass(frozen=True)
class Ratio:
    """A figure divided by its reference: the median of the rounds' ratios, not the ratio of the medians.

    Both values of a round were measured within seconds of each other, so what slows the machine for a while slows both.
    """

    name: str
    reference: str
    ratio: float


def summarise(figures: Iterable[Figure], values: Mapping[str, Sequence[float]]) -> tuple[list[Summary], list[Ratio]]:
    """The table's lines and its ratios, for the figures that have values."""
    summaries: list[Summary] = []
    ratios: list[Ratio] = []
    for figure in figures:
        mine = values.get(figure.name)
        if not mine:
            continue
        summaries.append(Summary(figure.name, figure.unit, median(mine), min(mine), max(mine), len(mine)))
        for reference in figure.references:
            theirs = values.get(reference)
            if theirs:
                rounds = (own / other for own, other in zip(mine, theirs, strict=False))
                ratios.append(Ratio(figure.name, reference, median(rounds)))
    return summaries, ratios


def table(summaries: Sequence[Summary], ratios: Sequence[Ratio]) -> str:
    """Both as plain text."""
    lines = _aligned(
        ["figure", "unit", "median", "min", "max", "rounds"],
        [[s.name, s.unit, number(s.median), number(s.min), number(s.max), str(s.rounds)] for s in summaries],
    )
    if ratios:
        lines += [
            "",
            *_aligned(["figure", "reference", "ratio"], [[r.name, r.reference, f"{r.ratio:.2f}"] for r in ratios]),
        ]
    return "\n".join(lines)


def write(path: Path, summaries: Sequence[Summary], ratios: Sequence[Ratio]) -> None:
    """Write both as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"figures": [asdict(each) for each in summaries], "ratios": [asdict(each) for each in ratios]}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def number(value: float) -> str:
    """A value as the table shows it."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:,.3g}"


def _aligned(head: list[str], rows: list[list[str]]) -> list[str]:
    """Names to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return ["  ".join(_cell(line[n], widths[n], head[n]) for n in range(len(head))).rstrip() for line in lines]


def _cell(text: str, width: int, column: str) -> str:
    return text.ljust(width) if column in {"figure", "unit", "reference"} else text.rjust(width)
