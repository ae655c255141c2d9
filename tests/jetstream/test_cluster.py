"""Fields that only a cluster sends: peers, leaders, placement."""

import pytest
from tests.jetstream.raw import RawClient
from tests.jetstream.unknown import unknown_fields

from jetspark.jetstream import AckPolicy, ConsumerConfig, Placement, StreamConfig
from jetspark.jetstream.api import (
    AccountInfoRequest,
    ConsumerCreateRequest,
    ConsumerInfoRequest,
    ConsumerLeaderStepdownRequest,
    ConsumerListRequest,
    StreamCreateRequest,
    StreamInfoRequest,
    StreamLeaderStepdownRequest,
    StreamListRequest,
)
from jetspark.server import NatsCluster

pytestmark = pytest.mark.matrix


@pytest.mark.slow
def test_a_cluster_sends_no_unknown_fields() -> None:
    with NatsCluster(3) as cluster, RawClient(cluster.nodes[0]) as client:
        config = StreamConfig(name="R3", subjects=["r3.>"], num_replicas=3, placement=Placement(cluster=cluster.name))
        created = client.request(StreamCreateRequest(config))
        consumer = ConsumerConfig(durable_name="c", ack_policy=AckPolicy.EXPLICIT)
        made = client.request(ConsumerCreateRequest("R3", consumer))
        info = client.request(StreamInfoRequest("R3"))
        assert info.created == created.created
        assert info.cluster is not None
        assert info.cluster.name == cluster.name
        assert info.cluster.replicas is not None
        names = {info.cluster.leader, *(peer.name for peer in info.cluster.replicas)}
        assert names == {server.name for server in cluster.nodes}
        assert info.cluster.leader_since is not None
        seen = [created, made, info, client.request(ConsumerInfoRequest("R3", "c"))]
        assert list(unknown_fields(seen)) == []
        assert list(unknown_fields(client.request(StreamListRequest()).items)) == []
        assert list(unknown_fields(client.request(ConsumerListRequest("R3")).items)) == []
        assert list(unknown_fields(client.request(AccountInfoRequest()))) == []
        client.request(ConsumerLeaderStepdownRequest("R3", "c"))
        client.request(StreamLeaderStepdownRequest("R3"))
