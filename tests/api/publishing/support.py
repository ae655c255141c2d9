"""Helpers for several test files in this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

from tests.fronts import Ground

from jetspark.aio import Connection
from jetspark.aio.jetstream import AsyncPublishOptions, PubAckFuture
from jetspark.jetstream import PubAck

__all__ = [
    "ack_of",
    "async_context",
    "distant_server",
    "last_sequence",
    "requests_in_flight",
    "subscriptions_of",
    "until",
]


def requests_in_flight(nc: Connection) -> int:
    """Return how many requests of a connection wait for a reply."""
    blocking: Any = getattr(nc, "inner", None)  # of a connection in `Carried`
    return len((nc._core if blocking is None else blocking._core.inner).client.reply_mux)


async def until(condition: Callable[[], Awaitable[object]], timeout: float = 10.0) -> None:  # noqa: ASYNC109
    """Ask repeatedly until the answer is true, for conditions that depend on the server's clock."""
    async with asyncio.timeout(timeout):
        while not await condition():  # noqa: ASYNC110 (there is nothing to wait on)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def distant_server(port: int, delay: float) -> AsyncIterator[str]:
    """Return the address of a server with a latency: each byte arrives that many seconds later, in both directions."""
    loop = asyncio.get_running_loop()
    sessions: set[asyncio.Task[object]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            loop.call_later(delay, partial(writer.write, data))
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, out = await asyncio.open_connection("127.0.0.1", port)
        tasks = {asyncio.ensure_future(carry(reader, out)), asyncio.ensure_future(carry(upstream, writer))}
        sessions.update(tasks)
        await asyncio.wait(tasks)
        out.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in sessions:
            task.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)
        await server.wait_closed()


async def last_sequence(stream: Any) -> int:
    """Return the sequence of the last message of a stream."""
    return int((await stream.info()).state.last_sequence)


def async_context(ground: Ground, **settings: Any) -> Any:
    """Return a context with options of `publish_async`."""
    return ground.nc.jetstream(domain=ground.profile.domain, publishing=AsyncPublishOptions(**settings))


def subscriptions_of(ground: Ground) -> list[str]:
    """Return the subjects that the server knows for the connection under test."""
    found = ground.server.monitor("/connz", subs="1")
    mine = next(
        each
        for each in cast("list[dict[str, Any]]", found["connections"])
        if each["cid"] == ground.nc.server_info.client_id
    )
    return list(mine.get("subscriptions_list", ()))


async def ack_of(future: PubAckFuture) -> PubAck:
    """Return the result of a future; a coroutine, for functions that take no awaitable."""
    return await future
