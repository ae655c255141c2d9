"""The examples work as described, even if Spark repeats a micro-batch."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from examples import enrich, upsert
from pyspark.sql import DataFrame, SparkSession
from tests.spark.buckets import EXPIRED, Bucket
from tests.spark.support import Nats, running

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def nats() -> Iterator[Nats]:
    with running() as nats:
        yield nats


def publish(nats: Nats, subject: str, *rows: object) -> None:
    nats.publish([subject] * len(rows), [json.dumps(row).encode() for row in rows])


def run_pipeline(nats: Nats, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a pipeline of the examples in a copy of its folder."""
    copy = folder / name
    shutil.copytree(ROOT / "examples" / name, copy)
    spec = copy / "spark-pipeline.yml"
    text = re.sub(r"(?m)^storage: file:///tmp/.*$", f"storage: file://{folder}/storage", spec.read_text())
    assert str(folder) in text
    spec.write_text(text)
    return subprocess.run(
        [Path(sys.executable).parent / "spark-pipelines", "run"],
        cwd=copy,
        env={**os.environ, "NATS_URL": nats.url, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def orders(database: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT id, state, sequence FROM orders ORDER BY id").fetchall()


def test_the_newest_state_of_every_order_is_kept(
    session: SparkSession,
    nats: Nats,
    tmp_path: Path,
) -> None:
    nats.stream("ORDERS", subjects=["orders.>"])
    publish(nats, "orders.1", {"order": 1, "state": "new"}, {"order": 2, "state": "new"}, {"order": 1, "state": "paid"})
    nats.publish(["orders.x"], [b"no order"])
    database, checkpoint = tmp_path / "orders.db", tmp_path / "checkpoint"
    stream = upsert.read_orders(session, servers=nats.url)
    upsert.keep_newest(stream, str(database), str(checkpoint))
    assert orders(database) == [(1, "paid", 3), (2, "new", 2)]
    publish(nats, "orders.1", {"order": 1, "state": "sent"})
    for file in (checkpoint / "commits").glob("*0*"):
        file.unlink()  # the first batch is repeated
    upsert.keep_newest(stream, str(database), str(checkpoint))
    assert orders(database) == [(1, "sent", 5), (2, "new", 2)]


def test_orders_get_names_from_the_bucket(
    session: SparkSession,
    nats: Nats,
    tmp_path: Path,
) -> None:
    nats.stream("ORDERS", subjects=["orders.>"])
    customers = Bucket(nats, "CUSTOMERS")
    nats.stream("NAMED", subjects=["named.>"])
    customers.put("c1", value=b"Ada")
    customers.put("c2", "c3", value=b"Bob")
    customers.mark(EXPIRED, "c3")
    publish(nats, "orders.1", {"order": 1, "customer": "c1"}, {"order": 2, "customer": "c3"})
    options = {"servers": nats.url}
    enrich.publish(enrich.name_orders(session, **options), str(tmp_path), **options)
    customers.put("c3", value=b"Cem")
    publish(nats, "orders.1", {"order": 3, "customer": "c3"})
    enrich.publish(enrich.name_orders(session, **options), str(tmp_path), **options)
    found = [json.loads(row["data"]) for row in nats.rows("NAMED", "data") if isinstance(row["data"], bytes)]
    assert sorted(found, key=lambda row: int(row["order"])) == [
        {"customer": "c1", "order": 1, "name": "Ada"},
        {"customer": "c3", "order": 2},
        {"customer": "c3", "order": 3, "name": "Cem"},
    ]


@pytest.mark.conformance("KSP-16")
def test_each_micro_batch_sees_the_bucket_at_a_moment_of_its_own(
    session: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    nats.stream("ORDERS", subjects=["orders.>"])
    customers = Bucket(nats, "CUSTOMERS")
    customers.put("c1", value=b"Ada")
    publish(nats, "orders.1", *({"order": order, "customer": "c1"} for order in range(4)))
    found: list[list[tuple[object, ...]]] = []

    def write_next(batch: DataFrame, batch_id: int) -> None:
        rows = batch.selectExpr("get_json_object(data, '$.order')", "get_json_object(data, '$.name')").collect()
        found.append([tuple(row) for row in rows])
        if batch_id == 1:
            customers.mark(EXPIRED, "c1")
        else:
            customers.put("c1", value=b"Ada %d" % batch_id)

    orders = enrich.name_orders(session, servers=nats.url, maxOffsetsPerTrigger="1")
    query = orders.writeStream.foreachBatch(write_next).option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start().awaitTermination()
    assert found == [[("0", "Ada")], [("1", "Ada 0")], [("2", None)], [("3", "Ada 2")]]


@pytest.mark.matrix
@pytest.mark.conformance("KSP-17")
def test_auto_cdc_takes_the_changes_of_a_bucket_up_to_a_table_without_merge(nats: Nats, tmp_path: Path) -> None:
    """Spark 4.3 has no table with MERGE of its own, so the flow ends where it would write."""
    Bucket(nats, "USERS").put("ada")
    done = run_pipeline(nats, "users", tmp_path)
    assert done.returncode != 0
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in done.stdout + done.stderr


@pytest.mark.matrix
def test_the_pipeline_cleans_aggregates_and_publishes(nats: Nats, tmp_path: Path) -> None:
    nats.stream("FLIGHTS", subjects=["flights.>"])
    nats.stream("DELAYS", subjects=["delays.>"])
    flights = [
        {
            "carrier": ("UA", "AA")[number % 2],
            "scheduled": f"2013-01-01T{number // 10:02d}:{number % 10:02d}:00Z",
            "delay": None if number % 7 == 0 else number % 5,
        }
        for number in range(100)
    ]
    publish(nats, "flights.x", *flights)
    nats.publish(["flights.x"], [b"no flight"])
    done = run_pipeline(nats, "pipeline", tmp_path)
    assert done.returncode == 0, done.stderr[-5000:]
    kept = pq.read_table(tmp_path / "pipeline" / "spark-warehouse" / "departures", columns=["sequence"])
    assert sorted(kept.column("sequence").to_pylist()) == [number + 1 for number in range(100) if number % 7]
    hours = [json.loads(row["data"]) for row in nats.rows("DELAYS", "data") if isinstance(row["data"], bytes)]
    expected: dict[tuple[object, str], int] = {}
    for flight in flights:
        hour = str(flight["scheduled"])[:13]
        if flight["delay"] is not None and hour < "2013-01-01T08":  # the watermark is an hour before the last flight
            key = (flight["carrier"], hour)
            expected[key] = expected.get(key, 0) + 1
    assert {(row["carrier"], row["start"][:13]): row["flights"] for row in hours} == expected
    assert {row["subject"] for row in nats.rows("DELAYS", "subject")} == {"delays.UA", "delays.AA"}
