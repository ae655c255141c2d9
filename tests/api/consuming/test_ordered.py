"""Tests of ordered pull consumers on real servers, on both fronts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.api.consuming.support import (
    Warnings,
    dropping_context,
    filled_stream,
    numbered,
    payloads,
    pull_bodies,
    take,
)
from tests.fronts import Ground, eventually

from jetspark.errors import (
    ConfigError,
    ConsumerBusyError,
    ConsumerDeletedError,
    ConsumerResettingError,
    NoConsumerResponseError,
    NoMessageError,
)


async def wait_for_no_consumer(ground: Ground, stream: str) -> None:
    """Wait until the stream has no consumer."""
    deadline = asyncio.get_running_loop().time() + 10
    while names := await ground.admin_js.consumer_names(stream).all():
        assert asyncio.get_running_loop().time() < deadline, names
        await asyncio.sleep(0.01)


@pytest.mark.conformance("ORD-10")
@pytest.mark.profiles
async def test_ordered_consumers_are_created_as_ephemeral_consumers(ground: Ground) -> None:
    stream = await filled_stream(ground, 3)
    ordered = stream.ordered_consumer(name_prefix="reader", deliver_policy="last_per_subject")
    async with ordered.consume() as messages:
        assert payloads(await take(messages, 1)) == [b"2"]
        info = await ordered.info()
        assert ordered.cached_info is not None
        assert (info.name, ordered.cached_info.name) == ("reader_1", "reader_1")
        config = info.config
        assert (config.ack_policy, config.num_replicas, config.mem_storage) == ("none", 1, True)
        assert (config.inactive_threshold, config.filter_subject) == (timedelta(minutes=5), ">")
        assert config.deliver_subject is None
    await wait_for_no_consumer(ground, stream.name)
    with pytest.raises(ConsumerResettingError):
        await ordered.info()
    with pytest.raises(ConfigError, match="durable_name"):
        stream.ordered_consumer(durable_name="d")  # type: ignore[call-arg]


async def test_until_caught_up_ends_after_the_last_message(ground: Ground) -> None:
    stream = await filled_stream(ground, 250)
    ordered = ground.js.ordered_consumer(stream.name)
    async with ordered.consume(until_caught_up=True, max_messages=20) as messages:
        seen = [message.payload async for message in messages]
    assert seen == numbered(0, 250)
    assert ordered.last_sequence == 250
    async with ordered.consume(until_caught_up=True) as messages:
        assert [message async for message in messages] == []
    await ground.fill(f"{stream.name}.a", b"more")
    async with ordered.consume(until_caught_up=True) as messages:
        assert [message.payload async for message in messages] == [b"more"]
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
async def test_until_caught_up_ends_when_pending_messages_are_purged(ground: Ground) -> None:
    stream = await filled_stream(ground, 100)
    ordered = stream.ordered_consumer()
    async with ordered.consume(until_caught_up=True, max_messages=2, timeout=1) as messages:
        await take(messages, 2)
        await stream.purge()
        rest = [message async for message in messages]
    assert len(rest) <= 2


@pytest.mark.conformance("ORD-03", "ORD-09")
@pytest.mark.profiles
@pytest.mark.blocking
async def test_every_message_comes_once_and_in_order_although_deliveries_are_lost(ground: Ground) -> None:
    """Every tenth delivery is dropped on the way (K-drop). Late deliveries of an earlier consumer are ignored."""
    stream = await filled_stream(ground, 200)
    async with dropping_context(ground, lambda number: number % 10 == 0, of_each=True) as js:
        reported = Warnings()
        async with js.ordered_consumer(stream.name).consume(until_caught_up=True, on_error=reported.add) as messages:
            seen = [message.payload async for message in messages]
    assert seen == numbered(0, 200)
    assert reported.errors == []
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.conformance("ORD-04")
async def test_a_heartbeat_reveals_that_the_last_delivery_was_lost(ground: Ground) -> None:
    stream = await filled_stream(ground, 1)
    async with dropping_context(ground, lambda number: number == 1) as js:
        ordered = js.ordered_consumer(stream.name)
        async with ordered.consume(timeout=1, idle_heartbeat=0.5) as messages:
            assert payloads(await take(messages, 1)) == [b"0"]


@pytest.mark.conformance("ORD-11")
async def test_r4_a_deleted_consumer_is_replaced_after_the_last_message(ground: Ground) -> None:
    """The new consumer starts at the next sequence, without a loss or a repetition (R4)."""
    stream = await filled_stream(ground, 5)
    reported = Warnings()
    ordered = stream.ordered_consumer()
    async with ordered.consume(on_error=reported.add) as messages:
        assert payloads(await take(messages, 5)) == numbered(0, 5)
        for number in range(5, 8):
            assert ordered.cached_info is not None
            await ground.admin_js.delete_consumer(stream.name, ordered.cached_info.name)
            await ground.fill(f"{stream.name}.a", b"%d" % number)
            assert payloads(await take(messages, 1)) == [b"%d" % number]
    await eventually(lambda: len(reported.errors) >= 3, what="a warning for each")  # the handler has its own thread
    assert all(isinstance(error, ConsumerDeletedError | NoConsumerResponseError) for error in reported.errors)
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.blocking
async def test_r7_a_replacement_keeps_the_configuration_except_the_start(ground: Ground) -> None:
    stream = await filled_stream(ground, 10)
    start = (await stream.info()).state.first_ts
    ordered = stream.ordered_consumer(
        deliver_policy="by_start_time", opt_start_time=start, inactive_threshold=timedelta(seconds=77)
    )
    async with ordered.consume() as messages:
        assert payloads(await take(messages, 5)) == numbered(0, 5)
        await eventually(lambda: messages.pending[0] == 5)  # the next consumer starts after these messages
        assert ordered.cached_info is not None
        await ground.admin_js.delete_consumer(stream.name, ordered.cached_info.name)
        assert payloads(await take(messages, 5)) == numbered(5, 10)
        await ground.fill(f"{stream.name}.a", b"10")
        assert payloads(await take(messages, 1)) == [b"10"]
        config = (await ordered.info()).config
    assert (config.deliver_policy, config.opt_start_seq, config.opt_start_time) == ("by_start_sequence", 11, None)
    assert config.inactive_threshold == timedelta(seconds=77)


@pytest.mark.conformance("ORD-11")
async def test_the_default_heartbeat_is_five_seconds_or_half_of_expires(ground: Ground) -> None:
    stream = await filled_stream(ground, 1)
    pulls = await ground.spy(f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.>")
    for count, timeout in enumerate((30, 10, 4), 1):
        async with stream.ordered_consumer().consume(timeout=timeout):
            await pulls.wait(count)
    assert [body["idle_heartbeat"] for body in pull_bodies(pulls)] == [5 * 10**9, 5 * 10**9, 2 * 10**9]


@pytest.mark.conformance("ORD-06")
@pytest.mark.parametrize(("policy", "expected"), [("last", b"2"), ("new", b"3")])
async def test_the_start_policy_stays_until_the_first_message(ground: Ground, policy: str, expected: bytes) -> None:
    stream = await filled_stream(ground, 3)
    async with dropping_context(ground, lambda number: number == 1) as js:
        ordered = js.ordered_consumer(stream.name, deliver_policy=policy)
        async with ordered.consume(timeout=1, idle_heartbeat=0.5) as messages:
            await eventually(lambda: ordered.cached_info is not None)
            if policy == "new":
                await ground.fill(f"{stream.name}.a", b"3", b"4")
            assert payloads(await take(messages, 1)) == [expected]


@pytest.mark.conformance("ORD-12")
async def test_fetches_continue_after_the_last_message_each_with_its_own_consumer(ground: Ground) -> None:
    stream = await filled_stream(ground, 10)
    creations = await ground.spy(f"$JS.API.CONSUMER.CREATE.{stream.name}.>")
    ordered = stream.ordered_consumer(name_prefix="o")
    assert payloads(await ordered.fetch(4)) == numbered(0, 4)
    assert (await ordered.next()).payload == b"4"
    assert payloads(await ordered.fetch(10, timeout=0.5)) == numbered(5, 10)
    with pytest.raises(NoMessageError):
        await ordered.next(0.2)
    await creations.settled()
    assert [subject.rpartition(".")[2] for subject in creations.subjects] == ["o_1", "o_2", "o_3", "o_4"]
    await ground.fill(f"{stream.name}.a", b"10")
    async with ordered.consume() as messages:
        assert payloads(await take(messages, 1)) == [b"10"]
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.conformance("ORD-12")
@pytest.mark.blocking
async def test_a_second_call_at_the_same_time_is_refused(ground: Ground) -> None:
    stream = await filled_stream(ground, 1)
    creations = await ground.spy(f"$JS.API.CONSUMER.CREATE.{stream.name}.>")
    ordered = stream.ordered_consumer()
    async with ordered.consume() as messages:
        await take(messages, 1)
        for call in (ordered.fetch, ordered.next):
            with pytest.raises(ConsumerBusyError):
                await call(1)
        with pytest.raises(ConsumerBusyError):
            await ordered.consume()
    fetching = asyncio.create_task(ordered.fetch(1))
    await creations.wait(2)
    with pytest.raises(ConsumerBusyError):
        await ordered.next()
    await ground.fill(f"{stream.name}.a", b"1")
    assert payloads(await fetching) == [b"1"]


@pytest.mark.blocking
async def test_messages_that_were_not_taken_are_delivered_again(ground: Ground) -> None:
    stream = await filled_stream(ground, 20)
    ordered = stream.ordered_consumer()
    async with ordered.consume(max_messages=10) as messages:
        assert payloads(await take(messages, 3)) == numbered(0, 3)
        await eventually(lambda: messages.pending[0] == 7)
    assert ordered.last_sequence == 3
    assert payloads(await ordered.fetch(5)) == numbered(3, 8)


@pytest.mark.parametrize("front", ["aio"], indirect=True)  # blocking calls are not cancelled
async def test_r24_a_cancelled_fetch_loses_nothing(ground: Ground) -> None:
    stream = await filled_stream(ground, 5)
    ordered = stream.ordered_consumer()
    fetching = asyncio.create_task(ordered.fetch(10))
    await eventually(lambda: ordered.last_sequence == 5)  # the messages have arrived
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await fetching
    assert payloads(await ordered.fetch(5)) == numbered(0, 5)
    await wait_for_no_consumer(ground, stream.name)


@pytest.mark.blocking
async def test_a_callback_gets_the_messages_in_order(ground: Ground) -> None:
    stream = await filled_stream(ground, 50)
    seen: list[bytes] = []

    def handle(message: Any) -> None:
        seen.append(message.payload)

    context = await stream.ordered_consumer().consume(handle, until_caught_up=True, max_messages=5)
    await context.wait_closed()
    assert seen == numbered(0, 50)


@pytest.mark.blocking
async def test_new_messages_are_read_from_the_moment_that_consume_returns(ground: Ground) -> None:
    stream = await filled_stream(ground, 2)
    seen: list[bytes] = []

    def handle(message: Any) -> None:
        seen.append(message.payload)

    context = await stream.ordered_consumer(deliver_policy="new").consume(handle)
    assert len(await ground.admin_js.consumer_names(stream.name).all()) == 1
    async with stream.ordered_consumer(deliver_policy="new").consume() as messages:
        assert len(await ground.admin_js.consumer_names(stream.name).all()) == 2
        await ground.fill(f"{stream.name}.a", b"2", b"3")
        assert payloads(await take(messages, 2)) == [b"2", b"3"]
    await eventually(lambda: seen == [b"2", b"3"])
    await context.stop()


@pytest.mark.blocking
async def test_the_plain_consume_can_be_awaited_too(ground: Ground) -> None:
    stream = await filled_stream(ground, 1)
    context = await (await stream.create_consumer(ack_policy="none")).consume()
    assert payloads(await take(context, 1)) == [b"0"]
    await context.stop()


async def test_consume_by_bytes_delivers_everything(ground: Ground) -> None:
    stream = await filled_stream(ground, 100)
    async with stream.ordered_consumer().consume(until_caught_up=True, max_bytes=1000) as messages:
        assert [message.payload async for message in messages] == numbered(0, 100)


async def test_a_drained_consume_ends_after_the_received_messages(ground: Ground) -> None:
    stream = await filled_stream(ground, 30)
    ordered = stream.ordered_consumer()
    messages = await ordered.consume(max_messages=10)
    await eventually(lambda: messages.pending[0] == 10)
    await messages.drain()
    assert [message.payload async for message in messages] == numbered(0, 10)
    assert payloads(await ordered.fetch(1)) == [b"10"]
