"""Where Spark looks: it imports every top-level package named `pyspark_*` and registers its `DefaultSource`."""

from jetspark.spark.source import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
