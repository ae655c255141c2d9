"""Helpers for streams on three servers, for tests in which leaders change and servers die."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.api.publishing.support import until
from tests.fronts import Ground, make_stream
from tests.jsz import last_sequence_at

from jetspark.errors import JetStreamUnavailableError, RequestTimeoutError
from jetspark.jetstream.api import StreamLeaderStepdownRequest
from jetspark.server import NatsCluster

__all__ = ["replicated", "step_down", "stored_everywhere"]


async def replicated(ground: Ground, cluster: NatsCluster, **fields: Any) -> str:
    """A stream on all three servers that has a leader and that the connections can reach."""
    name = ground.name("R")
    await make_stream(ground.admin_js, name=name, subjects=[f"{name}.>"], num_replicas=3, **fields)
    await asyncio.to_thread(cluster.wait_stream_leader, name)
    return name


async def step_down(ground: Ground, name: str) -> None:
    """Let the leader of a stream step down.

    A server that does not know a new leader yet reports that there is none. Then the request is repeated.
    """

    async def done() -> bool:
        try:
            await ground.admin_js.request(StreamLeaderStepdownRequest(name), timeout=5)
        except (JetStreamUnavailableError, RequestTimeoutError):
            return False
        return True

    await until(done, 30)


async def stored_everywhere(ground: Ground, cluster: NatsCluster, name: str) -> None:
    """Wait until all running servers have the same state of a stream, because any of them may answer a direct get.

    In the first seconds of a stream, a server that is not the leader may report its state too. So the answer alone is
    not enough.
    """
    last = (await (await ground.admin_js.stream(name, timeout=20)).info(timeout=20)).state.last_sequence

    def stored() -> bool:
        running = [node for node in cluster if node.running]
        reached = {last_sequence_at(node, name) for node in running}
        return len(reached) == 1 and reached.pop() >= last

    await until(lambda: asyncio.to_thread(stored), 30)
