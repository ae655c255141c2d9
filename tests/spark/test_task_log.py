"""Spark counts nothing itself for a Python source or sink; the logs of the tasks do."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.bulk.streams import until
from tests.spark.support import Nats

LOGGING = "spark.sql.pyspark.worker.logging.enabled"


@pytest.mark.spark
def test_spark_collects_the_counts_of_the_tasks(spark: SparkSession, nats: Nats) -> None:
    source, target = nats.filled(10), nats.stream()
    spark.conf.set(LOGGING, "true")
    try:
        frame = spark.read.format("jetstream").option("servers", nats.url).option("stream", source).load()
        writer = frame.select("data").write.format("jetstream").option("subject", f"{target}.a").mode("append")
        writer.option("servers", nats.url).save()

        def logged() -> str:
            return "\n".join(row.msg for row in spark.tvf.python_worker_logs().select("msg").collect())

        lines = (
            f"stream {source}, sequences 1 to 10: 10 rows, ",
            f"stream {target}: 10 rows, stored at sequences 1 to 10",
        )
        assert until(lambda: all(each in logged() for each in lines)), logged()  # Spark reads it in the background
    finally:
        spark.conf.unset(LOGGING)
