"""The product, measured as the peers are: publish_async and push on both fronts, latency, atomic batches."""

import asyncio
import time

from common import ACK_PENDING, LARGE_OBJECT, SMALL_OBJECT, WINDOW, arrived, check, main, median, payload

from jetspark import aio, sync
from jetspark.aio.jetstream import AsyncPublishOptions, Consumer
from jetspark.engine.object_chunks import CHUNK_SIZE

BATCH = 500
"""Messages of an atomic batch."""

FETCH = 5_000
"""Messages of a fetch, and in the buffer of consume."""

SETTINGS = AsyncPublishOptions(max_pending=WINDOW, stall_wait=30)


async def publish_async(url: str, subject: str, count: int) -> float:
    """publish_async with its window, every acknowledgement read."""
    connection = await aio.connect(url)
    stream = connection.jetstream(publishing=SETTINGS)
    begin = time.perf_counter()
    acks = [await stream.publish_async(subject, payload(number)) for number in range(count)]
    await stream.publish_async_completed()
    last = max(ack.result().sequence for ack in acks)
    seconds = time.perf_counter() - begin
    await connection.close()
    assert last == count
    return seconds


async def publish_async_blocking(url: str, subject: str, count: int) -> float:
    """The same on the blocking front."""
    connection = sync.connect(url)
    stream = connection.jetstream(publishing=SETTINGS)
    begin = time.perf_counter()
    acks = [stream.publish_async(subject, payload(number)) for number in range(count)]
    stream.publish_async_completed()
    last = max(ack.result().sequence for ack in acks)
    seconds = time.perf_counter() - begin
    connection.close()
    assert last == count
    return seconds


async def latency(url: str, subject: str, count: int) -> float:
    """One publish after the other."""
    connection = await aio.connect(url)
    stream = connection.jetstream()
    seconds = await median(lambda content: stream.publish(subject, content), count)
    await connection.close()
    return seconds


async def batch(url: str, subject: str, count: int) -> float:
    """Atomic batches, one after the other."""
    connection = await aio.connect(url)
    stream = connection.jetstream()
    begin = time.perf_counter()
    for first in range(0, count, BATCH):
        async with stream.atomic_batch() as messages:
            for number in range(first, min(first + BATCH, count)):
                await messages.add(subject, payload(number))
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


async def push(url: str, stream: str, count: int) -> float:
    """An ordered push subscription, iterated."""
    connection = await aio.connect(url)
    received, left = 0, count
    begin = time.perf_counter()
    subscription = await connection.jetstream().subscribe(stream=stream, ordered_consumer=True)
    async for message in subscription:
        received += len(message.payload)
        left -= 1
        if not left:
            break
    seconds = time.perf_counter() - begin
    await connection.close()
    check(received, count)
    return seconds


async def push_callback(url: str, stream: str, count: int) -> float:
    """An ordered push subscription with a callback."""
    connection = await aio.connect(url)
    received, left = 0, count
    done = asyncio.Event()

    def take(message: aio.Msg) -> None:
        nonlocal received, left
        if left:  # the stream may hold more
            received += len(message.payload)
            left -= 1
            if not left:
                done.set()

    begin = time.perf_counter()
    await connection.jetstream().subscribe(stream=stream, ordered_consumer=True, callback=take)
    await done.wait()
    seconds = time.perf_counter() - begin
    await connection.close()
    check(received, count)
    return seconds


async def push_blocking(url: str, stream: str, count: int) -> float:
    """An ordered push subscription of the blocking front, iterated."""
    connection = sync.connect(url)
    received, left = 0, count
    begin = time.perf_counter()
    for message in connection.jetstream().subscribe(stream=stream, ordered_consumer=True):
        received += len(message.payload)
        left -= 1
        if not left:
            break
    seconds = time.perf_counter() - begin
    connection.close()
    check(received, count)
    return seconds


