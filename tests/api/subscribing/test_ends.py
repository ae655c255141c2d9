"""Which subscriptions delete their consumer at their end, in which order, and which callbacks acknowledge."""

from __future__ import annotations

import asyncio
import gc
import threading
from datetime import timedelta
from typing import Any

import pytest
from tests.api.sieve import Sieve
from tests.api.subscribing.support import (
    Side,
    bound,
    consumers_left,
    errors,
    gone,
    live,
    open_pulls,
    reported_error,
    side,
    unbound,
)
from tests.fronts import Ground, eventually

from jetspark.aio import Msg
from jetspark.aio.jetstream import PushSubscription, push_subscription
from jetspark.errors import ConsumerNotFoundError, DrainTimeoutError, SubscriptionClosedError


@pytest.mark.conformance("UNS-01")
@pytest.mark.parametrize("durable", [None, "d"])
@pytest.mark.parametrize("kind", ["push", "pull"])
async def test_r31_unsubscribe_deletes_the_consumer_that_the_subscription_created(
    ground: Ground, kind: str, durable: str | None
) -> None:
    stream = await ground.stream()
    before = live(ground.nc)
    call: Any = ground.js.subscribe if kind == "push" else ground.js.pull_subscribe
    subscription = await call(f"{stream.name}.a", durable=durable)
    spy = await ground.spy()
    await subscription.unsubscribe()
    assert [each.subject.partition(".API.")[2] for each in await spy.settled()] == [
        f"CONSUMER.DELETE.{stream.name}.{subscription.consumer}"
    ]
    assert await gone(ground, stream.name, subscription.consumer)
    assert (live(ground.nc), subscription.closed) == (before, True)


@pytest.mark.conformance("UNS-01")
@pytest.mark.parametrize("kind", ["push", "pull"])
async def test_unsubscribe_raises_if_the_consumer_was_deleted_before(ground: Ground, kind: str) -> None:
    stream = await ground.stream()
    call: Any = ground.js.subscribe if kind == "push" else ground.js.pull_subscribe
    subscription = await call(f"{stream.name}.a")
    await ground.js.delete_consumer(stream.name, subscription.consumer)
    with pytest.raises(ConsumerNotFoundError):
        await subscription.unsubscribe()
    assert subscription.closed


@pytest.mark.conformance("UNS-02")
@pytest.mark.parametrize("end", ["unsubscribe", "drain"])
async def test_r31_an_existing_consumer_survives(ground: Ground, end: str) -> None:
    stream = await ground.stream()
    await ground.js.create_consumer(stream.name, durable_name="push", deliver_subject=ground.nc.new_inbox())
    await ground.js.create_consumer(stream.name, durable_name="pull")
    for subscription in (
        await ground.js.subscribe(f"{stream.name}.a", durable="push"),
        await ground.js.pull_subscribe(f"{stream.name}.a", "pull"),
    ):
        if isinstance(subscription, PushSubscription):
            await bound(ground, stream.name, "push")
        await getattr(subscription, end)()
    await unbound(ground, stream.name, "push")
    for subscription in (
        await ground.js.subscribe_bind(stream.name, consumer="push"),
        await ground.js.pull_subscribe_bind("pull", stream.name),
    ):
        await getattr(subscription, end)()
    assert sorted(await ground.js.consumer_names(stream.name).all()) == ["pull", "push"]


@pytest.mark.conformance("UNS-03")
@pytest.mark.parametrize("way", ["callback", "iteration"])
@pytest.mark.profiles
@pytest.mark.blocking
async def test_r44_drain_delivers_and_acknowledges_before_the_consumer_is_deleted(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(push_subscription, "LAST_ACK_TIMEOUT", 10.0)  # a slow reader asks again
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *(b"%d" % number for number in range(20)))
    handled: list[bytes] = []
    gate = asyncio.Event()

    async def handle(message: Msg) -> None:
        await gate.wait()
        handled.append(message.payload)

    async def iterate() -> None:
        await gate.wait()
        async for message in subscription:
            handled.append(message.payload)
            await message.ack()

    spy = await ground.spy("$JS.API.CONSUMER.DELETE.>", "$JS.ACK.>")
    subscription = await ground.js.subscribe(f"{stream.name}.a", callback=handle if way == "callback" else None)
    reading = asyncio.create_task(iterate()) if way == "iteration" else None
    await eventually(lambda: subscription.delivered == 20, what="20 deliveries")
    draining = asyncio.create_task(subscription.drain())
    await spy.settled()
    assert spy.messages == []
    gate.set()
    await draining
    if reading is not None:
        await reading
    assert handled == [b"%d" % number for number in range(20)]
    subjects = [message.subject for message in await spy.settled()]
    assert len(subjects) == 21
    assert ".CONSUMER.DELETE." in subjects[-1]
    assert await gone(ground, stream.name, subscription.consumer)


