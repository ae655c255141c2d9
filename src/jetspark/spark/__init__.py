"""Spark: the data source `jetstream`.

    df = spark.read.format("jetstream").option("stream", "ORDERS").load()
    df.select("subject", "data").write.format("jetstream").mode("append").save()

Spark finds the format by itself once this distribution is installed (`pyspark_jetstream`).

- `option_table`, `option_values`, `options`: the options, one table; how they are read; what contradicts what;
- `schema`: columns of reads and writes; `filters`, `subjects`: Spark's filters at the server;
- `offsets`, `planning`: positions to sequences, sequences to partitions;
- `connections`, `reader`, `writer`, `source`: what runs in Spark's processes.
"""

from jetspark.spark.conf import recommended_conf
from jetspark.spark.source import JetStreamDataSource

__all__ = ["JetStreamDataSource", "recommended_conf"]
