"""Spark: the data source `jetstream`.

    df = spark.read.format("jetstream").option("stream", "ORDERS").load()
    df.select("subject", "data").write.format("jetstream").mode("append").save()
    stream = spark.readStream.format("jetstream").option("stream", "ORDERS").load()
    stream.writeStream.format("jetstream").option("checkpointLocation", "...").start()

Spark finds the format by itself once this distribution is installed (`pyspark_jetstream`).

- `source`: the class that Spark loads. `registration`, `conf`, `interpreter`: the registration in a session, its
  settings, and the Python that runs the source. `parallelism`: the number of cores. `shared_plan_bug`: whether Spark
  may push filters down. `progress`, `listener`, `metrics`: the progress of a query, and where it is reported.
- `options`: one table of all options, how their texts are read, and the checked options of each read and write.
- `connections`: one connection for each worker process. `schema`: the columns of reads and writes.
- `streams`: sequences and offsets, and the state of the streams.
- `commit`: the release of messages after Spark's commit, and a check of file sinks.
- `read`: batch and streaming reads. `write`: batch and streaming writes.
"""

try:
    from jetspark.spark.commit.checkpoint import release_committed
    from jetspark.spark.commit.file_sink import check_file_sink
    from jetspark.spark.conf import configure, recommended_conf
    from jetspark.spark.listener import JetStreamListener
    from jetspark.spark.metrics.opentelemetry import OpenTelemetryMetrics
    from jetspark.spark.metrics.prometheus import PrometheusMetrics
    from jetspark.spark.metrics.query_metrics import QueryMetrics
    from jetspark.spark.progress import QueryProgress, StreamProgress, progress_of
    from jetspark.spark.registration import register
    from jetspark.spark.source import JetStreamDataSource
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "pyspark":
        raise
    problem = "jetspark.spark needs pyspark 4.2 or newer: pip install 'jetspark[spark]'"
    raise ModuleNotFoundError(problem, name=error.name) from None

__all__ = [
    "JetStreamDataSource",
    "JetStreamListener",
    "OpenTelemetryMetrics",
    "PrometheusMetrics",
    "QueryMetrics",
    "QueryProgress",
    "StreamProgress",
    "check_file_sink",
    "configure",
    "progress_of",
    "recommended_conf",
    "register",
    "release_committed",
]
