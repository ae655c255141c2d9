"""What several suites of this room use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from jetspark.aio import Connection

__all__ = ["long_way", "under_way", "until"]


def under_way(nc: Connection) -> int:
    """How many requests of a connection wait for their answer."""
    blocking: Any = getattr(nc, "inner", None)  # of a carried connection
    return len((nc._core if blocking is None else blocking._core.inner).client.reply_mux)


async def until(condition: Callable[[], Awaitable[object]], timeout: float = 10.0) -> None:  # noqa: ASYNC109
    """Ask again and again until the answer is true; for what only the server's clock decides."""
    async with asyncio.timeout(timeout):
        while not await condition():  # noqa: ASYNC110 (there is nothing to wait on)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def long_way(port: int, delay: float) -> AsyncIterator[str]:
    """The address of a server that is so many seconds away: each byte arrives that much later, in both directions."""
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
