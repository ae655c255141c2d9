"""The product itself, measured by the same harness as the peers."""

from collections.abc import AsyncIterator, Callable

from core import main

from jetspark import aio


class Jetspark:
    async def connect(self, url: str) -> None:
        self._connection = await aio.connect(url)

    async def close(self) -> None:
        await self._connection.close()

    async def publish(self, subject: str, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self._connection.publish(subject, payload)
        await self._connection.flush(60)

    async def iterate(self, subject: str) -> AsyncIterator[int]:
        subscription = await self._connection.subscribe(subject)
        await self._connection.flush()
        return (len(message.payload) async for message in subscription)

    async def callback(self, subject: str, take: Callable[[int], None]) -> None:
        async def receive(message: aio.Msg) -> None:
            take(len(message.payload))

        await self._connection.subscribe(subject, callback=receive)
        await self._connection.flush()

    async def request(self, subject: str, payload: bytes) -> bytes:
        return (await self._connection.request(subject, payload)).payload


if __name__ == "__main__":
    main(Jetspark())
