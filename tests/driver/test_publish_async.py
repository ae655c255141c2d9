"""Publishes whose acknowledgements are awaited later."""

from __future__ import annotations

import json

import pytest
from tests.driver.frames import Pub
from tests.driver.jetstream import StreamScript
from tests.driver.server import MemoryServer, Session
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.engine.retry import RetryPolicy
from jetspark.errors import (
    DisconnectedError,
    NoStreamResponseError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    PublishTimeoutError,
    StreamStoreFailedError,
)
from jetspark.wire.events import ErrorOccurred


@pytest.mark.conformance("PUB-10")
async def test_acknowledgements_reach_their_publishes_in_any_order(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    futures = [await js.publish_async("orders.new", b"%d" % number) for number in range(3)]
    await clock.settle()
    assert stream.payloads == [b"0", b"1", b"2"]
    for position in (2, 0, 1):
        stream.ack(position)
    assert [(await future).sequence for future in futures] == [2, 3, 1]
    assert js.publish_async_pending == 0


async def test_a_thousand_acknowledgements_in_one_read_reach_their_publishes(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    futures = [await js.publish_async("orders.new", b"%d" % number) for number in range(1000)]
    await js.publish_async_completed()
    assert [future.result().sequence for future in futures] == list(range(1, 1001))
    assert js.publish_async_stats.acknowledged == 1000


async def test_a_publish_without_an_answer_times_out(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream(ack_timeout=5)
    stream.answers = "hold"
    first = await js.publish_async("orders.new")
    await clock.until(3)
    second = await js.publish_async("orders.new")
    await clock.until(4.999)
    assert not first.done()
    await clock.until(5)
    assert isinstance(first.exception(), PublishTimeoutError)
    assert not second.done()
    await clock.until(8)
    assert isinstance(second.exception(), PublishTimeoutError)
    assert js.publish_async_stats.failed == 2


async def test_a_late_acknowledgement_is_unmatched(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream(ack_timeout=5)
    stream.answers = "hold"
    first = await js.publish_async("orders.new")
    await clock.until(6)
    second = await js.publish_async("orders.new")
    await clock.settle()
    stream.ack(0)
    await clock.settle()
    assert isinstance(first.exception(), PublishTimeoutError)
    assert not second.done()
    stream.ack(1)
    assert (await second).sequence == 2
    assert js.publish_async_stats.unmatched_acks == 1


async def test_a_repeated_acknowledgement_is_unmatched(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    future = await js.publish_async("orders.new")
    await clock.settle()
    stream.ack(0)
    stream.ack(0)
    assert (await future).sequence == 1
    await clock.settle()
    assert js.publish_async_stats.unmatched_acks == 1


async def test_without_an_ack_timeout_a_publish_waits_without_limit(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream(ack_timeout=None)
    stream.answers = "hold"
    future = await js.publish_async("orders.new")
    await clock.until(3600)
    stream.ack()
    assert (await future).sequence == 1


@pytest.mark.conformance("PUB-03")
async def test_a_publish_without_a_stream_is_sent_again_after_each_wait(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream(retry=RetryPolicy(3, 0.5))
    stream.answers = "503"
    future = await js.publish_async("orders.new", b"again")
    await clock.until(10)
    assert [pub.at for pub in stream.published] == [0.0, 0.5, 1.0, 1.5]
    assert isinstance(future.exception(), NoStreamResponseError)
    assert js.publish_async_stats.retried == 3


@pytest.mark.conformance("PUB-03")
async def test_a_retry_that_finds_a_stream_succeeds(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream(retry=RetryPolicy(3, 0.5))
    stream.answers = "503"
    future = await js.publish_async("orders.new")
    await clock.until(0.6)
    stream.answers = "ack"
    assert (await future).sequence == 1
    assert clock.now == 1.0


async def test_no_retry_starts_after_the_ack_timeout(world: World, stream: StreamScript, clock: Clock) -> None:
    js = await world.jetstream(ack_timeout=1.2, retry=RetryPolicy(10, 0.5))
    stream.answers = "503"
    future = await js.publish_async("orders.new")
    with pytest.raises(NoStreamResponseError):
        await future
    assert clock.now == 1.0
    assert len(stream.published) == 3


async def test_a_refusal_of_the_stream_fails_the_publish_and_reaches_the_handler(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    failed: list[str] = []
    js = await world.jetstream(on_error=lambda future: failed.append(future.subject))
    stream.answers = "hold"
    good, bad = await js.publish_async("orders.good"), await js.publish_async("orders.bad")
    await clock.settle()
    stream.refuse(1)
    with pytest.raises(StreamStoreFailedError):
        await bad
    await clock.settle()
    assert failed == ["orders.bad"]
    stream.ack(0)
    await good


async def test_an_exception_of_the_error_handler_is_reported(world: World, stream: StreamScript, clock: Clock) -> None:
    async def fail(_: object) -> None:
        raise ValueError("in the handler")

    js = await world.jetstream(on_error=fail)
    stream.answers = "404 What"
    await js.publish_async("orders.new")
    await clock.settle()
    assert [str(event.error) for event in world.events.of(ErrorOccurred)] == ["in the handler"]


@pytest.mark.conformance("PUB-13")
async def test_a_lost_session_fails_publishes_in_flight_at_once(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    futures = [await js.publish_async("orders.new") for _ in range(3)]
    await clock.until(2)
    server.session.reset()
    await clock.settle()
    assert [type(future.exception()) for future in futures] == [DisconnectedError] * 3
    assert clock.now == 2.0
    assert len(stream.published) == 3  # they are not sent again
    stream.answers = "ack"
    assert (await (await js.publish_async("orders.new"))).sequence == 1


async def test_a_publish_without_a_session_is_sent_and_acknowledged_after_the_reconnect(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream(options={"reconnect_wait": 1})
    server.down()
    await clock.settle()
    future = await js.publish_async("orders.new")
    server.up()
    assert (await future).sequence == 1


async def test_a_publish_that_expires_without_a_session_is_never_sent(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream(options={"reconnect_wait": 10, "reconnect_wait_max": 10}, ack_timeout=2)
    server.down()
    await clock.settle()
    future = await js.publish_async("orders.new")
    with pytest.raises(PublishTimeoutError):
        await future
    assert clock.now == 2.0
    server.up()
    await clock.until(30)
    assert len(server.sessions) == 2
    assert not stream.published


async def test_a_publish_that_expires_while_the_loop_is_busy_is_never_sent(
    world: World, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream(ack_timeout=2)
    future = await js.publish_async("orders.new")
    clock.block(3)
    with pytest.raises(PublishTimeoutError):
        await future
    await clock.until(10)
    assert not stream.published


async def test_a_full_buffer_refuses_a_publish_and_counts_nothing(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream(options={"reconnect_buffer_size": 10})
    server.down()
    await clock.settle()
    with pytest.raises(OutboundBufferLimitError):
        await js.publish_async("orders.new")
    assert js.publish_async_pending == 0
    server.up()
    await clock.advance(1)
    assert (await (await js.publish_async("orders.new"))).sequence == 1


async def test_a_forbidden_subject_fails_only_its_own_publishes(
    world: World, server: MemoryServer, stream: StreamScript, clock: Clock
) -> None:
    js = await world.jetstream()
    stream.answers = "hold"
    allowed = await js.publish_async("orders.new")

    def forbid(session: Session, pub: Pub) -> None:
        session.error(f'Permissions Violation for Publish to "{pub.subject}"')

    server.on("secret.>", forbid)
    with pytest.raises(PermissionsViolationError):
        await (await js.publish_async("secret.new"))
    stream.ack(0)
    assert (await allowed).sequence == 1


async def test_an_invalid_acknowledgement_fails_the_publish(world: World, server: MemoryServer, clock: Clock) -> None:
    js = await world.jetstream()
    server.respond("orders.>", json.dumps({"hello": "world"}).encode())
    future = await js.publish_async("orders.new")
    await clock.settle()
    assert "orders.new" in str(future.exception())
