"""The world of a driver test: the clock, a network with a server, and connections that are closed at the end."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from tests.driver.server import MemoryNetwork, MemoryServer
from tests.driver.virtual_time import Clock, VirtualTimeLoop

from jetspark import aio
from jetspark.aio.core import ConnectionCore
from jetspark.aio.jetstream import JetStream
from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.wire.events import Event

__all__ = ["Recorder", "World", "fix_jitter"]

E = TypeVar("E", bound=Event)

_WEAK: Final = {"weakly.<locals>.call"}


class Recorder:
    """An event handler that keeps the events and their times."""

    def __init__(self, clock: Clock) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        self._clock = clock

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self.times.append(self._clock.now)

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def times_of(self, kind: type[Event]) -> list[float]:
        return [time for event, time in zip(self.events, self.times, strict=True) if isinstance(event, kind)]


class World:
    """See the module.

    Attributes
    ----------
    clock, net, server
        The clock, the network, and the server at the default address.
    events
        The events of all connections.
    """

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.clock = Clock(loop)
        self.net = MemoryNetwork(loop, self.clock)
        self.server: MemoryServer = self.net.server()
        self.events = Recorder(self.clock)
        self._loop = loop
        self._tasks = asyncio.all_tasks()
        self._connections: list[aio.Connection] = []

    async def connect(self, where: str | Sequence[str] | None = None, **options: Any) -> aio.Connection:
        """Open a connection to the server at the default address, unless asked otherwise."""
        options.setdefault("on_event", self.events)
        connection = await aio.connect(where, **options)
        self._connections.append(connection)
        return connection

    async def jetstream(self, *, options: dict[str, Any] | None = None, **settings: Any) -> JetStream:
        """Open a connection with these options; return a context that publishes with these settings."""
        connection = await self.connect(**(options or {}))
        return connection.jetstream(publishing=AsyncPublishOptions(**settings))

    async def close(self) -> None:
        """Close the connections that the test left open."""
        for connection in self._connections:
            await connection.close()
        self._connections.clear()
        gc.collect(0)
        await self.clock.advance(2 * self.net.latency)  # data in flight arrives

    def left(self) -> list[object]:
        """Return tasks, connections and timers that are left."""
        tasks = [task for task in asyncio.all_tasks() - self._tasks if task is not asyncio.current_task()]
        timers = [timer for timer in self._loop.timers if not _is_weak(timer)]
        return [*tasks, *self.net.open_transports, *timers]


def _is_weak(timer: asyncio.TimerHandle) -> bool:
    """Return whether a timer holds no reference and does nothing once its owner is gone. It need not be cancelled."""
    callback: Any = timer._callback  # type: ignore[attr-defined]  # asyncio has no other way to tell
    return getattr(callback, "__qualname__", "") in _WEAK


class _Fixed(random.Random):
    """Returns one number again and again."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number

    def random(self) -> float:
        return self._number


def fix_jitter(connection: ConnectionCore, number: float) -> None:
    """Replace the random numbers of the connection: 0 shortens no wait, nearly 1 shortens a wait by half."""
    connection.client.servers._rng = _Fixed(number)
