"""The Spark driver that the chaos runs kill: one streaming query for each leg, in a process of its own.

It prints a line of JSON for every micro-batch, so that faults can hit a query that is at work. `drain` reads what is
left, and prints for each leg what its Parquet files hold.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jetspark.spark import JetStreamListener, QueryProgress, recommended_conf, release

__all__ = ["Found", "Job", "Leg", "drain"]

START_TIMEOUT = 60.0


class Leg(TypedDict):
    """One query.

    `options` are those of the source, `sink` those of the JetStream sink; without them it writes Parquet to `folder`.
    The numbers that have to come through are those up to `numbers` that end in one of `digits`.
    """

    name: str
    options: dict[str, str]
    sink: dict[str, str]
    folder: str
    numbers: int
    digits: list[int]


class Found(TypedDict):
    """What came through: rows, different numbers among those that have to, and rows that are no such number."""

    rows: int
    different: int
    strange: int


class Job(TypedDict):
    """What the driver does."""

    master: str
    conf: dict[str, str]
    legs: list[Leg]


def session(job: Job) -> SparkSession:
    """The Spark session."""
    conf = {**recommended_conf(), "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **job["conf"]}
    builder = SparkSession.builder.master(job["master"]).appName("chaos")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def writer(spark: SparkSession, leg: Leg) -> DataStreamWriter:
    """The query of a leg, not started."""
    frame: DataFrame = spark.readStream.format("jetstream").options(**leg["options"]).load()
    if leg["sink"]:
        made = frame.select("data").writeStream.format("jetstream").options(**leg["sink"])
    else:
        rows = frame.selectExpr("CAST(CAST(data AS STRING) AS BIGINT) AS number")
        made = rows.writeStream.format("parquet").option("path", f"{leg['folder']}/out")
    return made.option("checkpointLocation", f"{leg['folder']}/checkpoint").queryName(leg["name"])


def tell(progress: QueryProgress) -> None:
    """Print how far a query is."""
    line = {"leg": progress.name, "batch": progress.batch, "rows": progress.rows, "lag": progress.lag}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def run(job: Job) -> None:
    """Run the queries until one ends, which only a fault can make it do."""
    spark = session(job)
    spark.streams.addListener(JetStreamListener(tell, log=False))
    for leg in job["legs"]:
        query = writer(spark, leg).start()
        deadline = time.monotonic() + START_TIMEOUT
        while query.isActive and query.status["message"].startswith("Initializing") and time.monotonic() < deadline:
            time.sleep(0.05)  # one after the other: each starts several processes, which Spark gives ten seconds
    spark.streams.awaitAnyTermination()


def drain(spark: SparkSession, legs: Sequence[Leg]) -> dict[str, Found]:
    """Read what is left; returns what the Parquet files of each leg hold."""
    found = {}
    for leg in legs:
        query = writer(spark, leg).trigger(availableNow=True).start()
        query.awaitTermination()
        if not leg["sink"]:
            found[leg["name"]] = look(spark, leg)
        if "commitMode" in leg["options"]:
            release(f"{leg['folder']}/checkpoint", leg["options"], spark)
    return found


def look(spark: SparkSession, leg: Leg) -> Found:
    """Compare the Parquet files of a leg with the numbers that have to be there."""
    wanted = f"coalesce(number BETWEEN 1 AND {leg['numbers']} AND number % 10 IN {(*leg['digits'], -1)}, false)"
    (row,) = (
        spark.read.parquet(f"{leg['folder']}/out")
        .selectExpr(
            "count(*) AS rows",
            f"count(DISTINCT number) FILTER (WHERE {wanted}) AS different",
            f"count(*) FILTER (WHERE NOT {wanted}) AS strange",
        )
        .collect()
    )
    return Found(rows=row.rows, different=row.different, strange=row.strange)


def main(mode: str, path: str) -> None:
    """Run, or drain and print what was found."""
    job: Job = json.loads(Path(path).read_text())
    if mode == "run":
        run(job)
        return
    spark = session(job)
    found = drain(spark, job["legs"])
    spark.stop()
    sys.stdout.write(json.dumps({"found": found}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
