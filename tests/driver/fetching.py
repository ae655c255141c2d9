"""Helpers for the tests of fetches."""

from __future__ import annotations

from typing import Any

from tests.driver.world import World

from jetspark import aio
from jetspark.aio.jetstream import Consumer

__all__ = ["handle", "payloads"]


async def handle(world: World, **options: Any) -> Consumer:
    """Connect, and get the handle of the worker."""
    return await (await world.connect(**options)).jetstream().consumer("ORDERS", "worker")


def payloads(batch: list[aio.Msg]) -> list[bytes]:
    """Return the payloads of a batch, which may raise its error after the last one."""
    return [batch[place].payload for place in range(len(batch))]
