"""Pulls of consumers with priority groups: the id of a pinned client is kept, sent, and dropped."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.fetching import handle, payloads
from tests.driver.jetstream import ConsumerScript, JetStreamScript
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import ConfigError


@pytest.fixture
def pinned(script: JetStreamScript) -> ConsumerScript:
    """A consumer with a pinned client."""
    return script.consumer("worker", priority_groups=["A"], priority_policy="pinned_client", priority_timeout=60)


@pytest.mark.conformance("PRI-02")
async def test_a_group_must_be_named(world: World, pinned: ConsumerScript) -> None:
    consumer = await handle(world)
    with pytest.raises(ConfigError, match="set `group` to one of them"):
        consumer.consume()
    with pytest.raises(ConfigError, match="set `group` to one of them"):
        await consumer.fetch(1)
    with pytest.raises(ConfigError, match="no priority group 'B'"):
        await consumer.fetch(1, group="B")


@pytest.mark.conformance("PRI-05")
async def test_the_id_of_the_pinned_client_is_sent_with_the_next_pulls(
    world: World, pinned: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    context = consumer.consume(max_messages=2, group="A")
    await clock.settle()
    assert "id" not in pinned.pull.fields
    pinned.pull.deliver(b"1", b"2", headers={"Nats-Pin-Id": "me"})
    assert [(await context.__anext__()).payload for _ in range(2)] == [b"1", b"2"]
    await clock.settle()
    assert pinned.pull.fields["id"] == "me"
    await context.stop()
    fetching = asyncio.create_task(consumer.fetch(1, group="A"))  # of the same handle
    await clock.settle()
    assert pinned.pull.fields["id"] == "me"
    pinned.pull.deliver(b"3")
    assert payloads(await fetching) == [b"3"]


@pytest.mark.conformance("PRI-06", "STA-17")
async def test_a_wrong_id_is_dropped(world: World, pinned: ConsumerScript, clock: Clock) -> None:
    consumer = await handle(world)
    context = consumer.consume(max_messages=2, group="A")
    await clock.settle()
    pinned.pull.deliver(b"1", b"2", headers={"Nats-Pin-Id": "me"})
    assert [(await context.__anext__()).payload for _ in range(2)] == [b"1", b"2"]
    await clock.settle()
    pinned.pull.status("423 Nats-Wrong-Pin-Id", Nats_Pending_Messages="2", Nats_Pending_Bytes="0")
    await clock.settle()
    assert "id" not in pinned.pull.fields
    assert not context.closed


async def test_another_handle_does_not_know_the_id(world: World, pinned: ConsumerScript, clock: Clock) -> None:
    first, second = await handle(world), await handle(world)
    for consumer in (first, second):
        fetching = asyncio.create_task(consumer.fetch(1, group="A"))
        await clock.settle()
        assert "id" not in pinned.pull.fields
        pinned.pull.deliver(b"x", headers={"Nats-Pin-Id": "me"})
        await fetching


async def test_a_fetch_whose_id_is_refused_ends_empty_and_drops_the_id(
    world: World, pinned: ConsumerScript, clock: Clock
) -> None:
    consumer = await handle(world)
    for number in range(3):
        fetching = asyncio.create_task(consumer.fetch(1, group="A"))
        await clock.settle()
        assert ("id" in pinned.pull.fields) == (number == 1)
        if number == 1:
            pinned.pull.status("423 Nats-Wrong-Pin-Id")
            assert await fetching == []
        else:
            pinned.pull.deliver(b"x", headers={"Nats-Pin-Id": "me"})
            assert payloads(await fetching) == [b"x"]


@pytest.mark.conformance("PRI-03")
async def test_the_priority_within_a_group_is_sent_with_the_pull(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    consumer = script.consumer("worker", priority_groups=["A"], priority_policy="overflow")
    context = (await handle(world)).consume(group="A", min_pending=100, min_ack_pending=7)
    await clock.settle()
    fields = consumer.pull.fields
    assert (fields["group"], fields["min_pending"], fields["min_ack_pending"]) == ("A", 100, 7)
    assert not context.closed
