"""Publishing to three servers while the leader of the stream changes and while a server dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from tests.api.clusters import replicated, step_down, stored_everywhere
from tests.api.publishing.support import until
from tests.fronts import PROFILES, FrontName, Ground, eventually, open_ground

from jetspark.aio.jetstream import AsyncPublishOptions, RetryPolicy
from jetspark.errors import DisconnectedError, DuplicateInProcessError, NoDirectGetError, PublishTimeoutError
from jetspark.jetstream import StoredMessage
from jetspark.server import NatsCluster

pytestmark = [pytest.mark.matrix, pytest.mark.slow]

MANY_RETRIES = AsyncPublishOptions(ack_timeout=3, stall_wait=10, retry=RetryPolicy(attempts=100, wait=0.05))


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster]:
    with NatsCluster() as cluster:
        yield cluster


async def _ids(ground: Ground, cluster: NatsCluster, name: str) -> list[str]:
    """Return the message ids in the stream, in order."""
    await stored_everywhere(ground, cluster, name)
    stream = await ground.admin_js.stream(name, timeout=20)
    found: list[StoredMessage] = []

    async def read() -> bool:
        with suppress(NoDirectGetError):  # a new leader answers direct gets a moment after its election
            found[:] = await stream.get_batch(timeout=20).all()
        return bool(found)

    await until(read, 30)
    return [message.headers["Nats-Msg-Id"] for message in found]


async def test_acknowledged_messages_are_stored_once_whatever_happens_to_leaders(
    cluster: NatsCluster, front: FrontName
) -> None:
    async with open_ground(front, PROFILES["default"], cluster[0]) as ground:
        name = await replicated(ground, cluster, allow_direct=True)
        js = ground.nc.jetstream(publishing=MANY_RETRIES)

        async def publish(ids: range | list[int]) -> list[int]:
            """Publish all messages, and return those that were not acknowledged."""
            futures = [(each, await js.publish_async(f"{name}.a", msg_id=str(each))) for each in ids]
            await js.publish_async_completed(30)
            return [each for each, future in futures if future.exception() is not None]

        publishing = asyncio.ensure_future(publish(range(3000)))
        for _ in range(2):
            await step_down(ground, name)
            await asyncio.to_thread(cluster.wait_stream_leader, name)
        left = await publishing
        while left:  # messages with an unknown result are published again with their ids
            left = await publish(left)
        stored = await _ids(ground, cluster, name)
        assert len(stored) == 3000
        assert {int(each) for each in stored} == set(range(3000))


async def test_publishing_continues_on_another_server_when_one_dies(cluster: NatsCluster, front: FrontName) -> None:
    async with open_ground(
        front, PROFILES["default"], cluster[0], servers=tuple(cluster.urls), reconnect_wait=0.05
    ) as ground:
        name = await replicated(ground, cluster, allow_direct=True)
        js = ground.nc.jetstream(publishing=replace(MANY_RETRIES, ack_timeout=30))
        mine = ground.nc.server_info.server_name
        futures = [await js.publish_async(f"{name}.a", msg_id=str(number)) for number in range(500)]
        await asyncio.to_thread(cluster.get_node(mine).kill)
        await js.publish_async_completed(30)
        failed = [number for number, future in enumerate(futures) if future.exception() is not None]
        assert all(isinstance(futures[number].exception(), DisconnectedError) for number in failed)
        await eventually(lambda: ground.nc.connected and ground.admin.connected)

        async def published(number: int) -> bool:
            """Return whether the message is acknowledged; not if it is being stored or if the leader has changed."""
            with suppress(DuplicateInProcessError, PublishTimeoutError):
                ack = await js.publish(f"{name}.a", msg_id=str(number), retry_attempts=100, timeout=10)
                return ack.stream == name
            return False

        for number in failed:
            await until(partial(published, number), 60)
        stored = await _ids(ground, cluster, name)
        assert sorted(stored, key=int) == [str(number) for number in range(500)]
        await asyncio.to_thread(cluster.get_node(mine).restart)
        await asyncio.to_thread(cluster.wait_ready)
