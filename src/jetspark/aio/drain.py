"""The drain of a connection: what is drained with it, and in which order it stops and waits."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine
from typing import Any, Protocol

from jetspark.aio._interfaces import Drainable, PendingPublishes
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.errors import DisconnectedError, DrainTimeoutError, Error
from jetspark.wire.outbound import Outbound

__all__ = ["ConnectionDrain", "DrainedConnection", "down_error"]


class DrainedConnection(Protocol):
    """The core of a connection, as its drain uses it."""

    client: ConnectionState
    outbound: Outbound

    def check_open(self) -> None:
        """Raise ConnectionClosedError if the connection is closed."""

    def ping_roundtrip(self, timeout: float | None) -> Coroutine[Any, Any, None]:
        """Wait until the server has everything that was sent."""

    def close(self, *, wait: bool) -> Coroutine[Any, Any, None]:
        """Close the connection; with `wait` false, do not wait for the server."""


class ConnectionDrain:
    """The objects that drain with a connection. The references to them are weak.

    Attributes
    ----------
    drainables
        Objects that receive messages. They stop, and their messages are handled.
    publishes
        Publishes whose acknowledgements are awaited.
    """

    def __init__(self) -> None:
        self.drainables: weakref.WeakSet[Drainable] = weakref.WeakSet()
        self.publishes: weakref.WeakSet[PendingPublishes] = weakref.WeakSet()

    async def run(self, connection: DrainedConnection, seconds: float) -> None:
        """Drain everything within a time, and close the connection; see `Connection.drain`."""
        outbound = connection.outbound
        drainables = list(self.drainables)
        answered = False
        wait = True
        problem: Error | None = None
        try:
            async with asyncio.timeout(seconds):
                for each in drainables:
                    each.stop_receiving()
                problem = await _confirm(connection)
                answered = True
                await asyncio.gather(*(each.wait_drained(confirm=False) for each in drainables))
                problem = await _confirm(connection) or problem
                if outbound.online:
                    await asyncio.gather(*(each.wait_completed(None) for each in list(self.publishes)))
            problem = problem or outbound.unsent_error(connection.client.reply_mux.inbox, with_acks=False)
        except TimeoutError:
            wait = answered  # without an answer the whole timeout has passed already
            pending = sum(each.pending for each in self.publishes)
            late = f"not drained within {seconds:g} s"
            dropped = sum(
                each.discard(DrainTimeoutError(f"{late}; waiting messages were dropped")) for each in drainables
            )
            raise DrainTimeoutError(
                f"{late}; {dropped} messages dropped, {pending} publishes not acknowledged"
            ) from None
        finally:
            await connection.close(wait=wait)
        if problem is not None:
            raise problem


async def _confirm(connection: DrainedConnection) -> DisconnectedError | None:
    """Wait until the server has everything; return the error of a lost session. Nothing waits for a new one."""
    connection.check_open()
    if connection.outbound.online:
        try:
            await connection.ping_roundtrip(None)
        except DisconnectedError as error:
            return error
    return None


def down_error() -> DisconnectedError:
    """Return the error of a call on a connection that drains without a session."""
    return DisconnectedError("the connection is down, and it drains: no answer can come")
