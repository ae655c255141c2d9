"""The results of the queries, counted by Spark when they have ended."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from demo.publish import DELAYS
from demo.queries import PARQUET

__all__ = ["Archived", "Counts", "Delay", "ReturnedDelays", "count_all"]

_DELAY: Final = "start timestamp, carrier string, hour int, flights bigint, departed bigint, minutes double"


class Archived(msgspec.Struct, frozen=True):
    """Counts of the Parquet files, which a query has written from FLIGHTS."""

    written: int
    """Rows in the Parquet files that the query has committed."""
    distinct: int
    """Different sequences among them."""
    first_sequence: int
    """Lowest of these."""
    last_sequence: int
    """Highest of these."""
    without_delay: int
    """Rows without a departure delay: cancelled flights."""
    misplaced: int
    """Rows whose content does not belong to their subject."""


class Delay(msgspec.Struct, frozen=True):
    """Departures of a carrier in an hour of the day."""

    carrier: str
    """IATA code."""
    hour: int
    """Hour of the scheduled departure, 0 to 23, local time."""
    flights: int
    """Flights planned."""
    departed: int
    """Flights that departed."""
    minutes: float
    """Sum of the delays of all departed flights, in minutes."""

    @property
    def mean_delay(self) -> float | None:
        """Mean delay in minutes; None if no flight departed."""
        return self.minutes / self.departed if self.departed else None


class ReturnedDelays(msgspec.Struct, frozen=True):
    """The messages of DELAYS, read back."""

    messages: int
    """Number of messages: one for each window."""
    windows: int
    """Different windows among them, by carrier."""
    rows: list[Delay]
    """Sums by carrier and hour of the day."""


class Counts(msgspec.Struct, frozen=True):
    """All counts."""

    archived: Archived
    returned: ReturnedDelays


def count_all(spark: SparkSession, url: str, output: Path) -> Counts:
    """Read and count the Parquet files and DELAYS."""
    return Counts(_count_parquet(spark, output / PARQUET), _read_delays(spark, url))


def _count_parquet(spark: SparkSession, parquet: Path) -> Archived:
    belongs = F.col("subject").eqNullSafe(F.concat(F.lit("flights."), "origin", F.lit("."), "carrier"))
    counts = (
        spark.read.parquet(str(parquet))
        .agg(
            F.count(F.lit(1)).alias("written"),
            F.count_distinct("sequence").alias("distinct"),
            F.coalesce(F.min("sequence"), F.lit(0)).alias("first_sequence"),
            F.coalesce(F.max("sequence"), F.lit(0)).alias("last_sequence"),
            F.count_if(F.col("dep_delay").isNull()).alias("without_delay"),
            F.count_if(~belongs).alias("misplaced"),
        )
        .collect()[0]
    )
    return Archived(**counts.asDict())


def _read_delays(spark: SparkSession, url: str) -> ReturnedDelays:
    source = spark.read.format("jetstream").option("servers", url).option("stream", DELAYS)
    delay = F.from_json(F.col("data").cast("string"), _DELAY).alias("delay")
    delays = source.load().select(delay).select("delay.*").cache()
    totals = delays.agg(F.count(F.lit(1)), F.count_distinct("carrier", "start")).collect()[0]
    by_hour = delays.groupBy("carrier", "hour").agg(F.sum("flights"), F.sum("departed"), F.sum("minutes"))
    rows = sorted((Delay(*row) for row in by_hour.collect()), key=lambda row: (row.carrier, row.hour))
    return ReturnedDelays(totals[0], totals[1], rows)
