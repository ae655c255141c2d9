"""Consume over lost sessions."""

from __future__ import annotations

import pytest
from tests.driver.consuming import consuming
from tests.driver.jetstream import SILENCE, ConsumerScript, refusal
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    ConsumerNotFoundError,
    MissedHeartbeatError,
)
from jetspark.wire.events import ErrorOccurred


@pytest.mark.conformance("REC-04")
async def test_a_lost_session_is_followed_by_a_pull_in_the_next_one(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10)
    await clock.settle()
    worker.pull.fill(4)
    await clock.until(3)
    server.session.reset()
    await clock.settle()
    assert [(pull.at, pull.batch) for pull in worker.pulls] == [(0.0, 10), (3.0, 6)]
    worker.pull.fill(1)
    assert await consume.take(5) == [b"1", b"2", b"3", b"4", b"5"]
    assert not consume.warnings


async def test_a_pull_that_was_not_written_is_not_sent_in_the_next_session(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10)
    await clock.settle()
    worker.pull.fill()
    await clock.settle()
    server.session.transport.choke()
    await consume.take(10)  # causes another pull, which waits
    server.session.reset()
    await clock.until(1)
    assert [pull.batch for pull in worker.pulls] == [10, 10]
    assert worker.pulls[1].session is server.session


async def test_a_consume_that_starts_without_a_session_pulls_in_the_next_one(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    connection = await world.connect(reconnect_wait=1)
    consumer = await connection.jetstream().consumer("ORDERS", "worker")
    server.down()
    await clock.settle()
    context = consumer.consume(max_messages=10)
    await clock.until(0.1)
    server.up()
    await clock.until(2)
    assert len(worker.pulls) == 1
    worker.pull.fill(1)
    assert (await context.__anext__()).payload == b"1"


@pytest.mark.conformance("REC-06")
async def test_verify_on_reconnect_ends_the_consume_when_the_consumer_is_gone(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10, verify_on_reconnect=True)
    await clock.settle()
    worker.deleted = True
    server.session.reset()
    with pytest.raises(ConsumerNotFoundError):
        await consume.take(1)
    assert [pub.at for pub in worker.js.asked("CONSUMER.INFO.>")] == [0.0, 0.0, 0.25, 0.75]
    assert len(worker.pulls) == 1


async def test_a_lookup_that_fails_temporarily_is_repeated_and_then_pulled(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10, verify_on_reconnect=True)
    await clock.settle()
    unavailable = refusal(503, 10059, "stream not found")
    worker.js.answer("CONSUMER.INFO.>", unavailable, "503", worker.info)
    server.session.reset()
    await clock.until(5)
    assert [pull.at for pull in worker.pulls] == [0.0, 0.75]
    assert not consume.context.closed


async def test_a_lookup_without_an_answer_is_repeated(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10, verify_on_reconnect=True)
    await clock.settle()
    worker.js.answer("CONSUMER.INFO.>", SILENCE)
    server.session.reset()
    await clock.until(5.1)
    worker.js.answer("CONSUMER.INFO.>", worker.info)
    await clock.until(6)
    assert [pull.at for pull in worker.pulls] == [0.0, 5.25]
    assert not consume.context.closed


async def test_warnings_without_a_handler_are_events(world: World, worker: ConsumerScript, clock: Clock) -> None:
    connection = await world.connect()
    context = (await connection.jetstream().consumer("ORDERS", "worker")).consume(idle_heartbeat=5)
    await clock.until(10)
    assert [type(event.error) for event in world.events.of(ErrorOccurred)] == [MissedHeartbeatError]
    assert not context.closed
