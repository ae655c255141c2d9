"""A task that writes continues while a cluster elects a leader, and its record is kept on three servers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType
from tests.bulk.streams import Streams, read

from jetspark import bulk
from jetspark.jetstream import StreamConfig
from jetspark.server import NatsCluster
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.write.ledger import TaskName
from jetspark.spark.write.stream_writer import JetStreamStreamWriter, plan_stream_write

pytestmark = pytest.mark.matrix

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
