"""A job for any master: read, aggregate, write, and copy as a stream. As a program it prints its results."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession, functions

from jetspark.spark import recommended_conf

__all__ = ["job"]


def job(spark: SparkSession, options: dict[str, str], source: str, target: str, checkpoint: str) -> list[object]:
    """Copy a stream in another order, with other subjects, and again as a stream; return totals of the first copy."""
    frame = spark.read.format("jetstream").options(**options, stream=source, minPartitions="4").load()
    rows = frame.repartition(2).select(
        functions.concat(functions.lit(f"{target}."), "sequence").alias("subject"), "data"
    )
    rows.write.format("jetstream").options(**options).mode("append").save()
    totals = frame.where("sequence > 100").selectExpr(
        "count(*)", "sum(sequence)", "sum(length(data))", "count(distinct subject)"
    )
    found = list(totals.collect()[0])
    begin = {"stream": source, "startingOffsets": "earliest", "minPartitions": "2"}
    moving = spark.readStream.format("jetstream").options(**options, **begin).load().select("data")
    copy = moving.writeStream.format("jetstream").options(**options, subject=f"{target}.copy")
    copy.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    return found


def where(rows: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Return the interpreter of a task, and its jetspark."""
    import jetspark

    yield sys.executable, str(jetspark.__file__)


def main(options: str, source: str, target: str, checkpoint: str) -> None:
    """Run the job, and print its result, the number of processes with that of the driver, and where tasks run."""
    builder = SparkSession.builder.appName("cluster").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    for name, value in recommended_conf().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    found = job(spark, json.loads(options), source, target, checkpoint)
    context = spark.sparkContext
    processes = context._jsc.sc().getExecutorMemoryStatus().size()
    places = context.parallelize(range(4), 4).mapPartitions(where).distinct().collect()
    spark.stop()
    sys.stdout.write(json.dumps([found, processes, places]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
