"""A read that is planned during an election waits for the leader."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.bulk.streams import Streams

from jetspark import bulk
from jetspark.errors import RequestTimeoutError
from jetspark.jetstream import StreamConfig
from jetspark.server import NatsCluster
from jetspark.spark.options.batch import read_options
from jetspark.spark.read.batch_reader import JetStreamReader
from jetspark.spark.schema import read_schema

pytestmark = pytest.mark.matrix


def reader(cluster: NatsCluster, stream: str, retry: str) -> JetStreamReader:
    options = {
        "servers": ",".join(cluster.urls),
        "stream": stream,
        "requestTimeout": "1s",
        "retryTimeout": retry,
        "startingTimestamp": "0",
    }
    return JetStreamReader(read_schema(include_headers=False), read_options(options))


def test_planning_waits_for_the_leader_of_a_stream() -> None:
    with NatsCluster() as cluster, bulk.connect(cluster.urls) as own:
        streams = Streams(own)
        stream = streams.make_as(StreamConfig(name="R3", num_replicas=3))
        streams.fill(stream, 100)
        cluster.wait_stream_leader(stream).kill()
        with pytest.raises(RequestTimeoutError):
            reader(cluster, stream, retry="10ms").partitions()
        waiting = reader(cluster, stream, retry="60s")
        batches = [batch for part in waiting.partitions() for batch in waiting.read(part)]
        assert pa.Table.from_batches(batches)["sequence"].to_pylist() == list(range(1, 101))
