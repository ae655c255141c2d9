"""natsrpy, a Rust client for Python: fetch and consume of a pull consumer; publish, which waits for its ack."""

import asyncio
import time

from common import ACK_PENDING, arrived, check, main, median, payload
from natsrpy import Nats
from natsrpy.js import AckPolicy, JetStream, PullConsumer, PullConsumerConfig

BATCH = 5_000
PUBLISHERS = 100


async def consumer_of(stream: JetStream, name: str) -> PullConsumer:
    """An ephemeral pull consumer without acks."""
    config = PullConsumerConfig(ack_policy=AckPolicy.NONE, memory_storage=True, inactive_threshold=60)
    return await (await stream.streams.get(name)).consumers.create(config)


async def fetch(url: str, stream: str, count: int) -> float:
    """Fetch after fetch."""
    client = Nats([url])
    await client.startup()
    consumer = await consumer_of(await client.jetstream(), stream)
    received, left = 0, count
    begin = time.perf_counter()
    while left:
        messages = await consumer.fetch(max_messages=min(BATCH, left), timeout=30)
        left -= len(messages)
        received += sum(len(message.payload) for message in messages)
    seconds = time.perf_counter() - begin
    await client.shutdown()
    check(received, count)
    return seconds


async def consume(url: str, stream: str, count: int) -> float:
    """The continuous iterator, which keeps pulls open."""
    client = Nats([url])
    await client.startup()
    consumer = await consumer_of(await client.jetstream(), stream)
    received, left = 0, count
    async with consumer.consume() as messages:
        begin = time.perf_counter()
        async for message in messages:
            received += len(message.payload)
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - begin
    await client.shutdown()
    check(received, count)
    return seconds


async def consume_ack(url: str, stream: str, count: int) -> float:
    """Fetch after fetch, every message acknowledged."""
    client = Nats([url])
    await client.startup()
    config = PullConsumerConfig(
        ack_policy=AckPolicy.EXPLICIT, memory_storage=True, inactive_threshold=60, max_ack_pending=ACK_PENDING
    )
    consumer = await (await (await client.jetstream()).streams.get(stream)).consumers.create(config)
    left = count
    begin = time.perf_counter()
    while left:
        messages = await consumer.fetch(max_messages=min(BATCH, left), timeout=30)
        left -= len(messages)
        for message in messages:
            await message.ack()
    seconds = time.perf_counter() - begin
    await client.shutdown()
    return seconds


async def recover(url: str, stream: str, count: int) -> float:
    """Measure when the first message after a restart of the server arrives."""
    client = Nats([url])
    await client.startup()
    consumer = await (await (await client.jetstream()).streams.get(stream)).consumers.get_pull("recover")
    async with consumer.consume() as messages:
        async for message in messages:
            await message.ack()
            arrived()
            count -= 1
            if not count:
                break
    await client.shutdown()
    return 0.0


async def publish(url: str, subject: str, count: int) -> float:
    """The library has no windowed publish: so many tasks publish one after another."""
    client = Nats([url])
    await client.startup()
    stream = await client.jetstream()
    numbers = iter(range(count))

    async def publisher() -> None:
        for number in numbers:
            await stream.publish(subject, payload(number), wait=True)

    begin = time.perf_counter()
    await asyncio.gather(*(publisher() for _ in range(PUBLISHERS)))
    seconds = time.perf_counter() - begin
    await client.shutdown()
    return seconds


async def latency(url: str, subject: str, count: int) -> float:
    """One publish after the other."""
    client = Nats([url])
    await client.startup()
    stream = await client.jetstream()
    seconds = await median(lambda content: stream.publish(subject, content, wait=True), count)
    await client.shutdown()
    return seconds


if __name__ == "__main__":
    main(
        {
            "fetch": fetch,
            "consume": consume,
            "consume_ack": consume_ack,
            "recover": recover,
            "publish": publish,
            "latency": latency,
        }
    )
