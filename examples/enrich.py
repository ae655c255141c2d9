"""Add customer names to the orders of a stream: join the stream with a key-value bucket, and publish.

The stream ORDERS has orders as JSON, `{"order": 17, "customer": "c4"}`, on `orders.>`. The bucket CUSTOMERS has the
name of each customer under the customer's key. The query publishes each order with its name to `named.<customer>`,
which the stream NAMED stores. It publishes each order once, whatever is restarted in between. Spark reads the bucket
again for every micro-batch, at one moment.

    NATS_URL=nats://localhost:4222 python examples/enrich.py /tmp/enrich-checkpoint
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from jetspark.spark import configure


def read_customers(spark: SparkSession, **options: str) -> DataFrame:
    """Return the present content of the bucket: customer and name, without deleted and expired keys."""
    reader = spark.read.format("jetstream").options(bucket="CUSTOMERS", **options)
    return reader.schema("key STRING, value STRING").load().selectExpr("key AS customer", "value AS name")


def name_orders(spark: SparkSession, **options: str) -> DataFrame:
    """Return the orders with names, as rows to publish."""
    reader = spark.readStream.format("jetstream").options(stream="ORDERS", startingOffsets="earliest", **options)
    order = "from_json(CAST(data AS STRING), 'order BIGINT, customer STRING') AS order"
    orders = reader.load().selectExpr(order).select("order.*").where("customer IS NOT NULL")
    named = orders.join(broadcast(read_customers(spark, **options)), "customer", "left")
    return named.selectExpr("concat('named.', customer) AS subject", "to_json(struct(*)) AS data")


def publish(messages: DataFrame, checkpoint: str, **options: str) -> None:
    """Publish the orders that the stream has now."""
    writer = messages.writeStream.format("jetstream").options(
        expectedStream="NAMED", ledgerStream="QUERY_LEDGER", checkpointLocation=checkpoint, **options
    )
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    session = configure(SparkSession.builder.appName("enrich")).getOrCreate()
    publish(name_orders(session), sys.argv[1])
