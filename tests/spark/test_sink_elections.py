"""A task that writes continues while a cluster elects a leader, and its record is kept on three servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType
from tests.bulk.streams import Streams, create, read

from jetspark import bulk
from jetspark.bulk.retry import request_with_retry
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import Request, StreamInfoRequest, StreamLeaderStepdownRequest
from jetspark.jetstream.key_value import KeyValueConfig
from jetspark.jetstream.key_value.config import stream_config
from jetspark.server import NatsCluster
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.ledger import TaskName
from jetspark.spark.write.stream_writer import JetStreamStreamWriter, plan_stream_write

pytestmark = pytest.mark.matrix

T = TypeVar("T")

ROWS = StructType().add("subject", "string").add("data", "binary")
COUNT = 6_000


def writer(cluster: NatsCluster, **options: str) -> JetStreamStreamWriter:
    given = {"servers": ",".join(cluster.urls), "ackTimeout": "2s", "retryTimeout": "60s", **options}
    return plan_stream_write(ROWS, stream_write_options(given), overwrite=False)


@pytest.mark.slow
def test_leaders_that_are_killed_while_a_task_writes_lose_nothing() -> None:
    with NatsCluster() as cluster, bulk.connect(cluster.urls) as own:
        streams = Streams(own)
        for name in ("PLAIN", "ATOMIC"):
            streams.make_as(StreamConfig(name=name, num_replicas=3, allow_atomic=True, allow_direct=True))

        def rows(stream: str) -> Iterator[pa.RecordBatch]:
            for first in range(0, COUNT, 500):
                if first == COUNT // 2:
                    leader = cluster.wait_stream_leader(stream)
                    leader.kill()
                    leader.restart()
                numbers = range(first, first + 500)
                yield pa.record_batch({"subject": [f"{stream}.x"] * 500, "data": [b"%d" % each for each in numbers]})

        writer(cluster, ledgerStream="PROGRESS").publish(TaskName("query", 0, 0), rows("PLAIN"))
        writer(cluster, atomic="true").publish(TaskName("query", 0, 1), rows("ATOMIC"))
        if own.closed:
            own.reconnect()
        for name in ("PLAIN", "ATOMIC"):
            table, _ = read(own, name, columns=["data"], retry_timeout=60)
            assert sorted(map(int, table.column("data").to_pylist())) == list(range(COUNT))
        cluster.wait_stream_leader("PROGRESS")  # the second leader that was killed may have led it as well
        assert streams.info("PROGRESS").config.num_replicas == 3


@pytest.mark.slow
@pytest.mark.conformance("KSP-15")
def test_leaders_that_are_lost_while_a_task_writes_a_bucket_change_no_order() -> None:
    """Rows of a key that are sent again after an election do not overtake later ones, and no row is stored twice."""
    keys, rounds = 200, 60
    total = keys * rounds
    with NatsCluster() as cluster, bulk.connect(cluster.urls) as own:
        create(own, stream_config(KeyValueConfig(bucket="users", replicas=3, history=64)))

        def lose_leaders() -> None:
            with bulk.connect(cluster.urls) as admin:
                for number, count in enumerate(range(total // 12, total, total // 12)):
                    while ask(admin, StreamInfoRequest("KV_users")).state.last_sequence < count:
                        pass
                    if number % 4 == 3:
                        leader = cluster.wait_stream_leader("KV_users")
                        leader.kill()
                        leader.restart()
                    else:
                        ask(admin, StreamLeaderStepdownRequest("KV_users"))

        order = [at * 7 % keys for at in range(keys)]
        parts = [
            pa.record_batch(
                {
                    "key": [f"k{key}" for key in order for _ in range(2)],
                    "value": [b"%d" % (number + at) for _ in order for at in range(2)],
                }
            )
            for number in range(0, rounds, 2)
        ]
        given = {"servers": ",".join(cluster.urls), "ackTimeout": "2s", "retryTimeout": "60s", "bucket": "users"}
        columns = StructType().add("key", "string").add("value", "binary")
        faults = threading.Thread(target=lose_leaders)
        faults.start()
        made = plan_stream_write(columns, stream_write_options(given), overwrite=False)
        done = made.publish(TaskName("query", 0, 0), iter(parts))
        faults.join()
        assert done.streams["KV_users"].count == total
        cluster.wait_stream_leader("KV_users")
        if own.closed:
            own.reconnect()
        table, _ = read(own, "KV_users", columns=["subject", "data"], retry_timeout=60)
        found: dict[str, list[int]] = {}
        for row in table.to_pylist():
            found.setdefault(row["subject"], []).append(int(row["data"]))
        assert found == {f"$KV.users.k{key}": list(range(rounds)) for key in range(keys)}


def ask(connection: bulk.Connection, request: Request[T]) -> T:
    return request_with_retry(connection, lambda: connection.request(request), 60.0)
