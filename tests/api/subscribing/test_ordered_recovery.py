"""Ordered push subscriptions after a restart, a lost session, and errors of the server."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta

import pytest
from tests.api.sieve import Sieve
from tests.api.subscribing.support import (
    Side,
    collect,
    consumers_left,
    errors,
    fill,
    live,
    loses_every,
    numbers,
    reported_error,
    side,
)
from tests.fronts import FrontName, Ground, Profile, eventually, open_ground

from jetspark.errors import (
    ConsumerNotFoundError,
    DisconnectedError,
    Error,
    StreamNotFoundError,
)
from jetspark.events import Disconnected, Reconnected
from jetspark.jetstream import StorageType
from jetspark.server import NatsServer


async def test_r9_recovery_does_not_need_a_reader(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.1)
    await ground.js.delete_consumer(stream.name, subscription.consumer)
    await fill(ground, f"{stream.name}.a", 1, 3)
    await eventually(lambda: subscription.pending_msgs == 3, what="messages that nobody asked for")
    assert numbers(await collect(subscription, 3)) == [1, 2, 3]


@pytest.mark.conformance("ORD-05")
async def test_no_consumer_is_created_without_a_session(ground: Ground, sieve: Sieve) -> None:
    stream = await ground.stream()
    async with side(ground, sieve.url, reconnect_wait=0.05) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.3)
        await fill(ground, f"{stream.name}.a", 1, 3)
        assert numbers(await collect(subscription, 3)) == [1, 2, 3]
        made, sid = int(subscription.consumer.rpartition("_")[2]), subscription.sid
        sieve.open = False
        sieve.cut()
        await own.events.wait(Disconnected)
        said = len(sieve.said)
        await fill(ground, f"{stream.name}.a", 4, 6)
        await asyncio.sleep(1.1)  # longer than the time of a warning
        assert subscription.sid == sid  # nothing waits to be sent
        sieve.open = True
        assert numbers(await collect(subscription, 3)) == [4, 5, 6]
        # Each attempt uses the next number, even if it fails before anything is sent.
        assert int(subscription.consumer.rpartition("_")[2]) == made + 1
        assert sieve.said[said:].count(b".CONSUMER.CREATE.") == 1
        await subscription.unsubscribe()


@pytest.mark.conformance("ORD-05", "ORD-07", "ORD-08")
async def test_reading_continues_after_a_restart_of_the_server(
    front: FrontName, profile: Profile, no_leaks: None
) -> None:
    """R4, R9: a memory consumer is gone after the restart."""
    with NatsServer(config=profile.config) as server:
        async with open_ground(front, profile, server) as ground, side(ground, reconnect_wait=0.05) as own:
            stream = await ground.stream(storage=StorageType.FILE)
            subscription = await own.js.subscribe(
                f"{stream.name}.a",
                ordered_consumer=True,
                idle_heartbeat=0.2,
                inactive_threshold=timedelta(minutes=5),
            )
            await fill(ground, f"{stream.name}.a", 1, 3)
            assert numbers(await collect(subscription, 3)) == [1, 2, 3]
            server.kill()
            await asyncio.sleep(0.7)
            server.start()
            await own.events.wait(Reconnected)
            with suppress(DisconnectedError):  # reported once: the last data may be lost
                await ground.admin.flush()
            await fill(ground, f"{stream.name}.a", 4, 6)
            assert numbers(await collect(subscription, 3)) == [4, 5, 6]
            await subscription.unsubscribe()
            await consumers_left(ground, stream.name, 0)


@pytest.mark.matrix
async def test_r14_consumers_without_messages_are_not_created_in_a_loop(
    ground: Ground, sieve: Sieve, own: Side
) -> None:
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a", 1, 3)
    sieve.loses = lambda line, _content: line.reply.startswith(b"$JS.ACK.")
    subscription = await own.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.1)
    begin = time.monotonic()
    spy = await ground.spy("$JS.API.CONSUMER.CREATE.>")
    await asyncio.sleep(1.5)
    made = len(await spy.settled())
    assert made <= 1 + (time.monotonic() - begin) / 0.75  # one at once, and no wait is shorter
    sieve.loses = lambda _line, _content: False
    assert numbers(await collect(subscription, 3)) == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_r14_many_restarts_leave_one_consumer_and_lose_nothing(
    front: FrontName, profile: Profile, no_leaks: None
) -> None:
    with NatsServer(config=profile.config) as server:
        async with open_ground(front, profile, server) as ground, side(ground, reconnect_wait=0.05) as own:
            stream = await ground.stream(storage=StorageType.FILE)
            subscription = await own.js.subscribe(
                f"{stream.name}.a",
                ordered_consumer=True,
                idle_heartbeat=0.2,
                inactive_threshold=timedelta(minutes=5),  # so that the server deletes none by itself
            )
            for restart in range(5):
                server.kill()
                server.start()
                await own.events.wait(Reconnected, restart + 1)
                await eventually(lambda: ground.admin.connected, what="the second connection")
                with suppress(DisconnectedError):  # reported once: the last data may be lost
                    await ground.admin.flush()
                await fill(ground, f"{stream.name}.a", 10 * restart + 1, 10 * restart + 10)
            assert numbers(await collect(subscription, 50)) == list(range(1, 51))
            await consumers_left(ground, stream.name, 1)
            await subscription.unsubscribe()
            assert await ground.admin_js.consumer_names(stream.name).all() == []


@pytest.mark.conformance("ORD-07")
async def test_a_deleted_stream_ends_the_subscription_with_its_error(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.1)
        await ground.js.delete_stream(stream.name)
        await reported_error(own.events, StreamNotFoundError)
        assert subscription.closed
        with pytest.raises(StreamNotFoundError):
            await subscription.next_msg(5)


@pytest.mark.parametrize("profile", ["default"], indirect=True)
@pytest.mark.parametrize("front", ["aio"], indirect=True)  # the same loop creates the consumers of both
async def test_an_unexpected_failure_ends_the_subscription(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise ZeroDivisionError

    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.1)
        monkeypatch.setattr(own.nc._core.client, "new_inbox", broken)
        await ground.js.delete_consumer(stream.name, subscription.consumer)
        error = await reported_error(own.events, Error)
        assert isinstance(error.__cause__, ZeroDivisionError)
        with pytest.raises(Error, match="ZeroDivisionError"):
            await subscription.next_msg(5)
        assert subscription.closed
        with pytest.raises(ConsumerNotFoundError):  # the time between two consumers ends
            await subscription.consumer_info()


@pytest.mark.conformance("ORD-07", "ORD-08")
async def test_a_session_that_is_lost_during_a_reset_leads_to_another_try(
    ground: Ground, sieve: Sieve, own: Side
) -> None:
    stream = await ground.stream()
    subscription = await own.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.1)
    spy = await ground.spy("$JS.API.CONSUMER.CREATE.>")
    sieve.loses = lambda _line, content: b"consumer_create_response" in content
    await ground.js.delete_consumer(stream.name, subscription.consumer)
    await spy.wait(1)
    sieve.loses = lambda _line, _content: False
    sieve.cut()
    await fill(ground, f"{stream.name}.a", 1, 3)
    assert numbers(await collect(subscription, 3)) == [1, 2, 3]
    assert errors(own.events, StreamNotFoundError) == []


async def test_r14_resets_leave_no_consumers(ground: Ground, sieve: Sieve, own: Side) -> None:
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a", 1, 100)
    loses_every(5, sieve)
    subscription = await own.js.subscribe(
        f"{stream.name}.a",
        ordered_consumer=True,
        idle_heartbeat=0.5,
        inactive_threshold=timedelta(minutes=5),  # so that the server deletes none by itself
    )
    assert numbers(await collect(subscription, 100)) == list(range(1, 101))
    sieve.loses = lambda _line, _content: False
    before = live(own.nc)
    await consumers_left(ground, stream.name, 1)
    assert live(own.nc) == before
    await subscription.drain()
    assert await ground.js.consumer_names(stream.name).all() == []
