"""A Spark session for the demo: two cores, the settings that jetspark recommends, and its noise in a file.

What the JVM prints before its own logging is configured cannot be switched off, so it inherits a log file as its
standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from jetspark.spark import recommended_conf

__all__ = ["spark_session"]


@contextmanager
def spark_session(log: Path) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end; what it has to say goes to `log`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        **recommended_conf(),
        # For a minute's work, optimising long and collecting garbage in parallel take more of two cores than they give.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": str(log.parent / "warehouse"),
    }
    with _standard_error_to(log):
        spark = SparkSession.builder.master("local[2]").appName("jetspark demo").config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