@pytest.mark.conformance("UNS-03")
@pytest.mark.parametrize("front", ["aio"], indirect=True)  # only here can a call be cancelled
async def test_drain_of_a_pull_subscription_delivers_late_messages_before_the_consumer_is_deleted(
    ground: Ground, sieve: Sieve, own: Side
) -> None:
    stream = await ground.stream()
    subscription = await own.js.pull_subscribe(f"{stream.name}.a")
    cancelled = asyncio.create_task(subscription.fetch(3, 10))
    await open_pulls(subscription, 1)
    sieve.hold()
    await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
    await eventually(lambda: len(sieve.held) == 3, what="messages on their way to a pull that is about to be cancelled")
    cancelled.cancel()
    await asyncio.wait([cancelled])
    sieve.release()
    await eventually(lambda: subscription.pending_msgs == 3, what="messages that came too late for their fetch")
    spy = await ground.spy("$JS.API.CONSUMER.DELETE.>", "$JS.ACK.>")
    draining = asyncio.create_task(subscription.drain())
    await eventually(lambda: subscription.closed, what="the beginning of the drain")
    await own.nc.flush()
    assert await spy.settled() == []
    handed_out = await subscription.fetch(2)
    for message in handed_out:
        await message.ack()
    await own.nc.flush()
    assert not any(".DELETE." in subject for subject in (each.subject for each in await spy.settled()))
    handed_out += await subscription.fetch(2)
    await handed_out[-1].ack()
    await draining
    assert [message.payload for message in handed_out] == [b"1", b"2", b"3"]
    subjects = [message.subject for message in await spy.settled()]
    assert [".CONSUMER.DELETE." in subject for subject in subjects] == [False, False, False, True]
    assert await gone(ground, stream.name, subscription.consumer)


