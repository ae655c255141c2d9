"""A node that is cut off from its cluster keeps its clients: they leave it by themselves, on every front."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest
from tests.carried import FrontName
from tests.connection.support import Front, Recorder
from tests.cut_off import CutOffCluster

from jetspark import aio, bulk, sync
from jetspark.aio.jetstream import ConsumeContext
from jetspark.errors import Error, NoMessageError
from jetspark.wire.events import ServerLeft

ALLOWED = 15.0
"""Seconds from the cut."""
ALLOWED_AFTER_ELECTION = 8.0
"""Seconds since the other nodes store messages again, if that takes them long."""
ELECTION_TIMEOUT = 60.0


@pytest.fixture
def cluster() -> Iterator[CutOffCluster]:
    with CutOffCluster() as cluster:
        yield cluster


async def _repeat(call: Callable[[], Awaitable[object]]) -> None:
    """Call until there is no error."""
    while True:
        try:
            await call()
        except Error:
            await asyncio.sleep(0.2)
        else:
            return


@pytest.mark.slow
async def test_a_consume_and_a_publish_go_on_after_the_node_was_cut_off(cluster: CutOffCluster) -> None:
    node = cluster.meta_leader()  # the hardest one: it answers some requests for a while
    assert node is not None
    healthy = next(each for each in cluster.nodes if each is not node)
    fronts: dict[FrontName, Front] = {"aio": Front("aio"), "sync": Front("sync")}
    try:
        others = (await fronts["aio"].connect(healthy.url)).jetstream()
        await others.create_stream(name="ORDERS", subjects=["orders.>"], num_replicas=3)
        await asyncio.to_thread(cluster.wait_stream_leader, "ORDERS")
        users = [await _User.start(name, front, node.url) for name, front in fronts.items()]
        deadline = asyncio.get_running_loop().time() + ALLOWED
        await asyncio.to_thread(cluster.cut_off, node)
        async with asyncio.timeout(ELECTION_TIMEOUT):
            await _repeat(lambda: others.publish("orders.new", b"after the cut"))
        async with asyncio.timeout_at(max(deadline, asyncio.get_running_loop().time() + ALLOWED_AFTER_ELECTION)):
            for user in users:
                await user.got_message.wait()
                await _repeat(user.publish)
        for user in users:
            assert user.recorder.of(ServerLeft)[0].address.port == node.port
    finally:
        for front in fronts.values():
            await front.close()


@pytest.mark.slow
async def test_bulk_publish_scan_and_fetch_go_on_after_the_node_was_cut_off(cluster: CutOffCluster) -> None:
    node = cluster.meta_leader()
    assert node is not None
    healthy = next(each for each in cluster.nodes if each is not node)
    with sync.connect(healthy.url) as others, ExitStack() as stack:
        js = others.jetstream()
        js.create_stream(name="ORDERS", subjects=["orders.>"], num_replicas=3)
        await asyncio.to_thread(cluster.wait_stream_leader, "ORDERS")
        js.create_consumer("ORDERS", durable_name="bulk")
        jobs = [_BulkJob(stack.enter_context(bulk.connect(node.url)), call) for call in (_publish, _scan, _fetch)]
        for job in jobs:
            job.call(job.connection)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ALLOWED
        await asyncio.to_thread(cluster.cut_off, node)
        waiting = [asyncio.create_task(asyncio.to_thread(job.go_on)) for job in jobs]
        async with asyncio.timeout(ELECTION_TIMEOUT):
            await _repeat(lambda: asyncio.to_thread(js.publish, "orders.new"))
        async with asyncio.timeout_at(max(deadline, loop.time() + ALLOWED_AFTER_ELECTION)):
            await asyncio.gather(*waiting)
        await asyncio.to_thread(cluster.rejoin, node)
        await asyncio.to_thread(cluster.wait_ready, ELECTION_TIMEOUT)


def _publish(connection: bulk.Connection) -> None:
    rows = pa.record_batch({"data": pa.array([b"row"] * 100, pa.binary())})
    bulk.publish(connection, [rows], subject="orders.bulk")


def _scan(connection: bulk.Connection) -> None:
    list(bulk.scan(connection, "ORDERS", timeout=5))


def _fetch(connection: bulk.Connection) -> None:
    if not list(bulk.fetch(connection, "ORDERS", "bulk", max_messages=1, timeout=5)):
        raise NoMessageError("no message came")


class _BulkJob:
    """A bulk operation that is repeated on a connection to the node."""

    def __init__(self, connection: bulk.Connection, call: Callable[[bulk.Connection], None]) -> None:
        self.connection = connection
        self.call = call
        self._node = connection.address

    def go_on(self) -> None:
        """Repeat the operation until it has no error on another server."""
        until = time.monotonic() + ELECTION_TIMEOUT
        while time.monotonic() < until:
            try:
                self.call(self.connection)
                if self.connection.address != self._node:
                    return
            except Error:
                pass
            time.sleep(0.2)
        raise TimeoutError(f"{self.call} does not go on")


class _User:
    """One connection to the node, which publishes and consumes."""

    def __init__(self, connection: aio.Connection, recorder: Recorder) -> None:
        self.recorder = recorder
        self.consuming: ConsumeContext | None = None
        self.got_message = asyncio.Event()
        self.js = connection.jetstream()

    @classmethod
    async def start(cls, name: FrontName, front: Front, url: str) -> _User:
        recorder = Recorder()
        user = cls(await front.connect(url, on_event=recorder), recorder)
        consumer = await user.js.create_consumer("ORDERS", durable_name=name, filter_subject="orders.new")
        loop = asyncio.get_running_loop()

        def on_message(_: aio.Msg) -> None:
            loop.call_soon_threadsafe(user.got_message.set)

        user.consuming = consumer.consume(on_message)
        await user.publish()
        return user

    async def publish(self) -> None:
        await self.js.publish("orders.own", b"x")
