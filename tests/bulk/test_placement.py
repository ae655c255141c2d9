"""Replicas for which the cluster has no servers at the moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.stores import before

from jetspark import bulk
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamCreateRequest
from jetspark.jetstream.config import Placement
from jetspark.jetstream.errors import BadRequestError
from jetspark.server import NatsCluster
from jetspark.server.cluster import ClusterNode

pytestmark = pytest.mark.matrix

_TAG = "few"


@pytest.fixture
def few() -> Iterator[tuple[NatsCluster, list[ClusterNode]]]:
    """A cluster of five, and the three nodes of it that have a tag. Two of those are down."""
    with NatsCluster(5) as cluster:
        tagged = list(cluster)[:3]
        for node in tagged:
            node.reload({"server_tags": [_TAG]})
        cluster.restart()  # servers announce new tags within ten seconds, and at their start at once
        for node in tagged[:2]:
            node.stop()
        cluster.wait_ready()
        yield cluster, tagged


def test_a_stream_creation_is_repeated_until_the_needed_server_is_known(
    few: tuple[NatsCluster, list[ClusterNode]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, tagged = few
    config = StreamConfig(name="S", num_replicas=3, placement=Placement(tags=[_TAG]))
    monkeypatch.setattr("jetspark.jetstream.api.streams._PEER_PAUSES", (0.2,) * 100)
    monkeypatch.setattr(StreamCreateRequest, "retry_delay", before(StreamCreateRequest.retry_delay, tagged[0].start))
    with bulk.connect(cluster.urls) as connection:
        info = connection.request(StreamCreateRequest(config), timeout=30)
    assert info.config.num_replicas == 3


def test_a_stream_that_cannot_be_placed_is_refused_after_some_tries(
    few: tuple[NatsCluster, list[ClusterNode]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = few
    config = StreamConfig(name="S", num_replicas=3, placement=Placement(tags=[_TAG]))
    tries: list[None] = []
    counted = before(StreamCreateRequest.retry_delay, lambda: tries.append(None))
    monkeypatch.setattr(StreamCreateRequest, "retry_delay", counted)
    with bulk.connect(cluster.urls) as connection, pytest.raises(BadRequestError, match="peer offline") as refused:
        connection.request(StreamCreateRequest(config), timeout=30)
    assert refused.value.err_code == 10005
    assert len(tries) == 6
