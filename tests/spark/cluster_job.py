"""A job for any master: read, aggregate, write. As a program it is a driver of its own and prints what it found."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession, functions

from jetspark.spark import recommended_conf


def job(spark: SparkSession, options: dict[str, str], source: str, target: str) -> list[object]:
    """Copy a stream in another order, under other subjects; returns totals over what was read."""
    frame = spark.read.format("jetstream").options(**options, stream=source, minPartitions="4").load()
    rows = frame.repartition(2).select(
        functions.concat(functions.lit(f"{target}."), "sequence").alias("subject"), "data"
    )
    rows.write.format("jetstream").options(**options).mode("append").save()
    totals = frame.where("sequence > 100").selectExpr(
        "count(*)", "sum(sequence)", "sum(length(data))", "count(distinct subject)"
    )
    return list(totals.collect()[0])


def main(master: str, options: str, source: str, target: str) -> None:
    """Run the job and print what it returns and the number of processes, the driver's with it."""
    builder = SparkSession.builder.master(master).appName("cluster").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    for name, value in recommended_conf().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    found = job(spark, json.loads(options), source, target)
    processes = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    spark.stop()
    sys.stdout.write(json.dumps([found, processes]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
