"""Keep the newest state of every order in a database: a stream, `foreachBatch`, and an idempotent upsert.

The stream ORDERS has orders as JSON, `{"order": 17, "state": "shipped"}`, on `orders.>`. Spark may call the function
twice for one micro-batch. So each row has its sequence in the stream, and the database takes a row only if its sequence
is higher than the stored one. A repeated micro-batch then changes nothing.

    NATS_URL=nats://localhost:4222 python examples/upsert.py orders.db /tmp/orders-checkpoint
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from jetspark.spark import configure

UPSERT = """
    INSERT INTO orders (id, state, sequence) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, sequence = excluded.sequence
    WHERE excluded.sequence > orders.sequence
"""


def read_orders(spark: SparkSession, **options: str) -> DataFrame:
    """Return the orders of the stream: id, state, sequence."""
    reader = spark.readStream.format("jetstream").options(stream="ORDERS", startingOffsets="earliest", **options)
    order = "from_json(CAST(data AS STRING), 'order BIGINT, state STRING') AS order"
    return reader.load().selectExpr("sequence", order).selectExpr("order.order AS id", "order.state", "sequence")


def keep_newest(orders: DataFrame, database: str, checkpoint: str) -> None:
    """Update a database with the orders that the stream has now."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT, sequence INTEGER)")

    def upsert(batch: DataFrame, batch_id: int) -> None:  # noqa: ARG001 - Spark passes it
        newest = batch.where("id IS NOT NULL").groupBy("id").agg(F.max_by("state", "sequence"), F.max("sequence"))
        rows = [tuple(row) for row in newest.collect()]
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.executemany(UPSERT, rows)

    query = orders.writeStream.foreachBatch(upsert).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    session = configure(SparkSession.builder.appName("upsert")).getOrCreate()
    keep_newest(read_orders(session), *sys.argv[1:3])
