"""natsio, core NATS."""

from collections.abc import AsyncIterator, Callable

import natsio
from core import main

LIMIT = 1 << 30


class Natsio:
    async def connect(self, url: str) -> None:
        self._client = await natsio.connect(url)

    async def close(self) -> None:
        await self._client.close()

    async def publish(self, subject: str, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self._client.publish(subject, payload)
        await self._client.flush(60)

    async def iterate(self, subject: str) -> AsyncIterator[int]:
        subscription = self._client.subscribe(subject, pending_msgs_limit=LIMIT, pending_bytes_limit=LIMIT)
        await self._client.flush()
        return (len(message.data) async for message in subscription)

    async def callback(self, subject: str, take: Callable[[int], None]) -> None:
        async def receive(message: natsio.Msg) -> None:
            take(len(message.data))

        self._client.subscribe(subject, cb=receive, pending_msgs_limit=LIMIT, pending_bytes_limit=LIMIT)
        await self._client.flush()

    async def request(self, subject: str, payload: bytes) -> bytes:
        return (await self._client.request(subject, payload)).data


if __name__ == "__main__":
    main(Natsio())
