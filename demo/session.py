"""A Spark session for the demo: two cores and the settings that jetspark recommends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from jetspark.spark import recommended_conf

__all__ = ["spark_session"]


@contextmanager
def spark_session(output: Path) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end."""
    settings: dict[str, bool | float | int | str | None] = {
        **recommended_conf(),
        # The demo runs for a minute on two cores, so long optimisation and parallel garbage collection do not pay off.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": str(output / "warehouse"),
    }
    spark = SparkSession.builder.master("local[2]").appName("jetspark demo").config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
