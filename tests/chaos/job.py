"""The Spark driver that the chaos runs kill: one streaming query for each leg, in its own process.

It prints a line of JSON for every micro-batch, so that faults can hit a running query, and for every query that fails,
which is started again. `drain` reads the rest, and prints the content of the Parquet files of each leg.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.jvm import light_conf

from jetspark.spark import JetStreamListener, QueryProgress, recommended_conf, release_committed

__all__ = ["Failure", "Found", "Job", "Leg", "drain"]

START_TIMEOUT = 60.0
LONGEST_CAUSE = 400
DRAIN_ATTEMPTS = 3


class Leg(TypedDict):
    """One query.

    `options` are those of the source, `sink` those of the JetStream sink; without them it writes Parquet to `folder`.
    The numbers that must come through are those up to `numbers` that end in one of `digits`.
    """

    name: str
    options: dict[str, str]
    sink: dict[str, str]
    folder: str
    numbers: int
    digits: list[int]


class Found(TypedDict):
    """The content of the result: rows, distinct expected numbers, rows with other content, and numbers not found."""

    rows: int
    different: int
    strange: int
    missing: list[int]


class Failure(TypedDict):
    """A query that failed, and why."""

    failed: str
    cause: str


class Job(TypedDict):
    """The task of the driver."""

    master: str
    conf: dict[str, str]
    legs: list[Leg]


def session(job: Job) -> SparkSession:
    """Return the Spark session."""
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    conf = {**recommended_conf(), **light_conf(), **quiet, "spark.sql.shuffle.partitions": "2", **job["conf"]}
    builder = SparkSession.builder.master(job["master"]).appName("chaos")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def writer(spark: SparkSession, leg: Leg) -> DataStreamWriter:
    """Return the query of a leg, not started."""
    frame: DataFrame = spark.readStream.format("jetstream").options(**leg["options"]).load()
    if leg["sink"]:
        made = frame.select("data").writeStream.format("jetstream").options(**leg["sink"])
    else:
        rows = frame.selectExpr("CAST(CAST(data AS STRING) AS BIGINT) AS number")
        made = rows.writeStream.format("parquet").option("path", f"{leg['folder']}/out")
    return made.option("checkpointLocation", f"{leg['folder']}/checkpoint").queryName(leg["name"])


def report(progress: QueryProgress) -> None:
    """Print the progress of a query."""
    print_line({"leg": progress.name, "batch": progress.batch_id, "rows": progress.rows, "lag": progress.lag})


def print_line(line: Mapping[str, object]) -> None:
    """Print the value as JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def run(job: Job) -> None:
    """Run the queries; one that fails is started again at its checkpoint."""
    spark = session(job)
    spark.streams.addListener(JetStreamListener(report, log=False))
    queries = {leg["name"]: started(spark, leg) for leg in job["legs"]}
    while True:
        with contextlib.suppress(StreamingQueryException):  # each query reports below why it ended
            spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()
        for leg in job["legs"]:
            if not queries[leg["name"]].isActive:
                report_failure(leg, queries[leg["name"]], print_line)
                queries[leg["name"]] = started(spark, leg)


def started(spark: SparkSession, leg: Leg) -> StreamingQuery:
    """Start the query of a leg. Queries start one by one: each starts processes, for which Spark allows ten seconds."""
    query = writer(spark, leg).start()
    deadline = time.monotonic() + START_TIMEOUT
    while query.isActive and query.status["message"].startswith("Initializing") and time.monotonic() < deadline:
        time.sleep(0.05)  # no event reports it
    return query


def report_failure(leg: Leg, query: StreamingQuery, tell: Callable[[Failure], object]) -> None:
    """Say why a query failed. If messages are lost, let it read the rest from now on, as a user would."""
    why = cause(query)
    tell({"failed": leg["name"], "cause": why[:LONGEST_CAUSE]})
    if "set option failOnDataLoss = false" in why:
        leg["options"]["failOnDataLoss"] = "false"


def cause(query: StreamingQuery) -> str:
    """Return why a query failed: our last line, or the first line of Spark."""
    error = query.exception()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("jetspark.")]
    return (ours or [line.rpartition("terminated with exception: ")[2] for line in lines])[-1 if ours else 0]


def drain(spark: SparkSession, legs: Sequence[Leg], tell: Callable[[Failure], object] = print_line) -> dict[str, Found]:
    """Read the rest; return the content of the Parquet files of each leg. `tell` gets each query that failed."""
    found = {}
    for leg in legs:
        drain_leg(spark, leg, tell)
        if not leg["sink"]:
            found[leg["name"]] = compare(spark, leg)
        if "commitMode" in leg["options"]:
            release_committed(f"{leg['folder']}/checkpoint", leg["options"], spark)
    return found


def drain_leg(spark: SparkSession, leg: Leg, tell: Callable[[Failure], object]) -> None:
    """Read the rest of a leg; start it again if it fails, as `run` does."""
    for attempt in range(1, DRAIN_ATTEMPTS + 1):
        query = writer(spark, leg).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            report_failure(leg, query, tell)
            if attempt == DRAIN_ATTEMPTS:
                raise
        else:
            return


def compare(spark: SparkSession, leg: Leg) -> Found:
    """Compare the Parquet files of a leg with the expected numbers."""
    wanted = f"coalesce(number BETWEEN 1 AND {leg['numbers']} AND number % 10 IN {(*leg['digits'], -1)}, false)"
    found = spark.read.parquet(f"{leg['folder']}/out")
    (row,) = found.selectExpr(
        "count(*) AS rows",
        f"count(DISTINCT number) FILTER (WHERE {wanted}) AS different",
        f"count(*) FILTER (WHERE NOT {wanted}) AS strange",
    ).collect()
    numbers = spark.range(1, leg["numbers"] + 1).selectExpr("id AS number").where(wanted)
    missing = [each.number for each in numbers.join(found, "number", "left_anti").collect()]
    return Found(rows=row.rows, different=row.different, strange=row.strange, missing=missing)


def main(mode: str, path: str) -> None:
    """Run, or drain and print the result."""
    job: Job = json.loads(Path(path).read_text())
    if mode == "run":
        run(job)
        return
    spark = session(job)
    found = drain(spark, job["legs"], print_line)
    spark.stop()
    sys.stdout.write(json.dumps({"found": found}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
