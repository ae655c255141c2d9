"""What Spark does in the demo: FLIGHTS to Parquet, Parquet to delays, delays to DELAYS and back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from demo.publish import DELAYS, FLIGHTS

__all__ = [
    "PARTITIONS",
    "Archived",
    "Delay",
    "ReturnedDelays",
    "archive_flights",
    "collect_delays",
    "compute_delays",
    "publish_delays",
    "read_delays",
    "warm_up",
]

PARTITIONS: Final = 2
_FLIGHT: Final = """
    year int, month int, day int, dep_time double, sched_dep_time int, dep_delay double, arr_time double,
    sched_arr_time int, arr_delay double, carrier string, flight int, tailnum string, origin string, dest string,
    air_time double, distance int, hour int, minute int, time_hour timestamp
"""
_DELAY: Final = "carrier string, hour int, flights bigint, departed bigint, mean_delay double"


@dataclass(frozen=True, slots=True)
class Archived:
    """What came out of FLIGHTS and went into Parquet.

    Attributes
    ----------
    read
        Messages that Spark got from the stream.
    written
        Rows in the Parquet files.
    distinct
        Different sequences among them.
    first_sequence, last_sequence
        Lowest and highest of these.
    without_delay
        Rows without a departure delay: cancelled flights.
    misplaced
        Rows whose content does not belong to their subject.
    partitions
        Parquet files, one for each partition that was read.
    seconds
        For reading, parsing and writing.
    """

    read: int
    written: int
    distinct: int
    first_sequence: int
    last_sequence: int
    without_delay: int
    misplaced: int
    partitions: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Delay:
    """Departures of a carrier in an hour of the day.

    Attributes
    ----------
    carrier
        IATA code.
    hour
        Hour of the scheduled departure, 0 to 23, local time.
    flights, departed
        Flights planned, and those that did leave.
    mean_delay
        Minutes behind schedule on average; None where no flight left.
    """

    carrier: str
    hour: int
    flights: int
    departed: int
    mean_delay: float | None


@dataclass(frozen=True, slots=True)
class ReturnedDelays:
    """What came back from DELAYS.

    Attributes
    ----------
    rows
        By carrier and hour.
    distinct
        Different sequences among them.
    seconds
        For reading and parsing.
    """

    rows: list[Delay]
    distinct: int
    seconds: float


def _read(spark: SparkSession, url: str, stream: str, partitions: int, **options: str) -> DataFrame:
    source = spark.read.format("jetstream").option("servers", url).option("stream", stream)
    return source.option("minPartitions", partitions).options(**options).load()


def warm_up(spark: SparkSession, url: str, total: int) -> None:
    """Read the first messages once, so that Spark's Python workers run and have imported what they need."""
    few = f'{{"{FLIGHTS}": {min(PARTITIONS, total) + 1}}}'
    _read(spark, url, FLIGHTS, PARTITIONS, endingOffsets=few).write.format("noop").mode("overwrite").save()


def archive_flights(spark: SparkSession, url: str, parquet: Path) -> Archived:
    """Read FLIGHTS, parse the JSON, write Parquet, and count what arrived there."""
    seen = Observation("read")
    messages = _read(spark, url, FLIGHTS, PARTITIONS).observe(seen, F.count(F.lit(1)).alias("count"))
    flight = F.from_json(F.col("data").cast("string"), _FLIGHT).alias("flight")
    started = time.perf_counter()
    messages.select("sequence", "subject", flight).select("sequence", "subject", "flight.*").write.mode(
        "overwrite"
    ).parquet(str(parquet))
    seconds = time.perf_counter() - started

    belongs = F.col("subject").eqNullSafe(F.concat(F.lit("flights."), "origin", F.lit("."), "carrier"))
    counts = (
        spark.read.parquet(str(parquet))
        .agg(
            F.count(F.lit(1)).alias("written"),
            F.count_distinct("sequence").alias("distinct"),
            F.coalesce(F.min("sequence"), F.lit(0)).alias("first"),
            F.coalesce(F.max("sequence"), F.lit(0)).alias("last"),
            F.count_if(F.col("dep_delay").isNull()).alias("without_delay"),
            F.count_if(~belongs).alias("misplaced"),
        )
        .collect()[0]
    )
    return Archived(
        read=int(seen.get["count"]),
        written=counts["written"],
        distinct=counts["distinct"],
        first_sequence=counts["first"],
        last_sequence=counts["last"],
        without_delay=counts["without_delay"],
        misplaced=counts["misplaced"],
        partitions=len(list(parquet.glob("part-*.parquet"))),
        seconds=seconds,
    )


def compute_delays(spark: SparkSession, parquet: Path) -> DataFrame:
    """Return the mean departure delay by carrier and hour, kept in memory; columns as in `Delay`."""
    return (
        spark.read.parquet(str(parquet))
        .groupBy("carrier", "hour")
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.count("dep_delay").alias("departed"),
            F.avg("dep_delay").alias("mean_delay"),
        )
        .cache()
    )


def collect_delays(delays: DataFrame) -> list[Delay]:
    """Return the rows of `compute_delays`, by carrier and hour."""
    return _sorted(delays.collect())


def publish_delays(delays: DataFrame, url: str) -> float:
    """Publish each row as JSON to `delays.<carrier>.<hour>`; returns the seconds that took."""
    subject = F.format_string("delays.%s.%02d", "carrier", "hour").alias("subject")
    started = time.perf_counter()
    messages = delays.select(subject, F.to_json(F.struct("*")).alias("data"))
    messages.write.format("jetstream").option("servers", url).mode("append").save()
    return time.perf_counter() - started


def read_delays(spark: SparkSession, url: str) -> ReturnedDelays:
    """Read DELAYS back."""
    delay = F.from_json(F.col("data").cast("string"), _DELAY).alias("delay")
    started = time.perf_counter()
    rows = _read(spark, url, DELAYS, 1).select("sequence", delay).select("sequence", "delay.*").collect()
    seconds = time.perf_counter() - started
    return ReturnedDelays(_sorted(rows), len({row["sequence"] for row in rows}), seconds)


def _sorted(rows: list[Row]) -> list[Delay]:
    delays = [Delay(row["carrier"], row["hour"], row["flights"], row["departed"], row["mean_delay"]) for row in rows]
    return sorted(delays, key=lambda delay: (delay.carrier, delay.hour))
