"""The Spark driver that the chaos runs kill: one streaming query for each leg, in a process of its own.

It prints a line of JSON for every micro-batch, so that faults can hit a query that is at work, and for every query that
fails, which is started again. `drain` reads what is left, and prints for each leg what its Parquet files hold.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.jvm import light_conf

from jetspark.spark import JetStreamListener, QueryProgress, recommended_conf, release_committed

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
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    conf = {**recommended_conf(), **light_conf(), **quiet, "spark.sql.shuffle.partitions": "2", **job["conf"]}
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
    print_line({"leg": progress.name, "batch": progress.batch_id, "rows": progress.rows, "lag": progress.lag})


def print_line(line: dict[str, object]) -> None:
    """Print it as JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def run(job: Job) -> None:
    """Run the queries; one that fails is started again where its checkpoint says."""
    spark = session(job)
    spark.streams.addListener(JetStreamListener(tell, log=False))
    queries = {leg["name"]: started(spark, leg) for leg in job["legs"]}
    while True:
        with contextlib.suppress(StreamingQueryException):  # each query says below why it ended
            spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()
        for leg in job["legs"]:
            if not queries[leg["name"]].isActive:
                print_line({"failed": leg["name"], "cause": cause(queries[leg["name"]])})
                queries[leg["name"]] = started(spark, leg)


def started(spark: SparkSession, leg: Leg) -> StreamingQuery:
    """The query of a leg, running. One after the other: each starts processes, to which Spark gives ten seconds."""
    query = writer(spark, leg).start()
    deadline = time.monotonic() + START_TIMEOUT
    while query.isActive and query.status["message"].startswith("Initializing") and time.monotonic() < deadline:
        time.sleep(0.05)  # nobody tells
    return query


def cause(query: StreamingQuery) -> str:
    """Why a query failed: the last line of ours, or Spark's first."""
    error = query.exception()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("jetspark.")]
    return (ours or [line.rpartition("terminated with exception: ")[2] for line in lines])[-1 if ours else 0][:200]


def drain(spark: SparkSession, legs: Sequence[Leg]) -> dict[str, Found]:
    """Read what is left; returns what the Parquet files of each leg hold."""
    found = {}
    for leg in legs:
        query = writer(spark, leg).trigger(availableNow=True).start()
        query.awaitTermination()
        if not leg["sink"]:
            found[leg["name"]] = look(spark, leg)
        if "commitMode" in leg["options"]:
            release_committed(f"{leg['folder']}/checkpoint", leg["options"], spark)
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