async def _consumer(connection: aio.Connection, stream: str, policy: str = "none") -> Consumer:
    """An ephemeral pull consumer, by default without acks."""
    return await connection.jetstream().create_consumer(stream, **_config(policy))


def _config(policy: str) -> dict[str, object]:
    return {"ack_policy": policy, "mem_storage": True, "max_ack_pending": ACK_PENDING}


async def fetch(url: str, stream: str, count: int) -> float:
    """Fetch after fetch."""
    connection = await aio.connect(url)
    consumer = await _consumer(connection, stream)
    received, left = 0, count
    begin = time.perf_counter()
    while left:
        messages = await consumer.fetch(min(FETCH, left))
        left -= len(messages)
        received += sum(len(message.payload) for message in messages)
    seconds = time.perf_counter() - begin
    await connection.close()
    check(received, count)
    return seconds


async def fetch_blocking(url: str, stream: str, count: int) -> float:
    """The same on the blocking front."""
    connection = sync.connect(url)
    consumer = connection.jetstream().create_consumer(stream, **_config("none"))
    received, left = 0, count
    begin = time.perf_counter()
    while left:
        messages = consumer.fetch(min(FETCH, left))
        left -= len(messages)
        received += sum(len(message.payload) for message in messages)
    seconds = time.perf_counter() - begin
    connection.close()
    check(received, count)
    return seconds


async def consume(url: str, stream: str, count: int) -> float:
    """The continuous iterator, which keeps pulls open."""
    connection = await aio.connect(url)
    consumer = await _consumer(connection, stream)
    received, left = 0, count
    async with consumer.consume(max_messages=FETCH) as messages:
        begin = time.perf_counter()
        async for message in messages:
            received += len(message.payload)
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - begin
    await connection.close()
    check(received, count)
    return seconds


async def consume_ack(url: str, stream: str, count: int) -> float:
    """The continuous iterator, every message acknowledged."""
    connection = await aio.connect(url)
    consumer = await _consumer(connection, stream, "explicit")
    left = count
    async with consumer.consume(max_messages=FETCH) as messages:
        begin = time.perf_counter()
        async for message in messages:
            await message.ack()
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


async def consume_blocking(url: str, stream: str, count: int) -> float:
    """The iterator of the blocking front."""
    connection = sync.connect(url)
    consumer = connection.jetstream().create_consumer(stream, **_config("none"))
    received, left = 0, count
    with consumer.consume(max_messages=FETCH) as messages:
        begin = time.perf_counter()
        for message in messages:
            received += len(message.payload)
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - begin
    connection.close()
    check(received, count)
    return seconds


async def consume_ack_blocking(url: str, stream: str, count: int) -> float:
    """The iterator of the blocking front, every message acknowledged."""
    connection = sync.connect(url)
    consumer = connection.jetstream().create_consumer(stream, **_config("explicit"))
    left = count
    with consumer.consume(max_messages=FETCH) as messages:
        begin = time.perf_counter()
        for message in messages:
            message.ack()
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - begin
    connection.close()
    return seconds


async def next_message(url: str, stream: str, count: int) -> float:
    """One message after the other."""
    connection = await aio.connect(url)
    consumer = await _consumer(connection, stream)
    begin = time.perf_counter()
    for _ in range(count):
        await consumer.next()
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


async def recover(url: str, stream: str, count: int) -> float:
    """Measure when the first message after a restart of the server arrives."""
    connection = await aio.connect(url)
    consumer = await connection.jetstream().consumer(stream, "recover")
    async with consumer.consume() as messages:
        async for message in messages:
            await message.ack()
            arrived()
            count -= 1
            if not count:
                break
    await connection.close()
    return 0.0


async def object_put(url: str, bucket: str, count: int) -> float:
    """Large objects, one after the other."""
    return await _put(url, bucket, LARGE_OBJECT, count)


