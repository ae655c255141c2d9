"""A push subscription: its start, silence and gaps."""

from __future__ import annotations

import pytest
from tests.driver.frames import Sub
from tests.driver.jetstream import SILENCE, ConsumerScript, JetStreamScript
from tests.driver.pushing import bound, errors, take
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark.errors import (
    ConsumerCreateError,
    ConsumerNotFoundError,
    ConsumerSequenceMismatchError,
    MissedHeartbeatError,
)
from jetspark.wire.events import ErrorOccurred


@pytest.mark.conformance("CRE-01")
async def test_the_client_subscribes_before_the_consumer_is_created(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    script.stream("ORDERS")
    subscription = await (await world.connect()).jetstream().subscribe("orders.a")
    assert subscription.created
    deliver = script.created[0].deliver_subject
    subs = [place for place, frame in enumerate(server.session.frames) if isinstance(frame, Sub)]
    [create] = script.asked("CONSUMER.CREATE.>")
    sub = next(place for place in subs if server.session.frames[place].subject == deliver)  # type: ignore[union-attr]
    assert sub < server.session.frames.index(create)
    script.created[0].push(b"1", b"2")
    assert await take(subscription, 2) == [b"1", b"2"]


@pytest.mark.conformance("CRE-07")
async def test_a_refused_creation_leaves_no_subscription(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    script.stream("ORDERS")
    script.answer("CONSUMER.CREATE.>", {"error": {"code": 400, "err_code": 10012, "description": "no"}})
    js = (await world.connect()).jetstream()
    with pytest.raises(ConsumerCreateError):
        await js.subscribe("orders.a")
    await clock.settle()
    assert [subject for subject in server.session.subjects if not subject.endswith(".*")] == []


@pytest.mark.conformance("HBM-03", "HBM-04")
async def test_three_missed_heartbeats_raise_a_warning_and_so_do_the_next_three(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    await clock.until(14.999)
    assert errors(world) == []
    await clock.until(15)
    assert errors(world) == [MissedHeartbeatError]
    await clock.until(31)
    assert world.events.times_of(ErrorOccurred) == [15.0, 30.0]
    pusher.push(b"after all")
    assert await take(subscription, 1) == [b"after all"]


@pytest.mark.conformance("HBM-01")
async def test_heartbeats_reset_the_timer_and_are_not_delivered(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    for second in range(5, 100, 5):
        await clock.until(second)
        pusher.heartbeat()
    await clock.until(95 + 14.999)
    assert errors(world) == []
    assert subscription.pending_msgs == 0


async def test_messages_reset_the_timer_too(world: World, pusher: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    for second in range(10, 60, 10):
        await clock.until(second)
        pusher.push(b"x")
    await clock.until(64.999)
    assert errors(world) == []
    await clock.until(65)
    assert errors(world) == [MissedHeartbeatError]
    assert subscription.pending_msgs == 5


@pytest.mark.parametrize("factor", [1.0, 2.5])
async def test_the_number_of_missed_heartbeats_can_be_chosen(
    world: World, pusher: ConsumerScript, clock: Clock, factor: float
) -> None:
    subscription = await bound(world, heartbeat_alarm_factor=factor)
    await clock.until(5 * factor)
    assert world.events.times_of(ErrorOccurred) == [5 * factor]
    assert not subscription.closed


@pytest.mark.conformance("HBM-05")
async def test_missed_heartbeats_of_a_deleted_consumer_report_its_deletion(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.deleted = True
    await clock.until(15)
    assert errors(world) == [MissedHeartbeatError, ConsumerNotFoundError]
    await clock.until(30)
    assert errors(world) == [MissedHeartbeatError, ConsumerNotFoundError, MissedHeartbeatError]  # looked up once
    assert not subscription.closed


async def test_an_unanswered_lookup_after_missed_heartbeats_changes_nothing(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    pusher.js.answer("CONSUMER.INFO.>", SILENCE)
    await clock.until(25)
    assert errors(world) == [MissedHeartbeatError]
    assert not subscription.closed


@pytest.mark.conformance("HBM-06")
async def test_no_heartbeat_is_missed_without_a_session_and_the_timer_restarts_with_the_next(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world, {"reconnect_wait": 40, "reconnect_wait_max": 40})
    fix_jitter(subscription._core.connection, 0)
    await clock.until(10)
    server.down()
    await clock.until(30)
    server.up()
    await clock.until(64.999)
    assert subscription._core.connection.connected
    assert MissedHeartbeatError not in errors(world)
    await clock.until(65)
    assert errors(world)[-1] is MissedHeartbeatError


async def test_a_forbidden_publish_does_not_stop_the_heartbeat_timer(
    world: World, server: MemoryServer, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world)
    server.session.error('Permissions Violation for Publish to "somewhere.else"')
    await clock.until(15)
    assert errors(world)[-1] is MissedHeartbeatError
    assert not subscription.closed


async def test_no_heartbeat_is_missed_while_reading_is_paused(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    subscription = await bound(world, pending_msgs_limit=2, overflow="pause")
    pusher.push(b"1", b"2", b"3")
    await clock.until(100)
    assert errors(world) == []
    assert await take(subscription, 3) == [b"1", b"2", b"3"]


@pytest.mark.conformance("GAP-01")
async def test_a_gap_is_reported_and_delivery_continues(world: World, pusher: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    pusher.push(b"1")
    pusher.lose(2)
    pusher.push(b"4")
    assert await take(subscription, 2) == [b"1", b"4"]
    await clock.settle()
    [event] = world.events.of(ErrorOccurred)
    assert isinstance(event.error, ConsumerSequenceMismatchError)
    assert (event.error.expected, event.error.got, event.error.stream_sequence) == (2, 4, 1)


@pytest.mark.conformance("GAP-02")
async def test_a_heartbeat_reveals_lost_last_messages_once(world: World, pusher: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    pusher.push(b"1")
    pusher.lose(2)
    await clock.until(5)
    pusher.heartbeat()
    await clock.until(10)
    pusher.heartbeat()
    await clock.settle()
    assert errors(world) == [ConsumerSequenceMismatchError]
    pusher.push(b"4")
    assert await take(subscription, 2) == [b"1", b"4"]
    assert errors(world) == [ConsumerSequenceMismatchError]


@pytest.mark.conformance("GAP-03")
async def test_the_first_message_of_a_bound_consumer_is_no_gap(
    world: World, pusher: ConsumerScript, clock: Clock
) -> None:
    pusher.lose(10)
    subscription = await bound(world)
    pusher.push(b"11")
    assert await take(subscription, 1) == [b"11"]
    assert errors(world) == []


@pytest.mark.conformance("GAP-04")
async def test_a_redelivery_is_no_gap(world: World, pusher: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    pusher.push(b"1", b"2")
    pusher.stream_sequence -= 2
    pusher.push(b"1", delivered=2)
    assert await take(subscription, 3) == [b"1", b"2", b"1"]
    assert errors(world) == []


@pytest.mark.conformance("STA-22")
async def test_another_status_is_reported_and_not_delivered(world: World, pusher: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world)
    pusher.js.session.deliver("deliver.here", status="409 Leadership Change")
    await clock.settle()
    assert [error.__name__ for error in errors(world)] == ["LeadershipChangeError"]
    assert subscription.pending_msgs == 0


async def test_statuses_can_be_delivered_to_the_user(world: World, pusher: ConsumerScript, clock: Clock) -> None:
    subscription = await bound(world, manage_status=False)
    pusher.heartbeat()
    message = await subscription.next_msg(1)
    assert message.status is not None
    assert message.status.code == 100
    await clock.until(100)
    assert errors(world) == []


async def test_a_subscription_has_its_names_counters_and_consumer_info(
    world: World, script: JetStreamScript, pusher: ConsumerScript, clock: Clock
) -> None:
    script.answer("CONSUMER.INFO.>", {**pusher.info, "num_pending": 4})
    async with await bound(world) as subscription:
        names = (subscription.stream, subscription.consumer)
        assert (*names, subscription.created, subscription.initial_pending) == ("ORDERS", "pusher", False, 4)
        pusher.push(b"1", b"22")
        await clock.settle()
        assert (subscription.pending_msgs, subscription.pending_bytes, subscription.delivered) == (2, 3, 2)
        assert (await subscription.consumer_info()).num_pending == 4
        assert repr(subscription) == "<PushSubscription to 'pusher' of 'ORDERS'>"
    assert subscription.closed
    async with subscription:  # it has ended; a second end is not an event
        pass


async def test_messages_of_a_consumer_without_acks_are_not_acknowledged(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    pusher = script.consumer("pusher", deliver_subject="deliver.here", ack_policy="none")
    subscription = await bound(world)
    pusher.push(b"1")
    message = await subscription.next_msg(1)
    assert message.settled
    await clock.settle()
    assert not script.acks
