"""natsio: fetch and consume of a pull consumer; publish_async."""

import time
from datetime import timedelta

import natsio
from common import ACK_PENDING, LARGE_OBJECT, SMALL_OBJECT, WINDOW, arrived, check, main, median, payload
from natsio.jetstream import AckPolicy, Consumer, ConsumerConfig, StorageType
from natsio.objectstore import ObjectStoreConfig

BATCH = 5_000


async def consumer_of(client: natsio.Client, stream: str, policy: AckPolicy = AckPolicy.NONE) -> Consumer:
    """An ephemeral pull consumer, by default without acks."""
    config = ConsumerConfig(
        ack_policy=policy, mem_storage=True, inactive_threshold=timedelta(minutes=1), max_ack_pending=ACK_PENDING
    )
    return await (await client.jetstream().stream(stream)).create_consumer(config)


async def fetch(url: str, stream: str, count: int) -> float:
    """Fetch after fetch."""
    client = await natsio.connect(url)
    consumer = await consumer_of(client, stream)
    received, left = 0, count
    begin = time.perf_counter()
    while left:
        messages = await consumer.fetch(min(BATCH, left), timeout=30)
        left -= len(messages)
        received += sum(len(message.data) for message in messages)
    seconds = time.perf_counter() - begin
    await client.close()
    check(received, count)
    return seconds


async def consume(url: str, stream: str, count: int) -> float:
    """The continuous iterator, which keeps pulls open."""
    client = await natsio.connect(url)
    consumer = await consumer_of(client, stream)
    received, left = 0, count
    async with consumer.consume(max_messages=BATCH) as messages:
        begin = time.perf_counter()
        async for message in messages:
            received += len(message.data)
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - begin
    await client.close()
    check(received, count)
    return seconds


async def consume_ack(url: str, stream: str, count: int) -> float:
    """The continuous iterator, every message acknowledged."""
    client = await natsio.connect(url)
    consumer = await consumer_of(client, stream, AckPolicy.EXPLICIT)
    left = count
    async with consumer.consume(max_messages=BATCH) as messages:
        begin = time.perf_counter()
        async for message in messages:
            await message.ack()
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - begin
    await client.close()
    return seconds


async def next_message(url: str, stream: str, count: int) -> float:
    """One message after the other."""
    client = await natsio.connect(url)
    consumer = await consumer_of(client, stream)
    begin = time.perf_counter()
    for _ in range(count):
        await consumer.next(timeout=30)
    seconds = time.perf_counter() - begin
    await client.close()
    return seconds


async def recover(url: str, stream: str, count: int) -> float:
    """Measure when the first message after a restart of the server arrives."""
    client = await natsio.connect(url)
    consumer = await (await client.jetstream().stream(stream)).consumer("recover")
    async with consumer.consume() as messages:
        async for message in messages:
            await message.ack()
            arrived()
            count -= 1
            if not count:
                break
    await client.close()
    return 0.0


async def publish_async(url: str, subject: str, count: int) -> float:
    """publish_async with its window, every future checked; it may wait for the window as long as it takes."""
    client = await natsio.connect(url)
    stream = client.jetstream(publish_async_max_pending=WINDOW, publish_async_stall_wait=30)
    begin = time.perf_counter()
    acks = [await stream.publish_async(subject, payload(number)) for number in range(count)]
    await stream.publish_async_complete()
    for ack in acks:
        ack.result()
    seconds = time.perf_counter() - begin
    await client.close()
    return seconds


async def latency(url: str, subject: str, count: int) -> float:
    """One publish after the other."""
    client = await natsio.connect(url)
    stream = client.jetstream()
    seconds = await median(lambda content: stream.publish(subject, content), count)
    await client.close()
    return seconds


async def object_put(url: str, bucket: str, count: int) -> float:
    """Large objects, one after the other."""
    return await _put(url, bucket, LARGE_OBJECT, count)


async def object_put_small(url: str, bucket: str, count: int) -> float:
    """Small objects, one after the other."""
    return await _put(url, bucket, SMALL_OBJECT, count)


async def _put(url: str, bucket: str, content: bytes, count: int) -> float:
    client = await natsio.connect(url)
    stream = client.jetstream()
    store = await stream.create_object_store(ObjectStoreConfig(bucket=bucket, storage=StorageType.MEMORY))
    begin = time.perf_counter()
    for number in range(count):
        await store.put(f"object {number}", content)
    seconds = time.perf_counter() - begin
    await stream.delete_object_store(bucket)
    await client.close()
    return seconds


async def object_get(url: str, bucket: str, count: int) -> float:
    """Large objects, one after the other."""
    return await _get(url, bucket, LARGE_OBJECT, count)


async def object_get_small(url: str, bucket: str, count: int) -> float:
    """Small objects, one after the other."""
    return await _get(url, bucket, SMALL_OBJECT, count)


async def _get(url: str, bucket: str, content: bytes, count: int) -> float:
    client = await natsio.connect(url)
    stream = client.jetstream()
    store = await stream.create_object_store(ObjectStoreConfig(bucket=bucket, storage=StorageType.MEMORY))
    for number in range(count):
        await store.put(f"object {number}", content)
    received = 0
    begin = time.perf_counter()
    for number in range(count):
        received += len(await store.get_bytes(f"object {number}"))
    seconds = time.perf_counter() - begin
    await stream.delete_object_store(bucket)
    await client.close()
    assert received == count * len(content)
    return seconds


if __name__ == "__main__":
    main(
        {
            "fetch": fetch,
            "consume": consume,
            "consume_ack": consume_ack,
            "next": next_message,
            "recover": recover,
            "publish_async": publish_async,
            "latency": latency,
            "object_put": object_put,
            "object_put_small": object_put_small,
            "object_get": object_get,
            "object_get_small": object_get_small,
        }
    )
