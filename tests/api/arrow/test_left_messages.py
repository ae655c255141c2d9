"""A fetch of record batches that ends early: its messages go to the next call, and nothing of it is left."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from tests.fronts import Ground

from jetspark.errors import ConsumerDeletedError

pytestmark = pytest.mark.parametrize("front", ["aio"], indirect=True)


class CountingExecutor(ThreadPoolExecutor):
    """The default executor of an event loop; it counts its calls."""

    def __init__(self) -> None:
        super().__init__(1)
        self.calls: list[Any] = []

    def submit(self, call: Any, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        self.calls.append(call)
        return super().submit(call, *args, **options)


async def started(ground: Ground, count: int, policy: str = "explicit") -> tuple[Any, Any]:
    """A stream with messages 1 to `count`, and a consumer."""
    stream = await ground.stream()
    await publish(ground, stream, 1, count + 1)
    ack_wait = None if policy == "none" else timedelta(minutes=10)
    return stream, await stream.create_consumer(durable_name="c", ack_policy=policy, ack_wait=ack_wait)


async def publish(ground: Ground, stream: Any, first: int, stop: int) -> None:
    await ground.fill(f"{stream.name}.a", *(b"%d" % number for number in range(first, stop)))


async def received_by_server(consumer: Any, count: int) -> None:
    """Wait until the server has delivered so many messages."""
    async with asyncio.timeout(10):
        while (await consumer.info()).delivered.consumer_sequence < count:
            pass


async def cancelled(call: Any, ready: Any) -> None:
    waiting = asyncio.ensure_future(call)
    await ready
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_messages_of_a_cancelled_call_are_for_the_next_one_in_order(ground: Ground) -> None:
    stream, consumer = await started(ground, 5)
    async with consumer.fetch_arrow(20, timeout=60) as batches:
        await cancelled(batches.read_all(), received_by_server(consumer, 5))
        await publish(ground, stream, 6, 11)
        messages = await consumer.fetch(8, timeout=10)
        assert [each.payload for each in messages] == [b"%d" % number for number in range(1, 9)]
        assert {each.metadata.num_delivered for each in messages} == {1}
        await consumer.ack_all(messages)
        async with consumer.fetch_arrow(2, timeout=10) as rest:
            assert (await rest.read_all())["data"].to_pylist() == [b"9", b"10"]
            await rest.ack()
    assert (await consumer.info()).num_ack_pending == 0


async def test_a_later_fetch_of_columns_gets_them_and_can_acknowledge_them(ground: Ground) -> None:
    _, consumer = await started(ground, 5)
    async with consumer.fetch_arrow(20, timeout=60) as batches:
        await cancelled(batches.read_all(), received_by_server(consumer, 5))
    async with consumer.fetch_arrow(3, timeout=10, columns=["sequence"]) as first:
        assert (await first.read_all())["sequence"].to_pylist() == [1, 2, 3]
        await first.ack()
    async with consumer.fetch_arrow(5, no_wait=True, columns=["sequence"]) as rest:
        assert (await rest.read_all())["sequence"].to_pylist() == [4, 5]
        await rest.ack()
    assert (await consumer.info()).num_ack_pending == 0


async def test_a_cancelled_call_leaves_no_pull_that_takes_new_messages(ground: Ground) -> None:
    stream, consumer = await started(ground, 0)
    async with consumer.fetch_arrow(20, timeout=60) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        async with asyncio.timeout(10):
            while not (await consumer.info()).num_waiting:
                pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await publish(ground, stream, 1, 4)
        assert [each.payload for each in await consumer.fetch(3, timeout=10)] == [b"1", b"2", b"3"]


async def test_without_acknowledgements_nothing_is_lost_either(ground: Ground) -> None:
    _, consumer = await started(ground, 5, "none")
    async with consumer.fetch_arrow(20, timeout=60) as batches:
        await cancelled(batches.read_all(), received_by_server(consumer, 5))
    messages = await consumer.fetch(5, timeout=10)
    assert [each.payload for each in messages] == [b"1", b"2", b"3", b"4", b"5"]
    for each in messages:
        await each.ack()  # does nothing


async def test_the_same_reader_goes_on_after_a_cancelled_call(ground: Ground) -> None:
    stream, consumer = await started(ground, 3)
    async with consumer.fetch_arrow(6, timeout=60) as batches:
        await cancelled(batches.read_all(), received_by_server(consumer, 3))
        await publish(ground, stream, 4, 9)
        table = await batches.read_all()
        assert table["data"].to_pylist() == [b"%d" % number for number in range(1, 7)]
        await batches.ack()
        assert batches.received == 6
    assert (await consumer.info()).ack_floor.stream_sequence == 6


async def test_a_call_that_fails_gives_its_messages_back(ground: Ground) -> None:
    _, consumer = await started(ground, 5)
    async with consumer.fetch_arrow(20, timeout=60) as batches:
        waiting = asyncio.ensure_future(batches.read_all())
        await received_by_server(consumer, 5)
        await consumer.delete()
        with pytest.raises(ConsumerDeletedError):
            await waiting
        assert [each.payload for each in await consumer.fetch(5, timeout=10)] == [b"1", b"2", b"3", b"4", b"5"]


async def test_a_dropped_reader_ends_its_pull_and_warns(ground: Ground) -> None:
    stream, consumer = await started(ground, 2)
    batches = consumer.fetch_arrow(20, timeout=60)
    got = (await anext(batches)).num_rows
    with pytest.warns(ResourceWarning, match="unclosed FetchReader"):
        del batches
    await publish(ground, stream, 3, 5)
    messages = await consumer.fetch(4 - got, timeout=10)
    assert [each.payload for each in messages] == [b"%d" % number for number in range(got + 1, 5)]


async def test_readers_do_not_use_the_default_executor(ground: Ground) -> None:
    executor = CountingExecutor()
    asyncio.get_running_loop().set_default_executor(executor)
    stream, consumer = await started(ground, 5)
    for _ in range(20):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.001), consumer.fetch_arrow(20, timeout=60) as batches:
                await batches.read_all()
    async with stream.scan() as scanned:
        await scanned.read_all()
    await stream.last_per_subject()
    assert executor.calls == []
    assert [each.payload for each in await consumer.fetch(5, timeout=10)] == [b"1", b"2", b"3", b"4", b"5"]


async def test_many_waiting_readers_need_few_threads(ground: Ground) -> None:
    _, consumer = await started(ground, 0)
    readers = [consumer.fetch_arrow(1, timeout=60) for _ in range(30)]
    waiting = [asyncio.ensure_future(anext(each)) for each in readers]
    async with asyncio.timeout(30):
        while (await consumer.info()).num_waiting < 30:
            pass
    assert sum("jetspark reader" in each.name for each in threading.enumerate()) <= 8
    for call in waiting:
        call.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.gather(*(each.close() for each in readers))
    assert (await consumer.info()).num_waiting == 0
