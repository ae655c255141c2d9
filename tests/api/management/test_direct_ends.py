"""Reads by direct get that are abandoned, cut off or forbidden."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.management.streams import direct_stream
from tests.fronts import PROFILES, FrontName, Ground, eventually, open_ground

from jetspark.aio.jetstream import Stream
from jetspark.errors import ConnectionClosedError, PermissionsViolationError
from jetspark.jetstream.direct_get import DirectGetRequest
from jetspark.server import NatsServer

_ONE_SERVER = pytest.mark.parametrize("profile", ["default"], indirect=True)


@pytest.mark.parametrize("front", ["aio"], indirect=True)
async def test_an_abandoned_read_leaves_no_subscription(ground: Ground) -> None:
    stream = await direct_stream(ground, 30)
    live = len(ground.nc._core.client.subscriptions)
    async for _ in stream.get_batch():
        break
    await eventually(lambda: len(ground.nc._core.client.subscriptions) == live)
    await ground.spy("SILENT.>")
    waiting = asyncio.create_task(_handle(ground, "SILENT", stream).get_batch().all())
    await eventually(lambda: len(ground.nc._core.client.subscriptions) == live + 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(ground.nc._core.client.subscriptions) == live


async def test_a_read_continues_after_a_restart_of_the_server(front: FrontName) -> None:
    with NatsServer() as server:
        async with open_ground(front, PROFILES["default"], server) as ground:
            stream = await direct_stream(ground, 3000, name="KEPT", storage="file")
            found: list[int] = []
            async for message in stream.get_batch(timeout=60):
                found.append(message.sequence)
                if len(found) == 500:
                    await asyncio.to_thread(server.restart)
            assert found == list(range(1, 3001))


@_ONE_SERVER
async def test_a_read_ends_with_its_connection(ground: Ground) -> None:
    stream = await direct_stream(ground, 3)
    spy = await ground.spy("SILENT.>")
    other = await ground.connect()
    silent = other.jetstream(prefix="SILENT", timeout=30)
    reads = [
        asyncio.create_task(silent.direct_get(DirectGetRequest(stream.name, sequence=1))),
        asyncio.create_task(silent.stream(stream.name)),
    ]
    await spy.wait(2)
    await other.close()
    for read in reads:
        with pytest.raises(ConnectionClosedError):
            await read
    with pytest.raises(ConnectionClosedError):
        await silent.stream(stream.name)


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@_ONE_SERVER
async def test_a_running_batch_ends_with_its_connection(ground: Ground) -> None:
    stream = await direct_stream(ground, 3)
    spy = await ground.spy("SILENT.>")
    reading = asyncio.create_task(_handle(ground, "SILENT", stream).get_batch().all())
    await spy.wait(1)
    await ground.nc.close()
    with pytest.raises(ConnectionClosedError):
        await reading


@pytest.mark.blocking
async def test_a_user_without_read_permission_gets_the_error_at_once(front: FrontName) -> None:
    alice = {"user": "alice", "password": "wonder", "permissions": {"publish": "$JS.API.STREAM.INFO.>"}}
    bob = {"user": "bob", "password": "tired", "permissions": {"publish": ">", "subscribe": "_ELSEWHERE.>"}}
    admin = {"user": "admin", "password": "rabbit"}
    with NatsServer(config={"authorization": {"users": [alice, bob, admin]}}) as server:
        options = {"user": "alice", "password": "wonder"}
        async with open_ground(front, PROFILES["default"], server, admin_options=admin, **options) as ground:
            await ground.admin_js.create_stream(name="S", subjects=["s"], allow_direct=True)
            stream = await ground.js.stream("S")
            for call in (stream.get_msg(1), stream.get_batch(timeout=30).all(), stream.purge(timeout=30)):
                with pytest.raises(PermissionsViolationError, match="Publish"):
                    await call
            other = await ground.connect(user="bob", password="tired")
            deaf = other.jetstream(timeout=30)
            for request in (deaf.account_info(), deaf.direct_get(DirectGetRequest("S", sequence=1))):
                with pytest.raises(PermissionsViolationError, match="Subscription"):
                    await request


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@_ONE_SERVER
async def test_a_read_with_a_forbidden_inbox_fails_at_once(ground: Ground) -> None:
    bob = {"user": "bob", "password": "tired", "permissions": {"publish": ">", "subscribe": "_ELSEWHERE.>"}}
    with NatsServer(config={"authorization": {"users": [bob]}}) as server:
        options = {"user": "bob", "password": "tired"}
        stream = await direct_stream(ground, 1)
        async with open_ground(ground.front, PROFILES["default"], server, admin_options=options, **options) as deaf:
            with pytest.raises(PermissionsViolationError, match="Subscription"):
                await _handle(deaf, "$JS.API", stream).get_batch(timeout=30).all()


def _handle(ground: Ground, prefix: str, stream: Stream) -> Stream:
    """Return a handle of the stream on another API, on asyncio."""
    return Stream(ground.nc.jetstream(prefix=prefix)._core, stream.cached_info)
