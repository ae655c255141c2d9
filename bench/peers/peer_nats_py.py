"""nats-py: pull subscription with fetch; publish_async."""

import time

import nats
from common import WINDOW, check, main, median, payload
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


if __name__ == "__main__":
    main({"fetch": fetch, "publish_async": publish_async, "latency": latency})
