"""Tests of consume on real servers, on both fronts: options, counting and the end."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from tests.api.consuming.support import (
    Warnings,
    consumer_of,
    max_refused_pulls,
    numbered,
    payloads,
    pull_bodies,
    spy_on_pulls,
    take,
    wait_for_open_pulls,
)
from tests.fronts import Ground, Recorder, eventually

from jetspark.aio import Msg
from jetspark.errors import (
    ConfigError,
    MessageExceedsMaxBytesError,
    MissedHeartbeatError,
    PullLimitExceededError,
    StatusError,
)
from jetspark.events import ErrorOccurred


@pytest.mark.conformance("CNS-01")
async def test_pulls_of_consume_have_the_default_options(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    spy = await spy_on_pulls(ground)
    async with consumer.consume(), consumer.consume(timeout=80):
        await spy.wait(2)
    assert pull_bodies(spy) == [
        {"batch": 500, "expires": 30_000_000_000, "idle_heartbeat": 15_000_000_000},
        {"batch": 500, "expires": 80_000_000_000, "idle_heartbeat": 30_000_000_000},
    ]


@pytest.mark.conformance("CNS-02")
@pytest.mark.parametrize(
    "options",
    [
        {"max_messages": 10, "max_bytes": 10},
        {"max_messages": 10, "threshold_messages": 11},
        {"max_bytes": 10, "threshold_bytes": 11},
        {"timeout": 0.5},
        {"idle_heartbeat": 0.4},
        {"idle_heartbeat": 31, "timeout": 100},
        {"idle_heartbeat": 2, "timeout": 3},
    ],
)
async def test_invalid_options_are_refused_before_anything_is_sent(ground: Ground, options: dict[str, Any]) -> None:
    consumer = await consumer_of(ground)
    spy = await spy_on_pulls(ground)
    with pytest.raises(ConfigError):
        consumer.consume(**options)
    assert await spy.settled() == []


@pytest.mark.conformance("CNS-03", "ALG-02")
async def test_consume_by_bytes_pulls_only_the_missing_bytes(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=10, size=400)
    spy = await spy_on_pulls(ground)
    async with consumer.consume(max_bytes=2000) as messages:
        taken = await take(messages, 10)
        await spy.settled()
    assert [len(message) for message in taken] == [400] * 10
    bodies = pull_bodies(spy)
    assert (bodies[0]["batch"], bodies[0]["max_bytes"]) == (1_000_000, 2000)
    assert {body["batch"] for body in bodies} == {1_000_000}
    assert all(0 < body["max_bytes"] <= 2000 for body in bodies)
    assert len(bodies) >= 3


@pytest.mark.conformance("CNS-04")
@pytest.mark.parametrize("most", [1, 2])
async def test_consume_with_a_small_limit_never_gets_stuck(ground: Ground, most: int) -> None:
    consumer = await consumer_of(ground, messages=100)
    async with consumer.consume(max_messages=most) as messages:
        assert payloads(await take(messages, 100)) == numbered(0, 100)


@pytest.mark.conformance("CNS-06")
async def test_consumes_of_one_consumer_are_independent_and_buffer_no_more_than_their_limit(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=50)
    spy = await spy_on_pulls(ground)
    async with consumer.consume(max_messages=10) as first, consumer.consume(max_messages=10) as second:
        await eventually(lambda: first.pending[0] == second.pending[0] == 10)
        inboxes = {message.reply.rpartition(".")[0] for message in await spy.settled()}
        assert len(inboxes) == 2
        await first.stop()
        assert len(await take(second, 30)) == 30
    assert (await consumer.info()).num_waiting == 0


@pytest.mark.conformance("CNS-06")
@pytest.mark.blocking
async def test_the_buffer_keeps_its_limit_while_a_handler_blocks(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=50)
    spy = await spy_on_pulls(ground)
    gate = asyncio.Event()
    handed = 0

    async def handle(message: Msg) -> None:
        nonlocal handed
        handed += 1
        if handed == 8:
            await gate.wait()
        await message.ack()

    context = consumer.consume(handle, max_messages=10)
    await eventually(lambda: handed == 8)
    await spy.settled()
    assert sum(body["batch"] for body in pull_bodies(spy)) - handed <= 10
    await ground.nc.flush()
    assert context.pending[0] <= 10
    gate.set()
    await eventually(lambda: handed == 50)
    await context.stop()


@pytest.mark.conformance("ALG-01", "ALG-03")
@pytest.mark.profiles
async def test_all_pulls_share_one_inbox_and_ask_for_the_missing_messages(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=50)
    spy = await spy_on_pulls(ground)
    handed = 0
    async with consumer.consume(max_messages=10) as messages:
        for _ in range(45):
            await take(messages, 1)
            handed += 1
            await spy.settled()
            assert sum(body["batch"] for body in pull_bodies(spy)) - handed <= 10
    assert [body["batch"] for body in pull_bodies(spy)] == [10] + [6] * 7
    assert len({message.reply.rpartition(".")[0] for message in spy.messages}) == 1


@pytest.mark.conformance("ALG-02")
async def test_messages_in_the_buffer_count_as_pending_until_they_are_delivered(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=30)
    spy = await spy_on_pulls(ground)
    async with consumer.consume(max_messages=10) as messages:
        await eventually(lambda: messages.pending[0] == 10)
        await take(messages, 5)
        assert len(await spy.settled()) == 1
        await take(messages, 1)
        await spy.wait(2)
    assert pull_bodies(spy)[1]["batch"] == 6


@pytest.mark.conformance("ALG-04", "STA-05")
async def test_a_pull_of_full_size_follows_a_pull_without_messages(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    spy = await spy_on_pulls(ground)
    async with consumer.consume(max_messages=10, timeout=1):
        await spy.wait(2)
    assert {body["batch"] for body in pull_bodies(spy)} == {10}


@pytest.mark.conformance("ALG-05", "ALG-06")
async def test_refused_pulls_are_delayed_and_reported(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, max_batch=10)
    spy = await spy_on_pulls(ground)
    reported = Warnings()
    begin = time.monotonic()
    async with consumer.consume(max_messages=20, on_error=reported.add):
        await reported.wait(PullLimitExceededError, 3)
        seconds = time.monotonic() - begin
        assert 0.6 < seconds < 5.0
        assert len(await spy.settled()) <= max_refused_pulls(begin)
    assert "MaxRequestBatch of 10" in str(reported.errors[0])
    await ground.admin_js.delete_consumer(consumer.stream_name, consumer.name)


@pytest.mark.conformance("ALG-06", "STA-08")
async def test_r23_a_message_larger_than_max_bytes_is_reported_without_a_busy_loop(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=1, size=1000)
    spy = await spy_on_pulls(ground)
    reported = Warnings()
    begin = time.monotonic()
    async with consumer.consume(max_bytes=100, on_error=reported.add) as messages:
        await reported.wait(MessageExceedsMaxBytesError, 2)
        assert len(await spy.settled()) <= max_refused_pulls(begin)
        await messages.stop()
    assert len(await consumer.fetch(1)) == 1


@pytest.mark.conformance("ALG-07")
async def test_missed_heartbeats_are_reported_each_time_until_the_pull_is_served(ground: Ground) -> None:
    consumer = await consumer_of(ground, max_waiting=1)
    other = asyncio.create_task(consumer.fetch(1, timeout=30))
    await wait_for_open_pulls(ground, consumer, 1)
    reported = Warnings()
    async with consumer.consume(timeout=1, idle_heartbeat=0.5, on_error=reported.add) as messages:
        await reported.wait(MissedHeartbeatError, 2)
        await ground.fill(f"{consumer.stream_name}.a", b"other's")
        assert payloads(await other) == [b"other's"]
        await ground.fill(f"{consumer.stream_name}.a", b"ours")
        assert payloads(await take(messages, 1)) == [b"ours"]


@pytest.mark.conformance("ALG-08")
async def test_a_slow_handler_causes_no_missed_heartbeat(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, durable_name="d")  # one without name lasts 5 s without a pull
    reported = Warnings()
    seen: list[bytes] = []

    async def slow(message: Msg) -> None:
        if not seen:
            await asyncio.sleep(1.5)  # longer than two heartbeats
        seen.append(message.payload)

    context = consumer.consume(slow, max_messages=2, timeout=1.2, idle_heartbeat=0.6, on_error=reported.add)
    await eventually(lambda: len(seen) == 3)
    await context.stop()
    assert (seen, reported.errors) == (numbered(0, 3), [])


@pytest.mark.conformance("ALG-11", "STA-21")
async def test_an_unknown_status_is_reported_and_ignored(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    spy = await spy_on_pulls(ground)
    reported = Warnings()
    async with consumer.consume(on_error=reported.add) as messages:
        [pull] = await spy.wait(1)
        await ground.inject(pull.reply, b"NATS/1.0 499 Foo\r\n\r\n")
        await reported.wait(StatusError)
        await ground.fill(f"{consumer.stream_name}.a", *numbered(0, 100))
        assert payloads(await take(messages, 100)) == numbered(0, 100)
    assert "499 Foo" in str(reported.errors[0])


@pytest.mark.blocking
async def test_an_exception_of_a_callback_is_reported_and_the_next_message_is_delivered(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3)
    reported = Warnings()
    seen: list[bytes] = []

    def handle(message: Msg) -> None:
        if message.payload == b"1":
            raise LookupError("no such thing")
        seen.append(message.payload)

    context = consumer.consume(handle, on_error=reported.add)
    await eventually(lambda: len(seen) == 2)
    await reported.wait(LookupError)
    await context.stop()
    assert seen == [b"0", b"2"]


async def test_warnings_without_a_handler_go_to_the_connections_events(ground: Ground) -> None:
    consumer = await consumer_of(ground, max_batch=10)
    recorder = Recorder()
    connection = await ground.connect(on_event=recorder)
    other = await connection.jetstream(domain=ground.profile.domain).consumer(consumer.stream_name, consumer.name)
    async with other.consume(max_messages=11):
        event = await recorder.wait(ErrorOccurred)
    assert isinstance(event.error, PullLimitExceededError)


async def test_r26_a_small_limit_keeps_the_buffer_small(ground: Ground) -> None:
    """A buffered message counts as delivered. In a buffer of one, none waits longer than its handler (R26)."""
    consumer = await consumer_of(ground, messages=4, ack_wait=timedelta(seconds=1.5))
    delivered: list[int] = []

    async def slow(message: Msg) -> None:
        await asyncio.sleep(0.4)  # four of them take longer than `ack_wait`
        delivered.append(message.metadata.num_delivered)
        await message.ack_sync()

    context = consumer.consume(slow, max_messages=1)
    await eventually(lambda: len(delivered) == 4)
    await context.stop()
    assert delivered == [1, 1, 1, 1]
