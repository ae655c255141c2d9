"""Helpers for the tests of push subscriptions."""

from __future__ import annotations

from typing import Any

from tests.driver.jetstream import JetStreamScript
from tests.driver.world import World

from jetspark.aio.jetstream import PushSubscription
from jetspark.wire.events import ErrorOccurred

__all__ = ["bound", "errors", "ordered", "starts", "take"]


async def bound(world: World, options: dict[str, Any] | None = None, **more: Any) -> PushSubscription:
    """Connect, and bind to the consumer `pusher`."""
    connection = await world.connect(**(options or {}))
    subscription = await connection.jetstream().subscribe_bind("ORDERS", None, "pusher", **more)
    await world.clock.settle()
    return subscription


def errors(world: World) -> list[type[Exception]]:
    """Return the errors that were reported as events."""
    return [type(event.error) for event in world.events.of(ErrorOccurred)]


async def take(subscription: PushSubscription, count: int) -> list[bytes]:
    """Return the payloads of the next messages."""
    return [(await subscription.next_msg(1)).payload for _ in range(count)]


async def ordered(world: World, options: dict[str, Any] | None = None, **more: Any) -> PushSubscription:
    """Connect, and read in order."""
    connection = await world.connect(**(options or {}))
    subscription = await connection.jetstream().subscribe("orders.a", ordered_consumer=True, **more)
    await world.clock.settle()
    return subscription


def starts(script: JetStreamScript) -> list[int | None]:
    """Return the start sequences of the consumers; None for the first sequence of the stream."""
    return [consumer.config.get("opt_start_seq") for consumer in script.created]
