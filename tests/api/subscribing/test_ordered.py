"""Ordered push subscriptions deliver every message once and in order, whatever happens to their consumers."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from tests.api.sieve import Sieve
from tests.api.subscribing.support import (
    Side,
    collect,
    consumers_left,
    errors,
    fill,
    loses_every,
    numbers,
    side,
)
from tests.fronts import Ground, eventually

from jetspark.aio import Msg
from jetspark.aio.jetstream import PushSubscription
from jetspark.errors import (
    ConfigError,
    ConsumerResettingError,
)
from jetspark.events import SlowConsumer
from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy


@pytest.mark.conformance("ORD-01")
@pytest.mark.parametrize(
    "options",
    [
        {"durable": "d"},
        {"queue": "q"},
        {"config": ConsumerConfig(name="c")},
        {"config": ConsumerConfig(deliver_subject="d")},
        {"config": ConsumerConfig(ack_policy=AckPolicy.EXPLICIT)},
        {"config": ConsumerConfig(max_deliver=3)},
        {"flow_control": False},
        {"config": ConsumerConfig(mem_storage=False)},
        {"config": ConsumerConfig(num_replicas=3)},
    ],
    ids=str,
)
async def test_options_that_an_ordered_subscription_sets_itself_are_refused_before_any_request(
    ground: Ground, options: dict[str, Any]
) -> None:
    spy = await ground.spy()
    with pytest.raises(ConfigError):
        await ground.js.subscribe("a", ordered_consumer=True, **options)
    assert await spy.settled() == []


@pytest.mark.conformance("ORD-02")
async def test_the_ordered_consumer_has_the_documented_configuration(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(f"{stream.name}.a", ordered_consumer=True)
    config = (await subscription.consumer_info()).config
    assert (config.ack_policy, config.max_deliver, config.flow_control) == (AckPolicy.NONE, 1, True)
    assert (config.mem_storage, config.num_replicas, config.ack_wait) == (True, 1, timedelta(hours=22))
    assert (config.idle_heartbeat, config.durable_name) == (timedelta(seconds=5), None)
    other = await ground.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=2)
    assert (await other.consumer_info()).config.idle_heartbeat == timedelta(seconds=2)


@pytest.mark.conformance("ORD-03", "ORD-09")
@pytest.mark.parametrize("way", ["iteration", "callback"])
@pytest.mark.profiles
@pytest.mark.blocking
async def test_every_message_comes_once_and_in_order_although_every_tenth_is_lost(
    ground: Ground, sieve: Sieve, own: Side, way: str
) -> None:
    stream = await ground.stream()
    count = 300
    await fill(ground, f"{stream.name}.a", 1, count)
    loses_every(10, sieve)
    seen: list[Msg] = []
    subscription = await own.js.subscribe(
        f"{stream.name}.a",
        ordered_consumer=True,
        idle_heartbeat=0.2,
        inactive_threshold=timedelta(minutes=5),
        callback=seen.append if way == "callback" else None,
    )
    if way == "iteration":
        seen = await collect(subscription, count)
    await eventually(lambda: len(seen) == count, 20, f"{count} messages")
    assert numbers(seen) == list(range(1, count + 1))
    assert sieve.lost > 10
    assert errors(own.events) == []
    await subscription.unsubscribe()
    await consumers_left(ground, stream.name, 0)  # nobody waits for the deletion of the consumers before the last


@pytest.mark.conformance("ORD-03")
async def test_r7_r8_the_next_consumer_has_a_new_name_a_start_sequence_and_the_rest_of_the_configuration(
    ground: Ground,
) -> None:
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a", 1, 5)
    start = (await stream.info()).state.first_ts
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=start,
        inactive_threshold=timedelta(seconds=77),
        headers_only=True,
    )
    subscription = await ground.js.subscribe(
        f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.2, config=config
    )
    await collect(subscription, 5)
    first, subject = subscription.consumer, subscription.subject
    await ground.js.delete_consumer(stream.name, first)
    await eventually(lambda: subscription.consumer != first, what="the next consumer")
    made = (await ground.js.consumer_info(stream.name, subscription.consumer)).config
    assert (made.deliver_policy, made.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 6)
    assert made.opt_start_time is None
    assert (made.inactive_threshold, made.headers_only) == (timedelta(seconds=77), True)
    assert made.deliver_subject != subject
    assert first.rpartition("_")[0] == subscription.consumer.rpartition("_")[0]


@pytest.mark.conformance("ORD-04")
async def test_a_lost_last_message_is_read_again_after_a_heartbeat(ground: Ground, sieve: Sieve, own: Side) -> None:
    stream = await ground.stream()
    sieve.loses = lambda _line, content: content == b"3" and sieve.lost == 0
    subscription = await own.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.1)
    await fill(ground, f"{stream.name}.a", 1, 3)
    assert numbers(await collect(subscription, 3)) == [1, 2, 3]
    assert sieve.lost == 1


@pytest.mark.conformance("ORD-04", "ORD-06")
async def test_a_lost_first_message_is_read_again_from_the_requested_start(
    ground: Ground, sieve: Sieve, own: Side
) -> None:
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a", 1, 3)
    sieve.loses = lambda _line, content: content in {b"2", b"3"} and sieve.lost == 0
    subscription = await own.js.subscribe(
        f"{stream.name}.a",
        ordered_consumer=True,
        idle_heartbeat=0.5,
        config=ConsumerConfig(deliver_policy=DeliverPolicy.LAST),
    )
    assert numbers(await collect(subscription, 1)) == [3]
    assert sieve.lost == 1
    made = (await ground.js.consumer_info(stream.name, subscription.consumer)).config
    assert made.deliver_policy is DeliverPolicy.LAST


@pytest.mark.conformance("ORD-04", "ORD-06")
async def test_a_lost_first_new_message_is_read_again_without_older_ones(
    ground: Ground, sieve: Sieve, own: Side
) -> None:
    stream = await ground.stream()
    await fill(ground, f"{stream.name}.a", 1, 3)
    sieve.loses = lambda _line, content: content == b"4" and sieve.lost == 0
    new = ConsumerConfig(deliver_policy=DeliverPolicy.NEW)
    subscription = await own.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.1, config=new)
    await fill(ground, f"{stream.name}.a", 4, 4)
    assert numbers(await collect(subscription, 1)) == [4]
    assert sieve.lost == 1


@pytest.mark.conformance("ORD-05")
async def test_r4_a_deleted_consumer_is_replaced(ground: Ground) -> None:
    stream = await ground.stream()
    subscription = await ground.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.1)
    await fill(ground, f"{stream.name}.a", 1, 3)
    assert numbers(await collect(subscription, 3)) == [1, 2, 3]
    await ground.js.delete_consumer(stream.name, subscription.consumer)
    await fill(ground, f"{stream.name}.a", 4, 6)
    assert numbers(await collect(subscription, 3)) == [4, 5, 6]


@pytest.mark.conformance("ORD-08", "ORD-09")
async def test_between_two_consumers_consumer_info_fails_and_unsubscribe_ends_at_once(
    ground: Ground, sieve: Sieve, own: Side
) -> None:
    stream = await ground.stream()
    spy = await ground.spy("$JS.API.CONSUMER.CREATE.>")
    subscription = await own.js.subscribe(f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.2)
    sieve.loses = lambda _line, content: b"consumer_create_response" in content
    await ground.js.delete_consumer(stream.name, subscription.consumer)
    await spy.wait(2)
    with pytest.raises(ConsumerResettingError):
        await subscription.consumer_info()
    begin = time.monotonic()
    await subscription.unsubscribe()
    assert time.monotonic() - begin < 8  # the attempt in flight takes 10 s
    assert len(await spy.settled()) == 2


async def test_a_reader_that_exceeds_its_limit_loses_nothing(ground: Ground) -> None:
    """R43: messages that our own limit drops are read again."""
    stream = await ground.stream()
    count = 100
    await fill(ground, f"{stream.name}.a", 1, count)
    async with side(ground) as own:
        subscription: PushSubscription = await own.js.subscribe(
            f"{stream.name}.a", ordered_consumer=True, idle_heartbeat=0.2, pending_msgs_limit=10
        )
        await eventually(lambda: subscription.dropped > 0, what="a drop")
        assert subscription.pending_msgs == 10
        await eventually(lambda: own.events.of(SlowConsumer), what="an event")
        assert [event.error.dropped for event in own.events.of(SlowConsumer)] == [1]
        assert numbers(await collect(subscription, count)) == list(range(1, count + 1))
        assert errors(own.events) == []
        await subscription.unsubscribe()
