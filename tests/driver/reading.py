"""Helpers for the tests of ordered pull consumers."""

from __future__ import annotations

from typing import Any

from tests.driver.jetstream import JetStreamScript
from tests.driver.world import World

from jetspark.aio.jetstream import OrderedConsumer
from jetspark.aio.jetstream.consume_context import ConsumeContext

__all__ = ["Reading", "alive", "handle", "reading", "starts"]


class Reading:
    """An ordered consumer, its consume, and its warnings."""

    def __init__(self, consumer: OrderedConsumer, **options: Any) -> None:
        self.consumer = consumer
        self.warnings: list[Exception] = []
        self.context: ConsumeContext = consumer.consume(on_error=self.warnings.append, **options)

    @property
    def kinds(self) -> list[type[Exception]]:
        return [type(warning) for warning in self.warnings]

    async def take(self, count: int) -> list[bytes]:
        """Return the payloads of the next messages."""
        return [(await self.context.__anext__()).payload for _ in range(count)]


async def handle(world: World, options: dict[str, Any] | None = None, **fields: Any) -> OrderedConsumer:
    """Connect, and return an ordered consumer of ORDERS."""
    connection = await world.connect(**(options or {}))
    return connection.jetstream().ordered_consumer("ORDERS", name_prefix="reader", **fields)


async def reading(world: World, options: dict[str, Any] | None = None, **more: Any) -> Reading:
    """Connect, and consume in order."""
    found = Reading(await handle(world, options), **more)
    await world.clock.settle()
    return found


def starts(script: JetStreamScript) -> list[int | None]:
    """Return the start sequences of the consumers; None for the first sequence of the stream."""
    return [consumer.config.get("opt_start_seq") for consumer in script.created]


def alive(script: JetStreamScript) -> list[str]:
    """Return the consumers that are not deleted."""
    return [consumer.name for consumer in script.created if not consumer.deleted]
