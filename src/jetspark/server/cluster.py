"""A cluster of managed servers on loopback.

The route ports are reserved before the first node starts, so that every configuration can name every route. Nodes are
started together: each waits for the others' routes, and none is useful alone. Who leads is what the nodes say in
`/jsz`; a leader that is dead or paused is no leader, although its followers name it until they have elected another.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self, TypeVar

from jetspark.server.config import merge
from jetspark.server.errors import PortInUseError, ServerError, ServerTimeoutError
from jetspark.server.monitor import items_at, number_at, text_at
from jetspark.server.node import START_ATTEMPTS, NatsServer
from jetspark.server.ports import ReservedPort, join_host_port

__all__ = ["ClusterNode", "NatsCluster", "claimed_leader"]

T = TypeVar("T")

_PAUSE = 0.02
_PROBE_TIMEOUT = 2.0


class ClusterNode(NatsServer):
    """A node whose settings name its cluster, also after a reload with other settings."""

    routing: Mapping[str, object]
    """The section `cluster` of the configuration; the cluster sets it before the node starts."""

    def _defaults(self) -> dict[str, object]:
        return merge(super()._defaults(), {"cluster": self.routing})

    def _ready_query(self) -> dict[str, str]:
        return {"js-server-only": "true"}  # JetStream here waits for the other nodes


class NatsCluster:
    """`size` servers with routes to each other, each with its own store; started with `start` (or ``with``).

    Args:
        size: number of nodes; JetStream elects leaders by majority, so odd numbers are usual.
        jetstream: whether JetStream is on.
        store_dir: every node keeps its files in the directory of its name below this one, which stays; None makes a
            temporary one for each.
        host: address to listen on.
        config: settings of every node, as for `NatsServer`.
        name: name of the cluster; the nodes are called ``<name>-1`` and so on.
        startup_timeout: seconds until the whole cluster must be ready.
        binary: the executable; None finds it (see `find_binary`).

    Every node may be stopped, killed, paused and restarted by itself; `wait_ready` then waits for the nodes that run.
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
        self.name = name
        self._host = host
        self._jetstream = jetstream
        self._startup_timeout = startup_timeout
        self._lock = threading.RLock()
        self._routes: list[ReservedPort] = []
        weakref.finalize(self, _close_all, self._routes)
        names = [f"{name}-{number}" for number in range(1, size + 1)]
        stores = [None if store_dir is None else Path(store_dir) / node_name for node_name in names]
        self.nodes: tuple[ClusterNode, ...] = tuple(
            ClusterNode(jetstream, store, None, host, config, node_name, startup_timeout, binary)
            for node_name, store in zip(names, stores, strict=True)
        )
        """The nodes, in the order of their names, whether they run or not."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {len(self.nodes)}, {len(self._serving())} running>"

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
        """The URL of every node, in their order, whether it runs or not."""
        return [node.url for node in self.nodes]

    def node_named(self, name: str) -> ClusterNode:
        """Return the node with a server name. Raises LookupError when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise LookupError(f"no node is called {name!r}; there are {', '.join(node.name for node in self.nodes)}")

    def start(self) -> Self:
        """Start the nodes that do not run and return when the cluster is ready.

        Raises:
            ServerBinaryNotFoundError: there is no executable.
            ServerStartError: a node ended or did not open its ports in time.
            ServerTimeoutError: the nodes did not become a cluster within the startup time.
        """
        with self._lock:
            attempts = 1 if self._routes else START_ATTEMPTS
            while True:
                attempts -= 1
                try:
                    self._reserve_routes()
                    idle = [node for node in self.nodes if not node.running]
                    for node in idle:
                        node.launch()
                    for node in idle:
                        node.await_ready()
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
        """Stop every node in good order, one after the other."""
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
        """Stop every node and remove the temporary directories; it may be called twice."""
        with self._lock:
            self.stop(timeout)
            for node in self.nodes:
                node.close()
            _close_all(self._routes)

    def reload(self, config: Mapping[str, object] | None = None, timeout: float = 10.0) -> None:
        """Let every running node read its configuration again, as `NatsServer.reload` does."""
        for node in self._serving():
            node.reload(config, timeout)

    def wait_ready(self, timeout: float = 30.0) -> Self:
        """Wait until the running nodes are healthy, have their routes to each other, and JetStream has its leader.

        That is a meta leader that all of them agree on, and that has heard from all of them.

        Raises:
            ServerStartError: a node ended although nobody asked it to.
            ServerTimeoutError: not ready after `timeout` seconds; the message says what was missing.
        """
        self._wait(lambda: None if self._missing() else True, timeout, lambda: "; ".join(self._missing()))
        return self

    def wait_stream_leader(self, stream: str, account: str = "$G", timeout: float = 30.0) -> ClusterNode:
        """Wait until a stream has a leader that answers, which `wait_ready` does not look at, and return it.

        Raises:
            ServerStartError: a node ended although nobody asked it to.
            ServerTimeoutError: no leader, or no such stream, after `timeout` seconds.
        """
        return self._wait(
            lambda: self.leader_of_stream(stream, account), timeout, lambda: f"stream {stream} has no leader"
        )

    def meta_leader(self) -> ClusterNode | None:
        """Return the node that leads JetStream's meta group by the word of a majority, or None while there is none."""
        claims = {name: text_at(state, "meta_cluster", "leader") for name, state in self._states().items()}
        leader = self._leader(claims)
        return leader if leader and 2 * list(claims.values()).count(leader.name) > len(self.nodes) else None

    def leader_of_stream(self, stream: str, account: str = "$G") -> ClusterNode | None:
        """Return the node that leads a stream, or None while there is no leader that answers, or no such stream."""
        details = self._stream_details(stream, account)
        return self._leader({name: claimed_leader(name, detail) for name, detail in details.items()})

    def leader_of_consumer(self, stream: str, consumer: str, account: str = "$G") -> ClusterNode | None:
        """Return the node that leads a consumer, or None while there is no leader that answers, or no such consumer."""
        claims = {
            name: claimed_leader(name, detail)
            for name, stream_detail in self._stream_details(stream, account).items()
            for detail in items_at(stream_detail, "consumer_detail")
            if text_at(detail, "name") == consumer
        }
        return self._leader(claims)

    def _serving(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.running and not node.paused]

    def _leader(self, claims: Mapping[str, str]) -> ClusterNode | None:
        """The node that says of itself that it leads; of two (one that was cut off says so too), the one named more."""
        votes = list(claims.values())
        own = [node for node in self._serving() if claims.get(node.name) == node.name]
        return max(own, key=lambda node: votes.count(node.name), default=None)

    def _wait(self, condition: Callable[[], T | None], timeout: float, explain: Callable[[], str]) -> T:
        """Ask until there is an answer, and return it; a node that crashes ends the wait."""
        deadline = time.monotonic() + timeout
        between = threading.Event()  # never set: nobody tells when an election is over, so we ask now and then
        while True:
            for node in self.nodes:
                if node.crashed:
                    raise node.failure()
            if (answer := condition()) is not None:
                return answer
            if time.monotonic() >= deadline:
                raise ServerTimeoutError(f"{self!r} is not ready after {timeout:g} s: {explain()}")
            between.wait(_PAUSE)

    def _answers(self, path: str, **query: str) -> dict[str, dict[str, object]]:
        """What each running node answers to a monitoring path, by the node's name; one that does not is left out."""
        answers = {}
        for node in self._serving():
            try:
                answers[node.name] = node.monitor(path, _PROBE_TIMEOUT, **query)
            except ServerError:
                continue
        return answers

    def _states(self, **query: str) -> dict[str, dict[str, object]]:
        """What each running node answers to ``/jsz``."""
        return self._answers("/jsz", **query)

    def _stream_details(self, stream: str, account: str) -> dict[str, object]:
        """What each running node says about a stream, by the node's name."""
        return {
            name: detail
            for name, state in self._states(accounts="true", streams="true", consumers="true").items()
            for account_detail in items_at(state, "account_details")
            if text_at(account_detail, "name") == account
            for detail in items_at(account_detail, "stream_detail")
            if text_at(detail, "name") == stream
        }

    def _missing(self) -> list[str]:
        """What keeps the running nodes from being ready; empty when they are."""
        serving = self._serving()
        if not serving:
            return ["no node runs"]
        missing = [f"{node.name}: {complaint}" for node in serving if (complaint := node.complaint())]
        missing = missing or self._missing_routes(serving)
        if missing or not self._jetstream:
            return missing
        states = self._states()
        claims = {name: text_at(state, "meta_cluster", "leader") for name, state in states.items()}
        leader = self._leader(claims)
        if leader is None or set(claims.values()) != {leader.name} or len(claims) != len(serving):
            return [f"there is no meta leader that all running nodes agree on, they say {claims}"]
        if not self._serves(leader):
            return [f"the meta leader {leader.name} was elected and does not answer yet"]
        peers = items_at(states[leader.name], "meta_cluster", "replicas")
        current = {text_at(peer, "name") for peer in peers if isinstance(peer, dict) and peer.get("current") is True}
        return [
            f"the meta leader {leader.name} has not heard from {node.name}"
            for node in serving
            if node is not leader and node.name not in current
        ]

    def _serves(self, leader: ClusterNode) -> bool:
        """Whether the meta leader has applied what its predecessor left to it; until then it answers no request."""
        try:
            return bool(leader.monitor("/jsz", _PROBE_TIMEOUT, **{"leader-only": "true"}))
        except ServerError:
            return False

    def _missing_routes(self, serving: list[ClusterNode]) -> list[str]:
        """The routes that the running nodes do not have yet; each account has its place on one of a pool of them."""
        if len(serving) < 2:
            return []
        settings, routes = self._answers("/varz"), self._answers("/routez")
        if not len(settings) == len(routes) == len(serving):
            return ["not every node tells of its routes"]
        ids = {name: text_at(answer, "server_id") for name, answer in routes.items()}  # a restart changes them
        missing = []
        for name, answer in routes.items():
            size = max(number_at(settings.get(name), "cluster", "pool_size"), 1)
            ends = [text_at(each, "remote_id") for each in items_at(answer, "routes") if not text_at(each, "account")]
            for other, other_id in ids.items():
                if other != name and (count := ends.count(other_id)) < size:
                    missing.append(f"{name} has {count} of {size} routes to {other}")
        return missing

    def _reserve_routes(self) -> None:
        if self._routes:
            return
        while len(self._routes) < len(self.nodes):
            self._routes.append(ReservedPort(self._host))
        addresses = [join_host_port(self._host, route.port) for route in self._routes]
        for node, address in zip(self.nodes, addresses, strict=True):
            others = [f"nats-route://{other}" for other in addresses if other != address]
            node.routing = {"name": self.name, "listen": address, "routes": others}


def claimed_leader(node: str, detail: object) -> str:
    """Return the leader of a stream or consumer in what a node says of it.

    A node that was elected calls itself leader before it has applied what its predecessor left to it. Until then, when
    it begins to tell since when it leads, it answers no request. Servers before 2.12, which know no traffic account
    either, never tell.
    """
    leader = text_at(detail, "cluster", "leader")
    would_tell = text_at(detail, "cluster", "traffic_account")
    return "" if leader == node and would_tell and not text_at(detail, "cluster", "leader_since") else leader


def _close_all(ports: list[ReservedPort]) -> None:
    while ports:
        ports.pop().close()
