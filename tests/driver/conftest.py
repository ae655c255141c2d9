"""Virtual time and connections in memory for every test of this layer, and a leak check for each test."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from tests.driver.jetstream import ConsumerScript, JetStreamScript, StreamScript
from tests.driver.server import MemoryNetwork, MemoryServer
from tests.driver.unavailable import Cluster
from tests.driver.virtual_time import Clock, VirtualTimeLoop
from tests.driver.world import World

from jetspark.engine.retry import ExponentialBackoff


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loop of these tests."""
    return {"virtual": VirtualTimeLoop}


async def _names_as_addresses(host: str, port: int) -> list[str]:
    """The network in memory knows names."""
    return [host]


@pytest.fixture(autouse=True)
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """The world of a test. Nothing that the test opened may be left at its end."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    monkeypatch.delenv("NATS_URL", raising=False)
    numbers = random.Random(7)
    monkeypatch.setattr("jetspark.wire.connection_state.SystemRandom", lambda: numbers)
    monkeypatch.setattr("jetspark.aio.transport.look_up", _names_as_addresses)
    defaults = ExponentialBackoff.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "chance", lambda: 0.0)  # its delays are not shortened
    world = World(loop)
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    yield world
    await world.close()
    assert not faults, f"asyncio reports {faults}"
    assert not world.left(), f"left: {world.left()}"


@pytest.fixture
def clock(world: World) -> Clock:
    """The clock."""
    return world.clock


@pytest.fixture
def net(world: World) -> MemoryNetwork:
    """The network."""
    return world.net


@pytest.fixture
def server(world: World) -> MemoryServer:
    """The server at the default address."""
    return world.server


@pytest.fixture
def script(server: MemoryServer) -> JetStreamScript:
    """JetStream on the server at the default address."""
    return JetStreamScript(server)


@pytest.fixture
def stream(script: JetStreamScript) -> StreamScript:
    """A stream ORDERS, which takes `orders.>`."""
    return script.stream("ORDERS")


@pytest.fixture
def worker(script: JetStreamScript) -> ConsumerScript:
    """A pull consumer of ORDERS."""
    return script.consumer("worker", ack_wait=9_000_000_000)


@pytest.fixture
def pusher(script: JetStreamScript) -> ConsumerScript:
    """A push consumer of ORDERS that sends heartbeats every five seconds, and asks for flow control."""
    return script.consumer("pusher", deliver_subject="deliver.here", idle_heartbeat=5_000_000_000, flow_control=True)


@pytest.fixture
def cluster(net: MemoryNetwork) -> Cluster:
    """Two servers, of which a test cuts one off from its JetStream."""
    return Cluster(net)
