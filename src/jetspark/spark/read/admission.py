"""The size of a micro-batch, the share of each stream, and the time between micro-batches.

No code here calls a server or reads a clock. Spark passes one limit at a time to a Python source. This module applies
the other ones: two limits at once, a delay. A limit that Spark leaves out, as for `Trigger.Once`, has no effect.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows

from jetspark.spark.options.stream_read import TriggerLimits

__all__ = ["Backlog", "IdlePoll", "TriggerPacer", "Turns", "allocate", "default_read_limit", "effective_limits"]

_MIN_WAIT: Final = 0.01
_WAIT_FRACTION: Final = 0.2
_SPARK_POLL_PAUSE: Final = 0.1
"""Longest time in seconds after which Spark asks again if it has nothing else to do."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The messages of one stream that are still to be read.

    Attributes
    ----------
    size
        Number of sequences.
    message_bytes
        Average size of a message.
    """

    size: int
    message_bytes: int


def default_read_limit(limits: TriggerLimits) -> ReadLimit:
    """Return the one limit that is passed to Spark."""
    if limits.max_offsets is not None:
        return ReadMaxRows(limits.max_offsets)
    if limits.max_bytes is not None:
        return ReadMaxBytes(limits.max_bytes)
    if limits.min_offsets is not None:
        return ReadMinRows(limits.min_offsets)
    return ReadAllAvailable()


def effective_limits(limits: TriggerLimits, limit: ReadLimit) -> TriggerLimits:
    """Return the limits that apply if Spark asks with this limit: it replaces ours of the same kind."""
    if isinstance(limit, ReadAllAvailable):
        return TriggerLimits()
    if isinstance(limit, ReadMaxRows):
        return replace(limits, max_offsets=limit.max_rows)
    if isinstance(limit, ReadMaxBytes):
        return replace(limits, max_bytes=limit.max_bytes)
    if isinstance(limit, ReadMinRows):
        return replace(limits, min_offsets=limit.min_rows)
    return limits


def allocate(backlogs: Sequence[Backlog], limits: TriggerLimits) -> list[int]:
    """Return how many sequences of each stream go into the next micro-batch.

    First each stream gets one sequence, as long as the limits allow. The rest is divided into equal shares; what a
    stream does not need goes to the others. So a few messages of a slow stream do not wait for the backlog of a fast
    one. Only the very first sequence may exceed `max_bytes`: without it, a large message would never be read.

    Parameters
    ----------
    backlogs
        Backlog of each stream. If there is no room for all of them, the first ones get a sequence; see `Turns`.
    limits
        Limits of the micro-batch. A limit that is not set does not count.
    """
    budgets = _budgets(backlogs, limits)
    if not budgets:
        return [each.size for each in backlogs]
    allocated = [0] * len(backlogs)

    def room(at: int, shares: int = 1) -> int:
        return min(max(budget.left, 0) // shares // budget.costs[at] for budget in budgets)

    def give(at: int, count: int) -> None:
        allocated[at] += count
        for budget in budgets:
            budget.left -= count * budget.costs[at]

    def rest(at: int) -> int:
        return backlogs[at].size - allocated[at]

    def need(at: int) -> float:
        return max(rest(at) * budget.costs[at] / budget.left for budget in budgets)

    for at, backlog in enumerate(backlogs):
        if backlog.size and (room(at) or not any(allocated)):
            give(at, 1)
    while waiting := [at for at in range(len(backlogs)) if rest(at) and room(at)]:
        for shares, at in zip(range(len(waiting), 0, -1), sorted(waiting, key=need), strict=True):
            give(at, min(rest(at), room(at, shares)))
    return allocated


@dataclass(slots=True)
class _Budget:
    """The rest of one limit, and the cost of one sequence of each stream."""

    left: int
    costs: list[int]


def _budgets(backlogs: Sequence[Backlog], limits: TriggerLimits) -> list[_Budget]:
    budgets = []
    if limits.max_offsets is not None:
        budgets.append(_Budget(limits.max_offsets, [1] * len(backlogs)))
    if limits.max_bytes is not None:
        budgets.append(_Budget(limits.max_bytes, [each.message_bytes for each in backlogs]))
    return budgets


class Turns:
    """The order of the streams if a micro-batch has no room for all: those that have waited longest come first.

    Parameters
    ----------
    streams
        Names of the streams, in the order of their first turns.
    """

    def __init__(self, streams: Sequence[str]) -> None:
        self.order = list(streams)

    def update(self, streams: Collection[str]) -> None:
        """Keep these streams only; the first turns of new ones come last."""
        self.order = [each for each in self.order if each in streams]
        self.order += sorted(set(streams).difference(self.order))

    def mark_batch(self, read: Collection[str]) -> None:
        """Record the streams that a micro-batch reads: their next turn comes after those of the others."""
        self.order.sort(key=lambda stream: stream in read)


class TriggerPacer:
    """Decides whether a micro-batch is due, by `min_offsets` and `max_delay`. The time is a parameter.

    The first micro-batch is due as soon as there is a message, as in Spark's Kafka source.
    """

    def __init__(self) -> None:
        self._last: float | None = None

    def is_due(self, size: int, limits: TriggerLimits, now: float) -> bool:
        """Whether there are enough sequences, or they have waited long enough."""
        if not size:
            return False
        if limits.min_offsets is None or size >= limits.min_offsets or self._last is None:
            return True
        return now - self._last >= limits.max_delay

    def mark_batch(self, now: float) -> None:
        """Record that a micro-batch is created."""
        self._last = now


class IdlePoll:
    """Decides how long to wait before the next request to the server. Spark asks every few milliseconds.

    The first request after new messages is not delayed. After that, the wait is a fifth of the time without messages:
    10 ms at first, and at most the interval. So a message after a long pause may wait, but one of many does not. If
    Spark asks late, it had other work (a trigger with a time, a micro-batch of another source), and the request is not
    delayed. Messages of other sources of the query count, too: Spark asks the sources one after the other, so a wait
    here delays the other sources.

    Spark's question is delayed, but never answered without a request to the server. With an old answer,
    `processAllAvailable` would end before published messages are read.

    Parameters
    ----------
    interval
        Longest time in seconds between two requests.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._wait = 0.0
        self._asked: float | None = None
        self._silent_since: float | None = None

    def delay(self, now: float) -> float:
        """Return the seconds until the next request."""
        if self._asked is None or now - self._asked > _SPARK_POLL_PAUSE:
            return 0.0
        return max(self._asked + self._wait - now, 0.0)

    def mark_batch(self) -> None:
        """Record that a micro-batch is created, from this source or another source of the query."""
        self._silent_since = None  # the pause begins with the first request after it: Spark does not ask during a batch
        self._wait = min(self._wait, _MIN_WAIT)

    def mark_poll(self, now: float, found: bool) -> None:
        """Record a request, and whether it found messages for a micro-batch."""
        self._asked = now
        if found:
            self._wait, self._silent_since = 0.0, None
            return
        if self._silent_since is None:
            self._silent_since = now
        self._wait = min(max((now - self._silent_since) * _WAIT_FRACTION, _MIN_WAIT), self._interval)
