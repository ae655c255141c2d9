"""Helpers for the tests of pull subscriptions."""

from __future__ import annotations

from tests.driver.world import World

from jetspark import aio
from jetspark.aio.jetstream import PullSubscription

__all__ = ["bound", "payloads"]


async def bound(world: World) -> PullSubscription:
    """Connect, and bind to the worker."""
    js = (await world.connect()).jetstream()
    return await js.pull_subscribe_bind("worker", "ORDERS")


def payloads(messages: list[aio.Msg]) -> list[bytes]:
    """Return the payloads of the fetched messages."""
    return [message.payload for message in messages]
