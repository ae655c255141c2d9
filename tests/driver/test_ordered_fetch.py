"""An ordered pull consumer: consume until caught up, and fetches."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import SILENCE, JetStreamScript, refusal
from tests.driver.reading import alive, handle, reading, starts
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    RequestTimeoutError,
)

pytestmark = pytest.mark.usefixtures("stream")

UNAVAILABLE = refusal(503, 10008, "JetStream system temporarily unavailable")


async def test_until_caught_up_ends_if_the_leader_has_no_more_messages(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    message = {"message": {"subject": "orders.a", "seq": 2, "time": "2026-01-02T03:04:05Z"}}
    script.answer("STREAM.MSG.GET.>", message)
    read = await reading(world, until_caught_up=True)
    pull = script.created[0].pull
    pull.deliver(b"1", pending=1)
    pull.deliver(b"2", pending=0)
    assert [found.payload async for found in read.context] == [b"1", b"2"]
    await clock.settle()
    assert alive(script) == []
    assert clock.now == 0.0


async def test_until_caught_up_of_an_empty_stream_ends_at_once(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.answer("STREAM.MSG.GET.>", refusal(404, 10037, "no message found"))
    read = await reading(world, until_caught_up=True)
    assert [found.payload async for found in read.context] == []
    assert clock.now == 0.0


async def test_until_caught_up_continues_if_the_leader_has_more_messages(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    message = {"message": {"subject": "orders.a", "seq": 3, "time": "2026-01-02T03:04:05Z"}}
    script.answer("STREAM.MSG.GET.>", message)
    read = await reading(world, until_caught_up=True)
    pull = script.created[0].pull
    pull.deliver(b"1", b"2", pending=0)
    assert await read.take(2) == [b"1", b"2"]
    await clock.until(0.5)
    assert not read.context.closed
    pull.deliver(b"3", pending=0)
    assert [found.payload async for found in read.context] == [b"3"]


async def test_a_fetch_creates_and_deletes_its_consumer(world: World, script: JetStreamScript, clock: Clock) -> None:
    consumer = await handle(world)
    for number in (1, 2):
        fetching = asyncio.create_task(consumer.fetch(1))
        await clock.settle()
        script.created[-1].pull.fill(1)
        assert [message.payload for message in await fetching] == [b"%d" % number]
        await clock.settle()
        assert alive(script) == []
    assert starts(script) == [None, 2]


async def test_a_gap_ends_a_fetch_and_the_next_one_continues_there(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    consumer = await handle(world)
    fetching = asyncio.create_task(consumer.fetch(10))
    await clock.settle()
    first = script.created[0]
    first.pull.fill(2)
    first.lose()
    first.pull.fill(1)
    assert [message.payload for message in await fetching] == [b"1", b"2"]
    again = asyncio.create_task(consumer.fetch(2))
    await clock.settle()
    assert starts(script) == [None, 3]
    script.created[1].pull.fill(2)
    assert [message.payload for message in await again] == [b"3", b"4"]


async def test_a_fetch_whose_consumer_cannot_be_created_times_out(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    consumer = await handle(world)
    script.answer("CONSUMER.CREATE.>", SILENCE)
    with pytest.raises(RequestTimeoutError):
        await consumer.fetch(1, timeout=3)
    assert clock.now == 4.0


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_fetch_that_is_cancelled_anywhere_loses_no_message(
    world: World, script: JetStreamScript, clock: Clock, moment: Moment
) -> None:
    consumer = await handle(world)
    got: list[bytes] = []

    async def serve() -> None:
        def fill() -> None:
            if script.created and script.created[-1].pulls and script.created[-1].pull.heard:
                script.created[-1].pull.fill(2)

        asyncio.get_running_loop().call_later(1, fill)

    async def fetch() -> None:
        got.extend([message.payload for message in await consumer.fetch(2, timeout=5)])

    async def check() -> None:
        await clock.advance(2)
        assert alive(script) == []
        assert consumer.last_sequence == (len(got) or None)
        assert got == [b"%d" % number for number in range(1, len(got) + 1)]

    assert await cancel_everywhere(fetch, check, moment, before=serve) >= 2
    assert got == [b"1", b"2"]
