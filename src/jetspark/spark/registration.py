"""The format `jetstream`, registered in one session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from jetspark.spark.interpreter import is_interpreter_configured
from jetspark.spark.source import JetStreamDataSource

__all__ = ["register"]

_LOGGER: Final = "org.apache.spark.sql.execution.datasources.DataSourceManager"


def register(spark: SparkSession) -> None:
    """Register the format `jetstream` in a session again, for the next `load()`.

    Spark finds the format by itself. There are two reasons to register it all the same:

    - Spark runs with another Python, which has no jetspark, and says `DATA_SOURCE_NOT_FOUND`. On a local Spark the
      source then runs with the interpreter that calls this function. `jetspark.spark.configure` does the same before
      Spark starts.
    - Several streaming queries of a session start at the same time. Spark 4.3 lets all reads of a format share one map
      of environment variables, and every starting query writes into it without a lock; two at once can spoil it, after
      which each job of theirs ends with `Illegal size 5 of collection, expected 6`. What is loaded after a registration
      has a map of its own. So call this before each `load()`, or start the next query when the one before it has begun.

    Parameters
    ----------
    spark
        The session. What it loaded before keeps what it has.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:  # Spark Connect: the server has the JVM and a Python of its own
        spark.dataSource.register(JetStreamDataSource)
        return
    with _with_current_interpreter(spark), _without_replacement_warning(jvm):
        spark.dataSource.register(JetStreamDataSource)


@contextmanager
def _with_current_interpreter(spark: SparkSession) -> Iterator[None]:
    """Let a local Spark run what is registered with this interpreter, unless the user has chosen one."""
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
    """Keep Spark from warning that the format takes the place of itself."""
    log4j = jvm.org.apache.logging.log4j
    before = log4j.LogManager.getLogger(_LOGGER).getLevel()
    log4j.core.config.Configurator.setLevel(_LOGGER, log4j.Level.ERROR)
    try:
        yield
    finally:
        log4j.core.config.Configurator.setLevel(_LOGGER, before)
