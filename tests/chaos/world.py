"""The servers of a chaos run, with a proxy in front of each, and the faults for them."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.bulk.proxy import Proxy

from jetspark import bulk
from jetspark.errors import Error
from jetspark.jetstream import StreamConfig, StreamInfo
from jetspark.jetstream.api import StreamCreateRequest, StreamInfoRequest, StreamLeaderStepdownRequest
from jetspark.server import NatsCluster, NatsServer

__all__ = ["World", "cluster", "single"]

ELECTION_TIMEOUT = 60.0
AWAY = 1.5
"""Maximum time in seconds that a server stays away."""


@dataclass
class World:
    """The servers, their addresses and their faults.

    Attributes
    ----------
    nodes
        The servers.
    servers
        Addresses for the publisher and for checks.
    proxied
        Addresses for Spark.
    replicas
        Copies of each stream.
    faults
        The faults by name. Each takes the name of a stream and returns at its end whether it was done.
    """

    nodes: Sequence[NatsServer]
    servers: list[str]
    proxied: list[str]
    replicas: int
    faults: dict[str, Callable[[str], bool]]

    def create(self, name: str, **config: object) -> str:
        """Create a stream for `<name>.*`; return its name."""
        fields: dict[str, object] = {"name": name, "subjects": [f"{name}.*"], "num_replicas": self.replicas, **config}
        with bulk.connect(self.servers) as connection:
            made = StreamConfig(**fields)  # type: ignore[arg-type]  # by name
            connection.request(StreamCreateRequest(made), timeout=ELECTION_TIMEOUT)
        return name

    def info(self, name: str) -> StreamInfo:
        """Return the state of a stream."""
        with bulk.connect(self.servers) as connection:
            return connection.request(StreamInfoRequest(name))


@contextlib.contextmanager
def single(chance: random.Random) -> Iterator[World]:
    """Start one server with a file store."""
    with NatsServer() as server, Proxy(server) as proxy:

        def kill_server(stream: str) -> bool:
            server.kill()
            time.sleep(chance.uniform(0.0, AWAY))
            server.start()
            return True

        def cut(stream: str) -> bool:
            return proxy.cut() > 0

        yield World([server], [server.url], [proxy.url], 1, {"kill server": kill_server, "cut connections": cut})


@contextlib.contextmanager
def cluster(chance: random.Random) -> Iterator[World]:
    """Start three servers."""
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(NatsCluster(3))
        proxies = [stack.enter_context(Proxy(node)) for node in nodes]

        def kill_leader(stream: str) -> bool:
            leader = nodes.wait_stream_leader(stream, timeout=ELECTION_TIMEOUT)
            leader.kill()
            time.sleep(chance.uniform(0.0, AWAY))
            leader.start()
            nodes.wait_ready(ELECTION_TIMEOUT)
            return True

        def step_down(stream: str) -> bool:
            nodes.wait_stream_leader(stream, timeout=ELECTION_TIMEOUT)
            return _step_down(nodes.urls, stream)

        def cut(stream: str) -> bool:
            return sum([proxy.cut() for proxy in proxies]) > 0

        yield World(
            nodes.nodes,
            nodes.urls,
            [proxy.url for proxy in proxies],
            3,
            {"kill leader": kill_leader, "leader steps down": step_down, "cut connections": cut},
        )


def _step_down(servers: Sequence[str], stream: str) -> bool:
    try:
        with bulk.connect(servers) as connection:
            connection.request(StreamLeaderStepdownRequest(stream))
    except Error:
        return False  # it may have stepped down by itself
    return True
