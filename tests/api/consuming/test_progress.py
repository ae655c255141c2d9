"""Messages that are buffered or in a handler for longer than the consumer's `ack_wait` (R26)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.api.consuming.support import consumer_of, numbered, payloads, take
from tests.carried import carry
from tests.fronts import PROFILES, FrontName, Ground, Spy, eventually, open_ground

from jetspark.aio import Msg
from jetspark.aio.core import FLUSH_THRESHOLD
from jetspark.aio.jetstream import ConsumeContext
from jetspark.engine.pull import InProgressTracker
from jetspark.server import NatsServer

OFTEN = timedelta(seconds=0.3)
"""For tests that only count the reports. A pause of the machine of that length does not matter."""
BEYOND = 4
"""A wait for this many reports takes longer than `ack_wait`, because three reports fit into it."""

once = pytest.mark.parametrize("profile", ["default"], indirect=True)


async def reports(ground: Ground) -> Spy:
    """Observe the acknowledgements."""
    return await ground.spy("$JS.ACK.>")


def reported(spy: Spy, message: Msg) -> int:
    """Return how often the message was reported as in progress."""
    return sum(each.subject == message.reply and each.payload == b"+WPI" for each in spy.messages)


async def reports_continue(spy: Spy, message: Msg) -> None:
    """Wait for reports that are sent after this call."""
    before = reported(spy, message)
    await eventually(lambda: reported(spy, message) >= before + 2, what=f"two more reports of {message!r}")


async def reports_ended(spy: Spy, message: Msg, busy: Msg) -> None:
    """Check that reports of a message have ended while those of another message continue."""
    await spy.settled()
    before = reported(spy, message)
    await reports_continue(spy, busy)
    assert reported(spy, message) == before


@once
async def test_r26_a_handler_slower_than_the_ack_wait_keeps_its_message_and_a_full_buffer(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=5, ack_wait=timedelta(seconds=1.2))
    spy = await reports(ground)
    deliveries: list[int] = []
    go_on = asyncio.Event()

    async def slow(message: Msg) -> None:
        deliveries.append(message.metadata.num_delivered)
        await go_on.wait()
        await message.ack_sync()

    def all_reported() -> bool:
        counts = Counter(spy.subjects)
        return len(counts) == 5 and min(counts.values()) >= BEYOND

    context = consumer.consume(slow, max_messages=500, auto_in_progress=True)
    await eventually(all_reported)
    assert deliveries == [1]
    go_on.set()
    await eventually(lambda: len(deliveries) == 5)
    await context.drain()
    await context.wait_closed(10)
    assert deliveries == [1] * 5
    info = await consumer.info()
    assert (info.delivered.consumer_sequence, info.num_ack_pending) == (5, 0)


@once
async def test_r26_without_progress_a_full_buffer_after_a_slow_handler_is_delivered_again(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=5, ack_wait=timedelta(seconds=1))
    deliveries: list[int] = []
    go_on = asyncio.Event()

    async def slow(message: Msg) -> None:
        deliveries.append(message.metadata.num_delivered)
        await go_on.wait()
        await message.ack_sync()

    async def redelivered() -> bool:
        return (await consumer.info()).num_redelivered == 5

    context = consumer.consume(slow, max_messages=500)
    await eventually(redelivered)  # buffered messages too: they count as delivered
    go_on.set()
    await eventually(lambda: 2 in deliveries)
    await context.stop()


@once
async def test_r26_a_message_that_its_handler_left_unacknowledged_is_delivered_again(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=timedelta(seconds=1))
    spy = await reports(ground)
    deliveries: list[tuple[bytes, int]] = []

    async def leaving(message: Msg) -> None:
        deliveries.append((message.payload, message.metadata.num_delivered))
        if len(deliveries) == 1:
            await eventually(lambda: reported(spy, message))
        else:
            await message.ack()

    context = consumer.consume(leaving, auto_in_progress=True)
    await eventually(lambda: len(deliveries) == 3)
    await context.stop()
    assert deliveries == [(b"0", 1), (b"1", 1), (b"0", 2)]


async def by_anext(messages: ConsumeContext) -> Msg:
    return await anext(messages)


async def by_wait_for(messages: ConsumeContext) -> Msg:
    return await asyncio.wait_for(anext(messages), 10)


async def by_a_task(messages: ConsumeContext) -> Msg:
    taking: asyncio.Task[Msg] = asyncio.create_task(by_anext(messages))
    await asyncio.wait([taking])
    return taking.result()


async def by_a_loop(messages: ConsumeContext) -> Msg:
    async for message in messages:
        return message
    raise AssertionError("it has ended")


async def by_a_thread(messages: Any) -> Msg:
    with ThreadPoolExecutor(1) as pool:  # it has ended when the message arrives
        taken = await asyncio.wrap_future(pool.submit(next, messages.inner))
    return cast("Msg", carry(taken))


Way = Callable[[ConsumeContext], Awaitable[Msg]]


async def check_kept_until_next(ground: Ground, way: Way) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=OFTEN)
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        first = await way(messages)
        await reports_continue(spy, first)
        second = await way(messages)
        await reports_ended(spy, first, busy=second)
        await second.ack()
        while (again := await way(messages)).payload != b"0":
            await again.ack()  # delivered again if the machine was paused
    assert payloads([first, second]) == [b"0", b"1"]
    assert again.metadata.num_delivered > 1


@once
@pytest.mark.parametrize("way", [by_anext, by_wait_for, by_a_task, by_a_loop])
async def test_r26_a_reader_keeps_its_message_until_it_asks_for_the_next(ground: Ground, way: Way) -> None:
    await check_kept_until_next(ground, way)


@once
@pytest.mark.parametrize("front", ["sync"], indirect=True)
async def test_r26_readers_in_several_threads_keep_their_messages(ground: Ground) -> None:
    await check_kept_until_next(ground, by_a_thread)


@once
async def test_r26_each_of_several_loops_keeps_its_message(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, ack_wait=OFTEN)
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        one, other = aiter(messages), aiter(messages)
        first, second = await anext(one), await anext(other)
        await asyncio.gather(reports_continue(spy, first), reports_continue(spy, second))
        third = await anext(one)
        await asyncio.gather(reports_ended(spy, first, busy=second), reports_continue(spy, third))
    assert payloads([first, second, third]) == numbered(0, 3)


@once
async def test_r26_acknowledged_messages_are_not_reported(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=OFTEN)
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        one, other = aiter(messages), aiter(messages)
        first, second = await anext(one), await anext(other)
        await reports_continue(spy, first)
        await first.ack()
        await reports_ended(spy, first, busy=second)


async def test_r26_reports_end_with_the_consume(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, ack_wait=OFTEN)
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        [first] = await take(messages, 1)
        await eventually(lambda: len({*spy.subjects}) >= 3)  # this message and the two buffered ones
        await reports_continue(spy, first)
    assert {message.payload for message in await spy.settled()} == {b"+WPI"}
    count = len(spy.messages)
    again: set[bytes] = set()
    async with asyncio.timeout(10):
        while len(again) < 3:  # delivered again when each is due
            again.update(payloads(await consumer.fetch(3, timeout=1)))
    assert sorted(again) == numbered(0, 3)
    assert len(await spy.settled()) == count


@pytest.mark.parametrize("kind", ["default"])
async def test_r26_reports_do_not_pile_up_while_the_server_reads_nothing_and_all_continue_afterwards(
    front: FrontName, kind: str
) -> None:
    """One round of reports is several times as large as the write buffer of a connection."""
    count = 5000
    with NatsServer() as server:
        async with open_ground(front, PROFILES[kind], server, ping_interval=600) as ground:
            consumer = await consumer_of(ground, messages=count, ack_wait=OFTEN, max_ack_pending=-1)
            context = consumer.consume(max_messages=count, auto_in_progress=True)
            await eventually(lambda: context.pending[0] == count)
            server.pause()
            try:
                await eventually(lambda: ground.nc.buffered >= FLUSH_THRESHOLD, 30, "a transport that takes no more")
                await asyncio.sleep(0.5)  # the time of five rounds, of more than 300 kB each
                assert ground.nc.connected
                assert ground.nc.buffered < 2 * FLUSH_THRESHOLD
            finally:
                server.resume()
            spy = await reports(ground)

            def all_reported() -> bool:
                return len(spy.messages) >= count and len({*spy.subjects}) == count

            await eventually(all_reported, 30)
            await context.stop()


@once
async def test_r26_reports_end_when_the_connection_is_closed(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = await consumer_of(ground, messages=3, ack_wait=OFTEN)
    spy = await reports(ground)
    connection = await ground.connect()
    other = await connection.jetstream(domain=ground.profile.domain).consumer(consumer.stream_name, consumer.name)
    messages = other.consume(auto_in_progress=True)
    await take(messages, 1)
    await spy.wait(3)
    rounds = 0
    interval = InProgressTracker.interval.fget  # type: ignore[attr-defined]

    def counted(progress: InProgressTracker) -> float:
        nonlocal rounds
        rounds += 1
        return float(interval(progress))

    monkeypatch.setattr(InProgressTracker, "interval", property(counted))
    await eventually(lambda: rounds)
    await connection.close()
    before = rounds
    await asyncio.sleep(2 * OFTEN.total_seconds())
    assert rounds == before
    assert messages.pending[0] >= 2  # the handle is kept and not closed


@once
async def test_r26_reports_follow_a_changed_ack_wait_once_the_handle_knows_it(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=1, durable_name="d", ack_wait=timedelta(seconds=3))
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        [message] = await take(messages, 1)
        await ground.admin_js.update_consumer(consumer.stream_name, durable_name="d", ack_wait=OFTEN)
        assert (await consumer.info()).config.ack_wait == OFTEN
        await eventually(lambda: reported(spy, message) >= 1)
        await eventually(lambda: reported(spy, message) >= 12)  # the new interval is 0.1 s; the old one was 1 s
