"""Spark: the data source `jetstream`.

    df = spark.read.format("jetstream").option("stream", "ORDERS").load()
    df.select("subject", "data").write.format("jetstream").mode("append").save()
    spark.readStream.format("jetstream").option("stream", "ORDERS").load()

Spark finds the format by itself once this distribution is installed (`pyspark_jetstream`).

- `option_table`, `option_values`, `options`: the options, one table; how they are read; what contradicts what;
- `schema`: columns of reads and writes; `filters`, `subjects`: Spark's filters at the server;
- `offsets`, `planning`: positions to sequences, sequences to partitions;
- `connections`, `reader`, `range_reader`, `writer`, `source`: what runs in Spark's processes;
- `stream_options`, `stream_offsets`, `limits`, `stream_heads`, `stream_reader`: micro-batches of a streaming read;
- `release`, `checkpoint`: what a stream is told after Spark's commit; `listener`: how far a query is.
"""

from jetspark.spark.checkpoint import release
from jetspark.spark.conf import recommended_conf
from jetspark.spark.listener import JetStreamListener, QueryProgress, StreamProgress
from jetspark.spark.source import JetStreamDataSource

__all__ = [
    "JetStreamDataSource",
    "JetStreamListener",
    "QueryProgress",
    "StreamProgress",
    "recommended_conf",
    "release",
]
