"""One server for each module of this folder. Every test has its own streams and connections."""

from collections.abc import Iterator

import pytest
from tests.bulk.streams import Streams

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.server import NatsServer


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


@pytest.fixture
def connection(server: NatsServer) -> Iterator[Connection]:
    with bulk.connect(server.url) as connected:
        yield connected


@pytest.fixture
def streams(server: NatsServer) -> Iterator[Streams]:
    """Creates streams on a second connection and deletes them again."""
    with bulk.connect(server.url) as connected:
        made = Streams(connected)
        yield made
        made.delete_all()
