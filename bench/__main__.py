"""`python -m bench`: measure the figures in turns, print the table, write `build/bench.json`.

Environment: `ONLY` (names or groups of figures, with commas; what they refer to is measured too), `QUICK` (1: fewer
messages and rounds), `ROUNDS`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.registry import load, select
from bench.report import number, summarise, table, write
from bench.run import Run
from bench.unavailable import Unavailable

if TYPE_CHECKING:
    from bench.registry import Figure

RESULT = Path("build/bench.json")


def measure(run: Run, figures: list[Figure], rounds: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """One warm-up of every figure, then the rounds, each of which does every figure once.

    Returns each figure's values, and why the others have none.
    """
    values: dict[str, list[float]] = {figure.name: [] for figure in figures}
    left_out: dict[str, str] = {}
    for turn in range(rounds + 1):
        run.warming_up = turn == 0
        for figure in figures:
            if figure.name not in values:
                continue
            begin = time.monotonic()
            try:
                value = figure.measure(run)
            except Unavailable as reason:
                left_out[figure.name] = str(reason)
                del values[figure.name]
                continue
            if turn:
                values[figure.name].append(value)
            took = time.monotonic() - begin
            place = f"round {turn} of {rounds}" if turn else "warm-up"
            say(f"{place:<15}  {figure.name:<24} {number(value):>10} {figure.unit}  ({took:.1f} s)")
    return values, left_out


def say(line: str) -> None:
    """Progress, on the error stream so that the table can be piped."""
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Run the bench as the environment asks."""
    quick = os.environ.get("QUICK", "0") not in {"", "0"}
    rounds = int(os.environ.get("ROUNDS") or (3 if quick else 5))
    load()
    try:
        figures = select(name.strip() for name in os.environ.get("ONLY", "").split(",") if name.strip())
    except ValueError as error:
        say(str(error))
        return 2
    begin = time.monotonic()
    with Run(quick=quick) as run:
        values, left_out = measure(run, figures, rounds)
    summaries, ratios = summarise(figures, values)
    print(table(summaries, ratios))
    for name, reason in left_out.items():
        print(f"{name} is left out: {reason}")
    write(RESULT, summaries, ratios)
    say(f"\n{time.monotonic() - begin:.0f} s; {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