async def object_put_small(url: str, bucket: str, count: int) -> float:
    """Small objects, one after the other."""
    return await _put(url, bucket, SMALL_OBJECT, count)


async def _put(url: str, bucket: str, content: bytes, count: int) -> float:
    connection = await aio.connect(url)
    stream = connection.jetstream()
    store = await stream.create_object_store(bucket=bucket, storage="memory")
    begin = time.perf_counter()
    for number in range(count):
        await store.put(f"object {number}", content)
    seconds = time.perf_counter() - begin
    await stream.delete_object_store(bucket)
    await connection.close()
    return seconds


async def object_chunks_published(url: str, bucket: str, count: int) -> float:
    """The chunks of large objects by publish_async, without hashes and descriptions."""
    connection = await aio.connect(url)
    stream = connection.jetstream()
    await stream.create_object_store(bucket=bucket, storage="memory")
    content = memoryview(LARGE_OBJECT)
    begin = time.perf_counter()
    for number in range(count):
        for start in range(0, len(content), CHUNK_SIZE):
            await stream.publish_async(f"$O.{bucket}.C.{number}", content[start : start + CHUNK_SIZE])
        await stream.publish_async_completed()
    seconds = time.perf_counter() - begin
    await stream.delete_object_store(bucket)
    await connection.close()
    return seconds


async def object_get(url: str, bucket: str, count: int) -> float:
    """Large objects, one after the other."""
    return await _get(url, bucket, LARGE_OBJECT, count)


async def object_get_small(url: str, bucket: str, count: int) -> float:
    """Small objects, one after the other."""
    return await _get(url, bucket, SMALL_OBJECT, count)


async def _get(url: str, bucket: str, content: bytes, count: int) -> float:
    connection = await aio.connect(url)
    stream = connection.jetstream()
    store = await stream.create_object_store(bucket=bucket, storage="memory")
    for number in range(count):
        await store.put(f"object {number}", content)
    received = 0
    begin = time.perf_counter()
    for number in range(count):
        async with await store.get(f"object {number}") as reader:
            async for chunk in reader:
                received += len(chunk)
    seconds = time.perf_counter() - begin
    await stream.delete_object_store(bucket)
    await connection.close()
    assert received == count * len(content)
    return seconds


async def object_chunks_consumed(url: str, bucket: str, count: int) -> float:
    """The chunks of large objects by an ordered consume, without hashes."""
    connection = await aio.connect(url)
    stream = connection.jetstream()
    store = await stream.create_object_store(bucket=bucket, storage="memory")
    infos = [await store.put(f"object {number}", LARGE_OBJECT) for number in range(count)]
    received = 0
    begin = time.perf_counter()
    for info in infos:
        left = info.chunks
        chunks = stream.ordered_consumer(f"OBJ_{bucket}", filter_subject=f"$O.{bucket}.C.{info.nuid}")
        async with chunks.consume() as messages:
            async for message in messages:
                received += len(message.payload)
                left -= 1
                if not left:
                    break
    seconds = time.perf_counter() - begin
    await stream.delete_object_store(bucket)
    await connection.close()
    assert received == count * len(LARGE_OBJECT)
    return seconds


if __name__ == "__main__":
    main(
        {
            "fetch": fetch,
            "fetch_blocking": fetch_blocking,
            "consume": consume,
            "consume_ack": consume_ack,
            "consume_blocking": consume_blocking,
            "consume_ack_blocking": consume_ack_blocking,
            "next": next_message,
            "recover": recover,
            "publish_async": publish_async,
            "publish_async_blocking": publish_async_blocking,
            "latency": latency,
            "object_put": object_put,
            "object_put_small": object_put_small,
            "object_get": object_get,
            "object_get_small": object_get_small,
            "object_chunks_consumed": object_chunks_consumed,
            "object_chunks_published": object_chunks_published,
            "batch": batch,
            "push": push,
            "push_callback": push_callback,
            "push_blocking": push_blocking,
        }
    )
