"""A Spark driver that copies the stream ORDERS into a table, and is killed after it has appended a micro-batch."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pyarrow as pa
from examples import lake
from pyspark.sql import SparkSession
from tests.spark.jvm import light_conf

from jetspark.spark import configure

Append = Callable[[pa.Table, int, str], None]


def dies_after(append: Append, fatal: int) -> Append:
    """Return the function, which ends its process group when a micro-batch is appended and Spark does not know yet."""

    def append_and_die(rows: pa.Table, batch_id: int, folder: str) -> None:
        append(rows, batch_id, folder)
        if batch_id == fatal:
            os.killpg(0, signal.SIGKILL)

    return append_and_die


def main(url: str, kind: str, folder: str, fatal: str) -> None:
    """Run the query without an end; the number `fatal` of a micro-batch is -1 to go on."""
    if kind in lake.APPEND:
        lake.APPEND[kind] = dies_after(lake.APPEND[kind], int(fatal))
    builder = configure(SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false"))
    spark = builder.config(map={**light_conf()}).getOrCreate()
    orders = lake.read_orders(spark, servers=url, maxOffsetsPerTrigger="100")
    writer = lake.write(orders, kind, f"{folder}/table").option("checkpointLocation", f"{folder}/checkpoint")
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
