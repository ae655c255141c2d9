"""Streaming queries of one session that start together."""

from __future__ import annotations

from pyspark.sql import SparkSession

from jetspark.spark.source import JetStreamDataSource

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register the format `jetstream` in a session anew, for the next `load()`.

    Spark finds the format by itself, so nobody needs this but for one case: several streaming queries of a session that
    start at the same time. Spark 4.3 lets all reads of a format share one map of environment variables, and every
    starting query writes into it without a lock; two at once can spoil it, after which each job of theirs ends with
    `Illegal size 5 of collection, expected 6`. What is loaded after a registration has a map of its own. So call this
    before each `load()`, or start the next query when the one before it has begun.

    Parameters
    ----------
    spark
        The session. What it loaded before keeps what it has.
    """
    spark.dataSource.register(JetStreamDataSource)
