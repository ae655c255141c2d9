"""When a callback's message is acknowledged."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.api.subscribing.support import (
    collect,
    errors,
    reported_error,
    side,
)
from tests.fronts import Ground, eventually

from jetspark.aio import Msg
from jetspark.jetstream import AckPolicy, ConsumerConfig

# -- acknowledging callbacks -------------------------------------------------------------------------------------------


async def redelivered(ground: Ground, callback: Any, count: int, **options: Any) -> list[int]:
    """Return the delivery counts of the messages that a callback gets, for one message in the stream."""
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1")
    seen: list[int] = []

    async def handle(message: Msg) -> None:
        seen.append(message.metadata.num_delivered)
        await callback(message)

    config = ConsumerConfig(ack_wait=timedelta(milliseconds=300))
    subscription = await ground.js.subscribe(f"{stream.name}.a", callback=handle, config=config, **options)
    await eventually(lambda: len(seen) >= count, what=f"{count} deliveries")
    if count == 1:

        async def acknowledged() -> bool:
            info = await subscription.consumer_info()
            return (info.num_ack_pending, info.ack_floor.stream_sequence) == (0, 1)

        await eventually(acknowledged, what="the acknowledgement")
    await subscription.unsubscribe()
    return seen[:count]


@pytest.mark.conformance("ACK-09")
async def test_a_message_is_acknowledged_when_its_callback_returns(ground: Ground) -> None:
    async def callback(message: Msg) -> None:
        """Do nothing."""

    assert await redelivered(ground, callback, 1) == [1]


@pytest.mark.conformance("ACK-09")
async def test_manual_ack_leaves_acknowledging_to_the_callback(ground: Ground) -> None:
    async def callback(message: Msg) -> None:
        if message.metadata.num_delivered == 2:
            await message.ack()

    assert await redelivered(ground, callback, 2, manual_ack=True) == [1, 2]


@pytest.mark.conformance("ACK-09")
async def test_r34_a_nak_in_a_callback_is_kept(ground: Ground) -> None:
    async def callback(message: Msg) -> None:
        if message.metadata.num_delivered == 1:
            await message.nak()

    assert await redelivered(ground, callback, 2) == [1, 2]


@pytest.mark.conformance("ACK-09")
@pytest.mark.blocking
async def test_an_exception_of_a_callback_leaves_the_message_unacknowledged_and_is_reported(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1")
    seen: list[int] = []

    def callback(message: Msg) -> None:
        seen.append(message.metadata.num_delivered)
        if len(seen) == 1:
            raise ZeroDivisionError

    config = ConsumerConfig(backoff=[timedelta(milliseconds=300), timedelta(minutes=1)])
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", callback=callback, config=config)
        await eventually(lambda: len(seen) == 2, what="a redelivery")
        await reported_error(own.events, ZeroDivisionError)
        assert (seen, len(errors(own.events, ZeroDivisionError))) == ([1, 2], 1)
        await subscription.unsubscribe()


@pytest.mark.conformance("ACK-09", "ACK-08")
async def test_a_consumer_with_ack_policy_none_gets_no_acknowledgement(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1", b"2")
    handled: list[bytes] = []
    spy = await ground.spy("$JS.ACK.>")
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    await ground.js.subscribe(
        f"{stream.name}.a", callback=lambda message: handled.append(message.payload), config=config
    )
    await eventually(lambda: len(handled) == 2, what="two messages")
    reading = await ground.js.subscribe(f"{stream.name}.a", config=config)
    for message in await collect(reading, 2):
        await message.ack()
    assert await spy.settled() == []
