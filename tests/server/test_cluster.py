"""Three nodes elect a leader, lose a node, and get it back."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.raw import RawConnection

from jetspark.server import NatsCluster, NatsServer, ServerStartError, ServerTimeoutError
from jetspark.server import cluster as cluster_module
from jetspark.server.ports import ReservedPort

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster]:
    with NatsCluster(3, config={"max_payload": 4096}) as running:
        yield running


def a_follower(cluster: NatsCluster) -> NatsServer:
    return next(node for node in cluster if node is not cluster.meta_leader())


def test_a_started_cluster_has_a_leader_and_three_healthy_nodes(cluster: NatsCluster) -> None:
    leader = cluster.meta_leader()
    assert leader is not None
    assert leader in cluster.nodes
    assert len({node.port for node in cluster}) == len(cluster) == 3
    assert cluster.urls == [node.url for node in cluster.nodes]
    for node in cluster:
        assert node.healthy()
        assert node.monitor("/varz")["max_payload"] == 4096
        assert cluster.get_node(node.name) is node
    with pytest.raises(LookupError, match="jetspark-1"):
        cluster.get_node("nobody")


def test_replicas_have_leaders_and_survive_the_kill_of_a_node(cluster: NatsCluster) -> None:
    with RawConnection(cluster[0].host, cluster[0].port) as client:
        client.create_stream("R3", replicas=3)
        config = {"stream_name": "R3", "config": {"durable_name": "c", "ack_policy": "explicit"}}
        assert "error" not in client.request("$JS.API.CONSUMER.CREATE.R3.c", config)
        client.publish("R3.a")
    assert cluster.wait_stream_leader("R3") is cluster.leader_of_stream("R3")
    assert cluster.leader_of_consumer("R3", "c") in cluster.nodes
    assert cluster.leader_of_stream("NO_SUCH") is None
    assert cluster.leader_of_stream("R3", account="OTHER") is None
    with pytest.raises(ServerTimeoutError, match="stream NO_SUCH has no leader"):
        cluster.wait_stream_leader("NO_SUCH", timeout=0)

    # Not the leader of the stream: its followers notice its absence only after seconds.
    leaders = {cluster.meta_leader(), cluster.wait_stream_leader("R3")}
    victim = next(node for node in cluster if node not in leaders)
    url, store = victim.url, victim.store_dir
    victim.kill()
    cluster.wait_ready()
    survivor = next(node for node in cluster if node.running)
    with RawConnection(survivor.host, survivor.port) as client:
        assert client.publish("R3.a") == 2
    victim.restart()
    cluster.wait_ready()
    assert (victim.url, victim.store_dir) == (url, store)
    with RawConnection(victim.host, victim.port) as client:
        assert client.publish("R3.a") == 3
    assert victim.monitor("/jsz")["streams"] == 1


def test_a_reload_keeps_the_nodes_together(cluster: NatsCluster) -> None:
    cluster.reload({"max_payload": 8192})
    cluster.wait_ready()
    assert {node.monitor("/varz")["max_payload"] for node in cluster} == {8192}


def test_a_paused_node_is_not_waited_for_and_a_minority_is_not_ready(cluster: NatsCluster) -> None:
    victim = a_follower(cluster)
    victim.pause()
    cluster.wait_ready()
    leader = cluster.meta_leader()
    assert leader is not None
    leader.pause()
    try:
        assert cluster.meta_leader() is None
        with pytest.raises(ServerTimeoutError, match=r"is not ready after 0\.3 s: \S+"):
            cluster.wait_ready(timeout=0.3)
    finally:
        leader.resume()
        victim.resume()
    cluster.wait_ready()


def test_a_node_that_crashes_is_an_error_with_its_log(cluster: NatsCluster) -> None:
    victim = a_follower(cluster)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait_exit(timeout=10)
    with pytest.raises(ServerStartError, match="exit code -9"):
        cluster.wait_ready()
    cluster.start()
    assert victim.healthy()


def test_nodes_of_a_cluster_without_jetstream_have_their_own_directories(tmp_path: Path) -> None:
    with NatsCluster(2, jetstream=False, name="plain", store_dir=tmp_path) as cluster:
        assert cluster.meta_leader() is None
        assert [node.name for node in cluster] == ["plain-1", "plain-2"]
        cluster.stop()
        assert not any(node.running for node in cluster)
        with pytest.raises(ServerTimeoutError, match="no node is running"):
            cluster.wait_ready(timeout=0)
        cluster.restart()
        assert all(node.healthy() for node in cluster)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain-1", "plain-2"]


def test_nodes_without_routes_to_each_other_are_not_ready() -> None:
    with NatsCluster(2, jetstream=False, name="plain") as cluster:
        everybody = {f"127.0.0.1:{node.port}" for node in cluster}
        for node in cluster:
            urls = node.monitor("/varz")["connect_urls"]
            assert isinstance(urls, list)
            assert set(urls) == everybody
        cluster.stop()
        for node in cluster:
            node.cluster_section = {**node.cluster_section, "routes": []}
            node.start()
        assert all(node.healthy() for node in cluster)
        with pytest.raises(ServerTimeoutError, match="plain-1 has 0 of 3 routes to plain-2; plain-2 has 0 of 3"):
            cluster.wait_ready(timeout=0)


def test_a_route_port_that_is_occupied_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        unlucky = [taken.getsockname()[1]]

        class UnluckyPort(ReservedPort):
            def __init__(self, host: str) -> None:
                super().__init__(host)
                self.port = unlucky.pop() if unlucky else self.port

        monkeypatch.setattr(cluster_module, "ReservedPort", UnluckyPort)
        with NatsCluster(2, jetstream=False) as cluster:
            assert all(node.healthy() for node in cluster)
            assert not unlucky
