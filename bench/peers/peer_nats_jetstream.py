"""nats-jetstream on nats-core: fetch and messages of a pull consumer; publish, which waits for its ack."""

import asyncio
import secrets
import time
from datetime import timedelta

from common import ACK_PENDING, check, main, median, payload
from nats.client import Client, connect
from nats.jetstream import new
from nats.jetstream.consumer import Consumer

BATCH = 5_000
PUBLISHERS = 1_000


async def consumer_of(connection: Client, stream: str, policy: str = "none") -> Consumer:
    """An ephemeral pull consumer; the library wants a name for it."""
    return await new(connection).create_consumer(
        stream,
        f"peer{secrets.token_hex(4)}",
        ack_policy=policy,
        max_ack_pending=ACK_PENDING,
        mem_storage=True,
        inactive_threshold=timedelta(minutes=1),
    )


async def fetch(url: str, stream: str, count: int) -> float:
    """Fetch after fetch."""
    connection = await connect(url)
    consumer = await consumer_of(connection, stream)
    received, left = 0, count
    begin = time.perf_counter()
    while left:
        async for message in await consumer.fetch(max_messages=min(BATCH, left), max_wait=30):
            left -= 1
            received += len(message.data)
    seconds = time.perf_counter() - begin
    await connection.close()
    check(received, count)
    return seconds


async def consume(url: str, stream: str, count: int) -> float:
    """The continuous iterator, which keeps pulls open."""
    connection = await connect(url)
    consumer = await consumer_of(connection, stream)
    received, left = 0, count
    messages = await consumer.messages(max_messages=BATCH)
    begin = time.perf_counter()
    async for message in messages:
        received += len(message.data)
        left -= 1
        if not left:
            break
    seconds = time.perf_counter() - begin
    await messages.stop()
    await connection.close()
    check(received, count)
    return seconds


async def consume_ack(url: str, stream: str, count: int) -> float:
    """The continuous iterator, every message acknowledged."""
    connection = await connect(url)
    consumer = await consumer_of(connection, stream, "explicit")
    left = count
    messages = await consumer.messages(max_messages=BATCH)
    begin = time.perf_counter()
    async for message in messages:
        await message.ack()
        left -= 1
        if not left:
            break
    seconds = time.perf_counter() - begin
    await messages.stop()
    await connection.close()
    return seconds


async def next_message(url: str, stream: str, count: int) -> float:
    """One message after the other."""
    connection = await connect(url)
    consumer = await consumer_of(connection, stream)
    begin = time.perf_counter()
    for _ in range(count):
        await consumer.next(max_wait=30)
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


async def publish(url: str, subject: str, count: int) -> float:
    """The library has no windowed publish: so many tasks publish one after another."""
    connection = await connect(url)
    stream = new(connection)
    numbers = iter(range(count))

    async def publisher() -> None:
        for number in numbers:
            await stream.publish(subject, payload(number), timeout=60)

    begin = time.perf_counter()
    await asyncio.gather(*(publisher() for _ in range(PUBLISHERS)))
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


async def latency(url: str, subject: str, count: int) -> float:
    """One publish after the other."""
    connection = await connect(url)
    stream = new(connection)
    seconds = await median(lambda content: stream.publish(subject, content), count)
    await connection.close()
    return seconds


if __name__ == "__main__":
    main(
        {
            "fetch": fetch,
            "consume": consume,
            "consume_ack": consume_ack,
            "next": next_message,
            "publish": publish,
            "latency": latency,
        }
    )
