"""Messages that wait in the buffer, or are worked on, for longer than the consumer's `ack_wait` (R26)."""

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
"""For tests that look at the reports alone, and do not mind when the machine stands still for that long."""
BEYOND = 4
"""So many reports take longer than `ack_wait`, of which there are three within it."""

once = pytest.mark.parametrize("profile", ["default"], indirect=True)


async def reports(ground: Ground) -> Spy:
    """See what is said of deliveries."""
    return await ground.spy("$JS.ACK.>")


def reported(spy: Spy, message: Msg) -> int:
    """How often it was reported that the message is in progress."""
    return sum(each.subject == message.reply and each.payload == b"+WPI" for each in spy.messages)


async def goes_on(spy: Spy, message: Msg) -> None:
    """Wait for reports that were not on their way already."""
    before = reported(spy, message)
    await eventually(lambda: reported(spy, message) >= before + 2, what=f"two more reports of {message!r}")


async def held_back(spy: Spy, message: Msg, busy: Msg) -> None:
    """Check that there are no more reports of a message while those of another go on."""
    await spy.settled()
    before = reported(spy, message)
    await goes_on(spy, busy)
    assert reported(spy, message) == before


@once
async def test_r26_a_handler_that_takes_longer_than_the_ack_wait_keeps_its_message_and_a_full_buffer(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=5, ack_wait=timedelta(seconds=3))
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
    assert (info.delivered.consumer_seq, info.num_ack_pending) == (5, 0)


@once
async def test_r26_a_full_buffer_behind_a_slow_handler_is_delivered_again_unless_it_is_asked_for(
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
    await eventually(redelivered)  # what waited, too: the buffer counts as delivered
    go_on.set()
    await eventually(lambda: 2 in deliveries)
    await context.stop()


@once
async def test_r26_a_message_that_its_handler_has_left_without_an_acknowledgement_is_delivered_again(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=timedelta(seconds=3))
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
    with ThreadPoolExecutor(1) as pool:  # it has ended when the message is here
        taken = await asyncio.wrap_future(pool.submit(next, messages.inner))
    return cast("Msg", carry(taken))


Way = Callable[[ConsumeContext], Awaitable[Msg]]


async def keeps_until_the_next_is_asked_for(ground: Ground, way: Way) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=OFTEN)
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        first = await way(messages)
        await goes_on(spy, first)
        second = await way(messages)
        await held_back(spy, first, busy=second)
        await second.ack()
        while (again := await way(messages)).payload != b"0":
            await again.ack()  # again after all, when the machine stood still
    assert payloads([first, second]) == [b"0", b"1"]
    assert again.metadata.num_delivered > 1


@once
@pytest.mark.parametrize("way", [by_anext, by_wait_for, by_a_task, by_a_loop])
async def test_r26_who_takes_a_message_keeps_it_until_the_next_is_asked_for_whatever_the_way(
    ground: Ground, way: Way
) -> None:
    await keeps_until_the_next_is_asked_for(ground, way)


@once
@pytest.mark.parametrize("front", ["sync"], indirect=True)
async def test_r26_so_does_who_takes_each_message_in_a_thread_of_its_own(ground: Ground) -> None:
    await keeps_until_the_next_is_asked_for(ground, by_a_thread)


@once
async def test_r26_each_of_several_loops_keeps_its_message(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, ack_wait=OFTEN)
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        one, other = aiter(messages), aiter(messages)
        first, second = await anext(one), await anext(other)
        await asyncio.gather(goes_on(spy, first), goes_on(spy, second))
        third = await anext(one)
        await asyncio.gather(held_back(spy, first, busy=second), goes_on(spy, third))
    assert payloads([first, second, third]) == numbered(0, 3)


@once
async def test_r26_there_are_no_reports_of_what_was_acknowledged(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2, ack_wait=OFTEN)
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        one, other = aiter(messages), aiter(messages)
        first, second = await anext(one), await anext(other)
        await goes_on(spy, first)
        await first.ack()
        await held_back(spy, first, busy=second)


async def test_r26_reports_end_with_the_consume(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, ack_wait=OFTEN)
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        [first] = await take(messages, 1)
        await eventually(lambda: len({*spy.subjects}) >= 3)  # it, and the two that wait
        await goes_on(spy, first)
    assert {message.payload for message in await spy.settled()} == {b"+WPI"}
    count = len(spy.messages)
    again: set[bytes] = set()
    async with asyncio.timeout(10):
        while len(again) < 3:  # delivered again, as each is due
            again.update(payloads(await consumer.fetch(3, expires=1)))
    assert sorted(again) == numbered(0, 3)
    assert len(await spy.settled()) == count


@pytest.mark.parametrize("kind", ["default"])
async def test_r26_reports_do_not_pile_up_while_the_server_reads_nothing_and_leave_out_none_afterwards(
    front: FrontName, kind: str
) -> None:
    """One round of them is several times what a connection keeps before its senders have to wait."""
    count = 5000
    with NatsServer() as server:
        async with open_ground(front, PROFILES[kind], server, ping_interval=600) as ground:
            consumer = await consumer_of(ground, messages=count, ack_wait=OFTEN, max_ack_pending=-1)
            context = consumer.consume(max_messages=count, auto_in_progress=True)
            await eventually(lambda: context.pending[0] == count)
            server.pause()
            try:
                await eventually(lambda: ground.nc.buffered >= FLUSH_THRESHOLD, 30, "a transport that takes no more")
                await asyncio.sleep(1)  # the time of ten rounds, of more than 300 kB each
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
async def test_r26_nothing_goes_on_for_a_consume_whose_connection_is_closed(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    await asyncio.sleep(5 * OFTEN.total_seconds())
    assert rounds == before
    assert messages.pending[0] >= 2  # the handle is kept, and not at its end


@once
async def test_r26_reports_keep_to_an_ack_wait_that_was_changed_as_soon_as_the_handle_has_heard_of_it(
    ground: Ground,
) -> None:
    consumer = await consumer_of(ground, messages=1, durable_name="d", ack_wait=timedelta(seconds=6))
    spy = await reports(ground)
    async with consumer.consume(auto_in_progress=True) as messages:
        [message] = await take(messages, 1)
        await ground.admin_js.update_consumer(consumer.stream_name, durable_name="d", ack_wait=OFTEN)
        assert (await consumer.info()).config.ack_wait == OFTEN
        await eventually(lambda: reported(spy, message) >= 1)
        await eventually(lambda: reported(spy, message) >= 20)  # which are 2 s, and were 38