@pytest.mark.conformance("UNS-03")
@pytest.mark.blocking
async def test_drain_of_a_pull_subscription_ends_its_open_fetch_and_deletes_its_consumer(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.pull_subscribe(f"{stream.name}.a")
    fetching = asyncio.create_task(subscription.fetch(5, 10))
    await open_pulls(subscription, 1)
    await subscription.drain()
    with pytest.raises(SubscriptionClosedError):
        await fetching
    assert await gone(ground, stream.name, subscription.consumer)
    with pytest.raises(SubscriptionClosedError):
        await subscription.fetch(1)


@pytest.mark.conformance("UNS-04")
async def test_a_failed_deletion_after_drain_is_reported_as_an_event(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        for subscription in (
            await own.js.subscribe(f"{stream.name}.a"),
            await own.js.pull_subscribe(f"{stream.name}.a"),
        ):
            await ground.js.delete_consumer(stream.name, subscription.consumer)
            await subscription.drain()
            await reported_error(own.events, ConsumerNotFoundError)
            own.events.events.clear()


@pytest.mark.blocking
async def test_a_drain_that_times_out_drops_the_rest_and_leaves_no_consumer(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1", b"2")
    subscription = await ground.js.subscribe(f"{stream.name}.a")
    await eventually(lambda: subscription.pending_msgs == 2, what="two messages")
    with pytest.raises(DrainTimeoutError, match="2 messages dropped"):
        await subscription.drain(0.1)
    await consumers_left(ground, stream.name, 0)


@pytest.mark.conformance("UNS-05")
async def test_a_second_end_raises_without_traffic(ground: Ground) -> None:
    stream = await ground.stream()
    push = await ground.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.2)
    pull = await ground.js.pull_subscribe(f"{stream.name}.a")
    await push.unsubscribe()
    await pull.unsubscribe()
    spy = await ground.spy()
    for subscription in (push, pull):
        for end in (subscription.unsubscribe, subscription.drain):
            with pytest.raises(SubscriptionClosedError):
                await end()
    with pytest.raises(SubscriptionClosedError):
        await push.next_msg(1)
    assert await spy.settled() == []


@pytest.mark.conformance("UNS-05")
async def test_an_open_fetch_ends_with_the_subscription(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.pull_subscribe(f"{stream.name}.a")
    fetching = asyncio.create_task(subscription.fetch(1, 30))
    await open_pulls(subscription, 1)
    await subscription.unsubscribe()
    with pytest.raises(SubscriptionClosedError):
        await fetching


async def test_drain_of_the_connection_deletes_the_consumers(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
    handled: list[bytes] = []
    async with side(ground) as own:
        subscription = await own.js.subscribe(
            f"{stream.name}.a", callback=lambda message: handled.append(message.payload)
        )
        await eventually(lambda: subscription.delivered == 3, what="three deliveries")
        await own.nc.drain()
        assert errors(own.events) == []
    assert handled == [b"1", b"2", b"3"]
    assert await gone(ground, stream.name, subscription.consumer)


async def test_a_subscription_without_references_is_drained_with_its_callback(ground: Ground) -> None:
    stream = await ground.stream()
    handled: list[bytes] = []
    async with side(ground) as own:
        inbox = (
            await own.js.subscribe(f"{stream.name}.a", callback=lambda message: handled.append(message.payload))
        ).subject
        gc.collect()
        spy = await ground.spy(inbox)
        await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
        await spy.wait(3)  # the server has sent them
        await own.nc.drain()
        assert errors(own.events) == []
    assert handled == [b"1", b"2", b"3"]
    assert await ground.js.consumer_names(stream.name).all() == []


async def test_drain_of_the_connection_leaves_no_pull_consumer_and_does_not_wait_for_fetches(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        pull = await own.js.pull_subscribe(f"{stream.name}.a")
        await own.nc.drain()
        assert errors(own.events) == []
    assert pull.closed
    assert await gone(ground, stream.name, pull.consumer)


@pytest.mark.parametrize(("end", "handled"), [("drain", 3), ("unsubscribe", 1)])
@pytest.mark.blocking
async def test_a_callback_can_end_its_own_subscription(ground: Ground, end: str, handled: int) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
    seen: list[bytes] = []
    ready, blocking_ready = asyncio.Event(), threading.Event()

    async def handle(message: Msg) -> None:
        await ready.wait()
        seen.append(message.payload)
        if len(seen) == 1:
            await getattr(subscription, end)()

    def handle_blocking(message: Msg) -> None:
        blocking_ready.wait()
        seen.append(message.payload)
        if len(seen) == 1:
            getattr(subscription.inner, end)()  # in the thread of the callback

    callback: Any = handle if ground.front == "aio" else handle_blocking
    # The server does not delete the consumer before the test is over.
    subscription: Any = await ground.js.subscribe(
        f"{stream.name}.a", callback=callback, inactive_threshold=timedelta(minutes=5)
    )
    await eventually(lambda: subscription.delivered == 3, what="three deliveries")
    ready.set()
    blocking_ready.set()
    await eventually(lambda: subscription.closed, what="the end")
    await eventually(lambda: gone(ground, stream.name, subscription.consumer), what="the end of the consumer")
    assert len(seen) == handled


@pytest.mark.blocking
async def test_a_context_manager_unsubscribes(ground: Ground) -> None:
    stream = await ground.stream()
    async with await ground.js.subscribe(f"{stream.name}.a") as push:
        pass
    async with await ground.js.pull_subscribe(f"{stream.name}.a") as pull:
        pass
    assert (push.closed, pull.closed) == (True, True)
    assert await ground.js.consumer_names(stream.name).all() == []


@pytest.mark.blocking
async def test_a_subscription_can_end_after_a_number_of_messages(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(f"{stream.name}.a")
    await subscription.unsubscribe(3)
    await ground.fill(f"{stream.name}.a", *(b"%d" % number for number in range(5)))
    assert (await anext(subscription)).payload == b"0"
    assert [message.payload async for message in subscription] == [b"1", b"2"]
    assert subscription.closed
    with pytest.raises(StopAsyncIteration):
        await anext(subscription)
