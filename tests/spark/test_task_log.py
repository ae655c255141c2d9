"""Spark counts nothing of its own for a Python source or sink; the tasks' logs do."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
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
        logged = [row.msg for row in spark.tvf.python_worker_logs().select("msg").collect()]
    finally:
        spark.conf.unset(LOGGING)
    assert any(text.startswith(f"stream {source}, sequences 1 to 10: 10 rows, ") for text in logged)
    assert any(f"stream {target}: 10 rows, stored at sequences 1 to 10" in text for text in logged)
