"""Fetches of an ordered consumer that are cancelled or get no answer lose nothing and keep their timeout."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.api.consuming.support import numbered, payloads, publish_while_blocked
from tests.fronts import FrontName, Ground, Profile, Spy, open_ground

from jetspark.aio.jetstream import OrderedConsumer, Stream
from jetspark.errors import RequestTimeoutError
from jetspark.server import NatsServer


async def open_fetch(ground: Ground, stream: Stream, ordered: OrderedConsumer) -> asyncio.Task[Any]:
    """Start a fetch, and wait until its pull is open."""
    pulls: Spy = await ground.spy(f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.>")
    fetching = asyncio.create_task(ordered.fetch(10, timeout=20))
    await pulls.wait(1)
    return fetching


@pytest.mark.parametrize("front", ["aio"], indirect=True)  # blocking calls are not cancelled
async def test_r24_a_fetch_after_a_cancelled_fetch_skips_no_messages(ground: Ground) -> None:
    """Undelivered messages do not move the cursor (ORD-03)."""
    stream = await ground.stream()
    ordered = stream.ordered_consumer()
    fetching = await open_fetch(ground, stream, ordered)
    publish_while_blocked(ground, stream.name, *numbered(0, 3))
    fetching.cancel()
    await asyncio.wait([fetching])
    await ground.nc.flush()  # the data in the socket has been read
    assert ordered.last_sequence is None
    assert payloads(await ordered.fetch(3, timeout=5)) == numbered(0, 3)


@pytest.mark.parametrize("front", ["aio"], indirect=True)  # blocking calls are not cancelled
async def test_r24_new_messages_of_a_cancelled_fetch_go_to_the_next_fetch(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *numbered(0, 2))
    ordered = stream.ordered_consumer(deliver_policy="new")
    fetching = await open_fetch(ground, stream, ordered)
    await ground.fill(f"{stream.name}.a", b"2")
    fetching.cancel()
    await asyncio.wait([fetching])
    assert payloads(await ordered.fetch(1, timeout=5)) == [b"2"]


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock does not depend on the profile
@pytest.mark.matrix
async def test_a_fetch_keeps_its_timeout_although_no_consumer_can_be_created(
    front: FrontName, profile: Profile
) -> None:
    with NatsServer() as server:
        async with open_ground(front, profile, server) as ground:
            stream = await ground.stream()
            await ground.fill(f"{stream.name}.a", b"0")
            ordered = stream.ordered_consumer()
            server.pause()
            begin = time.monotonic()
            try:
                with pytest.raises(RequestTimeoutError):
                    await ordered.fetch(1, timeout=1)
                assert 1.9 < time.monotonic() - begin < 5.0
            finally:
                server.resume()
            assert payloads(await ordered.fetch(1, timeout=5)) == [b"0"]
