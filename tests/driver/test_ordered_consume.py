"""An ordered pull consumer: consume through gaps, silence and lost sessions."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.driver.frames import Pub
from tests.driver.jetstream import NO_STREAM, SILENCE, Answer, ConsumerScript, JetStreamScript, refusal
from tests.driver.reading import Reading, alive, handle, reading, starts
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World, fix_jitter

from jetspark.errors import (
    ConsumerBusyError,
    ConsumerCreateError,
    ConsumerDeletedError,
    ConsumerResettingError,
    JetStreamUnavailableError,
    MissedHeartbeatError,
    RequestTimeoutError,
    StreamNotFoundError,
)

pytestmark = pytest.mark.usefixtures("stream")

UNAVAILABLE = refusal(503, 10008, "JetStream system temporarily unavailable")


@pytest.mark.conformance("ORD-10")
async def test_reading_uses_an_ephemeral_pull_consumer(world: World, script: JetStreamScript, clock: Clock) -> None:
    read = await reading(world, max_messages=10)
    [consumer] = script.created
    assert (consumer.name, consumer.config["ack_policy"], consumer.config["mem_storage"]) == ("reader_1", "none", True)
    assert "deliver_subject" not in consumer.config
    assert consumer.pull.fields == {"batch": 10, "expires": 30_000_000_000, "idle_heartbeat": 5_000_000_000}
    consumer.pull.fill(2)
    assert await read.take(2) == [b"1", b"2"]
    await read.context.stop()
    await clock.settle()
    assert alive(script) == []


async def test_the_consumer_exists_when_an_awaited_or_entered_consume_returns(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    def later(pub: Pub) -> Answer:
        asyncio.get_running_loop().call_later(
            3, lambda: script.session.deliver(pub.reply, json.dumps(script.make(pub)).encode())
        )
        return SILENCE

    script.answer("CONSUMER.CREATE.>", later)
    ordered = await handle(world, deliver_policy="new")
    context = await ordered.consume()
    assert (alive(script), clock.now) == (["reader_1"], 3.0)
    await context.stop()
    taken: list[bytes] = []
    context = await ordered.consume(lambda message: taken.append(message.payload))
    assert clock.now == 6.0
    await clock.settle()
    script.created[-1].pull.fill(1)
    await clock.settle()
    assert taken == [b"1"]
    await context.stop()
    async with ordered.consume():
        assert clock.now == 9.0


@pytest.mark.parametrize(("answer", "seconds"), [(SILENCE, 10.0), (UNAVAILABLE, 0.0)], ids=["silence", "unavailable"])
async def test_a_consumer_that_cannot_be_created_now_is_created_in_the_background(
    world: World, script: JetStreamScript, clock: Clock, answer: Answer, seconds: float
) -> None:
    script.answer("CONSUMER.CREATE.>", answer, script.make)
    ordered = await handle(world)
    warnings: list[Exception] = []
    context = await ordered.consume(on_error=warnings.append)
    await clock.settle()
    assert (clock.now, context.closed, len(warnings)) == (seconds, False, 1)
    await clock.until(clock.now + 21)
    script.created[-1].pull.fill(1)
    assert (await anext(context)).payload == b"1"
    await context.stop()


async def test_the_wait_for_the_consumer_includes_a_wait_for_the_session(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    ordered = await handle(world)
    server.down()
    asyncio.get_running_loop().call_later(3, server.up)
    context = await ordered.consume()
    assert len(alive(script)) == 1
    await context.stop()
    server.down()
    await clock.settle()
    began = clock.now
    context = await ordered.consume()
    assert (clock.now - began, context.closed) == (10.0, False)
    await context.stop()


async def test_the_wait_for_the_consumer_ends_when_the_stream_does_not_exist(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.answer("CONSUMER.CREATE.>", NO_STREAM)
    context = await (await handle(world)).consume()
    assert (clock.now, context.closed, type(context.error)) == (0.0, True, StreamNotFoundError)
    with pytest.raises(StreamNotFoundError):
        await anext(context)


async def test_a_cancelled_wait_for_the_consumer_ends_the_consume(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.answer("CONSUMER.CREATE.>", SILENCE)
    ordered = await handle(world)

    async def enter() -> None:
        async with ordered.consume(lambda message: None):
            raise AssertionError("entered")

    for start in (lambda: ordered.consume(lambda message: None), enter):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await start()
        await clock.settle()
        script.answer("CONSUMER.CREATE.>", SILENCE)
    script.answer("CONSUMER.CREATE.>", script.make)
    await clock.until(60)
    assert script.created == []
    async with ordered.consume():  # it is not busy any more
        assert alive(script) == [script.created[0].name]


@pytest.mark.conformance("ORD-11")
async def test_a_gap_leads_to_a_new_consumer_after_the_last_message(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    read = await reading(world)
    first = script.created[0]
    first.pull.fill(2)
    first.lose()
    first.pull.fill(1)
    await clock.settle()
    assert starts(script) == [None, 3]
    assert alive(script) == ["reader_2"]
    script.created[1].pull.fill(2)
    assert await read.take(4) == [b"1", b"2", b"3", b"4"]
    assert read.warnings == []
    assert clock.now == 0.0


@pytest.mark.conformance("ORD-11")
async def test_a_heartbeat_that_reveals_a_lost_message_leads_to_a_new_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    read = await reading(world)
    first = script.created[0]
    first.pull.fill(1)
    first.lose()
    await clock.until(5)
    first.pull.status("100 Idle Heartbeat", Nats_Last_Consumer="2", Nats_Last_Stream="2")
    await clock.settle()
    assert starts(script) == [None, 2]
    script.created[1].pull.fill(1)
    assert await read.take(2) == [b"1", b"2"]


@pytest.mark.conformance("ORD-11")
async def test_two_missed_heartbeats_are_reported_and_lead_to_a_new_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    read = await reading(world)
    script.created[0].pull.fill(1)
    await clock.until(9.999)
    assert len(script.created) == 1
    await clock.until(10)
    assert read.kinds == [MissedHeartbeatError]
    assert starts(script) == [None, 2]
    assert alive(script) == ["reader_2"]


@pytest.mark.conformance("ORD-11")
async def test_a_deleted_consumer_is_replaced(world: World, script: JetStreamScript, clock: Clock) -> None:
    read = await reading(world)
    first = script.created[0]
    first.pull.fill(1)
    first.deleted = True
    first.pull.status("409 Consumer Deleted")
    await clock.settle()
    assert read.kinds == [ConsumerDeletedError]
    assert starts(script) == [None, 2]
    script.created[1].pull.fill(1)
    assert await read.take(2) == [b"1", b"2"]


async def test_a_warning_of_a_pull_keeps_the_consumer(world: World, script: JetStreamScript, clock: Clock) -> None:
    read = await reading(world)
    script.created[0].pull.status("409 Leadership Change")
    await clock.until(1)
    assert [kind.__name__ for kind in read.kinds] == ["LeadershipChangeError"]
    assert len(script.created) == 1
    assert len(script.created[0].pulls) == 2


@pytest.mark.conformance("ORD-05")
async def test_a_lost_session_leads_to_a_new_consumer_in_the_next_one(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    read = await reading(world, {"reconnect_wait": 40, "reconnect_wait_max": 40})
    fix_jitter(read.consumer._js.connection, 0)
    script.created[0].pull.fill(1)
    await clock.until(1)
    server.down()
    await clock.until(30)
    assert len(script.created) == 1
    server.up()
    await clock.until(42)
    assert starts(script) == [None, 2]
    assert script.asked("CONSUMER.CREATE.>")[1].at == 41.0
    assert alive(script) == ["reader_2"]
    script.created[1].pull.fill(1)
    assert await read.take(2) == [b"1", b"2"]
    assert read.warnings == []


@pytest.mark.conformance("ORD-07", "ORD-08")
async def test_a_creation_that_fails_temporarily_is_retried_after_growing_waits(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE)
    read = await reading(world)
    await clock.until(40)
    assert [pub.at for pub in script.asked("CONSUMER.CREATE.>")] == [0.0, 1.0, 3.0, 7.0, 15.0, 25.0, 35.0]
    assert read.kinds == [JetStreamUnavailableError] * 7
    assert not read.context.closed


@pytest.mark.conformance("ORD-07")
async def test_a_permanent_error_ends_the_consume(world: World, script: JetStreamScript, clock: Clock) -> None:
    script.answer("CONSUMER.CREATE.>", refusal(400, 10012, "no"))
    read = await reading(world)
    with pytest.raises(ConsumerCreateError):
        await read.take(1)
    assert clock.now == 0.0
    assert read.context.closed


async def test_the_number_of_attempts_can_be_limited(world: World, script: JetStreamScript, clock: Clock) -> None:
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE)
    consumer = await handle(world, max_reset_attempts=3)
    read = Reading(consumer)
    with pytest.raises(JetStreamUnavailableError):
        await read.take(1)
    assert clock.now == 3.0
    assert len(script.asked("CONSUMER.CREATE.>")) == 3


async def test_no_consumer_is_created_without_a_session(
    world: World, server: MemoryServer, script: JetStreamScript, clock: Clock
) -> None:
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE, script.make)
    read = await reading(world, {"reconnect_wait": 10, "reconnect_wait_max": 10})
    fix_jitter(read.consumer._js.connection, 0)
    await clock.until(0.5)
    server.down()
    await clock.until(5)
    server.up()
    await clock.until(12)
    assert [pub.at for pub in script.asked("CONSUMER.CREATE.>")] == [0.0, 10.5]
    assert len(alive(script)) == 1
    script.created[0].pull.fill(1)
    assert await read.take(1) == [b"1"]


async def test_a_consumer_whose_creation_was_not_answered_is_deleted_later(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    made: list[ConsumerScript] = []

    def make_in_silence(pub: Pub) -> Answer:
        answer = script.make(pub)
        if made:
            return answer
        made.extend(script.created)
        return SILENCE

    script.answer("CONSUMER.CREATE.>", make_in_silence)
    read = await reading(world)
    await clock.until(12)
    assert read.kinds == [RequestTimeoutError]
    assert [pub.at for pub in script.asked("CONSUMER.CREATE.>")] == [0.0, 11.0]
    assert alive(script) == ["reader_2"]


async def test_a_deletion_without_an_answer_is_repeated_with_the_next_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    script.answer("CONSUMER.DELETE.>", SILENCE, {"success": True})
    read = await reading(world)
    await clock.until(10)
    assert [pub.subject.rpartition(".")[2] for pub in script.asked("CONSUMER.DELETE.>")] == ["reader_1"]
    await clock.until(20)
    deletions = [(pub.at, pub.subject.rpartition(".")[2]) for pub in script.asked("CONSUMER.DELETE.>")]
    assert (20.0, "reader_2") in deletions
    assert deletions.count((20.0, "reader_1")) == 1
    assert not read.context.closed


@pytest.mark.conformance("ORD-09")
async def test_between_two_consumers_there_is_no_info(world: World, script: JetStreamScript, clock: Clock) -> None:
    read = await reading(world)
    assert (await read.consumer.info()).name == "reader_1"
    script.answer("CONSUMER.CREATE.>", UNAVAILABLE)
    await clock.until(10)
    assert read.consumer.cached_info is None
    with pytest.raises(ConsumerResettingError):
        await read.consumer.info()


@pytest.mark.conformance("ORD-12")
async def test_a_second_call_at_the_same_time_is_refused(world: World, script: JetStreamScript, clock: Clock) -> None:
    read = await reading(world)
    with pytest.raises(ConsumerBusyError):
        await read.consumer.fetch(1)
    with pytest.raises(ConsumerBusyError):
        read.consumer.consume()
    await read.context.stop()
    fetching = asyncio.create_task(read.consumer.fetch(1))
    await clock.settle()
    script.created[1].pull.fill(1)
    assert [message.payload for message in await fetching] == [b"1"]


async def test_after_stop_the_cursor_is_at_the_last_taken_message(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    read = await reading(world)
    script.created[0].pull.fill(5)
    assert await read.take(2) == [b"1", b"2"]
    await read.context.stop()
    assert read.consumer.last_sequence == 2
    again = Reading(read.consumer)
    await clock.settle()
    assert starts(script) == [None, 3]
    script.created[1].pull.fill(1)
    assert await again.take(1) == [b"3"]


async def test_drain_delivers_received_messages_and_deletes_the_consumer(
    world: World, script: JetStreamScript, clock: Clock
) -> None:
    read = await reading(world)
    script.created[0].pull.fill(2)
    await clock.settle()
    await read.context.drain()
    assert [message.payload async for message in read.context] == [b"1", b"2"]
    await clock.settle()
    assert alive(script) == []
    assert clock.now == 0.0


async def test_drain_delivers_messages_in_flight(world: World, script: JetStreamScript, clock: Clock) -> None:
    world.net.latency = 0.1
    read = Reading(await handle(world))
    await clock.advance(1)
    await read.context.drain()
    await clock.advance(0.05)
    script.created[0].pull.fill(1)  # the server has not read the deletion
    assert [message.payload async for message in read.context] == [b"1"]
    await clock.advance(1)
    assert alive(script) == []


async def test_stop_during_a_creation_deletes_the_consumer(world: World, script: JetStreamScript, clock: Clock) -> None:
    world.net.latency = 0.1
    read = Reading(await handle(world))
    await clock.advance(0.05)
    await read.context.stop()
    await clock.advance(1)
    assert len(script.created) == 1
    assert alive(script) == []
