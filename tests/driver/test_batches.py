"""Atomic batches of publishes."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.frames import Pub
from tests.driver.jetstream import StreamScript
from tests.driver.server import MemoryServer, Session
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    BatchClosedError,
    DisconnectedError,
    IncompleteBatchError,
    PublishTimeoutError,
)


class Batches:
    """A stream that takes atomic batches."""

    def __init__(self, server: MemoryServer) -> None:
        self.added: list[Pub] = []
        self.stored: list[bytes] = []
        self.answers = True
        server.on("orders.>", self._take)

    def _take(self, session: Session, pub: Pub) -> None:
        commit = pub.headers.get("Nats-Batch-Commit")
        if commit == "eob" and pub.headers["Nats-Batch-Sequence"] == "1":
            self.added.clear()  # the batch was discarded
            return
        if commit != "eob":
            self.added.append(pub)
        if not self.answers or not pub.reply:
            return
        if not commit:
            session.deliver(pub.reply)
            return
        self.stored += [each.payload for each in self.added]
        answer = {"stream": "ORDERS", "seq": len(self.stored), "batch": pub.headers["Nats-Batch-Id"]}
        session.deliver(pub.reply, json.dumps({**answer, "count": len(self.added)}).encode())
        self.added.clear()


@pytest.fixture
def batches(server: MemoryServer) -> Batches:
    """The stream."""
    return Batches(server)


async def test_a_batch_is_stored_at_its_commit(world: World, batches: Batches, clock: Clock) -> None:
    js = (await world.connect()).jetstream()
    async with js.atomic_batch() as batch:
        for number in range(3):
            await batch.add("orders.new", b"%d" % number)
        assert batches.stored == []
    assert batches.stored == [b"0", b"1", b"2"]
    assert (batch.ack.sequence, batch.ack.count) == (3, 3)
    assert clock.now == 0.0


async def test_the_last_message_can_commit(world: World, batches: Batches) -> None:
    js = (await world.connect()).jetstream()
    batch = js.atomic_batch()
    await batch.add("orders.new", b"1")
    assert (await batch.commit("orders.new", b"2")).count == 2
    assert batches.stored == [b"1", b"2"]


async def test_an_exception_discards_the_batch(world: World, batches: Batches, clock: Clock) -> None:
    js = (await world.connect()).jetstream()
    batch = js.atomic_batch()
    await batch.add("orders.new", b"1")
    with pytest.raises(ZeroDivisionError):
        async with batch:
            raise ZeroDivisionError
    await clock.settle()
    assert (batches.added, batches.stored) == ([], [])
    with pytest.raises(BatchClosedError, match="discarded"):
        await batch.add("orders.new", b"2")


async def test_a_commit_without_an_answer_is_not_repeated(world: World, batches: Batches, clock: Clock) -> None:
    js = (await world.connect()).jetstream()
    batch = js.atomic_batch(timeout=3)
    await batch.add("orders.new", b"1")
    batches.answers = False
    with pytest.raises(PublishTimeoutError):
        await batch.commit("orders.new", b"2")
    assert clock.now == 3.0
    assert len(batches.added) == 2
    with pytest.raises(BatchClosedError, match="failed"):
        await batch.commit()


async def test_a_message_waits_for_a_server_that_reads_nothing_until_the_timeout(
    world: World, server: MemoryServer, batches: Batches, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    batch = js.atomic_batch(timeout=3)
    await batch.add("orders.new", b"1")
    server.session.transport.stop_taking()

    async def fill() -> None:
        for _ in range(10):
            await batch.add("orders.new", b"x" * 100_000)

    with pytest.raises(PublishTimeoutError, match="was not added"):
        await fill()
    assert clock.now == 3.0
    server.session.transport.take_again()
    assert (await batch.commit("orders.new", b"2")).count == len(batches.stored) < 12


async def test_a_lost_session_fails_the_commit(
    world: World, server: MemoryServer, batches: Batches, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    batch = js.atomic_batch()
    await batch.add("orders.new", b"1")
    batches.answers = False
    committing = asyncio.create_task(batch.commit())
    await clock.until(1)
    server.session.reset()
    with pytest.raises(DisconnectedError):
        await committing
    assert clock.now == 1.0


async def test_a_batch_waits_while_writing_is_paused(
    world: World, server: MemoryServer, batches: Batches, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    batch = js.atomic_batch()
    await batch.add("orders.new", b"1")
    server.session.transport.stop_taking()

    async def much() -> None:
        for _ in range(5):
            await batch.add("orders.new", bytes(50_000))

    adding = asyncio.create_task(much())
    await clock.until(1)
    assert batch.count < 6
    server.session.transport.take_again()
    await adding
    assert (await batch.commit()).count == 6


async def test_a_refusal_fails_the_batch(world: World, stream: StreamScript, clock: Clock) -> None:
    js = (await world.connect()).jetstream()
    stream.answers = "hold"
    batch = js.atomic_batch()
    adding = asyncio.create_task(batch.add("orders.new", b"1"))
    await clock.settle()
    stream.refuse(0, 400, 10176, "batch publish is incomplete and was abandoned")
    with pytest.raises(IncompleteBatchError):
        await adding
    with pytest.raises(BatchClosedError):
        await batch.add("orders.new", b"2")


async def test_the_first_message_is_retried_if_no_stream_responds(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = (await world.connect()).jetstream()
    stream.answers = "503"
    adding = asyncio.create_task(js.atomic_batch().add("orders.new", b"1"))
    await clock.until(0.3)
    stream.answers = "hold"
    await clock.until(0.5)
    assert [pub.at for pub in stream.published] == [0.0, 0.25, 0.5]
    stream._sessions[-1].deliver(stream.published[-1].reply)
    await adding


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_batch_that_is_cancelled_anywhere_is_stored_whole_or_not_at_all(
    world: World, batches: Batches, clock: Clock, moment: Moment
) -> None:
    connection = await world.connect()
    js = connection.jetstream()

    async def store() -> None:
        async with js.atomic_batch() as batch:
            await batch.add("orders.new", b"1")
            await batch.add("orders.new", b"2", confirm=True)
            await batch.add("orders.new", b"3")

    async def check() -> None:
        await clock.settle()
        assert batches.stored in ([], [b"1", b"2", b"3"])
        batches.stored.clear()
        batches.added.clear()
        assert len(connection._core.client.reply_mux) == 0

    assert await cancel_everywhere(store, check, moment) >= 3
