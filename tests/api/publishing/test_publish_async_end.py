"""Publishes in flight when the connection, its permissions or the context end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import pytest
from tests.api.publishing.support import ack_of, async_context, subscriptions_of, until
from tests.fronts import Ground

from jetspark.errors import (
    ConnectionClosedError,
    DrainTimeoutError,
    PermissionsViolationError,
)

ONE_PROFILE = pytest.mark.parametrize("profile", ["default"], indirect=True)


@pytest.mark.blocking
async def test_close_fails_publishes_in_flight(ground: Ground) -> None:
    nc = await ground.connect()
    js = nc.jetstream(domain=ground.profile.domain)
    stream = await ground.stream(no_ack=True)
    futures = [await js.publish_async(f"{stream.name}.a") for _ in range(5)]
    waiting = [asyncio.ensure_future(ack_of(future)) for future in futures]
    await nc.close()
    for future in waiting:
        with pytest.raises(ConnectionClosedError):
            await future
    assert js.publish_async_pending == 0
    with pytest.raises(ConnectionClosedError):
        await js.publish_async(f"{stream.name}.a")


@pytest.mark.blocking
async def test_drain_waits_for_acknowledgements(ground: Ground) -> None:
    nc = await ground.connect()
    js = nc.jetstream(domain=ground.profile.domain)
    stream = await ground.stream()
    futures = [await js.publish_async(f"{stream.name}.a") for _ in range(500)]
    await nc.drain()
    assert [future.result().sequence for future in futures] == list(range(1, 501))


async def test_drain_without_acknowledgements_ends_at_its_timeout(ground: Ground) -> None:
    nc = await ground.connect()
    js = nc.jetstream(domain=ground.profile.domain)
    stream = await ground.stream(no_ack=True)
    future = await js.publish_async(f"{stream.name}.a")
    with pytest.raises(DrainTimeoutError, match=r"1 publishes( are)? not acknowledged"):
        await nc.drain(0.2)
    assert nc.closed
    assert isinstance(future.exception(), ConnectionClosedError)


@pytest.mark.parametrize("profile", ["private_inbox"], indirect=True)
async def test_a_forbidden_inbox_fails_publishes_in_flight(ground: Ground) -> None:
    nc = await ground.connect(inbox_prefix="_INBOX_elsewhere")
    stream = await ground.stream()
    js = nc.jetstream()
    for _ in range(2):
        future = await js.publish_async(f"{stream.name}.a")
        with pytest.raises(PermissionsViolationError, match="_INBOX_elsewhere"):
            await future
    assert js.publish_async_pending == 0


@pytest.mark.parametrize("profile", ["private_inbox"], indirect=True)
async def test_a_publish_to_a_forbidden_subject_fails_at_once(ground: Ground) -> None:
    ground.server.reload(_with_denied(ground, "denied.>"))
    try:
        nc = await ground.connect()
        js = nc.jetstream()
        stream = await ground.stream()
        denied = await js.publish_async("denied.a")
        good = await js.publish_async(f"{stream.name}.a")
        with pytest.raises(PermissionsViolationError, match=r"denied\.a"):
            await denied
        assert (await good).sequence == 1
        with pytest.raises(PermissionsViolationError, match=r"denied\.a"):
            await js.publish("denied.a")
    finally:
        ground.server.reload(dict(ground.profile.config))


def _with_denied(ground: Ground, subject: str) -> dict[str, Any]:
    users = cast("Any", ground.profile.config["authorization"])["users"]
    alice = {**users[0], "permissions": {**users[0]["permissions"], "publish": {"deny": subject}}}
    return {**ground.profile.config, "authorization": {"users": [alice, *users[1:]]}}


@ONE_PROFILE
async def test_a_garbage_collected_context_ends_its_subscription_after_its_publishes(ground: Ground) -> None:
    stream = await ground.stream()
    before = set(subscriptions_of(ground))
    js = async_context(ground)
    future = await js.publish_async(f"{stream.name}.a")
    del js
    gc.collect()
    assert (await future).sequence == 1
    assert len(set(subscriptions_of(ground)) - before) == 1
    del future

    async def gone() -> bool:
        gc.collect()
        await ground.nc.flush()
        return set(subscriptions_of(ground)) == before

    await until(gone)
