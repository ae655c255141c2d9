"""Copy the stream ORDERS to ORDERS_COPY until Kubernetes stops the pod. The settings come from `orders.yaml`."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from jetspark.spark import recommended_conf


def main() -> None:
    """Run the query."""
    spark = SparkSession.builder.config(map={**recommended_conf()}).getOrCreate()
    nats = {"servers": os.environ["NATS_URL"], "credentials": "/etc/nats/user.creds"}
    orders = spark.readStream.format("jetstream").options(stream="ORDERS", startingOffsets="earliest", **nats).load()
    copy = orders.selectExpr("concat('copy.', subject) AS subject", "data")
    writer = copy.writeStream.format("jetstream").options(ledgerStream="SPARK_PROGRESS", **nats)
    writer.option("checkpointLocation", os.environ["CHECKPOINT"]).start().awaitTermination()


if __name__ == "__main__":
    main()
