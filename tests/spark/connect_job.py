"""A program with Spark only: it reads, writes and copies streams through a Spark Connect server."""

from __future__ import annotations

import importlib.util
import json
import sys

from pyspark.sql import SparkSession


def main(remote: str, options: str, source: str, target: str, checkpoint: str) -> None:
    """Run the program, and print whether jetspark is installed and the rows that were read."""
    given: dict[str, str] = json.loads(options)
    spark = SparkSession.builder.remote(remote).getOrCreate()
    frame = spark.read.format("jetstream").options(**given, stream=source).load()
    read = frame.where("sequence > 900").count()
    rows = frame.selectExpr(f"'{target}.batch' AS subject", "data")
    rows.write.format("jetstream").options(**given).mode("append").save()
    begin = {"stream": source, "startingOffsets": "earliest"}
    moving = spark.readStream.format("jetstream").options(**given, **begin).load().select("data")
    copy = moving.writeStream.format("jetstream").options(**given, subject=f"{target}.stream")
    copy.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    sys.stdout.write(json.dumps([importlib.util.find_spec("jetspark") is not None, read]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
