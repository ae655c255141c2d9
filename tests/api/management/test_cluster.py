"""Tests with three servers: elections, a lost quorum, and reads that continue."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator

import pytest
from tests.api.clusters import replicated, step_down, stored_everywhere
from tests.fronts import PROFILES, FrontName, open_ground

from jetspark.errors import JetStreamUnavailableError, RequestTimeoutError
from jetspark.server import NatsCluster

pytestmark = [pytest.mark.matrix, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster]:
    with NatsCluster() as cluster:
        yield cluster


@pytest.mark.conformance("MGT-03", "MGT-05", "MGT-06")
@pytest.mark.blocking
async def test_streams_are_managed_on_three_servers(cluster: NatsCluster, front: FrontName) -> None:
    async with open_ground(front, PROFILES["default"], cluster[0]) as ground:
        name = await replicated(ground, cluster)
        stream = await ground.js.stream(name)
        info = await stream.info()
        assert info.cluster is not None
        assert len(info.cluster.replicas or []) == 2
        made = await stream.create_consumer(durable_name="C")  # so the server that lists the streams knows it too
        assert (await made.info()).cluster is not None
        listing = ground.js.streams()
        assert name in {info.config.name for info in await listing.all()}
        assert (listing.missing, listing.offline) == ([], {})
        assert [each.name for each in await stream.consumers().all()] == ["C"]


async def test_requests_are_answered_while_leaders_change(cluster: NatsCluster, front: FrontName) -> None:
    async with open_ground(front, PROFILES["default"], cluster[0]) as ground:
        name = await replicated(ground, cluster)
        stream = await ground.js.stream(name)
        await ground.admin_js.publish(f"{name}.a", b"1")
        await stored_everywhere(ground, cluster, name)
        for _ in range(2):
            await step_down(ground, name)
            info, message = await asyncio.gather(stream.info(timeout=30), stream.get_msg(1, timeout=30))
            assert info.state.messages == 1
            assert message.payload == b"1"
            await asyncio.to_thread(cluster.wait_stream_leader, name)


@pytest.mark.conformance("DIR-05", "DIR-09")
@pytest.mark.blocking
async def test_a_direct_read_continues_on_another_server(cluster: NatsCluster, front: FrontName) -> None:
    async with open_ground(front, PROFILES["default"], cluster[0], servers=tuple(cluster.urls)) as ground:
        name = await replicated(ground, cluster, allow_direct=True)
        await ground.admin_js.publish(f"{name}.0", b"0")  # the servers now know the subject of the stream
        for number in range(1, 3000):
            await ground.admin.publish(f"{name}.{number % 500}", b"%d" % number)
        await ground.admin_js.publish(f"{name}.last", b"last", timeout=30)
        await stored_everywhere(ground, cluster, name)
        stream = await ground.js.stream(name)
        found = []
        async for message in stream.get_batch(timeout=20):
            found.append(message.sequence)
            if len(found) == 500:
                address = ground.nc.address
                assert address is not None
                node = next(each for each in cluster if each.port == address.port)
                await asyncio.to_thread(node.restart)
        assert found == list(range(1, 3002))
        assert len(await stream.get_last_msgs_for(batch=100, timeout=20).all()) == 501
        await asyncio.to_thread(cluster.wait_ready)


@pytest.mark.conformance("MGT-02")
async def test_without_a_quorum_calls_end_by_error_or_timeout(front: FrontName) -> None:
    with NatsCluster() as cluster:
        async with asyncio.timeout(30):
            while (leader := await asyncio.to_thread(cluster.meta_leader)) is None:  # noqa: ASYNC110 - a server was too busy
                await asyncio.sleep(0.02)
        survivor = next(node for node in cluster if node is not leader)
        async with open_ground(front, PROFILES["default"], survivor) as ground:
            await ground.js.account_info()
            for node in cluster:
                if node is not survivor:
                    await asyncio.to_thread(node.kill)
            calls: list[Coroutine[object, object, object]] = [
                ground.js.create_stream(name="S", num_replicas=3, timeout=0.5),
                ground.js.account_info(timeout=0.5),
                ground.js.stream("S", timeout=0.5),
            ]
            for call in calls:
                with pytest.raises((JetStreamUnavailableError, RequestTimeoutError)) as caught:
                    await call
                if isinstance(caught.value, JetStreamUnavailableError):
                    assert caught.value.err_code == 10008
