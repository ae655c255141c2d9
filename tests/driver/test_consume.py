"""Consume: when it pulls, and how it handles statuses and silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.driver.consuming import consuming
from tests.driver.jetstream import ConsumerScript, JetStreamScript
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    BadPullRequestError,
    ConsumerDeletedError,
    ConsumerIsPushError,
    Error,
    LeadershipChangeError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    PermissionsViolationError,
    PullLimitExceededError,
    ServerShutdownError,
)


@pytest.mark.conformance("CNS-01")
async def test_the_first_pull_requests_the_whole_buffer(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consume = await consuming(world, max_messages=100, timeout=30)
    await clock.settle()
    assert not consume.context.closed
    [pull] = worker.pulls
    assert pull.fields == {"batch": 100, "expires": 30_000_000_000, "idle_heartbeat": 15_000_000_000}


@pytest.mark.conformance("ALG-02", "ALG-03")
async def test_the_next_pull_is_sent_when_less_than_half_is_pending(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10)
    await clock.settle()
    worker.pull.fill()
    await clock.settle()
    await consume.take(5)
    await clock.settle()
    assert len(worker.pulls) == 1
    await consume.take(1)
    await clock.settle()
    assert [pull.batch for pull in worker.pulls] == [10, 6]


@pytest.mark.conformance("ALG-03")
async def test_the_threshold_can_be_chosen(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consume = await consuming(world, max_messages=10, threshold_messages=10)
    await clock.settle()
    worker.pull.fill()
    await consume.take(1)
    await clock.settle()
    assert [pull.batch for pull in worker.pulls] == [10, 1]


@pytest.mark.conformance("ALG-04", "STA-05")
async def test_a_pull_that_expires_is_followed_by_another(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consume = await consuming(world, max_messages=10, timeout=10)
    await clock.until(5)
    worker.pull.fill(3)
    worker.pull.heartbeat()
    await clock.until(10)
    worker.pull.status("408 Request Timeout", Nats_Pending_Messages="7", Nats_Pending_Bytes="0")
    await clock.settle()
    assert [(pull.at, pull.batch) for pull in worker.pulls] == [(0.0, 10), (10.0, 7)]
    assert await consume.take(3) == [b"1", b"2", b"3"]
    assert not consume.warnings


async def test_an_empty_stream_is_not_pulled_from_in_a_tight_loop(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, timeout=30, idle_heartbeat=5)

    async def serve() -> None:
        while True:
            pull = worker.pull
            for _ in range(5):
                await asyncio.sleep(5)
                pull.heartbeat()
            await asyncio.sleep(5)
            pull.status("408 Request Timeout", Nats_Pending_Messages=str(pull.batch), Nats_Pending_Bytes="0")
            await asyncio.sleep(0.001)

    await clock.settle()
    serving = asyncio.create_task(serve())
    await clock.until(301)
    serving.cancel()
    assert [round(pull.at) for pull in worker.pulls] == list(range(0, 301, 30))
    assert not consume.warnings


# -- silence ---------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("ALG-07")
async def test_two_missed_heartbeats_are_reported_and_followed_by_a_new_pull(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10, timeout=30, idle_heartbeat=5)
    await clock.until(9.999)
    assert len(worker.pulls) == 1
    await clock.until(10)
    assert [type(warning) for warning in consume.warnings] == [MissedHeartbeatError]
    assert [(pull.at, pull.batch) for pull in worker.pulls] == [(0.0, 10), (10.0, 10)]
    await clock.until(30)
    assert [pull.at for pull in worker.pulls] == [0.0, 10.0, 20.0, 30.0]


@pytest.mark.parametrize("sign", ["heartbeat", "message", "flow"])
async def test_any_sign_of_life_resets_the_heartbeat_timer(
    world: World, worker: ConsumerScript, clock: Clock, sign: str
) -> None:
    consume = await consuming(world, max_messages=10, idle_heartbeat=5)
    await clock.until(9)
    signs: dict[str, Callable[[], int]] = {
        "heartbeat": worker.pull.heartbeat,
        "message": lambda: worker.pull.fill(1),
        "flow": lambda: worker.pull.status("100 FlowControl Request"),
    }
    signs[sign]()
    await clock.until(18.999)
    assert not consume.warnings
    await clock.until(19)
    assert len(consume.warnings) == 1


async def test_late_messages_of_a_silent_pull_are_delivered(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consume = await consuming(world, max_messages=10, idle_heartbeat=5)
    await clock.until(10)
    first, second = worker.pulls
    first.fill(2)
    first.status("408 Request Timeout", Nats_Pending_Messages="8", Nats_Pending_Bytes="0")  # says nothing of the second
    second.fill(1)
    assert await consume.take(3) == [b"1", b"2", b"3"]
    await clock.settle()
    assert len(worker.pulls) == 2


@pytest.mark.conformance("ALG-08")
async def test_a_full_buffer_needs_no_heartbeats(world: World, worker: ConsumerScript, clock: Clock) -> None:
    consume = await consuming(world, max_messages=4, idle_heartbeat=5)
    await clock.settle()
    worker.pull.fill()
    await clock.until(3600)
    assert not consume.warnings
    assert len(worker.pulls) == 1


async def test_no_heartbeat_is_missed_without_a_session(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, {"reconnect_wait": 60, "reconnect_wait_max": 60}, idle_heartbeat=5)
    await clock.settle()
    server.down()
    await clock.until(25)
    server.up()
    while len(worker.pulls) < 2:
        await clock.advance(1)
    assert worker.pull.at > 25
    assert not consume.warnings


# -- statuses --------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("STA-04", "STA-05", "STA-06", "STA-07", "STA-09", "STA-17")
@pytest.mark.parametrize(
    ("status", "pending"),
    [
        ("404 No Messages", None),
        ("408 Request Timeout", 10),
        ("408 Requests Pending", None),
        ("408 Interest Expired", 10),
        ("409 Batch Completed", 10),
        ("423 Nats-Wrong-Pin-Id", 10),
    ],
)
async def test_an_end_of_a_pull_without_error_is_followed_by_another_pull(
    world: World, worker: ConsumerScript, clock: Clock, status: str, pending: int | None
) -> None:
    consume = await consuming(world, max_messages=10)
    await clock.until(2)
    more = {} if pending is None else {"Nats_Pending_Messages": str(pending), "Nats_Pending_Bytes": "0"}
    worker.pull.status(status, **more)
    await clock.settle()
    assert [(pull.at, pull.batch) for pull in worker.pulls] == [(0.0, 10), (2.0, 10)]
    assert not consume.warnings


@pytest.mark.conformance("STA-10", "STA-11", "STA-12", "STA-13", "STA-16", "STA-20")
@pytest.mark.parametrize(
    ("status", "kind", "delay"),
    [
        ("409 Leadership Change", LeadershipChangeError, 0.0),
        ("409 Server Shutdown", ServerShutdownError, 0.25),
        ("409 Exceeded MaxRequestBatch of 5", PullLimitExceededError, 0.25),
        ("409 Exceeded MaxRequestExpires of 1s", PullLimitExceededError, 0.25),
        ("409 Exceeded MaxWaiting", PullLimitExceededError, 0.25),
        ("503", NoConsumerResponseError, 0.25),
    ],
)
async def test_a_warning_is_reported_and_followed_by_another_pull(
    world: World, worker: ConsumerScript, clock: Clock, status: str, kind: type[Error], delay: float
) -> None:
    consume = await consuming(world, max_messages=10)
    await clock.until(2)
    worker.pull.status(status)
    await clock.until(3)
    assert [type(warning) for warning in consume.warnings] == [kind]
    assert [(pull.at, pull.batch) for pull in worker.pulls] == [(0.0, 10), (2.0 + delay, 10)]
    assert not consume.context.closed


@pytest.mark.conformance("ALG-06", "STA-20")
async def test_pulls_after_repeated_refusals_are_sent_at_growing_intervals(
    world: World, worker: ConsumerScript, script: JetStreamScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10)
    script.answer("CONSUMER.MSG.NEXT.>", "503")
    await clock.settle()
    worker.pull.status("503")
    await clock.until(10)
    assert [pull.at for pull in worker.pulls] == [0.0, 0.25, 0.75, 1.75, 3.75, 5.75, 7.75, 9.75]
    assert len(consume.warnings) == 8


@pytest.mark.conformance("ALG-09", "ALG-10", "STA-03", "STA-14", "STA-15")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("409 Consumer Deleted", ConsumerDeletedError),
        ("409 Consumer is push based", ConsumerIsPushError),
        ("400 Bad Request", BadPullRequestError),
    ],
)
async def test_an_error_ends_the_consume_after_its_messages(
    world: World, worker: ConsumerScript, clock: Clock, status: str, kind: type[Error]
) -> None:
    consume = await consuming(world, max_messages=10)
    await clock.settle()
    worker.pull.fill(2)
    worker.pull.status(status)
    assert await consume.take(2) == [b"1", b"2"]
    with pytest.raises(kind):
        await consume.take(1)
    assert consume.context.closed
    await clock.until(100)
    assert len(worker.pulls) == 1
    assert not worker.pull.heard


@pytest.mark.conformance("STA-08")
async def test_a_message_that_never_fits_is_reported_and_requested_slowly(
    world: World, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_bytes=1000)
    await clock.settle()
    for _ in range(3):
        worker.pull.status("409 Message Size Exceeds MaxBytes", Nats_Pending_Messages="5", Nats_Pending_Bytes="1000")
        await clock.advance(2)
    assert len(consume.warnings) == 3
    assert [pull.fields["max_bytes"] for pull in worker.pulls] == [1000] * 4
    assert [pull.at for pull in worker.pulls] == [0.0, 0.25, 2.5, 5.0]


async def test_a_forbidden_pull_is_reported_and_other_forbidden_subjects_are_ignored(
    world: World, server: MemoryServer, worker: ConsumerScript, clock: Clock
) -> None:
    consume = await consuming(world, max_messages=10)
    await clock.settle()
    server.session.error('Permissions Violation for Publish to "somewhere.else"')
    await clock.settle()
    assert not consume.context.closed
    server.session.error(f'Permissions Violation for Publish to "{worker.pull.request.subject}"')
    with pytest.raises(PermissionsViolationError):
        await consume.take(1)
