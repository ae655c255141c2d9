"""A consumer may be served by a replica that still lags. Messages that it does not know are read too.

A proxy plays the replica: it lets a consumer report that no message is pending, like a replica that lags.
"""

import re
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.bulk.proxy import Proxy, Tamper
from tests.bulk.streams import Streams, read, rows, sequences, until

from jetspark import bulk
from jetspark.jetstream import StreamConfig
from jetspark.server import NatsCluster

pytestmark = pytest.mark.matrix

_PENDING = re.compile(rb'"num_pending":([1-9]\d*)')


def nothing_pending(times: int = 2) -> Tamper:
    """Let consumers report `times` times that nothing is pending: when one is created, and when its info is read."""
    left = times

    def tamper(data: bytes) -> bytes:
        nonlocal left
        while left and (found := _PENDING.search(data)):
            left -= 1
            begin, end = found.span(1)
            data = data[:begin] + b"0".ljust(end - begin) + data[end:]
        return data

    return tamper


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster]:
    with NatsCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def stream(cluster: NatsCluster) -> Iterator[str]:
    """1,000 messages on subjects a and b in turn, on each of three servers."""
    with bulk.connect(cluster.urls) as own:
        streams = Streams(own)
        name = streams.make_as(StreamConfig(name="R3", num_replicas=3))
        for at in range(0, 1000, 2):
            bulk.publish(own, pa.Table.from_batches([rows(f"{name}.{letter}", [b"%d" % at]) for letter in "ab"]))
        assert until(lambda: all(node.monitor("/jsz")["messages"] == 1000 for node in cluster))  # no other replica lags
        yield name


def test_a_scan_asks_the_leader_before_it_reports_an_empty_stream(cluster: NatsCluster, stream: str) -> None:
    with Proxy(cluster[0], nothing_pending()) as proxy, bulk.connect(proxy.url) as own:
        table, report = read(own, stream, subjects=[f"{stream}.a"], columns=["sequence"])
    assert sequences(table) == list(range(1, 1000, 2))
    assert (report.restarts, report.complete) == (1, True)


def test_without_retries_it_is_an_error_and_never_a_short_result(cluster: NatsCluster, stream: str) -> None:
    with (
        Proxy(cluster[0], nothing_pending()) as proxy,
        bulk.connect(proxy.url) as own,
        pytest.raises(ConnectionError, match="does not have sequence 1 yet"),
    ):
        read(own, stream, subjects=[f"{stream}.a"], retry_timeout=0)


def test_the_end_of_an_empty_range_is_accepted(cluster: NatsCluster, stream: str) -> None:
    with bulk.connect(cluster.urls) as own:
        table, report = read(own, stream, subjects=[f"{stream}.c"])
        assert (len(table), report.restarts, report.complete) == (0, 0, True)
        table, report = read(own, stream, subjects=[f"{stream}.a"], start_sequence=900, end_sequence=901)
        assert (len(table), report.restarts, report.complete) == (0, 0, True)


def test_times_are_resolved_by_the_leader(cluster: NatsCluster, stream: str) -> None:
    with bulk.connect(cluster.urls) as own:
        table, _ = read(own, stream, columns=["timestamp_ns"], end_sequence=11)
    tenth = table["timestamp_ns"][9].as_py()
    with Proxy(cluster[0], nothing_pending(100)) as proxy, bulk.connect(proxy.url) as own:
        assert bulk.first_sequence_at(own, stream, tenth) == 10
        assert bulk.first_sequence_at(own, stream, time.time_ns()) == 1001


def test_a_snapshot_asks_the_leader_too(cluster: NatsCluster, stream: str) -> None:
    with Proxy(cluster[0], nothing_pending()) as proxy, bulk.connect(proxy.url) as own:
        snapshot = bulk.last_per_subject(own, stream, columns=["sequence"])
    assert (sequences(snapshot.table), snapshot.sequence) == ([999, 1000], 1000)
