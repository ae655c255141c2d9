"""Ordered consumers leave nothing behind on the server, also where its answers are lost, and nag nobody about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from tests.api.consuming.support import Warnings, numbered, payloads, take
from tests.api.sieve import Sieve
from tests.connection.support import Proxy
from tests.fronts import FrontName, Ground, Profile, Recorder, connect, eventually, open_ground

from jetspark.aio.jetstream import ConsumeContext
from jetspark.aio.jetstream._drivers import ordered_pull
from jetspark.errors import PermissionsViolationError, RequestTimeoutError
from jetspark.events import ErrorOccurred
from jetspark.server import NatsServer


async def left(ground: Ground, stream: str, count: int) -> None:
    """Wait until the stream has so many consumers."""

    async def so_many() -> bool:
        return len(await ground.admin_js.consumer_names(stream).all()) == count

    await eventually(so_many, what=f"{count} consumers")


@asynccontextmanager
async def losing(ground: Ground, stream: str, told: Warnings, answer: bytes) -> AsyncIterator[ConsumeContext]:
    """An ordered consume that does not get the first answer of a kind."""
    lost = False

    def loses(_line: object, content: bytes) -> bool:
        nonlocal lost
        first = not lost and answer in content
        lost = lost or first
        return first

    async with Sieve(ground.server.port, loses) as proxy:
        connection = await connect(ground.front, proxy.url, **ground.profile.options)
        try:
            js = connection.jetstream(domain=ground.profile.domain)
            ordered = js.ordered_consumer(stream, inactive_threshold=timedelta(hours=1))
            async with ordered.consume(on_error=told.tell) as messages:
                yield messages
            await left(ground, stream, 0)
            assert proxy.lost == 1
        finally:
            await connection.close()


@pytest.mark.conformance("ORD-07")
@pytest.mark.parametrize("read", [False, True])
async def test_r14_a_consumer_whose_making_was_not_answered_is_deleted(
    ground: Ground, read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_pull, "CREATE_TIMEOUT", 1.0)
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *numbered(0, 3))
    told = Warnings()
    async with losing(ground, stream.name, told, b"consumer_create_response") as messages:
        await told.wait(RequestTimeoutError)
        if read:
            assert payloads(await take(messages, 3)) == numbered(0, 3)
            await left(ground, stream.name, 1)


async def test_r14_a_consumer_whose_making_is_not_answered_before_the_end_is_deleted(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_pull, "CREATE_TIMEOUT", 1.0)
    stream = await ground.stream()
    async with losing(ground, stream.name, Warnings(), b"consumer_create_response"):
        await left(ground, stream.name, 1)


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # it has users of its own
@pytest.mark.blocking
async def test_who_may_not_delete_consumers_is_told_so_once_for_each(front: FrontName, profile: Profile) -> None:
    bob = {
        "user": "bob",
        "password": "b",
        "permissions": {"publish": {"deny": "$JS.API.CONSUMER.DELETE.>"}},
    }
    admin = {"user": "admin", "password": "rabbit"}
    with NatsServer(config={"authorization": {"users": [bob, admin]}}) as server:
        private = Profile("private", options={"user": "bob", "password": "b"}, admin_options=admin)
        async with open_ground(front, private, server) as ground, Proxy(server.port) as proxy:
            stream = await ground.stream()
            recorder = Recorder()
            connection = await connect(
                front, proxy.url, user="bob", password="b", on_event=recorder, reconnect_wait=0.05
            )

            def refusals() -> int:
                told = [event.error for event in recorder.of(ErrorOccurred)]
                return sum(isinstance(error, PermissionsViolationError) for error in told)

            async with connection.jetstream().ordered_consumer(stream.name).consume() as messages:
                for number in range(5):
                    await ground.fill(f"{stream.name}.a", b"%d" % number)
                    assert payloads(await take(messages, 1)) == [b"%d" % number]
                    await connection.flush()
                    await eventually(lambda wanted=number: refusals() >= wanted)  # type: ignore[misc]
                    assert refusals() == number
                    proxy.cut()
            await connection.close()
