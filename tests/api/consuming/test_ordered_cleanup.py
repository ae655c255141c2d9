"""Ordered consumers leave no consumer on the server, even if answers are lost, and report each problem once."""

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
from jetspark.aio.jetstream._drivers import ordered
from jetspark.errors import PermissionsViolationError, RequestTimeoutError
from jetspark.events import ErrorOccurred
from jetspark.server import NatsServer


async def wait_for_consumers(ground: Ground, stream: str, count: int) -> None:
    """Wait until the stream has `count` consumers."""

    async def so_many() -> bool:
        return len(await ground.admin_js.consumer_names(stream).all()) == count

    await eventually(so_many, what=f"{count} consumers")


@asynccontextmanager
async def consume_without_answer(
    ground: Ground, stream: str, reported: Warnings, answer: bytes
) -> AsyncIterator[ConsumeContext]:
    """Start an ordered consume that does not get the first answer to a kind of request."""
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
            async with ordered.consume(on_error=reported.add) as messages:
                yield messages
            await wait_for_consumers(ground, stream, 0)
            assert proxy.lost == 1
        finally:
            await connection.close()


@pytest.mark.conformance("ORD-07")
@pytest.mark.parametrize("read", [False, True])
async def test_r14_a_consumer_whose_creation_was_not_answered_is_deleted(
    ground: Ground, read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered, "CREATE_TIMEOUT", 0.5)
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *numbered(0, 3))
    reported = Warnings()
    async with consume_without_answer(ground, stream.name, reported, b"consumer_create_response") as messages:
        await reported.wait(RequestTimeoutError)
        if read:
            assert payloads(await take(messages, 3)) == numbered(0, 3)
            await wait_for_consumers(ground, stream.name, 1)


async def test_r14_a_consumer_whose_creation_is_not_answered_before_the_end_is_deleted(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered, "CREATE_TIMEOUT", 0.5)
    stream = await ground.stream()
    async with consume_without_answer(ground, stream.name, Warnings(), b"consumer_create_response"):
        await wait_for_consumers(ground, stream.name, 1)


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # this server has its own users
@pytest.mark.blocking
async def test_a_forbidden_deletion_is_reported_once_for_each_consumer(front: FrontName, profile: Profile) -> None:
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
                reported = [event.error for event in recorder.of(ErrorOccurred)]
                return sum(isinstance(error, PermissionsViolationError) for error in reported)

            async with connection.jetstream().ordered_consumer(stream.name).consume() as messages:
                for number in range(5):
                    await ground.fill(f"{stream.name}.a", b"%d" % number)
                    assert payloads(await take(messages, 1)) == [b"%d" % number]
                    await connection.flush()
                    await eventually(lambda wanted=number: refusals() >= wanted)  # type: ignore[misc]
                    assert refusals() == number
                    proxy.cut()
            await connection.close()
