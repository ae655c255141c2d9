"""Missing deliveries that are reported, and cases that are not gaps."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.api.sieve import Sieve
from tests.api.subscribing.support import Side, collect, errors, faults, reported_error, side, unbound
from tests.fronts import Ground, eventually

from jetspark.errors import ConsumerSequenceMismatchError, InvalidAckError
from jetspark.jetstream import ConsumerConfig


@pytest.mark.conformance("GAP-01")
@pytest.mark.parametrize("way", ["iteration", "callback"])
@pytest.mark.profiles
@pytest.mark.blocking
async def test_a_lost_message_is_reported_once_and_delivery_continues(
    ground: Ground, sieve: Sieve, own: Side, way: str
) -> None:
    stream = await ground.stream()
    sieve.loses = lambda _line, content: content == b"3"
    called: list[bytes] = []
    subscription = await own.js.subscribe(
        f"{stream.name}.a", callback=(lambda message: called.append(message.payload)) if way == "callback" else None
    )
    await ground.fill(f"{stream.name}.a", *(b"%d" % number for number in range(1, 7)))
    if way == "iteration":
        called = [message.payload for message in await collect(subscription, 5)]
    await eventually(lambda: len(called) == 5, what="five messages")
    assert called == [b"1", b"2", b"4", b"5", b"6"]
    error = await reported_error(own.events, ConsumerSequenceMismatchError)
    assert (error.expected, error.got, error.stream_sequence) == (3, 4, 2)
    assert len(errors(own.events)) == 1
    await subscription.unsubscribe()


@pytest.mark.conformance("GAP-02")
async def test_a_lost_last_message_is_reported_through_the_heartbeat(ground: Ground, sieve: Sieve, own: Side) -> None:
    stream = await ground.stream()
    sieve.loses = lambda _line, content: content == b"3"
    subscription = await own.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.2)
    await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
    error = await reported_error(own.events, ConsumerSequenceMismatchError)
    assert (error.expected, error.got, error.stream_sequence) == (3, 3, 2)
    assert [message.payload for message in await collect(subscription, 2)] == [b"1", b"2"]
    await ground.fill(f"{stream.name}.a", b"4")
    assert (await subscription.next_msg(5)).payload == b"4"
    assert len(faults(own.events)) == 1
    await subscription.unsubscribe()


@pytest.mark.conformance("GAP-02")
async def test_a_slow_reader_causes_no_gap(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a", idle_heartbeat=0.2)
        spy = await ground.spy(subscription.subject)
        await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
        await eventually(lambda: sum(message.status is not None for message in spy.messages) > 2, what="heartbeats")
        assert [message.payload for message in await collect(subscription, 3)] == [b"1", b"2", b"3"]
        assert faults(own.events) == []
        await subscription.unsubscribe()


@pytest.mark.conformance("GAP-03")
async def test_the_first_message_of_an_existing_durable_is_the_baseline(
    ground: Ground, sieve: Sieve, own: Side
) -> None:
    stream = await ground.stream()
    await ground.js.create_consumer(stream.name, durable_name="d", deliver_subject=own.nc.new_inbox())
    await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
    first = await own.js.subscribe_bind(stream.name, consumer="d")
    for message in await collect(first, 3):
        await message.ack_sync()
    await first.unsubscribe()
    await unbound(ground, stream.name, "d")
    second = await own.js.subscribe_bind(stream.name, consumer="d")
    await ground.fill(f"{stream.name}.a", b"4")
    message = await second.next_msg(5)
    assert message.metadata.consumer_sequence > 3
    assert errors(own.events) == []
    sieve.loses = lambda _line, content: content == b"5"
    await ground.fill(f"{stream.name}.a", b"5", b"6")
    assert (await second.next_msg(5)).payload == b"6"
    await reported_error(own.events, ConsumerSequenceMismatchError)
    await second.unsubscribe()


@pytest.mark.conformance("GAP-03")
async def test_a_new_consumer_is_expected_to_deliver_message_one_first(ground: Ground, sieve: Sieve, own: Side) -> None:
    stream = await ground.stream()
    sieve.loses = lambda _line, content: content == b"1"
    subscription = await own.js.subscribe(f"{stream.name}.a")
    await ground.fill(f"{stream.name}.a", b"1", b"2")
    assert (await subscription.next_msg(5)).payload == b"2"
    error = await reported_error(own.events, ConsumerSequenceMismatchError)
    assert (error.expected, error.got, error.stream_sequence) == (1, 2, 0)
    await subscription.unsubscribe()


@pytest.mark.conformance("GAP-04")
async def test_a_redelivery_is_no_gap(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        config = ConsumerConfig(ack_wait=timedelta(milliseconds=150))
        subscription = await own.js.subscribe(f"{stream.name}.a", config=config)
        await ground.fill(f"{stream.name}.a", b"1")
        deliveries = [message.metadata.num_delivered for message in await collect(subscription, 4)]
        assert deliveries == [1, 2, 3, 4]
        assert errors(own.events) == []
        await subscription.unsubscribe()


@pytest.mark.conformance("GAP-05", "QUE-02")
@pytest.mark.blocking
async def test_a_queue_member_sees_a_part_of_the_messages_without_a_gap(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        members = [await own.js.subscribe(f"{stream.name}.a", "q", callback=lambda _message: None) for _ in range(2)]
        await own.nc.flush()
        await ground.fill(f"{stream.name}.a", *(b"%d" % number for number in range(40)))
        await eventually(lambda: sum(member.delivered for member in members) == 40, what="40 messages")
        assert all(member.delivered for member in members)
        assert errors(own.events) == []


@pytest.mark.conformance("GAP-05")
async def test_a_pull_subscription_does_not_check_for_gaps(ground: Ground, sieve: Sieve, own: Side) -> None:
    stream = await ground.stream()
    sieve.loses = lambda _line, content: content == b"2"
    await ground.fill(f"{stream.name}.a", b"1", b"2", b"3")
    pull = await own.js.pull_subscribe(f"{stream.name}.a")
    got: list[bytes] = []
    while len(got) < 2:  # a slow server may deliver them in two fetches
        got += [message.payload for message in await pull.fetch(3, 5)]
    assert got == [b"1", b"3"]
    assert errors(own.events) == []
    await pull.unsubscribe()


@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_a_message_without_ack_subject_is_reported_and_not_delivered(ground: Ground) -> None:
    stream = await ground.stream()
    async with side(ground) as own:
        subscription = await own.js.subscribe(f"{stream.name}.a")
        await ground.admin.publish(subscription.subject, b"forged")
        await ground.admin.flush()
        await reported_error(own.events, InvalidAckError)
        await ground.fill(f"{stream.name}.a", b"1")
        assert (await subscription.next_msg(5)).payload == b"1"
        await subscription.unsubscribe()
