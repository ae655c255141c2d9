"""What several suites of this room use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["until"]


async def until(condition: Callable[[], Awaitable[object]], timeout: float = 10.0) -> None:  # noqa: ASYNC109
    """Ask again and again until the answer is true; for what only the server's clock decides."""
    async with asyncio.timeout(timeout):
        while not await condition():  # noqa: ASYNC110 (there is nothing to wait on)
            await asyncio.sleep(0.02)
