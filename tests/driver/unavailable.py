"""Two servers, of which a test cuts one off from its JetStream."""

from __future__ import annotations

from typing import Any

from tests.driver.jetstream import SILENCE, Answer, JetStreamScript, StreamScript, refusal
from tests.driver.server import MemoryNetwork
from tests.driver.world import World

from jetspark import aio

__all__ = ["GOOD", "UNAVAILABLE", "Cluster", "connect"]

GOOD: Answer = {"type": "io.nats.jetstream.api.v1.account_info_response", "memory": 0, "storage": 0}
UNAVAILABLE = refusal(503, 10008, "JetStream system temporarily unavailable")


class Cluster:
    """Two servers with a JetStream each; the client begins at the first one."""

    def __init__(self, net: MemoryNetwork) -> None:
        self.servers = [net.server(port) for port in (1, 2)]
        self.scripts = [JetStreamScript(server) for server in self.servers]
        self.streams: list[StreamScript] = [script.stream() for script in self.scripts]
        for script in self.scripts:
            script.answer("INFO", GOOD)

    def cut(self, *which: int, answer: Answer = SILENCE) -> None:
        """Cut servers off from their cluster."""
        for number in which:
            self.scripts[number].answer(">", answer)
            self.streams[number].answers = "hold" if answer == SILENCE else "503"

    def probes(self, number: int) -> list[float]:
        """The times of the probes."""
        return [pub.at for pub in self.scripts[number].asked("INFO")]


async def connect(world: World, cluster: Cluster, **options: Any) -> aio.Connection:
    return await world.connect([server.url for server in cluster.servers], randomize=False, **options)
