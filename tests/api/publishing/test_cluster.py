"""Publishing to three servers, while the stream's leader changes and while a server dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fronts import PROFILES, FrontName, Ground, eventually, open_ground

from jetspark.aio.jetstream import PublishSettings, RetryPlan
from jetspark.errors import DisconnectedError
from jetspark.jetstream.api import StreamLeaderStepdownRequest
from jetspark.server import NatsCluster

pytestmark = pytest.mark.slow

PATIENT = PublishSettings(ack_timeout=3, stall_wait=10, retry=RetryPlan(attempts=100, wait=0.05))


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster]:
    with NatsCluster() as cluster:
        yield cluster


async def _replicated(ground: Ground, cluster: NatsCluster, **fields: Any) -> str:
    name = ground.name("R")
    await ground.admin_js.create_stream(name=name, subjects=[f"{name}.>"], num_replicas=3, **fields)
    await asyncio.to_thread(cluster.wait_stream_leader, name)
    return name


async def _ids(ground: Ground, cluster: NatsCluster, name: str) -> list[str]:
    """The message ids that the stream holds, in order."""
    await asyncio.to_thread(cluster.wait_stream_leader, name)
    stream = await ground.admin_js.stream(name, timeout=20)
    found = [message async for message in stream.get_batch(timeout=20)]
    return [message.headers["Nats-Msg-Id"] for message in found]


async def test_what_is_acknowledged_is_stored_once_whatever_the_leaders_do(
    cluster: NatsCluster, front: FrontName
) -> None:
    async with open_ground(front, PROFILES["default"], cluster[0]) as ground:
        name = await _replicated(ground, cluster, allow_direct=True)
        js = ground.nc.jetstream(publishing=PATIENT)

        async def publish(ids: range | list[int]) -> list[int]:
            """Publish them all, and return those that were not acknowledged."""
            futures = [(each, await js.publish_async(f"{name}.a", msg_id=str(each))) for each in ids]
            await js.publish_async_completed(30)
            return [each for each, future in futures if future.exception() is not None]

        publishing = asyncio.ensure_future(publish(range(3000)))
        for _ in range(2):
            await ground.admin_js.request(StreamLeaderStepdownRequest(name), timeout=10)
            await asyncio.to_thread(cluster.wait_stream_leader, name)
        left = await publishing
        while left:  # those of which nothing is known are published again, with their ids
            left = await publish(left)
        stored = await _ids(ground, cluster, name)
        assert len(stored) == 3000
        assert {int(each) for each in stored} == set(range(3000))


async def test_publishing_goes_on_with_another_server_when_one_dies(cluster: NatsCluster, front: FrontName) -> None:
    async with open_ground(
        front, PROFILES["default"], cluster[0], servers=tuple(cluster.urls), reconnect_wait=0.05
    ) as ground:
        name = await _replicated(ground, cluster, allow_direct=True)
        js = ground.nc.jetstream(publishing=PATIENT)
        mine = ground.nc.server_info.server_name
        futures = [await js.publish_async(f"{name}.a", msg_id=str(number)) for number in range(500)]
        await asyncio.to_thread(cluster.node_named(mine).kill)
        await js.publish_async_completed(30)
        failed = [number for number, future in enumerate(futures) if future.exception() is not None]
        assert all(isinstance(futures[number].exception(), DisconnectedError) for number in failed)
        await eventually(lambda: ground.nc.connected and ground.admin.connected)
        for number in failed:
            assert (await js.publish(f"{name}.a", msg_id=str(number), retry_attempts=100, timeout=20)).stream == name
        stored = await _ids(ground, cluster, name)
        assert sorted(stored, key=int) == [str(number) for number in range(500)]
        await asyncio.to_thread(cluster.node_named(mine).restart)
        await asyncio.to_thread(cluster.wait_ready)
