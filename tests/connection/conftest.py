"""Servers, both fronts, and the leak check for every test in this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.connection.certificates import Certificates
from tests.connection.support import Connect, Front, connect_aio, connect_bulk, connect_sync
from tests.leaks import no_leaks

from jetspark.server import NatsServer

__all__ = ["no_leaks"]


@pytest.fixture(scope="session")
def shared_server() -> Iterator[NatsServer]:
    """A server that no test stops."""
    with NatsServer(jetstream=False) as server:
        yield server


@pytest.fixture
def url(shared_server: NatsServer) -> str:
    return shared_server.url


@pytest.fixture
def server() -> Iterator[NatsServer]:
    """A server for one test, which can kill it."""
    with NatsServer(jetstream=False) as server:
        yield server


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def front(request: pytest.FixtureRequest, no_leaks: None) -> AsyncIterator[Front]:
    """Each front in turn."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))  # blocking calls wait there
    front = Front(request.param)
    yield front
    await front.close()


@pytest.fixture(params=[connect_aio, connect_sync, connect_bulk])
def connect(request: pytest.FixtureRequest) -> Connect:
    """Opens a connection with one of the three fronts, and closes it."""
    found: Connect = request.param
    return found
