"""The servers of a chaos run, with a proxy in front of each, and the faults for them."""

from __future__ import annotations

import contextlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from tests.bulk.proxy import Proxy
from tests.chaos.full_disk import can_mount, disk
from tests.chaos.server_faults import (
    ELECTION_TIMEOUT,
    Fault,
    ServerFaults,
    cluster_faults,
    disk_faults,
    network_faults,
)
from tests.cut_off import CutOffCluster

from jetspark import bulk
from jetspark.jetstream import StreamConfig, StreamInfo
from jetspark.jetstream.api import StreamCreateRequest, StreamDeleteRequest, StreamInfoRequest, StreamPurgeRequest
from jetspark.server import NatsServer

__all__ = ["PURGED", "World", "cluster", "single"]

PURGED = "PURGED"
"""The stream that is purged and made again."""
LAME_DUCK = {"lame_duck_grace_period": "1s", "lame_duck_duration": "30s"}


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
    publisher_paused
        Lets the publisher wait.
    removed
        The messages that a fault removed from a stream, by stream.
    """

    nodes: Sequence[NatsServer]
    servers: list[str]
    proxied: list[str]
    replicas: int
    faults: dict[str, Fault]
    publisher_paused: Callable[[], AbstractContextManager[object]] = nullcontext
    removed: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))

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

    def messages(self, name: str) -> list[bytes]:
        """Return all messages of a stream."""
        with bulk.connect(self.servers) as connection, bulk.scan(connection, name, columns=["data"]) as batches:
            return [each for batch in batches for each in batch.column("data").to_pylist()]

    @property
    def stream_faults(self) -> dict[str, Fault]:
        """The faults of the stream `PURGED`."""
        return {"purge stream": self._purge, "make stream again": self._make_again}

    def _purge(self, _: str) -> bool:
        with self._remaining_removed() as numbers, bulk.connect(self.servers) as connection:
            connection.request(StreamPurgeRequest(PURGED))
        return bool(numbers)

    def _make_again(self, _: str) -> bool:
        with self._remaining_removed() as numbers:
            with bulk.connect(self.servers) as connection:
                connection.request(StreamDeleteRequest(PURGED))
            self.create(PURGED)
        return bool(numbers)

    @contextlib.contextmanager
    def _remaining_removed(self) -> Iterator[list[bytes]]:
        """Note that the block removes all messages."""
        with self.publisher_paused():
            numbers = self.messages(PURGED)
            yield numbers
            self.removed[PURGED].update(numbers)


@contextlib.contextmanager
def single(chance: random.Random) -> Iterator[World]:
    """Start one server with a file store, on a disk of its own where that is possible."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(disk()) if can_mount() else None
        path, binary = (None, None) if store is None else (store.path, store.binary)
        server = stack.enter_context(NatsServer(store_dir=path, binary=binary, config=LAME_DUCK))
        proxy = stack.enter_context(Proxy(server))
        faults = ServerFaults(lambda stream: server, lambda: None, chance).named("server")
        faults |= network_faults([proxy])
        if store is not None:
            faults |= disk_faults(server, store)
        yield World([server], [server.url], [proxy.url], 1, faults)


@contextlib.contextmanager
def cluster(chance: random.Random) -> Iterator[World]:
    """Start three servers."""
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(CutOffCluster(3, config=LAME_DUCK))
        proxies = [stack.enter_context(Proxy(node)) for node in nodes]

        def leader(stream: str) -> NatsServer:
            return nodes.wait_stream_leader(stream, timeout=ELECTION_TIMEOUT)

        faults = ServerFaults(leader, lambda: nodes.wait_ready(ELECTION_TIMEOUT), chance).named("leader")
        faults |= network_faults(proxies) | cluster_faults(nodes)
        yield World(nodes.nodes, nodes.urls, [proxy.url for proxy in proxies], 3, faults)
