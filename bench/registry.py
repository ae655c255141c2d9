"""The list of figures: one function each, with a decorator that says what it is.

    @figure("scan", group="bulk", reference="raw_drain", against=PULL_PEERS)
    def scan(run: Run) -> float:
        "jetspark.bulk.scan of the whole stream into record batches."
        ...
        return messages / seconds

The function does one round and returns one number. It takes resources that outlive the round
(the server, a filled stream, a Spark session) from `Run`. `Run` creates each of them once, so their creation is not
measured.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RATE = "msg/s"
"""The usual unit: more is better, so a ratio above 1 means faster than the reference."""


MODULES = (
    "bench.reading",
    "bench.writing",
    "bench.peer_figures",
    "bench.publish_figures",
    "bench.object_figures",
    "bench.push_figures",
    "bench.consume_figures",
    "bench.spark_figures",
    "bench.streaming_figures",
    "bench.typed_figures",
    "bench.memory_figures",
    "bench.core_figures",
    "bench.key_value_figures",
)
"""Where the figures are, in the order in which a round measures them."""


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    """The name in the table, in `build/bench.json` and for `ONLY`."""
    measure: Callable[[Run], float]
    """Does one round; returns the value in `unit`."""
    unit: str
    group: str
    """Name of its group. `ONLY` also accepts the name of a group."""
    reference: str | None
    """The figure that gives the value its meaning; measured too whenever this one is asked for."""
    against: tuple[str, ...]
    """More figures to set it against, where the run measures them anyway."""

    @property
    def references(self) -> tuple[str, ...]:
        """Every figure that a ratio is made against, the main one first."""
        return self.against if self.reference is None else (self.reference, *self.against)


FIGURES: dict[str, Figure] = {}
"""Every figure by name, in the order of `MODULES`."""


def figure(
    name: str, *, group: str, unit: str = RATE, reference: str | None = None, against: Iterable[str] = ()
) -> Callable[[Callable[[Run], float]], Callable[[Run], float]]:
    """Register the decorated function as a figure."""

    def register(measure: Callable[[Run], float]) -> Callable[[Run], float]:
        if name in FIGURES:
            raise ValueError(f"two figures are called {name}")
        FIGURES[name] = Figure(name, measure, unit, group, reference, tuple(against))
        return measure

    return register


def load() -> None:
    """Import the modules, which fills `FIGURES`."""
    for module in MODULES:
        importlib.import_module(module)


def select(only: Iterable[str]) -> list[Figure]:
    """The figures to measure: all, or those named (by name or group) and what they refer to.

    Raises:
        ValueError: a name that is neither a figure nor a group.
    """
    wanted = list(only)
    if not wanted:
        return list(FIGURES.values())
    names: set[str] = set()
    while wanted:
        name = wanted.pop()
        found = [each for each in FIGURES.values() if name in {each.name, each.group}]
        if not found:
            groups = sorted({each.group for each in FIGURES.values()})
            raise ValueError(f"no figure or group {name!r}; figures: {', '.join(FIGURES)}; groups: {', '.join(groups)}")
        for each in found:
            if each.name not in names:
                names.add(each.name)
                wanted += [] if each.reference is None else [each.reference]
    return [each for each in FIGURES.values() if each.name in names]
