"""One server for the tests in this folder. Every test has its own streams."""

from collections.abc import Iterator

import pytest
from tests.jetstream.raw import RawClient

from jetspark.server import NatsServer


@pytest.fixture(scope="session")
def jetstream_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def client(jetstream_server: NatsServer) -> Iterator[RawClient]:
    with RawClient(jetstream_server) as connected:
        yield connected
