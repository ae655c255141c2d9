"""The checks at the end of the demo. Each number is compared with a second, independent source.

The stream's sequences show whether Spark read each message once. pandas, which does not use the stream, shows whether
the delays are correct.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from demo.counts import Counts, Delay
from demo.publish import Published
from demo.queries import ARCHIVE, WATERMARK, WINDOWS

__all__ = ["Check", "Results", "Stage", "check_results", "closed_windows", "expected_delays", "stages"]


@dataclass(frozen=True, slots=True)
class Check:
    """A number, or a list, that must be equal to the expected one."""

    name: str
    expected: object
    actual: object

    @property
    def holds(self) -> bool:
        """Whether both are equal."""
        return self.expected == self.actual


@dataclass(frozen=True, slots=True)
class Results:
    """The results of the stages.

    Attributes
    ----------
    flights
        The data set.
    published
        Messages that were published to FLIGHTS.
    counts
        Counts of Parquet and of DELAYS.
    stored_delays
        Number of messages in DELAYS, as its stream info reports it.
    killed
        Whether the driver was running when it was killed.
    batches
        Number of micro-batches of both queries.
    seconds
        Seconds that the micro-batches took, by query.
    """

    flights: pd.DataFrame
    published: Published
    counts: Counts
    stored_delays: int
    killed: bool
    batches: int
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class Stage:
    """A line of the table; None if a number does not apply."""

    name: str
    published: int | None
    written: int | None
    lost: int
    duplicated: int
    rate: float


def stages(results: Results) -> list[Stage]:
    """Return the stages in order. The rate counts messages of FLIGHTS."""
    published, archived, returned = results.published, results.counts.archived, results.counts.returned
    stored, windows = published.report.count, len(closed_windows(results.flights))
    return [
        Stage(
            "publish FLIGHTS",
            stored,
            None,
            published.sent - stored,
            published.report.duplicates,
            stored / published.seconds,
        ),
        Stage(
            "FLIGHTS to Parquet",
            None,
            archived.written,
            stored - archived.distinct,
            archived.written - archived.distinct,
            stored / results.seconds[ARCHIVE],
        ),
        Stage(
            "delays to DELAYS",
            returned.messages,
            None,
            windows - returned.windows,
            returned.messages - returned.windows,
            stored / results.seconds[WINDOWS],
        ),
    ]


def closed_windows(flights: pd.DataFrame) -> pd.DataFrame:
    """Return the departures by carrier and hour of the year, for the hours that the watermark has closed."""
    hours = pd.to_datetime(flights["time_hour"])
    over = hours + pd.Timedelta("1 hour") <= hours.max() - pd.Timedelta(WATERMARK)
    windows: pd.DataFrame = (
        flights[over].groupby(["carrier", "hour", "time_hour"])["dep_delay"].agg(["size", "count", "sum"])
    )
    return windows


def expected_delays(flights: pd.DataFrame) -> list[Delay]:
    """Return the delays that pandas computes. They are whole minutes, so their sums are exact."""
    sums = closed_windows(flights).groupby(level=["carrier", "hour"]).sum()
    return [
        Delay(carrier, int(hour), int(row["size"]), int(row["count"]), float(row["sum"]))
        for (carrier, hour), row in sums.iterrows()
    ]


def check_results(results: Results) -> list[Check]:
    """Return all checks."""
    total, windows = len(results.flights), len(closed_windows(results.flights))
    report, archived, returned = results.published.report, results.counts.archived, results.counts.returned
    return [
        Check("flights acknowledged by FLIGHTS", total, report.count),
        Check("repeats among them", 0, report.duplicates),
        Check("first and last sequence given", (1, total), (report.first_sequence, report.last_sequence)),
        Check("the driver ran when it was killed", True, results.killed),
        Check("rows in Parquet", total, archived.written),
        Check("different sequences in Parquet", total, archived.distinct),
        Check("first and last sequence in Parquet", (1, total), (archived.first_sequence, archived.last_sequence)),
        Check("rows whose content is not of their subject", 0, archived.misplaced),
        Check("flights without a delay (null)", int(results.flights["dep_delay"].isna().sum()), archived.without_delay),
        Check("windows that DELAYS stores", windows, results.stored_delays),
        Check("windows read from DELAYS", windows, returned.messages),
        Check("different windows among them", windows, returned.windows),
        Check("delays read back, as pandas computes them", expected_delays(results.flights), returned.rows),
    ]
