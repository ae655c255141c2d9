"""The end of an ordered push subscription leaves no consumer and loses no message that has arrived."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import SILENCE, JetStreamScript, refusal
from tests.driver.pushing import ordered, starts, take
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    RequestTimeoutError,
)

pytestmark = pytest.mark.usefixtures("stream")

UNAVAILABLE = refusal(503, 10008, "JetStream system temporarily unavailable")


async def test_r14_an_unanswered_deletion_is_repeated_with_the_next_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.answer("CONSUMER.DELETE.>", SILENCE, {"success": True})
    script.created[0].push(b"1")
    script.created[0].lose()
    script.created[0].push(b"3")
    await clock.until(12)
    script.created[1].push(b"2")
    script.created[1].lose()
    script.created[1].push(b"4")
    await clock.settle()
    assert await take(subscription, 2) == [b"1", b"2"]
    first, second = (consumer.name for consumer in script.created[:2])
    deletions = [pub.subject.rpartition(".")[2] for pub in script.asked("CONSUMER.DELETE.>")]
    assert deletions == [first, second, first]


async def test_unsubscribe_between_two_consumers_leaves_none(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    world.net.latency = 0.1
    subscription = await ordered(world)
    await clock.advance(1)
    script.created[0].push(b"1")
    script.created[0].lose()
    script.created[0].push(b"3")
    await clock.advance(0.15)  # the next consumer is being created
    assert len(script.created) == 1
    await subscription.unsubscribe()
    await clock.advance(1)
    assert len(script.created) == 2
    assert all(consumer.deleted for consumer in script.created)
    await clock.advance(100)
    assert len(script.created) == 2


async def test_unsubscribe_during_the_wait_for_the_next_attempt_ends_the_attempts(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.created[0].push(b"1")
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE)
    await clock.until(15.5)
    await subscription.unsubscribe()
    tries = len(script.asked("CONSUMER.CREATE.>"))
    await clock.until(100)
    assert len(script.asked("CONSUMER.CREATE.>")) == tries == 2
    assert script.created[0].deleted


async def test_drain_delivers_received_messages_and_deletes_the_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.created[0].push(b"1", b"2")
    await clock.settle()
    draining = asyncio.create_task(subscription.drain())
    await clock.until(1)
    assert [message.payload async for message in subscription] == [b"1", b"2"]
    await draining
    assert clock.now == 1.0
    assert script.created[0].deleted
    await clock.until(100)
    assert len(script.created) == 1


async def test_an_unanswered_deletion_of_an_earlier_consumer_does_not_block(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.answer("CONSUMER.DELETE.>", SILENCE)
    script.created[0].push(b"1")
    script.created[0].lose()
    script.created[0].push(b"3")
    await clock.settle()
    assert starts(script) == [None, 2]
    script.created[1].push(b"2")
    assert await take(subscription, 2) == [b"1", b"2"]
    with pytest.raises(RequestTimeoutError):
        await subscription.unsubscribe()


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_reader_that_is_cancelled_anywhere_loses_no_message(
    world: World, script: JetStreamScript, clock: Clock, moment: Moment
) -> None:
    subscription = await ordered(world)
    got: list[bytes] = []

    async def serve() -> None:
        asyncio.get_running_loop().call_later(1, lambda: script.created[-1].push(b"x"))

    async def read() -> None:
        got.append((await subscription.next_msg()).payload)

    async def check() -> None:
        await clock.advance(2)
        if not got:
            await read()
        assert got == [b"x"]
        assert subscription.pending_msgs == 0
        got.clear()

    assert await cancel_everywhere(read, check, moment, before=serve) == 1
