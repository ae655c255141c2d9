"""nats-py, core NATS."""

from collections.abc import AsyncIterator, Callable

import nats
from core import main
from nats.aio.msg import Msg

LIMIT = 1 << 30


class NatsPy:
    async def connect(self, url: str) -> None:
        self._client = await nats.connect(url)

    async def close(self) -> None:
        await self._client.close()

    async def publish(self, subject: str, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self._client.publish(subject, payload)
        await self._client.flush(60)

    async def iterate(self, subject: str) -> AsyncIterator[int]:
        subscription = await self._client.subscribe(subject, pending_msgs_limit=LIMIT, pending_bytes_limit=LIMIT)
        await self._client.flush()
        return (len(message.data) async for message in subscription.messages)

    async def callback(self, subject: str, take: Callable[[int], None]) -> None:
        async def receive(message: Msg) -> None:
            take(len(message.data))

        await self._client.subscribe(subject, cb=receive, pending_msgs_limit=LIMIT, pending_bytes_limit=LIMIT)
        await self._client.flush()

    async def request(self, subject: str, payload: bytes) -> bytes:
        return (await self._client.request(subject, payload, timeout=5)).data


if __name__ == "__main__":
    main(NatsPy())
