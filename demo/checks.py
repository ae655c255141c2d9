"""What must hold at the end of the demo: every number has another place that knows it.

The stream's sequences tell whether Spark read each message once; pandas, which never saw the stream, tells whether the
delays are right.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from demo.analyse import PARTITIONS, Archived, Delay, ReturnedDelays
from demo.publish import Published

__all__ = ["Check", "Results", "Stage", "check_results", "expected_delays", "stages"]


@dataclass(frozen=True, slots=True)
class Check:
    """A number, or a list, that must be what is expected."""

    what: str
    expected: object
    actual: object

    @property
    def holds(self) -> bool:
        """Whether they are equal."""
        return self.expected == self.actual


@dataclass(frozen=True, slots=True)
class Results:
    """What the stages gave.

    Attributes
    ----------
    flights
        The data set.
    published
        Into FLIGHTS.
    archived
        From FLIGHTS into Parquet.
    delays
        What Spark computed.
    stored_delays
        Messages that DELAYS holds, by its own account.
    delays_seconds
        For publishing them.
    returned
        What came back from DELAYS.
    """

    flights: pd.DataFrame
    published: Published
    archived: Archived
    delays: list[Delay]
    stored_delays: int
    delays_seconds: float
    returned: ReturnedDelays


@dataclass(frozen=True, slots=True)
class Stage:
    """A line of the table; None where a number makes no sense."""

    name: str
    published: int | None
    read: int | None
    written: int | None
    lost: int
    duplicated: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages per second."""
        return (self.published or self.read or 0) / self.seconds


def stages(results: Results) -> list[Stage]:
    """Return the stages in their order."""
    published, archived, returned = results.published, results.archived, results.returned
    stored, computed = published.report.count, len(results.delays)
    return [
        Stage(
            "publish FLIGHTS",
            stored,
            None,
            None,
            published.sent - stored,
            published.report.duplicates,
            published.seconds,
        ),
        Stage(
            "FLIGHTS to Parquet",
            None,
            archived.read,
            archived.written,
            stored - archived.distinct,
            archived.written - archived.distinct,
            archived.seconds,
        ),
        Stage(
            "publish DELAYS",
            results.stored_delays,
            None,
            None,
            max(computed - results.stored_delays, 0),
            max(results.stored_delays - computed, 0),
            results.delays_seconds,
        ),
        Stage(
            "read DELAYS",
            None,
            len(returned.rows),
            None,
            results.stored_delays - returned.distinct,
            len(returned.rows) - returned.distinct,
            returned.seconds,
        ),
    ]


def expected_delays(flights: pd.DataFrame) -> list[Delay]:
    """Return the delays as pandas computes them. They are whole minutes, so that their sums are exact everywhere."""
    groups = flights.groupby(["carrier", "hour"])["dep_delay"].agg(["size", "count", "sum"])
    return [
        Delay(
            carrier, int(hour), int(row["size"]), int(row["count"]), row["sum"] / row["count"] if row["count"] else None
        )
        for (carrier, hour), row in groups.iterrows()
    ]


def check_results(results: Results) -> list[Check]:
    """Return everything that must hold."""
    total = len(results.flights)
    published, archived = results.published, results.archived
    return [
        Check("flights acknowledged by FLIGHTS", total, published.report.count),
        Check("repeats among them", 0, published.report.duplicates),
        Check(
            "first and last sequence given",
            (1, total),
            (published.report.first_sequence, published.report.last_sequence),
        ),
        Check("messages read by Spark", total, archived.read),
        Check("rows in Parquet", total, archived.written),
        Check("different sequences in Parquet", total, archived.distinct),
        Check("first and last sequence in Parquet", (1, total), (archived.first_sequence, archived.last_sequence)),
        Check("rows whose content is not of their subject", 0, archived.misplaced),
        Check("flights without a delay (null)", int(results.flights["dep_delay"].isna().sum()), archived.without_delay),
        Check("partitions read", min(PARTITIONS, total), archived.partitions),
        Check("delays that DELAYS stores", len(results.delays), results.stored_delays),
        Check("different sequences read from DELAYS", results.stored_delays, results.returned.distinct),
        Check("delays read back, as computed", results.delays, results.returned.rows),
        Check("delays read back, as pandas computes them", expected_delays(results.flights), results.returned.rows),
    ]
