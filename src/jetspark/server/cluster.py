"""A cluster of managed servers on loopback.

The route ports are reserved before the first node starts, so that every configuration can contain every route. All
nodes start together, because each waits for the routes of the others. The nodes report the leader in `/jsz`. A leader
that is dead or paused does not count, although its followers report it until they have elected another one.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self, TypeVar

from jetspark.server.argument_types import checks_arguments
from jetspark.server.config_format import merge
from jetspark.server.errors import PortInUseError, ServerError, ServerTimeoutError
from jetspark.server.monitor import items_at, number_at, text_at
from jetspark.server.node import START_ATTEMPTS, NatsServer
from jetspark.server.ports import ReservedPort, join_host_port
from jetspark.server.user_settings import check_name

__all__ = ["ClusterNode", "NatsCluster", "reported_leader"]

T = TypeVar("T")

_POLL_INTERVAL = 0.02
_PROBE_TIMEOUT = 2.0


class ClusterNode(NatsServer):
    """A node of a cluster. Its settings keep the section `cluster`, also after a reload with other settings."""

    cluster_section: Mapping[str, object]
    """The section `cluster` of the configuration; `NatsCluster` sets it before the node starts."""

    def _defaults(self) -> dict[str, object]:
        return merge(super()._defaults(), {"cluster": self.cluster_section})

    def _ready_query(self) -> dict[str, str]:
        return {"js-server-only": "true"}  # a full check would wait for the other nodes


@checks_arguments
class NatsCluster:
    """`size` servers with routes to each other, each with its own store; started with `start` (or ``with``).

    Args:
        size: number of nodes; JetStream elects leaders by majority, so odd numbers are usual.
        jetstream: whether JetStream is on.
        store_dir: directory in which every node has a subdirectory with its name; it is not removed. None creates a
            temporary directory for each node.
        host: address to listen on.
        config: settings of every node, as for `NatsServer`.
        name: name of the cluster, made like that of a server; the nodes are called ``<name>-1`` and so on.
        startup_timeout: seconds until the whole cluster must be ready.
        binary: the executable; None finds it (see `find_binary`).

    Every node can be stopped, killed, paused and restarted separately; `wait_ready` then waits for the running nodes.
    """

    def __init__(
        self,
        size: int = 3,
        jetstream: bool = True,
        store_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        config: Mapping[str, object] | None = None,
        name: str = "jetspark",
        startup_timeout: float = 60.0,
        binary: str | os.PathLike[str] | None = None,
    ) -> None:
        if size < 1:
            raise ValueError(f"a cluster has at least one node, not {size}")
        self.name = check_name(name)
        """Name of the cluster."""
        self._host = host
        self._jetstream = jetstream
        self._startup_timeout = startup_timeout
        self._lock = threading.RLock()
        self._route_ports: list[ReservedPort] = []
        weakref.finalize(self, _release_ports, self._route_ports)
        names = [f"{name}-{number}" for number in range(1, size + 1)]
        stores = [None if store_dir is None else Path(store_dir) / node_name for node_name in names]
        self.nodes: tuple[ClusterNode, ...] = tuple(
            ClusterNode(jetstream, store, None, host, config, node_name, startup_timeout, binary)
            for node_name, store in zip(names, stores, strict=True)
        )
        """All nodes, in the order of their names, including stopped ones."""

    def __repr__(self) -> str:
        if "nodes" not in self.__dict__:  # a traceback may show a cluster that was not made
            return f"<{type(self).__name__}, not made>"
        return f"<{type(self).__name__} {self.name} of {len(self.nodes)}, {len(self._running_nodes())} running>"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter(self.nodes)

    def __getitem__(self, index: int) -> ClusterNode:
        return self.nodes[index]

    @property
    def urls(self) -> list[str]:
        """The URLs of all nodes, in their order, including stopped ones."""
        return [node.url for node in self.nodes]

    def get_node(self, name: str) -> ClusterNode:
        """Return the node with a server name. Raises LookupError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise LookupError(f"no node is called {name!r}; there are {', '.join(node.name for node in self.nodes)}")

    def start(self) -> Self:
        """Start the nodes that do not run, and wait until the cluster is ready.

        Raises:
            ServerBinaryNotFoundError: there is no executable.
            ServerStartError: a node ended or was not ready in time.
            ServerTimeoutError: the nodes did not form a cluster within the startup timeout.
        """
        with self._lock:
            attempts = 1 if self._route_ports else START_ATTEMPTS
            while True:
                attempts -= 1
                try:
                    self._reserve_route_ports()
                    idle = [node for node in self.nodes if not node.running]
                    for node in idle:
                        node.start_process()
                    for node in idle:
                        node.wait_ready()
                    return self.wait_ready(self._startup_timeout)
                except PortInUseError:
                    if attempts <= 0:
                        self.kill()
                        raise
                    self.close()
                except BaseException:
                    self.kill()
                    raise

    def stop(self, timeout: float = 10.0) -> None:
        """Shut down every node, one after the other."""
        with self._lock:
            for node in self.nodes:
                node.stop(timeout)

    def kill(self) -> None:
        """Kill every node."""
        with self._lock:
            for node in self.nodes:
                node.kill()

    def restart(self) -> Self:
        """Stop every node, start all of them again on the same ports and stores, and wait until they are ready."""
        with self._lock:
            self.stop()
            return self.start()

    def close(self, timeout: float = 10.0) -> None:
        """Stop every node and remove the temporary directories. A second call does nothing."""
        with self._lock:
            self.stop(timeout)
            for node in self.nodes:
                node.close()
            _release_ports(self._route_ports)

    def reload(self, config: Mapping[str, object] | None = None, timeout: float = 10.0) -> None:
        """Let every running node read its configuration again, as `NatsServer.reload` does."""
        for node in self._running_nodes():
            node.reload(config, timeout)

    def wait_ready(self, timeout: float = 30.0) -> Self:
        """Wait until the running nodes are healthy, have routes to each other, and JetStream has a meta leader.

        All running nodes must report the same meta leader, and it must have contact with all of them.

        Raises:
            ServerStartError: a node ended unexpectedly.
            ServerTimeoutError: not ready after `timeout` seconds; the message says what was missing.
        """
        self._wait_until(
            lambda: None if self._unready_reasons() else True, timeout, lambda: "; ".join(self._unready_reasons())
        )
        return self

    def wait_stream_leader(self, stream: str, account: str = "$G", timeout: float = 30.0) -> ClusterNode:
        """Wait until a stream has a leader that answers, and return it. `wait_ready` does not check streams.

        Raises:
            ServerStartError: a node ended unexpectedly.
            ServerTimeoutError: no leader, or no such stream, after `timeout` seconds.
        """
        return self._wait_until(
            lambda: self.leader_of_stream(stream, account), timeout, lambda: f"stream {stream} has no leader"
        )

    def meta_leader(self) -> ClusterNode | None:
        """Return the meta leader that a majority of the nodes reports, None while there is none."""
        claims = {name: text_at(state, "meta_cluster", "leader") for name, state in self._jsz_answers().items()}
        leader = self._choose_leader(claims)
        return leader if leader and 2 * list(claims.values()).count(leader.name) > len(self.nodes) else None

    def leader_of_stream(self, stream: str, account: str = "$G") -> ClusterNode | None:
        """Return the leader of a stream, None while there is no leader that answers, or no such stream."""
        details = self._stream_details(stream, account)
        return self._choose_leader({name: reported_leader(name, detail) for name, detail in details.items()})

    def leader_of_consumer(self, stream: str, consumer: str, account: str = "$G") -> ClusterNode | None:
        """Return the leader of a consumer, None while there is no leader that answers, or no such consumer."""
        claims = {
            name: reported_leader(name, detail)
            for name, stream_detail in self._stream_details(stream, account).items()
            for detail in items_at(stream_detail, "consumer_detail")
            if text_at(detail, "name") == consumer
        }
        return self._choose_leader(claims)

    def _running_nodes(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.running and not node.paused]

    def _choose_leader(self, claims: Mapping[str, str]) -> ClusterNode | None:
        """Return the node that reports itself as leader; of two (one is cut off), the one that more nodes report."""
        votes = list(claims.values())
        own = [node for node in self._running_nodes() if claims.get(node.name) == node.name]
        return max(own, key=lambda node: votes.count(node.name), default=None)

    def _wait_until(self, condition: Callable[[], T | None], timeout: float, explain: Callable[[], str]) -> T:
        """Call `condition` until it returns a result, and return that; raises if a node crashes."""
        deadline = time.monotonic() + timeout
        between = threading.Event()  # never set: the end of an election is not reported, so poll
        while True:
            for node in self.nodes:
                if node.crashed:
                    raise node.process_error()
            if (answer := condition()) is not None:
                return answer
            if time.monotonic() >= deadline:
                raise ServerTimeoutError(f"{self!r} is not ready after {timeout:g} s: {explain()}")
            between.wait(_POLL_INTERVAL)

    def _monitor_nodes(self, path: str, **query: str) -> dict[str, dict[str, object]]:
        """Return the running nodes' answers to a monitoring path, by name; nodes without an answer are left out."""
        answers = {}
        for node in self._running_nodes():
            try:
                answers[node.name] = node.monitor(path, _PROBE_TIMEOUT, **query)
            except ServerError:
                continue
        return answers

    def _jsz_answers(self, **query: str) -> dict[str, dict[str, object]]:
        """Return the answers of the running nodes to ``/jsz``, by name."""
        return self._monitor_nodes("/jsz", **query)

    def _stream_details(self, stream: str, account: str) -> dict[str, object]:
        """Return the details of a stream that each running node reports, by the node's name."""
        return {
            name: detail
            for name, state in self._jsz_answers(accounts="true", streams="true", consumers="true").items()
            for account_detail in items_at(state, "account_details")
            if text_at(account_detail, "name") == account
            for detail in items_at(account_detail, "stream_detail")
            if text_at(detail, "name") == stream
        }

    def _unready_reasons(self) -> list[str]:
        """Return the reasons why the running nodes are not ready; empty if they are."""
        serving = self._running_nodes()
        if not serving:
            return ["no node is running"]
        missing = [f"{node.name}: {complaint}" for node in serving if (complaint := node.health_error())]
        missing = missing or self._missing_routes(serving)
        if missing or not self._jetstream:
            return missing
        states = self._jsz_answers()
        claims = {name: text_at(state, "meta_cluster", "leader") for name, state in states.items()}
        leader = self._choose_leader(claims)
        if leader is None or set(claims.values()) != {leader.name} or len(claims) != len(serving):
            return [f"the running nodes do not agree on a meta leader: {claims}"]
        if not self._leader_answers(leader):
            return [f"the meta leader {leader.name} was elected, but does not answer yet"]
        peers = items_at(states[leader.name], "meta_cluster", "replicas")
        current = {text_at(peer, "name") for peer in peers if isinstance(peer, dict) and peer.get("current") is True}
        return [
            f"the meta leader {leader.name} has not heard from {node.name}"
            for node in serving
            if node is not leader and node.name not in current
        ]

    def _leader_answers(self, leader: ClusterNode) -> bool:
        """Return whether the meta leader has applied its predecessor's log; until then it answers no request."""
        try:
            return bool(leader.monitor("/jsz", _PROBE_TIMEOUT, **{"leader-only": "true"}))
        except ServerError:
            return False

    def _missing_routes(self, serving: list[ClusterNode]) -> list[str]:
        """Return the missing routes between running nodes. A pair of nodes has a pool of routes for the accounts."""
        if len(serving) < 2:
            return []
        settings, routes = self._monitor_nodes("/varz"), self._monitor_nodes("/routez")
        if not len(settings) == len(routes) == len(serving):
            return ["not every node reports its routes"]
        ids = {name: text_at(answer, "server_id") for name, answer in routes.items()}  # a restart changes them
        missing = []
        for name, answer in routes.items():
            size = max(number_at(settings.get(name), "cluster", "pool_size"), 1)
            ends = [text_at(each, "remote_id") for each in items_at(answer, "routes") if not text_at(each, "account")]
            for other, other_id in ids.items():
                if other != name and (count := ends.count(other_id)) < size:
                    missing.append(f"{name} has {count} of {size} routes to {other}")
        return missing

    def _reserve_route_ports(self) -> None:
        if self._route_ports:
            return
        while len(self._route_ports) < len(self.nodes):
            self._route_ports.append(ReservedPort(self._host))
        addresses = [join_host_port(self._host, route.port) for route in self._route_ports]
        for node, address in zip(self.nodes, addresses, strict=True):
            others = [f"nats-route://{other}" for other in addresses if other != address]
            node.cluster_section = {"name": self.name, "listen": address, "routes": others}


def reported_leader(node: str, detail: object) -> str:
    """Return the leader that a node reports for a stream or consumer; empty if there is none that answers requests.

    An elected node reports itself as leader before it has applied its predecessor's log, and answers no request until
    then. After that, it also reports `leader_since`. Servers before 2.12 report neither `leader_since` nor
    `traffic_account`.
    """
    leader = text_at(detail, "cluster", "leader")
    would_tell = text_at(detail, "cluster", "traffic_account")
    return "" if leader == node and would_tell and not text_at(detail, "cluster", "leader_since") else leader


def _release_ports(ports: list[ReservedPort]) -> None:
    while ports:
        ports.pop().close()
