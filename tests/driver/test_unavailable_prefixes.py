"""A server is left for each API prefix that a program uses, and for acknowledgements that nobody confirms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.driver.frames import Pub
from tests.driver.jetstream import SILENCE, Answer, refusal
from tests.driver.server import Session
from tests.driver.unavailable import GOOD, UNAVAILABLE, Cluster, connect
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import DisconnectedError, Error, PublishTimeoutError, RequestTimeoutError
from jetspark.wire.events import ServerLeft


def _serve_domain(cluster: Cluster, answers: list[Answer]) -> None:
    """Let each server answer to the API of a domain, by what `answers` has for it now; `503` means nobody listens."""

    def serve(number: int) -> Callable[[Session, Pub], None]:
        def answer(session: Session, pub: Pub) -> None:
            if answers[number] == "503":
                session.deliver(pub.reply, status="503")
            elif answers[number] != SILENCE:
                session.deliver(pub.reply, json.dumps(answers[number]).encode())

        return answer

    for number, server in enumerate(cluster.servers):
        server.on("$JS.hub.API.>", serve(number))


@pytest.mark.parametrize("answer", [SILENCE, UNAVAILABLE, "503"])
@pytest.mark.parametrize("created_last", ["hub", None])
async def test_a_server_is_left_for_each_context_that_is_in_use(
    world: World, cluster: Cluster, clock: Clock, answer: Answer, created_last: str | None
) -> None:
    connection = await connect(world, cluster)
    answers: list[Answer] = [GOOD, GOOD]
    _serve_domain(cluster, answers)
    hub = connection.jetstream(domain="hub")
    local = connection.jetstream()
    if created_last is not None:
        hub = connection.jetstream(domain="hub")
    assert (await hub.account_info()).memory == (await local.account_info()).memory == 0
    answers[0] = answer
    while True:
        try:
            await hub.account_info(timeout=3)
        except Error:
            await asyncio.sleep(0.5)
        else:
            break
    assert clock.now < 15
    assert world.events.names == ["Connected", "ServerLeft", "Disconnected", "Reconnected"]


@pytest.mark.parametrize("answer", ["503", refusal(404, 10059, "stream not found")])
async def test_a_context_with_a_wrong_domain_is_no_reason_to_leave(
    world: World, cluster: Cluster, clock: Clock, answer: Answer
) -> None:
    connection = await connect(world, cluster)
    _serve_domain(cluster, [answer, answer])
    js, wrong = connection.jetstream(), connection.jetstream(domain="hub")
    await js.publish("orders.new")
    for _ in range(20):
        with pytest.raises(Error):
            await wrong.account_info()
        await clock.advance(1)
    assert world.events.names == ["Connected"]


async def test_contexts_of_single_calls_are_checked_like_one_that_stays(
    world: World, cluster: Cluster, clock: Clock
) -> None:
    connection = await connect(world, cluster)
    await connection.jetstream().publish("orders.new")
    cluster.cut(0, answer="503")
    while True:
        try:
            await connection.jetstream().publish("orders.new")
        except Error:
            await asyncio.sleep(0.5)
        else:
            break
    assert clock.now < 12
    assert len(world.events.of(ServerLeft)) == 1


async def test_many_prefixes_are_not_remembered(world: World, cluster: Cluster, clock: Clock) -> None:
    connection = await connect(world, cluster)
    for number in range(100):
        connection.jetstream(domain=f"d{number}")
    js = connection.jetstream()
    cluster.cut(0)
    asked: list[str] = []
    cluster.servers[0].on(">", lambda _, pub: asked.append(pub.subject))
    with pytest.raises(PublishTimeoutError):
        await js.publish("orders.new")
    await clock.advance(3)
    assert "$JS.API.INFO" in asked
    assert len({subject for subject in asked if subject.endswith(".API.INFO")}) <= 16


async def test_acknowledgements_that_nobody_confirms_alone_make_the_client_leave(
    world: World, cluster: Cluster, clock: Clock
) -> None:
    connection = await connect(world, cluster)
    for script in cluster.scripts:
        script.consumer()
    handle = await connection.jetstream().consumer("ORDERS", "worker")
    fetching = asyncio.create_task(handle.fetch(2))
    await clock.settle()
    cluster.scripts[0].consumers["worker"].pull.fill(2)
    messages = await fetching
    cluster.cut(0)
    cluster.servers[0].on("$JS.ACK.>", lambda *_: None)
    with pytest.raises(RequestTimeoutError):
        await messages[0].ack_sync()
    with suppress(DisconnectedError):
        await messages[1].ack_sync()
    await messages[1].ack_sync()
    assert clock.now < 12
    assert len(world.events.of(ServerLeft)) == 1
