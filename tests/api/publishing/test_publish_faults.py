"""Publishes in flight when the server stops, dies or is away (PUB-11, PUB-13), and cancelled publishes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.api.publishing.support import requests_in_flight, until
from tests.connection.test_cancellation import CancelledAt
from tests.fronts import FrontName, Ground, Profile, eventually, open_ground

from jetspark.aio.jetstream import AsyncPublishOptions
from jetspark.errors import (
    ConnectionClosedError,
    DisconnectedError,
    Error,
    OutboundBufferLimitError,
    PublishTimeoutError,
    TooManyStalledError,
)
from jetspark.jetstream import StorageType
from jetspark.server import NatsServer

ONE_PROFILE = pytest.mark.parametrize("profile", ["default"], indirect=True)
AIO_ONLY = pytest.mark.parametrize("front", ["aio"], indirect=True)


@pytest.fixture
def own_server(profile: Profile) -> Iterator[NatsServer]:
    """A server that the test can stop."""
    with NatsServer(config=profile.config) as server:
        yield server
        if server.running:
            server.resume()


@pytest.fixture
async def ground(front: FrontName, profile: Profile, own_server: NatsServer, no_leaks: None) -> AsyncIterator[Ground]:
    async with open_ground(front, profile, own_server, reconnect_wait=0.02) as ground:
        yield ground


def _context(ground: Ground, **settings: Any) -> Any:
    return ground.nc.jetstream(domain=ground.profile.domain, publishing=AsyncPublishOptions(**settings))


async def _stored(ground: Ground, name: str) -> int:
    """Return how many messages the stream has ever stored, after every sent message has arrived."""
    await eventually(lambda: ground.nc.connected and ground.admin.connected)
    await ground.js.publish(f"{name}.end")
    return (await (await ground.js.stream(name)).info()).state.last_sequence - 1


@pytest.mark.conformance("PUB-11")
async def test_a_stopped_server_stalls_a_full_window(ground: Ground) -> None:
    js = _context(ground, max_pending=10, ack_timeout=20)
    stream = await ground.stream()
    await js.publish_async(f"{stream.name}.a")
    await js.publish_async_completed(20)
    ground.server.pause()
    futures = [await js.publish_async(f"{stream.name}.a") for _ in range(10)]
    loop = asyncio.get_running_loop()
    begin = loop.time()
    with pytest.raises(TooManyStalledError):
        await js.publish_async(f"{stream.name}.a")
    assert 0.2 <= loop.time() - begin < 10
    assert js.publish_async_pending == 10
    ground.server.resume()
    await js.publish_async_completed(20)
    assert [future.result().sequence for future in futures] == list(range(2, 12))


@pytest.mark.conformance("PUB-13")
@pytest.mark.blocking
async def test_publishes_in_flight_fail_when_the_session_is_lost(ground: Ground) -> None:
    failed: list[Error | None] = []
    js = _context(ground, on_error=lambda future: failed.append(future.exception()))
    stream = await ground.stream()
    await js.publish_async(f"{stream.name}.a")
    await js.publish_async_completed(20)
    ground.server.pause()
    futures = [await js.publish_async(f"{stream.name}.a", b"%d" % number) for number in range(100)]
    completed = asyncio.ensure_future(js.publish_async_completed(20))
    await asyncio.sleep(0)
    assert not completed.done()
    ground.server.kill()
    await completed
    assert js.publish_async_pending == 0
    assert {type(future.exception()) for future in futures} == {DisconnectedError}
    with pytest.raises(DisconnectedError) as caught:
        await futures[0]
    assert isinstance(caught.value, ConnectionError)
    await eventually(lambda: len(failed) == 100, what="100 calls of the handler")
    assert {type(error) for error in failed} == {DisconnectedError}
    assert js.publish_async_stats.failed == 100


@pytest.mark.conformance("PUB-13")
async def test_publishing_continues_in_the_next_session(ground: Ground) -> None:
    stream = await ground.stream(storage=StorageType.FILE)
    await (await ground.js.publish_async(f"{stream.name}.a"))
    ground.server.kill()
    await eventually(lambda: not ground.nc.connected)
    waiting = await ground.js.publish_async(f"{stream.name}.a", b"from the buffer")
    ground.server.restart()
    assert (await waiting).sequence == 2
    assert (await (await ground.js.publish_async(f"{stream.name}.a"))).sequence == 3


async def test_an_expired_publish_is_not_sent(ground: Ground) -> None:
    js = _context(ground, ack_timeout=0.1)
    stream = await ground.stream(storage=StorageType.FILE)
    await ground.js.publish(f"{stream.name}.a", b"first")
    ground.server.kill()
    await eventually(lambda: not ground.nc.connected)
    late = [await js.publish_async(f"{stream.name}.a", b"late", msg_id="m") for _ in range(3)]
    with pytest.raises(PublishTimeoutError):
        await ground.js.publish(f"{stream.name}.a", b"late", timeout=0.1)
    for future in late:
        with pytest.raises(PublishTimeoutError):
            await future
    ground.server.restart()
    assert await _stored(ground, stream.name) == 1


@AIO_ONLY
@ONE_PROFILE
async def test_publishes_that_expire_while_the_loop_is_busy_are_not_sent(ground: Ground) -> None:
    js = _context(ground, ack_timeout=0.05)
    stream = await ground.stream()
    await ground.js.publish(f"{stream.name}.a")
    late = await js.publish_async(f"{stream.name}.a")
    time.sleep(0.1)  # noqa: ASYNC251 (the loop is blocked on purpose)
    with pytest.raises(PublishTimeoutError):
        await late
    assert await _stored(ground, stream.name) == 1


async def test_publishes_queued_when_the_session_is_lost_are_not_sent_in_the_next(ground: Ground) -> None:
    js = _context(ground)
    stream = await ground.stream(storage=StorageType.FILE)
    await js.publish_async(f"{stream.name}.a")
    await js.publish_async_completed(20)
    ground.server.pause()
    # More than the sockets take, so that the small messages are still here when the server dies.
    payload = b"x" * (512 << 10)
    futures: list[Any] = []

    async def publish_all() -> None:
        while True:
            futures.append(await js.publish_async(f"{stream.name}.a", payload))

    async def queued() -> bool:
        if not ground.nc.buffered:
            with suppress(TimeoutError):  # the blocking front waits with the small one too
                futures.append(await asyncio.wait_for(js.publish_async(f"{stream.name}.a", b"small"), 0.1))
        await asyncio.sleep(0.02)  # meanwhile the connection sends as much as it can
        return ground.nc.buffered > 0

    publisher = asyncio.ensure_future(publish_all())
    await until(queued)
    publisher.cancel()
    await asyncio.wait([publisher])
    ground.server.kill()
    await eventually(lambda: all(future.done() for future in futures))
    assert {type(future.exception()) for future in futures} == {DisconnectedError}
    ground.server.restart()
    assert await _stored(ground, stream.name) == 1


async def test_the_buffer_without_a_session_is_limited(ground: Ground) -> None:
    nc = await ground.connect(reconnect_buffer_size=10_000)
    js = nc.jetstream(domain=ground.profile.domain)
    stream = await ground.stream()
    ground.server.kill()
    await eventually(lambda: not nc.connected)
    futures = [await js.publish_async(f"{stream.name}.a", b"x" * 1000) for _ in range(9)]
    with pytest.raises(OutboundBufferLimitError):
        await js.publish_async(f"{stream.name}.a", b"x" * 1000)
    assert js.publish_async_pending == len(futures) == 9
    await nc.close()
    for future in futures:
        with pytest.raises(ConnectionClosedError):
            await future
    ground.server.restart()
    await eventually(lambda: ground.nc.connected and ground.admin.connected)


async def test_a_publish_that_waits_for_its_answer_fails_with_the_session(ground: Ground) -> None:
    stream = await ground.stream()
    ground.server.pause()
    published = asyncio.ensure_future(ground.js.publish(f"{stream.name}.a"))
    await eventually(lambda: requests_in_flight(ground.nc) == 1)
    ground.server.kill()
    with pytest.raises(DisconnectedError):
        await published


@AIO_ONLY
@ONE_PROFILE
async def test_a_cancelled_publish_is_not_sent(ground: Ground) -> None:
    stream = await ground.stream(storage=StorageType.FILE)
    ground.server.kill()
    await eventually(lambda: not ground.nc.connected)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ground.js.publish(f"{stream.name}.a", b"cancelled"), 0.05)
    ground.server.restart()
    assert await _stored(ground, stream.name) == 0


@AIO_ONLY
@ONE_PROFILE
@pytest.mark.parametrize("operation", ["publish", "publish_async", "full window", "completed", "no stream", "batch"])
async def test_a_publish_that_is_cancelled_at_any_await_loses_nothing_else(ground: Ground, operation: str) -> None:
    stream = await ground.stream(allow_atomic=True)
    js = _context(ground, max_pending=2, stall_wait=10)
    subject = f"{stream.name}.a"
    steps = 0
    while True:
        cancelled = CancelledAt(_operation(js, ground, subject, operation), steps)

        async def run(cancelled: CancelledAt = cancelled) -> object:
            return await cancelled

        task = asyncio.create_task(run())
        await asyncio.wait([task], timeout=20)
        assert task.done()
        assert task.cancelled() == cancelled.reached
        before = (await stream.info()).state.last_sequence
        assert (await js.publish(subject)).sequence > before
        assert (await (await js.publish_async(subject))).sequence > before + 1
        assert js.publish_async_pending == 0
        if not cancelled.reached:
            break
        steps += 1
    assert steps > 0


async def _operation(js: Any, ground: Ground, subject: str, operation: str) -> None:
    if operation == "publish":
        await js.publish(subject)
    elif operation == "no stream":
        with pytest.raises(Error):
            await js.publish(ground.name("nobody"), retry_wait=0.001)
    elif operation == "batch":
        async with js.atomic_batch() as batch:
            await batch.add(subject)
            await batch.add(subject, confirm=True)
    else:
        count = {"publish_async": 1, "full window": 4, "completed": 1}[operation]
        futures = [await js.publish_async(subject) for _ in range(count)]
        if operation == "completed":
            await js.publish_async_completed(20)
        else:
            await futures[-1]
            await js.publish_async_completed(20)
