"""nats-py: pull subscription with fetch; ordered push subscription; publish_async."""

import contextlib
import time

import nats
from common import ACK_PENDING, LARGE_OBJECT, SMALL_OBJECT, WINDOW, arrived, check, main, median, payload
from nats.errors import Error
from nats.js.api import AckPolicy, ConsumerConfig

BATCH = 5_000


async def fetch(url: str, stream: str, count: int) -> float:
    """Fetch after fetch; the library has no overlapping pulls."""
    connection = await nats.connect(url)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=60)
    subscription = await connection.jetstream().pull_subscribe("", stream=stream, config=config)
    received, left = 0, count
    begin = time.perf_counter()
    while left:
        messages = await subscription.fetch(min(BATCH, left), timeout=30)
        left -= len(messages)
        received += sum(len(message.data) for message in messages)
    seconds = time.perf_counter() - begin
    await connection.close()
    check(received, count)
    return seconds


async def push(url: str, stream: str, count: int) -> float:
    """An ordered push subscription, iterated."""
    connection = await nats.connect(url)
    received = left = 0
    begin = time.perf_counter()
    subscription = await connection.jetstream().subscribe(">", stream=stream, ordered_consumer=True)
    left = count
    async for message in subscription.messages:
        received += len(message.data)
        left -= 1
        if not left:
            break
    seconds = time.perf_counter() - begin
    await connection.close()
    check(received, count)
    return seconds


async def consume_ack(url: str, stream: str, count: int) -> float:
    """Fetch after fetch, every message acknowledged."""
    connection = await nats.connect(url)
    config = ConsumerConfig(
        ack_policy=AckPolicy.EXPLICIT, mem_storage=True, inactive_threshold=60, max_ack_pending=ACK_PENDING
    )
    subscription = await connection.jetstream().pull_subscribe("", stream=stream, config=config)
    left = count
    begin = time.perf_counter()
    while left:
        messages = await subscription.fetch(min(BATCH, left), timeout=30)
        left -= len(messages)
        for message in messages:
            await message.ack()
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


async def next_message(url: str, stream: str, count: int) -> float:
    """One message after the other."""
    connection = await nats.connect(url)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=60)
    subscription = await connection.jetstream().pull_subscribe("", stream=stream, config=config)
    begin = time.perf_counter()
    for _ in range(count):
        await subscription.fetch(1, timeout=30)
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


async def recover(url: str, stream: str, count: int) -> float:
    """Measure when the first message after a change of the leader arrives. A fetch first waits for its timeout, 5 s."""
    connection = await nats.connect(url)
    subscription = await connection.jetstream().pull_subscribe_bind("recover", stream)
    while count:
        with contextlib.suppress(TimeoutError, Error):
            for message in await subscription.fetch(1):
                await message.ack()
                arrived()
                count -= 1
    await connection.close()
    return 0.0


async def publish_async(url: str, subject: str, count: int) -> float:
    """publish_async with its window, every future checked."""
    connection = await nats.connect(url)
    stream = connection.jetstream(publish_async_max_pending=WINDOW)
    begin = time.perf_counter()
    acks = [await stream.publish_async(subject, payload(number)) for number in range(count)]
    await stream.publish_async_completed()
    for ack in acks:
        ack.result()
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


async def latency(url: str, subject: str, count: int) -> float:
    """One publish after the other."""
    connection = await nats.connect(url)
    stream = connection.jetstream()
    seconds = await median(lambda content: stream.publish(subject, content), count)
    await connection.close()
    return seconds


async def object_put(url: str, bucket: str, count: int) -> float:
    """Large objects, one after the other."""
    return await _put(url, bucket, LARGE_OBJECT, count)


async def object_put_small(url: str, bucket: str, count: int) -> float:
    """Small objects, one after the other."""
    return await _put(url, bucket, SMALL_OBJECT, count)


async def _put(url: str, bucket: str, content: bytes, count: int) -> float:
    connection = await nats.connect(url)
    stream = connection.jetstream()
    store = await stream.create_object_store(bucket, storage="memory")
    begin = time.perf_counter()
    for number in range(count):
        await store.put(f"object {number}", content)
    seconds = time.perf_counter() - begin
    await stream.delete_object_store(bucket)
    await connection.close()
    return seconds


async def object_get_small(url: str, bucket: str, count: int) -> float:
    """Small objects, one after the other."""
    return await _get(url, bucket, SMALL_OBJECT, count)


async def _get(url: str, bucket: str, content: bytes, count: int) -> float:
    connection = await nats.connect(url)
    stream = connection.jetstream()
    store = await stream.create_object_store(bucket, storage="memory")
    for number in range(count):
        await store.put(f"object {number}", content)
    received = 0
    begin = time.perf_counter()
    for number in range(count):
        received += len((await store.get(f"object {number}")).data)
    seconds = time.perf_counter() - begin
    await stream.delete_object_store(bucket)
    await connection.close()
    assert received == count * len(content)
    return seconds


if __name__ == "__main__":
    main(
        {
            "fetch": fetch,
            "consume_ack": consume_ack,
            "next": next_message,
            "recover": recover,
            "push": push,
            "publish_async": publish_async,
            "latency": latency,
            "object_put": object_put,
            "object_put_small": object_put_small,
            "object_get_small": object_get_small,
        }
    )
