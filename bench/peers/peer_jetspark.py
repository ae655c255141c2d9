"""The product, measured as the peers are: publish_async on both fronts, the latency of publish, atomic batches."""

import time

from common import WINDOW, main, median, payload

from jetspark import aio, sync
from jetspark.aio.jetstream import PublishSettings

BATCH = 500
"""Messages of an atomic batch."""

SETTINGS = PublishSettings(max_pending=WINDOW, stall_wait=30)


async def publish_async(url: str, subject: str, count: int) -> float:
    """publish_async with its window, every acknowledgement read."""
    connection = await aio.connect(url)
    stream = connection.jetstream(publishing=SETTINGS)
    begin = time.perf_counter()
    acks = [await stream.publish_async(subject, payload(number)) for number in range(count)]
    await stream.publish_async_completed()
    last = max(ack.result().seq for ack in acks)
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
    last = max(ack.result().seq for ack in acks)
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
        async with stream.batch() as messages:
            for number in range(first, min(first + BATCH, count)):
                await messages.add(subject, payload(number))
    seconds = time.perf_counter() - begin
    await connection.close()
    return seconds


if __name__ == "__main__":
    main(
        {
            "publish_async": publish_async,
            "publish_async_blocking": publish_async_blocking,
            "latency": latency,
            "batch": batch,
        }
    )
