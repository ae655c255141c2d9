"""nats-core, core NATS. Its callbacks run on the read path, not on a task of the subscription: not measured."""

from collections.abc import AsyncIterator, Callable

from core import main
from nats.client import connect

LIMIT = 1 << 30


class NatsCore:
    async def connect(self, url: str) -> None:
        self._client = await connect(url)

    async def close(self) -> None:
        await self._client.close()

    async def publish(self, subject: str, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self._client.publish(subject, payload)
        await self._client.flush(60)

    async def iterate(self, subject: str) -> AsyncIterator[int]:
        subscription = await self._client.subscribe(subject, max_pending_messages=LIMIT, max_pending_bytes=LIMIT)
        await self._client.flush()
        return (len(message.data) async for message in subscription)

    async def callback(self, subject: str, take: Callable[[int], None]) -> None:
        raise NotImplementedError

    async def request(self, subject: str, payload: bytes) -> bytes:
        return (await self._client.request(subject, payload)).data


if __name__ == "__main__":
    main(NatsCore())
