"""Accounts with very many streams and consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.fronts import PROFILES, FrontName, Ground, open_ground

from jetspark.jetstream.api import StreamCreateRequest
from jetspark.jetstream.config import StorageType, StreamConfig
from jetspark.server import NatsServer

STREAMS = 5000


@pytest.fixture(scope="module")
def many_streams() -> Iterator[NatsServer]:
    with NatsServer() as server:

        async def make() -> None:
            async with open_ground("aio", PROFILES["default"], server) as ground:
                for first in range(0, STREAMS, 250):
                    await asyncio.gather(*(_create(ground, number) for number in range(first, first + 250)))

        asyncio.run(make())
        yield server


async def _create(ground: Ground, number: int) -> None:
    config = StreamConfig(name=f"MANY-{number}", subjects=[f"many.{number}"], storage=StorageType.MEMORY)
    await ground.admin_js.request(StreamCreateRequest(config), timeout=60)


@pytest.mark.slow
@pytest.mark.conformance("MGT-06")
@pytest.mark.blocking
@pytest.mark.matrix
async def test_five_thousand_streams_are_listed_by_one_call(many_streams: NatsServer, front: FrontName) -> None:
    async with open_ground(front, PROFILES["default"], many_streams) as ground:
        wanted = {f"MANY-{number}" for number in range(STREAMS)}
        names = await ground.js.stream_names().all()
        assert len(names) == STREAMS
        assert set(names) == wanted
        infos = [info async for info in ground.js.streams()]
        assert len(infos) == STREAMS
        assert {info.config.name for info in infos} == wanted
        assert await ground.js.stream_names("many.77").all() == ["MANY-77"]
        assert (await ground.js.account_info()).streams == STREAMS


@pytest.mark.conformance("MGT-06")
@pytest.mark.parametrize("profile", ["default"], indirect=True)
async def test_more_consumers_than_fit_a_page_are_listed(ground: Ground) -> None:
    stream = await ground.stream()
    wanted = {f"C{number}" for number in range(300)}
    creations = (ground.admin_js.create_consumer(stream.name, durable_name=name, mem_storage=True) for name in wanted)
    await asyncio.gather(*creations)
    assert set(await stream.consumer_names().all()) == wanted
    assert {info.name for info in await stream.consumers().all()} == wanted
