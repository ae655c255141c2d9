"""A waiting call on a handle takes the messages of a cancelled call, up to its own limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.consuming.support import (
    consumer_of,
    numbered,
    payloads,
    spy_on_pulls,
    take,
    wait_for_deliveries,
    wait_for_open_pulls,
)
from tests.api.sieve import Sieve
from tests.fronts import Ground, connect, eventually

from jetspark.aio import Msg
from jetspark.aio.jetstream import ConsumeContext, Consumer
from jetspark.aio.jetstream._drivers.carry_over import CarryOver

asyncio_only = pytest.mark.parametrize("front", ["aio"], indirect=True)
"""Only calls on the asyncio front are cancelled."""


async def open_fetch_with(ground: Ground, consumer: Consumer, count: int) -> asyncio.Task[Any]:
    """Start a fetch that has `count` messages and waits for more."""
    task = asyncio.create_task(consumer.fetch(10, timeout=30))
    await wait_for_deliveries(ground, consumer, count)
    return task


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def returned_early(task: asyncio.Task[Any]) -> list[Msg]:
    """Return the messages of a fetch that ends long before its timeout."""
    async with asyncio.timeout(10):
        result = await task
    return result if isinstance(result, list) else [result]


@asyncio_only
@pytest.mark.parametrize("call", ["next", "fetch", "endless", "fetch_bytes", "endless_bytes"])
async def test_messages_of_a_cancelled_call_go_to_a_call_that_waits(ground: Ground, call: str) -> None:
    consumer = await consumer_of(ground, messages=2)
    first = await open_fetch_with(ground, consumer, 2)
    calls: dict[str, Any] = {
        "next": consumer.next,
        "fetch": lambda: consumer.fetch(2, timeout=30),
        "endless": lambda: consumer.fetch(2, timeout=None),
        "fetch_bytes": lambda: consumer.fetch(2, max_bytes=100_000, timeout=30),
        "endless_bytes": lambda: consumer.fetch_bytes(100_000, timeout=None),  # the fetch has the available messages
    }
    second = asyncio.create_task(calls[call]())
    await wait_for_open_pulls(ground, consumer, 2)
    await cancel(first)
    wanted = 1 if call == "next" else 2
    got = await returned_early(second)
    assert payloads(got) == numbered(0, wanted)
    assert {message.metadata.num_delivered for message in got} == {1}
    await wait_for_open_pulls(ground, consumer, 0)  # its pull is closed too
    assert payloads(await consumer.fetch_no_wait(10)) == numbered(wanted, 2)
    assert (await consumer.info()).num_ack_pending == 2


@asyncio_only
async def test_a_fetch_with_carried_over_messages_ends_when_it_is_full_and_returns_no_more(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3)
    first = await open_fetch_with(ground, consumer, 3)
    second = asyncio.create_task(consumer.fetch(5, timeout=30))
    await wait_for_open_pulls(ground, consumer, 2)
    await cancel(first)
    await wait_for_open_pulls(ground, consumer, 1)
    assert not second.done()
    await ground.fill(f"{consumer.stream_name}.a", *numbered(3, 8))
    assert payloads(await returned_early(second)) == numbered(0, 5)
    rest: list[bytes] = []
    async with asyncio.timeout(10):
        while len(rest) < 3:
            rest += payloads(await consumer.fetch(3 - len(rest), timeout=5))
    assert sorted(rest) == numbered(5, 8)
    assert (await consumer.info()).num_ack_pending == 8


@asyncio_only
async def test_a_fetch_with_carried_over_messages_keeps_to_its_byte_limit(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, size=500)
    first = await open_fetch_with(ground, consumer, 1)
    second = asyncio.create_task(consumer.fetch_bytes(1300, timeout=30))
    await wait_for_open_pulls(ground, consumer, 2)
    await cancel(first)
    await wait_for_open_pulls(ground, consumer, 1)
    assert not second.done()
    await ground.fill(f"{consumer.stream_name}.a", bytes(501), bytes(502))
    assert [len(message) for message in await returned_early(second)] == [500, 501]
    assert [len(message) for message in await consumer.fetch(1, timeout=5)] == [502]


@asyncio_only
async def test_a_fetch_that_times_out_returns_its_carried_over_messages(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2)
    first = await open_fetch_with(ground, consumer, 2)
    second = asyncio.create_task(consumer.fetch(5, timeout=1))
    await wait_for_open_pulls(ground, consumer, 2)
    await cancel(first)
    assert payloads(await returned_early(second)) == numbered(0, 2)


@asyncio_only
async def test_carried_over_messages_of_a_cancelled_call_go_to_the_next_call_that_waits(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3)
    first = await open_fetch_with(ground, consumer, 3)
    second = asyncio.create_task(consumer.fetch(5, timeout=30))
    await wait_for_open_pulls(ground, consumer, 2)
    third = asyncio.create_task(consumer.fetch(2, timeout=30))
    fourth = asyncio.create_task(consumer.next(30))
    await wait_for_open_pulls(ground, consumer, 4)
    await cancel(first)
    await wait_for_open_pulls(ground, consumer, 3)
    await cancel(second)
    assert payloads(await returned_early(third)) == numbered(0, 2)
    assert payloads(await returned_early(fourth)) == numbered(2, 3)


@pytest.mark.matrix
async def test_r18_messages_that_come_too_late_for_one_fetch_go_to_another_that_waits(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    async with Sieve(ground.server.port) as proxy:
        connection = await connect(ground.front, proxy.url, **ground.profile.options)
        js = connection.jetstream(domain=ground.profile.domain)
        handle = await js.consumer(consumer.stream_name, consumer.name)
        first = asyncio.create_task(handle.fetch(1, timeout=1))
        await wait_for_open_pulls(ground, consumer, 1)
        second = asyncio.create_task(handle.next(30))
        await wait_for_open_pulls(ground, consumer, 2)
        proxy.hold()
        await ground.fill(f"{consumer.stream_name}.a", b"0")
        await eventually(lambda: proxy.held, what="the message on its way")
        assert await first == []
        assert not second.done()
        proxy.release()
        [message] = await returned_early(second)
        assert (message.payload, message.metadata.num_delivered) == (b"0", 1)
        await connection.close()


@asyncio_only
@pytest.mark.matrix
async def test_r18_a_consume_that_starts_at_the_end_of_a_fetch_gets_the_late_messages(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = await consumer_of(ground)
    async with Sieve(ground.server.port) as proxy:
        connection = await connect(ground.front, proxy.url, **ground.profile.options)
        js = connection.jetstream(domain=ground.profile.domain)
        handle = await js.consumer(consumer.stream_name, consumer.name)
        begun: list[ConsumeContext] = []
        drain = CarryOver.drain

        def at_the_end(carry_over: CarryOver, *args: Any) -> None:
            drain(carry_over, *args)
            begun.append(handle.consume())

        monkeypatch.setattr(CarryOver, "drain", at_the_end)
        spy = await spy_on_pulls(ground, consumer)
        fetching = asyncio.create_task(handle.fetch(1, timeout=1))
        await spy.wait(1)
        proxy.hold()
        await ground.fill(f"{consumer.stream_name}.a", b"0")
        await eventually(lambda: proxy.held, what="the message on its way")
        assert await fetching == []
        proxy.release()
        [messages] = begun
        assert payloads(await take(messages, 1)) == [b"0"]
        await messages.stop()
        await connection.close()
