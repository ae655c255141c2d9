"""A cluster of three: discovered servers and a rolling restart, on both fronts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from tests.connection.support import Front, Recorder, eventually

from jetspark.errors import DisconnectedError, NoRespondersError, RequestTimeoutError
from jetspark.server import NatsCluster
from jetspark.wire.events import Reconnected, ServersDiscovered

pytestmark = pytest.mark.matrix


@pytest.fixture(scope="module")
def cluster() -> Iterator[NatsCluster]:
    with NatsCluster(jetstream=False) as cluster:
        yield cluster


async def test_servers_of_the_cluster_are_discovered(front: Front, cluster: NatsCluster) -> None:
    recorder = Recorder()
    connection = await front.connect(cluster[0].url, on_event=recorder)
    event = await recorder.wait(ServersDiscovered)
    ports = {node.port for node in cluster}
    assert {address.port for address in connection.servers} == ports
    assert {address.port for address in event.addresses} == ports - {cluster[0].port}
    assert recorder.names == ["Connected", "ServersDiscovered"]


async def test_discovery_can_be_disabled(front: Front, cluster: NatsCluster) -> None:
    connection = await front.connect(cluster[0].url, discover_servers=False)
    assert len(connection.servers) == 1


@pytest.mark.slow
async def test_a_rolling_restart_loses_no_request_and_no_connection(front: Front, cluster: NatsCluster) -> None:
    recorder, served = Recorder(), []
    client = await front.connect(cluster[0].url, on_event=recorder, reconnect_wait=0.02)
    server = await front.connect(cluster[1].url, on_event=recorder, reconnect_wait=0.02)

    def serve(payload: bytes) -> bytes:
        served.append(int(payload))
        return payload

    await front.answer(server, "count", serve)
    answered: list[int] = []
    restarting = True

    async def ask() -> None:
        number = 0
        while restarting:
            with contextlib.suppress(DisconnectedError, NoRespondersError, RequestTimeoutError):
                answer = await client.request("count", b"%d" % number, timeout=0.5)
                assert int(answer.payload) == number
                answered.append(number)
                number += 1

    asking = asyncio.create_task(ask())
    for node in cluster:
        await asyncio.to_thread(node.restart)
        await asyncio.to_thread(cluster.wait_ready, 20)
        enough = len(answered) + 10
        await eventually(lambda: len(answered) > enough)  # noqa: B023 - it is done before `enough` changes
    restarting = False
    await asyncio.wait_for(asking, 10)
    assert answered == list(range(len(answered)))
    assert set(answered) <= set(served)
    await recorder.wait(Reconnected, 2)
    assert not client.closed
    assert not server.closed
