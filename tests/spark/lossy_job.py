"""A job that goes on when its cluster loses a worker: it copies a stream in micro-batches, then reads the copy."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from jetspark.spark import recommended_conf


def main(options: str, source: str, target: str, checkpoint: str) -> None:
    """Copy the stream, and print how many messages and how many different ones the copy has."""
    builder = SparkSession.builder.appName("lossy").config("spark.ui.enabled", "false")
    spark = builder.config(map={**recommended_conf()}).getOrCreate()
    reader = spark.readStream.format("jetstream").options(**json.loads(options))
    begin = {"stream": source, "startingOffsets": "earliest", "minPartitions": "2", "maxOffsetsPerTrigger": "500"}
    rows = reader.options(**begin).load().select("data")
    writer = rows.writeStream.format("jetstream").options(**json.loads(options), subject=f"{target}.copy")
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    copy = spark.read.format("jetstream").options(**json.loads(options), stream=target, minPartitions="4").load()
    found = list(copy.selectExpr("count(*)", "count(distinct data)").collect()[0])
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
