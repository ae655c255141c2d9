"""A traceback with local variables, as Spark and error trackers write it, works at every moment and shows no secret."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Callable, Iterator

import pytest

import jetspark
from jetspark import bulk, sync
from jetspark.aio.core import ConnectionCore
from jetspark.errors import Error
from jetspark.server import NatsCluster, NatsServer
from jetspark.wire.options import ConnectOptions

SECRET = "geheim-0815"
CONNECT: dict[str, Callable[[str], object]] = {
    "aio": lambda url: asyncio.run(_connect(url)),
    "sync": lambda url: sync.connect(url, user="me", password=SECRET),
    "bulk": lambda url: bulk.connect(url, user="me", password=SECRET),
}


async def _connect(url: str) -> object:
    return await jetspark.connect(url, user="me", password=SECRET)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with NatsServer(config={"authorization": {"user": "me", "password": "right"}}) as server:
        yield server.url


def with_locals(front: str, url: str) -> str:
    with pytest.raises(Error) as caught:
        CONNECT[front](url)
    report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    return "".join(report.format())


@pytest.mark.parametrize("front", CONNECT)
def test_a_wrong_login(front: str, url: str) -> None:
    text = with_locals(front, url)
    assert "AuthenticationError" in text
    ours = text[text.index("src/jetspark") :]  # before, the test's own locals
    assert SECRET not in ours


@pytest.mark.parametrize("front", CONNECT)
def test_a_server_that_cannot_be_reached(front: str) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        text = with_locals(front, f"nats://127.0.0.1:{reserved.getsockname()[1]}")
    assert "ConnectError" in text
    assert SECRET not in text[text.index("src/jetspark") :]


@pytest.mark.parametrize(
    "make",
    [
        lambda: bulk.Connection("nats://host"),  # type: ignore[arg-type]
        lambda: ConnectionCore(ConnectOptions()),  # there is no event loop
        lambda: NatsServer(config={"port": 1}),
        lambda: NatsCluster(size=0),
        lambda: NatsCluster(config={"port": 1}),
    ],
    ids=["bulk", "aio", "server", "cluster", "cluster's node"],
)
def test_an_object_that_could_not_be_made_can_be_shown(make: Callable[[], object]) -> None:
    with pytest.raises(Exception) as caught:
        make()
    report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "not open yet" in "".join(report.format()) or "not made" in "".join(report.format())
