"""natsrpy, a Rust client for Python, core NATS."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable

from core import main
from natsrpy import Message, Nats


class Natsrpy:
    async def connect(self, url: str) -> None:
        self._client = Nats([url])
        await self._client.startup()

    async def close(self) -> None:
        pass  # its threads may panic when they are stopped under a callback; the process ends by itself

    async def publish(self, subject: str, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self._client.publish(subject, payload)
        await self._client.flush()

    async def iterate(self, subject: str) -> AsyncIterator[int]:
        subscription = await self._client.subscribe(subject).detatch()
        await self._client.flush()
        await asyncio.sleep(0.1)  # its flush does not wait for the server
        return (len(message.payload) async for message in subscription)

    async def callback(self, subject: str, take: Callable[[int], None]) -> None:
        async def receive(message: Message) -> None:
            take(len(message.payload))

        self._subscription = await self._client.subscribe(subject, callback=receive).detatch()
        await self._client.flush()
        await asyncio.sleep(0.1)

    async def request(self, subject: str, payload: bytes) -> bytes:
        return bytes((await self._client.request(subject, payload)).payload)


if __name__ == "__main__":
    main(Natsrpy())
    sys.stdout.flush()
    os._exit(0)
