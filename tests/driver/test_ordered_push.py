"""An ordered push subscription: when it creates its next consumer, its start, and the end of the earlier one."""

from __future__ import annotations

import pytest
from tests.driver.jetstream import SILENCE, JetStreamScript, refusal
from tests.driver.pushing import errors, ordered, starts, take
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark.errors import (
    ConfigError,
    ConsumerCreateError,
    InvalidAckError,
    JetStreamUnavailableError,
)
from jetspark.wire.events import SlowConsumer

pytestmark = pytest.mark.usefixtures("stream")

UNAVAILABLE = refusal(503, 10008, "JetStream system temporarily unavailable")


@pytest.mark.conformance("ORD-02")
async def test_reading_uses_an_ephemeral_push_consumer(world: World, script: JetStreamScript) -> None:
    subscription = await ordered(world)
    config = script.created[0].config
    assert (config["ack_policy"], config["max_deliver"], config["mem_storage"]) == ("none", 1, True)
    assert (config["idle_heartbeat"], config["flow_control"]) == (5_000_000_000, True)
    assert not subscription.closed


@pytest.mark.conformance("ORD-03")
async def test_a_gap_leads_to_a_new_consumer_after_the_last_message(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    first = script.created[0]
    first.push(b"1", b"2")
    first.lose()
    first.push(b"4")
    await clock.settle()
    assert starts(script) == [None, 3]
    assert first.deleted
    script.created[1].push(b"3", b"4")
    assert await take(subscription, 4) == [b"1", b"2", b"3", b"4"]
    assert errors(world) == []
    assert clock.now == 0.0


@pytest.mark.conformance("ORD-04")
async def test_a_heartbeat_that_reveals_a_lost_message_leads_to_a_new_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.created[0].push(b"1")
    script.created[0].lose(3)
    await clock.until(5)
    script.created[0].heartbeat()
    await clock.settle()
    assert starts(script) == [None, 2]
    script.created[1].push(b"2")
    assert await take(subscription, 2) == [b"1", b"2"]


@pytest.mark.conformance("ORD-05")
async def test_three_missed_heartbeats_lead_to_a_new_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.created[0].push(b"1")
    await clock.until(14.999)
    assert len(script.created) == 1
    await clock.until(15)
    assert starts(script) == [None, 2]
    assert errors(world) == []
    assert not subscription.closed


@pytest.mark.conformance("ORD-08")
async def test_consumers_without_messages_are_replaced_after_growing_waits(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    await clock.until(120)
    made = [pub.at for pub in script.asked("CONSUMER.CREATE.>")]
    # The first replacement follows 15 s of silence. Each later one waits 1, 2, 4, 8, 10 s more.
    assert made[:6] == [0.0, 15.0, 31.0, 48.0, 67.0, 90.0]
    assert sum(not consumer.deleted for consumer in script.created) == 1
    assert not subscription.closed


@pytest.mark.conformance("ORD-05")
async def test_a_lost_session_leads_to_a_new_consumer_in_the_next_one(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world, {"reconnect_wait": 40, "reconnect_wait_max": 40})
    fix_jitter(subscription._core.connection, 0)
    script.created[0].push(b"1")
    await clock.until(1)
    server.down()
    await clock.until(30)
    assert len(script.created) == 1  # silence changes nothing now
    server.up()
    await clock.until(42)
    assert starts(script) == [None, 2]
    assert script.asked("CONSUMER.CREATE.>")[1].at == 41.0
    script.created[1].push(b"2")
    assert await take(subscription, 2) == [b"1", b"2"]


@pytest.mark.conformance("ORD-06")
async def test_the_requested_start_stays_until_the_first_message(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world, deliver_policy="last")
    server.session.reset()
    await clock.settle()
    assert [consumer.config["deliver_policy"] for consumer in script.created] == ["last", "last"]
    assert starts(script) == [None, None]
    assert not subscription.closed


@pytest.mark.conformance("ORD-09")
async def test_late_messages_of_an_earlier_consumer_are_dropped(world: World, script: JetStreamScript) -> None:
    world.net.latency = 0.1
    subscription = await ordered(world)
    await world.clock.advance(1)
    first = script.created[0]
    first.push(b"1")
    first.lose()
    first.push(b"3")
    await world.clock.advance(0.15)
    first.push(b"4")  # the server has not read the deletion
    await world.clock.advance(1)
    script.created[1].push(b"2", b"3", b"4")
    await world.clock.advance(1)
    assert await take(subscription, 4) == [b"1", b"2", b"3", b"4"]


@pytest.mark.conformance("ORD-07", "ORD-08")
async def test_a_creation_that_fails_temporarily_is_retried_after_growing_waits(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.created[0].push(b"1")
    await clock.settle()
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE)
    await clock.until(15)
    tried = [pub.at for pub in script.asked("CONSUMER.CREATE.>")]
    assert tried == [0.0, 15.0]
    await clock.until(15 + 1 + 2 + 4 + 8 + 10 + 10)
    tried = [pub.at - 15 for pub in script.asked("CONSUMER.CREATE.>")[1:]]
    assert tried == [0.0, 1.0, 3.0, 7.0, 15.0, 25.0, 35.0]
    names = {pub.subject for pub in script.asked("CONSUMER.CREATE.>")}
    assert len(names) == 8  # each attempt has its own name
    assert not subscription.closed
    assert errors(world) == []


@pytest.mark.conformance("ORD-07")
async def test_a_creation_without_an_answer_times_out_after_ten_seconds(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.created[0].push(b"1")
    await clock.settle()
    script.answer("CONSUMER.CREATE.>", SILENCE)
    await clock.until(40)
    assert [pub.at for pub in script.asked("CONSUMER.CREATE.>")] == [0.0, 15.0, 26.0, 38.0]
    assert not subscription.closed


@pytest.mark.conformance("ORD-07")
async def test_a_permanent_error_ends_the_subscription_and_is_reported(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    script.created[0].push(b"1")
    await clock.settle()
    script.answer("CONSUMER.CREATE.>", refusal(400, 10012, "no"))
    await clock.until(15)
    assert errors(world) == [ConsumerCreateError]
    assert await take(subscription, 1) == [b"1"]
    assert subscription.closed
    assert isinstance(subscription.error, ConsumerCreateError)
    await clock.until(100)
    assert len(script.asked("CONSUMER.CREATE.>")) == 2


async def test_the_number_of_attempts_can_be_limited(world: World, script: JetStreamScript, clock: Clock) -> None:
    subscription = await ordered(world, max_reset_attempts=3)
    script.created[0].push(b"1")
    await clock.settle()
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE)
    await clock.until(100)
    assert [pub.at for pub in script.asked("CONSUMER.CREATE.>")] == [0.0, 15.0, 16.0, 18.0]
    assert errors(world) == [JetStreamUnavailableError]
    assert subscription.closed


async def test_no_consumer_is_created_without_a_session(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world, {"reconnect_wait": 20, "reconnect_wait_max": 20})
    fix_jitter(subscription._core.connection, 0)
    script.created[0].push(b"1")
    await clock.settle()
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE, script.make)
    await clock.until(15.5)
    server.down()
    await clock.until(16)
    server.up()
    await clock.until(40)
    assert [pub.at for pub in script.asked("CONSUMER.CREATE.>")] == [0.0, 15.0, 35.5]
    assert starts(script) == [None, 2]


async def test_a_lost_session_leads_to_a_new_consumer_at_once_even_after_one_without_messages(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    await clock.until(16)
    server.session.reset()
    await clock.until(16.5)
    assert [pub.at for pub in script.asked("CONSUMER.CREATE.>")] == [0.0, 15.0, 16.0]
    assert not subscription.closed


async def test_time_without_a_session_does_not_count_as_an_attempt(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world, {"reconnect_wait": 90, "reconnect_wait_max": 90}, max_reset_attempts=2)
    fix_jitter(subscription._core.connection, 0)
    script.created[0].push(b"1")
    await clock.settle()
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE, script.make)
    await clock.until(15.5)
    server.down()
    await clock.until(100)
    server.up()
    await clock.until(106)
    assert starts(script) == [None, 2]
    assert not subscription.closed


async def test_flow_control_of_an_earlier_consumer_is_not_answered(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    first = script.created[0]
    first.push(b"1")
    first.ask_flow("$JS.FC.ORDERS.first.1")
    first.lose()
    first.push(b"3")
    await clock.settle()
    second = script.created[1]
    second.push(b"2")
    second.ask_flow("$JS.FC.ORDERS.second.1")
    assert await take(subscription, 2) == [b"1", b"2"]
    await clock.settle()
    assert [pub.subject for pub in script.flow] == ["$JS.FC.ORDERS.second.1"]


async def test_messages_that_a_full_subscription_dropped_are_read_again_when_it_has_space(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world, pending_msgs_limit=4)
    script.created[0].push(*(b"%d" % number for number in range(1, 7)))
    await clock.until(60)
    assert len(script.created) == 1  # nobody reads: another consumer would not help
    [event] = world.events.of(SlowConsumer)
    assert event.error.dropped == 1
    assert "full: 4 messages, 4 bytes; the rest is read again when the program has read some" in str(event.error)
    assert await take(subscription, 2) == [b"1", b"2"]
    await clock.settle()
    assert starts(script) == [None, 5]
    script.created[1].push(b"5", b"6")
    assert await take(subscription, 4) == [b"3", b"4", b"5", b"6"]
    assert len(world.events.of(SlowConsumer)) == 1


async def test_each_time_that_an_ordered_subscription_becomes_full_is_reported_once(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world, pending_msgs_limit=2)
    for turn in range(3):
        script.created[turn].push(*(b"%d" % number for number in range(2 * turn + 1, 2 * turn + 9)))
        await clock.settle()
        assert len(world.events.of(SlowConsumer)) == turn + 1
        assert await take(subscription, 2) == [b"%d" % (2 * turn + 1), b"%d" % (2 * turn + 2)]
        await clock.settle()
    assert starts(script) == [None, 3, 5, 7]


async def test_a_full_ordered_subscription_that_pauses_drops_and_reports_nothing(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world, pending_msgs_limit=2, overflow="pause")
    script.created[0].push(b"1", b"2", b"3")
    await clock.settle()
    assert await take(subscription, 3) == [b"1", b"2", b"3"]
    assert world.events.of(SlowConsumer) == []


async def test_a_session_that_is_lost_while_reading_is_paused_leads_to_a_new_consumer(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world, pending_msgs_limit=2, overflow="pause")
    script.created[0].push(b"1", b"2", b"3")
    await clock.until(1)
    server.session.reset()
    await clock.until(2)
    assert await take(subscription, 3) == [b"1", b"2", b"3"]
    await clock.until(4)
    assert starts(script) == [None, 4]
    script.created[1].push(b"4")
    assert await take(subscription, 1) == [b"4"]


async def test_a_message_without_ack_subject_is_reported_and_does_not_replace_the_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    subscription = await ordered(world)
    first = script.created[0]
    first.push(b"1")
    script.session.deliver(first.deliver_subject, b"forged")
    first.push(b"2")
    await clock.settle()
    script.session.deliver(first.deliver_subject, b"forged", reply="somewhere")
    first.push(b"3")
    assert await take(subscription, 3) == [b"1", b"2", b"3"]
    assert errors(world) == [InvalidAckError] * 2
    assert len(script.created) == 1


async def test_the_number_of_attempts_is_checked_before_any_request(world: World, script: JetStreamScript) -> None:
    with pytest.raises(ConfigError, match="max_reset_attempts"):
        await ordered(world, max_reset_attempts=0)
    assert script.asked(">") == []
