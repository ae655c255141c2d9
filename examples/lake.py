"""Copy a stream into a table of a data lake, each message once: Parquet files, Delta Lake or Iceberg.

Spark repeats a micro-batch if the driver ends before it has noted that the micro-batch is done. Each of the three ways
takes a repeated micro-batch for what it is:

- Parquet: Spark's own file sink has a log of the files of each micro-batch.
- Delta Lake: the number of the micro-batch is the version of an application transaction. Delta stores both at once.
- Iceberg: the number of the micro-batch is a property of the table. One transaction appends the rows and sets it.

The last two need no Java package, only `pip install deltalake` or `pip install 'pyiceberg[pyarrow,sql-sqlite]'`. The
driver holds one micro-batch in memory: `maxOffsetsPerTrigger` limits it. One query writes to a table at a time.

    NATS_URL=nats://localhost:4222 python examples/lake.py delta /tmp/orders /tmp/orders-checkpoint
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jetspark.spark import configure

APPLICATION = "orders-from-jetstream"
"""Name of the query in the table. Another query that writes to the same table needs another name."""
BATCH = f"{APPLICATION}.batch-id"
TABLE = "lake.orders"


def read_orders(spark: SparkSession, **options: str) -> DataFrame:
    """Return the messages of the stream ORDERS."""
    settings = {"stream": "ORDERS", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100000", **options}
    reader = spark.readStream.format("jetstream").schema("sequence BIGINT, subject STRING, data STRING")
    return reader.options(**settings).load()


def append_to_delta(rows: pa.Table, batch_id: int, folder: str) -> None:
    """Append a micro-batch to a Delta table, unless the table has it."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    if DeltaTable.is_deltatable(folder):
        last = DeltaTable(folder).transaction_version(APPLICATION)
        if last is not None and last >= batch_id:
            return
    done = CommitProperties(app_transactions=[Transaction(APPLICATION, batch_id)])
    write_deltalake(folder, rows, mode="append", commit_properties=done)


def append_to_iceberg(rows: pa.Table, batch_id: int, folder: str) -> None:
    """Append a micro-batch to an Iceberg table, unless the table has it. The catalog is a file of SQLite."""
    from pyiceberg.catalog.sql import SqlCatalog

    Path(folder).mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("lake")
    table = catalog.create_table_if_not_exists(TABLE, rows.schema)
    if int(table.properties.get(BATCH, -1)) >= batch_id:
        return
    with table.transaction() as transaction:
        transaction.append(rows)
        transaction.set_properties({BATCH: str(batch_id)})


APPEND: dict[str, Callable[[pa.Table, int, str], None]] = {"delta": append_to_delta, "iceberg": append_to_iceberg}
"""How to append a micro-batch to each kind of table that Spark does not write itself: rows, its number, the folder."""


def write(orders: DataFrame, kind: str, folder: str) -> DataStreamWriter:
    """Return the writer of a kind of table: `parquet`, `delta` or `iceberg`."""
    if kind == "parquet":
        return orders.writeStream.format("parquet").option("path", folder)
    append = APPEND[kind]

    def append_batch(batch: DataFrame, batch_id: int) -> None:
        append(batch.toArrow(), batch_id, folder)

    return orders.writeStream.foreachBatch(append_batch)


if __name__ == "__main__":
    session = configure(SparkSession.builder.appName("lake")).getOrCreate()
    writer = write(read_orders(session), sys.argv[1], sys.argv[2])
    writer.option("checkpointLocation", sys.argv[3]).trigger(availableNow=True).start().awaitTermination()
