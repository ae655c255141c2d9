"""Registration of the format `jetstream` in one session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from jetspark.spark.interpreter import is_interpreter_configured
from jetspark.spark.parallelism import with_cores_of
from jetspark.spark.source import JetStreamDataSource

__all__ = ["register"]

_LOGGER: Final = "org.apache.spark.sql.execution.datasources.DataSourceManager"


def register(spark: SparkSession) -> None:
    """Register the format `jetstream` in a session again, for the next `load()`.

    Spark finds the format by itself. There are three reasons to register it explicitly:

    - Spark runs with another Python, which has no jetspark, and reports `DATA_SOURCE_NOT_FOUND`. On a local Spark, the
      source then runs with the interpreter that calls this function. `jetspark.spark.configure` does the same before
      Spark starts.
    - Several streaming queries of a session start at the same time. In Spark 4.3, all reads of a format share one map
      of environment variables, and every starting query writes into it without a lock. Two writes at once can damage
      it; then each job of these queries ends with `Illegal size 5 of collection, expected 6`. A read that is loaded
      after a registration has a map of its own. So call this before each `load()`, or start a query only when the one
      before it has begun.
    - By default, a read has as many partitions as the driver's machine has cores, because Spark does not tell a Python
      source how many cores it uses. A registered source uses `spark.sparkContext.defaultParallelism` at this moment, or
      the cores that the session's settings name, if these are more. Call this when the executors are there, unless
      `spark.executor.instances` and `spark.executor.cores` are set. `configure` reads the settings as well.

    Parameters
    ----------
    spark
        The session. DataFrames that it loaded before are not changed.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:  # Spark Connect: the server has the JVM and a Python of its own
        spark.dataSource.register(JetStreamDataSource)
        return
    with _with_current_interpreter(spark), with_cores_of(spark), _without_replacement_warning(jvm):
        spark.dataSource.register(JetStreamDataSource)


@contextmanager
def _with_current_interpreter(spark: SparkSession) -> Iterator[None]:
    """Make a local Spark use this interpreter for the registered source, unless the user has chosen one."""
    context = spark.sparkContext
    before = context.pythonExec
    if str(context.master).startswith("local") and not is_interpreter_configured():
        context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


@contextmanager
def _without_replacement_warning(jvm: Any) -> Iterator[None]:
    """Suppress Spark's warning that the format replaces a registered one: it replaces itself."""
    log4j = jvm.org.apache.logging.log4j
    before = log4j.LogManager.getLogger(_LOGGER).getLevel()
    log4j.core.config.Configurator.setLevel(_LOGGER, log4j.Level.ERROR)
    try:
        yield
    finally:
        log4j.core.config.Configurator.setLevel(_LOGGER, before)
