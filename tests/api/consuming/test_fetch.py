"""Tests of fetch, fetch_bytes, fetch_no_wait and next on real servers, on both fronts."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.api.consuming.support import (
    consumer_of,
    numbered,
    payloads,
    pull_bodies,
    spy_on_pulls,
    wait_for_deliveries,
    wait_for_open_pulls,
)
from tests.api.sieve import Sieve
from tests.fronts import PROFILES, FrontName, Ground, Profile, connect, open_ground

from jetspark.errors import (
    ConfigError,
    ConnectionClosedError,
    ConsumerDeletedError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NoMessageError,
    PermissionsViolationError,
    PullLimitExceededError,
)
from jetspark.server import NatsServer


@pytest.mark.conformance("FET-01")
@pytest.mark.profiles
async def test_a_fetch_sends_one_pull_and_ends_when_it_is_full(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=10)
    spy = await spy_on_pulls(ground)
    batch = await consumer.fetch(5)
    assert (payloads(batch), batch.error) == (numbered(0, 5), None)
    await spy.settled()
    assert pull_bodies(spy) == [{"batch": 5, "expires": 30_000_000_000}]
    assert spy.subjects == [f"$JS.API.CONSUMER.MSG.NEXT.{consumer.stream_name}.{consumer.name}"]


@pytest.mark.conformance("FET-01")
async def test_a_fetch_without_a_limit_is_refused_before_anything_is_sent(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    spy = await spy_on_pulls(ground)
    with pytest.raises(ConfigError, match="max_messages or max_bytes"):
        await consumer.fetch()
    assert await spy.settled() == []


async def test_r16_a_fetch_without_messages_returns_an_empty_batch_each_time(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    for _ in range(4):
        assert await consumer.fetch(10, timeout=0.05) == []


async def test_r17_a_fetch_waits_for_missing_messages_until_it_times_out(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=7)

    async def later() -> None:
        await wait_for_open_pulls(ground, consumer, 1)
        await ground.fill(f"{consumer.stream_name}.a", *numbered(7, 10))

    filling = asyncio.create_task(later())
    assert payloads(await consumer.fetch(10, timeout=20)) == numbered(0, 10)
    await filling
    begin = time.monotonic()
    assert await consumer.fetch(10, timeout=0.2) == []
    assert time.monotonic() - begin < 15.0  # not the timeout of the fetch before


@pytest.mark.conformance("FET-02")
@pytest.mark.blocking
async def test_a_fetch_by_bytes_ends_when_the_server_ends_the_pull(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=3, size=400)
    spy = await spy_on_pulls(ground)
    batch = await consumer.fetch_bytes(1000, timeout=5)
    assert ([len(each) for each in batch], batch.error) == ([400, 400], None)
    await spy.settled()
    assert pull_bodies(spy) == [{"batch": 1_000_000, "expires": 5_000_000_000, "max_bytes": 1000}]
    assert len(await consumer.fetch(max_bytes=600, timeout=0.3)) == 1


async def test_a_fetch_may_be_limited_by_messages_and_bytes(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=4, size=400)
    assert len(await consumer.fetch(1, max_bytes=2000)) == 1
    assert len(await consumer.fetch(3, max_bytes=1000, timeout=5)) == 2


@pytest.mark.conformance("FET-03")
async def test_a_long_fetch_has_a_heartbeat_and_a_short_one_only_on_request(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=4)
    spy = await spy_on_pulls(ground)
    for timeout, heartbeat in ((31, None), (30, None), (2, 1)):
        await consumer.fetch(1, timeout=timeout, idle_heartbeat=heartbeat)
    await spy.settled()
    assert [body.get("idle_heartbeat") for body in pull_bodies(spy)] == [5_000_000_000, None, 1_000_000_000]
    with pytest.raises(ConfigError, match="heartbeat"):
        await consumer.fetch(1, timeout=2, idle_heartbeat=1.1)
    await spy.settled()
    assert len(spy.messages) == 3


@pytest.mark.conformance("FET-04")
async def test_a_fetch_from_a_silent_server_returns_its_messages_soon_after_its_timeout(
    front: FrontName, profile: Profile
) -> None:
    with NatsServer(config=dict(profile.config)) as server:
        async with open_ground(front, profile, server) as ground:
            consumer = await consumer_of(ground, messages=3)
            begin = time.monotonic()
            fetching = asyncio.create_task(consumer.fetch(10, timeout=2))
            await wait_for_deliveries(ground, consumer, 3)
            server.pause()
            try:
                batch = await fetching
            finally:
                server.resume()
            assert payloads(batch) == numbered(0, 3)
            assert 2.9 < time.monotonic() - begin < 10.0


@pytest.mark.conformance("FET-06")
async def test_missed_heartbeats_end_a_fetch_whose_pull_the_server_ignores(ground: Ground) -> None:
    consumer = await consumer_of(ground, max_waiting=1)
    other = asyncio.create_task(consumer.fetch(1, timeout=30))
    await wait_for_open_pulls(ground, consumer, 1)
    begin = time.monotonic()
    with pytest.raises(MissedHeartbeatError):
        await consumer.fetch(1, timeout=20, idle_heartbeat=0.2)
    assert 0.3 < time.monotonic() - begin < 10.0
    await ground.fill(f"{consumer.stream_name}.a", b"x")
    assert payloads(await other) == [b"x"]


@pytest.mark.conformance("FET-07")
async def test_a_finished_fetch_leaves_no_pull_open_and_takes_no_more_messages(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=10)
    before = await ground.listening()
    assert len(await consumer.fetch(4)) == 4
    assert await ground.listening() == before
    info = await consumer.info()
    assert (info.num_waiting, info.num_ack_pending, info.num_pending) == (0, 4, 6)
    assert len(await consumer.fetch(10, timeout=0.3)) == 6
    assert await ground.listening() == before
    info = await consumer.info()
    assert (info.num_waiting, info.num_ack_pending) == (0, 10)


@pytest.mark.conformance("FET-08")
async def test_a_fetch_without_wait_returns_available_messages(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=5)
    spy = await spy_on_pulls(ground)
    assert payloads(await consumer.fetch_no_wait(3)) == numbered(0, 3)
    assert payloads(await consumer.fetch_no_wait(10)) == numbered(3, 5)
    assert await consumer.fetch_no_wait(10) == []
    await spy.settled()
    assert pull_bodies(spy) == [{"batch": count, "no_wait": True} for count in (3, 10, 10)]


@pytest.mark.conformance("FET-09")
async def test_next_pulls_one_message_per_call(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2)
    spy = await spy_on_pulls(ground)
    assert (await consumer.next()).payload == b"0"
    await spy.settled()
    assert pull_bodies(spy) == [{"batch": 1, "expires": 30_000_000_000}]
    info = await consumer.info()
    assert (info.num_ack_pending, info.num_waiting) == (1, 0)
    assert (await consumer.next(5)).payload == b"1"
    with pytest.raises(NoMessageError, match=r"within 0\.05 s"):
        await consumer.next(0.05)


async def test_r19_next_without_a_timeout_waits_for_a_message(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=5)
    fetching = asyncio.create_task(consumer.fetch(10, timeout=None))
    await wait_for_open_pulls(ground, consumer, 1)
    await ground.fill(f"{consumer.stream_name}.a", *numbered(5, 11))
    assert payloads(await fetching) == numbered(0, 10)
    assert (await consumer.next(None)).payload == b"10"


async def test_r18_a_pull_that_timed_out_does_not_take_the_next_message(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    for number in range(10):
        assert await consumer.fetch(5, timeout=0.02) == []
        await ground.fill(f"{consumer.stream_name}.a", b"%d" % number)
        [message] = await consumer.fetch(1, timeout=5)
        assert message.payload == b"%d" % number
        assert message.metadata.num_delivered == 1


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
@pytest.mark.parametrize("silent", [False, True])
async def test_r18_a_late_message_of_a_finished_fetch_goes_to_the_next_fetch(ground: Ground, silent: bool) -> None:
    consumer = await consumer_of(ground, messages=3)
    proxy = await ground.stack.enter_async_context(Sieve(ground.server.port))
    connection = await connect(ground.front, proxy.url, **ground.profile.options)
    ground.stack.push_async_callback(connection.close)
    handle = await connection.jetstream(domain=ground.profile.domain).consumer(consumer.stream_name, consumer.name)
    proxy.hold()
    if silent:
        with pytest.raises(MissedHeartbeatError):
            await handle.fetch(10, timeout=20, idle_heartbeat=0.5)
    else:
        assert await handle.fetch(10, timeout=0.1) == []
    proxy.release()
    batch = await handle.fetch(3, timeout=5)
    assert payloads(batch) == numbered(0, 3)
    assert {message.metadata.num_delivered for message in batch} == {1}
    await ground.fill(f"{consumer.stream_name}.a", b"3")
    assert payloads(await handle.fetch(1, timeout=5)) == [b"3"]


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
@pytest.mark.parametrize("closed", [False, pytest.param(True, marks=pytest.mark.matrix)])
async def test_a_fetch_after_a_lost_session_does_not_wait_for_late_messages(ground: Ground, closed: bool) -> None:
    consumer = await consumer_of(ground)
    proxy = await ground.stack.enter_async_context(Sieve(ground.server.port))
    connection = await connect(ground.front, proxy.url, reconnect_wait=0.05, **ground.profile.options)
    ground.stack.push_async_callback(connection.close)
    handle = await connection.jetstream(domain=ground.profile.domain).consumer(consumer.stream_name, consumer.name)
    proxy.hold()
    assert await handle.fetch(10, timeout=0.1) == []
    if closed:
        await connection.close()
        with pytest.raises(ConnectionClosedError):
            await handle.fetch(1)
        return
    proxy.cut()
    proxy.release()
    await ground.fill(f"{consumer.stream_name}.a", b"0")
    async with asyncio.timeout(20):
        assert payloads(await handle.fetch(1, timeout=None)) == [b"0"]


@pytest.mark.blocking
async def test_r20_concurrent_fetches_do_not_mix(ground: Ground) -> None:
    """WIR-07: each fetch has its own subscription. A refusal reaches only the pull that was refused (R20)."""
    consumer = await consumer_of(ground, max_waiting=2)
    fetches = [asyncio.create_task(consumer.fetch(1, timeout=10)) for _ in range(2)]
    await wait_for_open_pulls(ground, consumer, 2)
    for _ in range(3):
        with pytest.raises(PullLimitExceededError, match="MaxWaiting"):
            await consumer.fetch(1, timeout=10)
    await ground.fill(f"{consumer.stream_name}.a", b"0", b"1")
    assert sorted(payloads([message for fetch in fetches for message in await fetch])) == numbered(0, 2)


@pytest.mark.conformance("STA-14", "FET-05")
async def test_r21_a_fetch_ends_at_once_when_the_consumer_is_deleted(ground: Ground) -> None:
    consumer = await consumer_of(ground, messages=2)
    fetching = asyncio.create_task(consumer.fetch(5, timeout=30))
    await wait_for_deliveries(ground, consumer, 2)
    await ground.admin_js.delete_consumer(consumer.stream_name, consumer.name)
    batch = await fetching
    assert len(batch) == 2
    assert isinstance(batch.error, ConsumerDeletedError)
    given = iter(batch)
    assert [next(given).payload, next(given).payload] == [b"0", b"1"]
    with pytest.raises(ConsumerDeletedError, match="409 Consumer Deleted"):
        next(given)
    for call in (consumer.fetch, consumer.fetch_no_wait, consumer.next):
        begin = time.monotonic()
        with pytest.raises(NoConsumerResponseError, match="503"):
            await call(20)
        assert time.monotonic() - begin < 10.0


async def test_r27_each_call_has_its_own_timeout(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    for _ in range(3):
        begin = time.monotonic()
        assert await consumer.fetch(1, timeout=0.2) == []
        assert 0.15 < time.monotonic() - begin < 15.0  # not the 30 s of a fetch without an answer


async def test_a_closed_connection_is_reported(ground: Ground) -> None:
    consumer = await consumer_of(ground)
    fetching = asyncio.create_task(consumer.fetch(1))
    await wait_for_open_pulls(ground, consumer, 1)
    await ground.nc.close()
    with pytest.raises(ConnectionClosedError):
        await fetching
    with pytest.raises(ConnectionClosedError):
        await consumer.fetch(1)


async def test_a_pull_without_publish_permission_is_reported_at_once(front: FrontName) -> None:
    bob = {"user": "bob", "password": "b", "permissions": {"publish": {"deny": "$JS.API.CONSUMER.MSG.NEXT.>"}}}
    admin = {"user": "admin", "password": "rabbit"}
    config = {"authorization": {"users": [bob, admin]}}
    with NatsServer(config=config) as server:
        async with open_ground(
            front, PROFILES["private_inbox"], server, user="bob", password="b", inbox_prefix="_INBOX"
        ) as ground:
            consumer = await consumer_of(ground)
            with pytest.raises(PermissionsViolationError, match="NEXT"):
                await consumer.fetch(1, timeout=30)
