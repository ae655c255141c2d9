"""Requests of a connection: answers, timeouts, and inboxes."""

from __future__ import annotations

import asyncio

import pytest
from tests.driver.frames import Pub, Sub
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    NoRespondersError,
    PermissionsViolationError,
    RequestTimeoutError,
)


async def test_a_request_is_answered(world: World, server: MemoryServer) -> None:
    connection = await world.connect()
    server.respond("ask", b"answer")
    assert (await connection.request("ask", b"?")).payload == b"answer"
    assert (await connection.request("ask", own_inbox=True)).payload == b"answer"


@pytest.mark.parametrize("own_inbox", [False, True])
async def test_a_request_without_responders_fails_at_once(world: World, clock: Clock, own_inbox: bool) -> None:
    connection = await world.connect()
    with pytest.raises(NoRespondersError, match="nobody listens on 'nowhere'"):
        await connection.request("nowhere", own_inbox=own_inbox)
    assert clock.now == 0.0


@pytest.mark.parametrize("own_inbox", [False, True])
@pytest.mark.parametrize("seconds", [0.5, 30.0])
async def test_a_request_times_out(
    world: World, server: MemoryServer, clock: Clock, own_inbox: bool, seconds: float
) -> None:
    connection = await world.connect()
    server.on("silent", lambda session, pub: None)
    with pytest.raises(RequestTimeoutError, match=f"within {seconds:g} s"):
        await connection.request("silent", timeout=seconds, own_inbox=own_inbox)
    assert clock.now == seconds


async def test_a_late_reply_is_dropped(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    asked: list[Pub] = []
    server.on("slow", lambda session, pub: asked.append(pub))
    with pytest.raises(RequestTimeoutError):
        await connection.request("slow", timeout=1)
    second = asyncio.create_task(connection.request("slow", timeout=10))
    await clock.settle()
    server.session.deliver(asked[0].reply, b"first")
    await clock.settle()
    assert not second.done()
    server.session.deliver(asked[1].reply, b"second")
    assert (await second).payload == b"second"


async def test_the_own_inbox_of_a_request_ends_with_it(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.on("silent", lambda session, pub: None)
    with pytest.raises(RequestTimeoutError):
        await connection.request("silent", timeout=1, own_inbox=True)
    await clock.settle()
    assert server.session.subjects == []


async def test_requests_share_one_subscription(world: World, server: MemoryServer) -> None:
    connection = await world.connect()
    server.respond("ask")
    await asyncio.gather(*(connection.request("ask") for _ in range(20)))
    assert len(server.session.of(Sub)) == 1


@pytest.mark.conformance("REC-09")
async def test_a_forbidden_publish_fails_the_request(world: World, server: MemoryServer, clock: Clock) -> None:
    connection = await world.connect()
    server.on("secret", lambda session, pub: session.error('Permissions Violation for Publish to "secret"'))
    with pytest.raises(PermissionsViolationError, match="grant the user"):
        await connection.request("secret", timeout=60)
    assert clock.now == 0.0
    await connection.flush()


async def test_a_request_fails_at_once_when_its_inbox_is_forbidden(
    world: World, server: MemoryServer, clock: Clock
) -> None:
    connection = await world.connect()
    server.on("service", lambda session, pub: None)
    asking = [asyncio.create_task(connection.request("service", timeout=60)) for _ in range(2)]
    await clock.settle()
    [inbox] = server.session.subjects
    server.session.error(f'Permissions Violation for Subscription to "{inbox}"')
    for each in asking:
        with pytest.raises(PermissionsViolationError):
            await each
    assert clock.now == 0.0
