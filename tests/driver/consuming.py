"""Helpers for the tests of consume."""

from __future__ import annotations

from typing import Any

from tests.driver.world import World

from jetspark.aio.jetstream.consume_context import ConsumeContext

__all__ = ["Consume", "consuming"]


class Consume:
    """A running consume, and its warnings."""

    def __init__(self, context: ConsumeContext, warnings: list[Exception]) -> None:
        self.context = context
        self.warnings = warnings

    async def take(self, count: int) -> list[bytes]:
        """Return the payloads of the next messages."""
        return [(await self.context.__anext__()).payload for _ in range(count)]


async def consuming(world: World, options: dict[str, Any] | None = None, **fields: Any) -> Consume:
    """Connect, and consume from the worker."""
    connection = await world.connect(**(options or {}))
    consumer = await connection.jetstream().consumer("ORDERS", "worker")
    warnings: list[Exception] = []
    return Consume(consumer.consume(on_error=warnings.append, **fields), warnings)
