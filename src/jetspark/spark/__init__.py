"""Spark: the data source `jetstream`.

    df = spark.read.format("jetstream").option("stream", "ORDERS").load()
    df.select("subject", "data").write.format("jetstream").mode("append").save()
    stream = spark.readStream.format("jetstream").option("stream", "ORDERS").load()
    stream.writeStream.format("jetstream").option("checkpointLocation", "...").start()

Spark finds the format by itself once this distribution is installed (`pyspark_jetstream`).

- `option_table`, `option_values`, `given`, `options`, `server_options`: the options, one table; how they are read; what
  contradicts what;
- `schema`: columns of reads and writes; `filters`: Spark's filters at the server;
- `offsets`, `planning`: positions to sequences, sequences to partitions;
- `connections`, `reader`, `range_reader`, `snapshot`, `source`: what runs in Spark's processes to read;
- `writer`, `message_ids`, `publishing`, `published`: and to write;
- `stream_options`, `stream_offsets`, `limits`, `stream_heads`, `stream_reader`: micro-batches of a streaming read;
- `stream_write_options`, `stream_writer`, `duplicate_window`: micro-batches of a streaming write;
- `progress`, `replay`: what keeps a micro-batch that is run again from being stored twice, however late that is;
- `conf`, `interpreter`, `registration`: what a session needs, and which Python runs the source; `push_down`: whether
  Spark may hand filters over;
- `release`, `checkpoint`: what a stream is told after Spark's commit; `listener`: how far a query is.
"""

try:
    from jetspark.spark.checkpoint import release
    from jetspark.spark.conf import configure, recommended_conf
    from jetspark.spark.listener import JetStreamListener, QueryProgress, StreamProgress
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
    "QueryProgress",
    "StreamProgress",
    "configure",
    "recommended_conf",
    "register",
    "release",
]
