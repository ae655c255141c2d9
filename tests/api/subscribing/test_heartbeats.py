"""Heartbeats of push consumers, and the warning when they are missing."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from tests.api.subscribing.support import collect, errors, reported_error, side
from tests.fronts import FrontName, Ground, Profile, eventually, open_ground

from jetspark.errors import ConsumerNotFoundError, DisconnectedError, MissedHeartbeatError
from jetspark.events import Disconnected, Reconnected
from jetspark.jetstream import ConsumerConfig, StorageType
from jetspark.server import NatsServer

BEAT = 0.2


@pytest.mark.conformance("HBM-01")
@pytest.mark.profiles
async def test_heartbeats_reach_neither_the_user_nor_the_counters(ground: Ground) -> None:
    stream = await ground.stream()
    called: list[bytes] = []
    reading = await ground.js.subscribe(f"{stream.name}.a", idle_heartbeat=BEAT)
    calling = await ground.js.subscribe(
        f"{stream.name}.a", idle_heartbeat=BEAT, callback=lambda message: called.append(message.payload)
    )
    assert (await reading.consumer_info()).config.idle_heartbeat == timedelta(seconds=BEAT)
    spy = await ground.spy(reading.subject)
    await spy.wait(2)
    assert all(message.status is not None and message.status.code == 100 for message in spy.messages)
    await ground.fill(f"{stream.name}.a", b"1")
    assert (await reading.next_msg(5)).payload == b"1"
    await eventually(lambda: called == [b"1"], what="the callback")
    for subscription in (reading, calling):
        assert (subscription.delivered, subscription.pending_msgs, subscription.received) == (1, 0, 1)


@pytest.mark.conformance("HBM-02")
async def test_the_stream_sequence_of_a_heartbeat_is_the_position_of_the_consumer(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(
        f"{stream.name}.a", idle_heartbeat=BEAT, config=ConsumerConfig(max_ack_pending=1)
    )
    spy = await ground.spy(subscription.subject)
    [first, *_] = await spy.wait(1)
    assert first.headers.get("Nats-Last-Consumer") == "0"
    await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
    await subscription.next_msg(5)
    await eventually(lambda: spy.messages[-1].headers.get("Nats-Last-Consumer") == "1", what="a heartbeat after it")
    assert spy.messages[-1].headers.get("Nats-Last-Stream") == "1"


@pytest.mark.conformance("HBM-05", "HBM-04")
async def test_a_deleted_consumer_is_noticed_by_missed_heartbeats_and_reported_repeatedly(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.1)
        await ground.js.delete_consumer(stream.name, subscription.consumer)
        error = await reported_error(own.events, MissedHeartbeatError, 2)
        assert subscription.consumer in str(error)
        await reported_error(own.events, ConsumerNotFoundError)
        assert not subscription.closed
        with pytest.raises(ConsumerNotFoundError):
            await subscription.unsubscribe()
        before = len(errors(own.events, MissedHeartbeatError))
        await asyncio.sleep(0.7)  # more than three times the time of a warning; one may have been in flight
        assert len(errors(own.events, MissedHeartbeatError)) <= before + 1


@pytest.mark.matrix
async def test_r15_a_missing_push_consumer_is_reported_and_looked_up(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.1, callback=lambda _message: None)
        await ground.js.delete_consumer(stream.name, subscription.consumer)
        await reported_error(own.events, MissedHeartbeatError)
        await reported_error(own.events, ConsumerNotFoundError)


@pytest.mark.conformance("HBM-03", "HBM-04")
async def test_three_missed_heartbeats_raise_one_warning_and_the_subscription_continues(
    front: FrontName, profile: Profile, no_leaks: None
) -> None:
    beat = 0.3
    with NatsServer(config=profile.config) as server:
        async with open_ground(front, profile, server) as ground, side(ground) as own:
            stream = await ground.stream()
            subscription = await own.js.subscribe(f"{stream.name}.a", idle_heartbeat=beat)
            begin = time.monotonic()
            await ground.fill(f"{stream.name}.a", b"1")
            await subscription.next_msg(5)
            server.pause()
            await reported_error(own.events, MissedHeartbeatError)
            assert time.monotonic() - begin > 2.9 * beat
            assert len(errors(own.events, MissedHeartbeatError)) == 1
            server.resume()
            await ground.fill(f"{stream.name}.a", b"2")
            assert (await subscription.next_msg(5)).payload == b"2"
            seen = len(errors(own.events, MissedHeartbeatError))
            await asyncio.sleep(4 * beat)
            assert len(errors(own.events, MissedHeartbeatError)) == seen


@pytest.mark.conformance("HBM-03")
@pytest.mark.parametrize("profile", ["default"], indirect=True)
@pytest.mark.matrix
async def test_the_number_of_missed_heartbeats_can_be_chosen(
    front: FrontName, profile: Profile, no_leaks: None
) -> None:
    with NatsServer(config=profile.config) as server:
        async with open_ground(front, profile, server) as ground, side(ground) as own:
            stream = await ground.stream()
            subject = f"{stream.name}.a"
            subscription = await own.js.subscribe(subject, idle_heartbeat=2 * BEAT, heartbeat_alarm_factor=6)
            begin = time.monotonic()
            server.pause()
            await reported_error(own.events, MissedHeartbeatError)
            assert time.monotonic() - begin > 4.5 * 2 * BEAT
            server.resume()
            assert not subscription.closed


@pytest.mark.conformance("HBM-06")
async def test_no_heartbeat_is_missed_without_a_session(front: FrontName, profile: Profile, no_leaks: None) -> None:
    with NatsServer(config=profile.config) as server:
        async with (
            open_ground(front, profile, server, reconnect_wait=0.05) as ground,
            side(ground, reconnect_wait=0.05) as own,
        ):
            stream = await ground.stream(storage=StorageType.FILE)
            subscription = await own.js.subscribe(f"{stream.name}.a", durable="d", idle_heartbeat=0.4)
            server.kill()
            await own.events.wait(Disconnected)
            await asyncio.sleep(1.3)  # longer than the time of a warning
            server.start()
            await own.events.wait(Reconnected)
            with suppress(DisconnectedError):  # reported once: the last data may be lost
                await ground.admin.flush()
            await ground.fill(f"{stream.name}.a", b"1")
            assert (await subscription.next_msg(5)).payload == b"1"
            assert errors(own.events, MissedHeartbeatError) == []


async def test_a_slow_reader_and_an_endless_callback_cause_no_missed_heartbeat(ground: Ground) -> None:
    stream = await ground.stream()
    gate = asyncio.Event()

    async def wait(_message: Any) -> None:
        await gate.wait()

    async with side(ground) as own:
        called = await own.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.4, callback=wait)
        unread = await own.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.4)
        await ground.fill(f"{stream.name}.a", b"1", b"2")
        await eventually(lambda: unread.pending_msgs == 2, what="messages that nobody reads")
        await asyncio.sleep(1.3)  # longer than the time of a warning
        assert errors(own.events) == []
        gate.set()
        assert [message.payload for message in await collect(unread, 2)] == [b"1", b"2"]
        await called.drain()
