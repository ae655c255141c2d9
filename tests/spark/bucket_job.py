"""A Spark driver that follows a bucket until it is killed."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from tests.spark.jvm import light_conf

from jetspark.spark import configure


def main(url: str, bucket: str, folder: str) -> None:
    """Write the content of the bucket and its changes to Parquet files, with a checkpoint."""
    builder = configure(SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false"))
    spark = builder.config(map={**light_conf()}).getOrCreate()
    options = {"servers": url, "bucket": bucket, "initialSnapshot": "true", "maxOffsetsPerTrigger": "200"}
    changes = spark.readStream.format("jetstream").options(**options).load()
    writer = changes.writeStream.format("parquet").option("path", f"{folder}/rows")
    writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
