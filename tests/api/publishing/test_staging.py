"""Publishes that the blocking front has staged and that its event loop has not taken yet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Self

import pytest

from jetspark import sync
from jetspark.errors import DisconnectedError, PublishTimeoutError
from jetspark.jetstream import StorageType
from jetspark.server import NatsServer
from jetspark.sync.jetstream import AsyncPublishOptions, JetStream


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


class Busy:
    """Keeps the event loop of a connection busy during a block, and runs a function on the loop at its end."""

    def __init__(self, connection: sync.Connection) -> None:
        self._holding, self._released = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: connection._core.run(self._hold))
        self._thread.start()
        assert self._holding.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._released.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _hold(self) -> None:
        self._holding.set()
        self._released.wait(30)
        self.then()

    def then(self) -> None:
        """Run at the end of the block."""


class Losing(Busy):
    """Fails the publishes in flight at the end of the block, like a lost session."""

    js: JetStream

    def then(self) -> None:
        publisher = self.js._inner._core.publisher
        assert publisher is not None
        publisher.fail(DisconnectedError("gone"))


def _context(connection: sync.Connection, name: str, ack_timeout: float = 30.0) -> JetStream:
    js = connection.jetstream(publishing=AsyncPublishOptions(ack_timeout=ack_timeout))
    js.create_stream(name=name, subjects=[f"{name}.>"], storage=StorageType.MEMORY)
    assert js.publish_async(f"{name}.a").result(20).sequence == 1
    return js


def test_publishes_staged_when_the_session_is_lost_are_not_sent(server: NatsServer) -> None:
    with sync.connect(server.url) as connection:
        js = _context(connection, "LOST")
        with Losing(connection) as busy:
            busy.js = js
            staged = [js.publish_async("LOST.a") for _ in range(3)]
            assert js.publish_async_stats.pending == 3
        for future in staged:
            with pytest.raises(DisconnectedError):
                future.result(20)
        assert js.publish("LOST.a").sequence == 2


def test_publishes_that_expire_while_staged_are_not_sent(server: NatsServer) -> None:
    with sync.connect(server.url) as connection:
        js = _context(connection, "LATE", ack_timeout=0.5)
        with Busy(connection):
            future = js.publish_async("LATE.a")
            with pytest.raises(PublishTimeoutError, match="stays under way"):
                future.result(0.8)
        assert isinstance(future.exception(20), PublishTimeoutError)
        assert js.publish("LATE.a").sequence == 2


def test_staged_publishes_are_sent_in_the_order_of_the_calls(server: NatsServer) -> None:
    with sync.connect(server.url) as connection:
        js = _context(connection, "ORDER")
        subscription = connection.subscribe("ORDER.*")
        connection.flush()
        with Busy(connection):
            for number in range(20):
                if number % 2:
                    connection.publish("ORDER.a", b"%d" % number)
                else:
                    js.publish_async("ORDER.a", b"%d" % number)
        assert [subscription.next_msg(20).payload for _ in range(20)] == [b"%d" % number for number in range(20)]
