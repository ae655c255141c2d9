"""The lake example: each message is once in the table, also when the driver is killed at the worst moment."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from examples import lake
from pyspark.sql import SparkSession
from tests.spark.killed_drivers import kill_after, run_until_killed
from tests.spark.support import Nats
from tests.spark.test_streaming import run

ROWS = pa.table(
    {"sequence": pa.array([1, 2], pa.int64()), "subject": ["orders.a", "orders.b"], "data": ["first", None]}
)


def delta_rows(folder: str) -> pa.Table:
    return DeltaTable(folder).to_pyarrow_table()


def iceberg_rows(folder: str) -> pa.Table:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    return catalog.load_table(lake.TABLE).scan().to_arrow()


def sequences_in(kind: str, folder: str, session: SparkSession) -> list[int]:
    if kind == "parquet":
        return sorted(int(row.sequence) for row in session.read.parquet(folder).select("sequence").collect())
    rows = delta_rows(folder) if kind == "delta" else iceberg_rows(folder)
    return sorted(cast("list[int]", rows["sequence"].to_pylist()))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_repeated_micro_batch_is_appended_once(tmp_path: Path, kind: str) -> None:
    folder = str(tmp_path / "table")
    for batch_id in (0, 0, 1, 0, 1):
        lake.APPEND[kind](ROWS, batch_id, folder)
    rows = delta_rows(folder) if kind == "delta" else iceberg_rows(folder)
    assert rows.sort_by("sequence")["sequence"].to_pylist() == [1, 1, 2, 2]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_each_message_is_once_in_the_table_after_drivers_were_killed(
    session: SparkSession, nats: Nats, tmp_path: Path, kind: str
) -> None:
    count = 1000
    nats.stream("ORDERS", subjects=["orders.>"])
    try:
        nats.publish([f"orders.{number}" for number in range(count)])
        command = ["tests.spark.lake_job", nats.url, kind, str(tmp_path)]
        if kind == "parquet":
            for _ in range(3):
                kill_after([*command, "-1"], tmp_path, 2)
        else:  # at the worst moment: the table has the micro-batch, and Spark does not know it
            for fatal in (0, 3):
                run_until_killed([*command, str(fatal)])
        orders = lake.read_orders(session, servers=nats.url, maxOffsetsPerTrigger="100")
        table = str(tmp_path / "table")
        run(lake.write(orders, kind, table).option("checkpointLocation", str(tmp_path / "checkpoint")))
    finally:
        nats.delete("ORDERS")
    assert sequences_in(kind, table, session) == list(range(1, count + 1))
