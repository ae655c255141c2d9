"""Fetches of an ordered consumer that are cancelled, or find nobody: they lose nothing and keep their time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.api.consuming.support import numbered, payloads, unseen
from tests.fronts import FrontName, Ground, Profile, Spy, open_ground

from jetspark.aio.jetstream import OrderedConsumer, Stream
from jetspark.errors import RequestTimeoutError
from jetspark.server import NatsServer


async def begun(ground: Ground, stream: Stream, ordered: OrderedConsumer) -> asyncio.Task[Any]:
    """A fetch whose pull is open."""
    pulls: Spy = await ground.spy(f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.>")
    fetching = asyncio.create_task(ordered.fetch(10, expires=20))
    await pulls.wait(1)
    return fetching


@pytest.mark.parametrize("front", ["aio"], indirect=True)  # blocking calls are not cancelled
async def test_r24_what_comes_behind_a_cancelled_fetch_is_not_left_out(ground: Ground) -> None:
    """The place does not move with messages that nobody gets (ORD-03)."""
    stream = await ground.stream()
    ordered = stream.ordered_consumer()
    fetching = await begun(ground, stream, ordered)
    unseen(ground, stream.name, *numbered(0, 3))
    fetching.cancel()
    await asyncio.wait([fetching])
    await ground.nc.flush()  # what lay in the socket has been read
    assert ordered.last_sequence is None
    assert payloads(await ordered.fetch(3, expires=5)) == numbered(0, 3)


@pytest.mark.parametrize("front", ["aio"], indirect=True)  # blocking calls are not cancelled
async def test_r24_what_was_new_to_a_cancelled_fetch_is_new_to_the_next_one(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", *numbered(0, 2))
    ordered = stream.ordered_consumer(deliver_policy="new")
    fetching = await begun(ground, stream, ordered)
    await ground.fill(f"{stream.name}.a", b"2")
    fetching.cancel()
    await asyncio.wait([fetching])
    assert payloads(await ordered.fetch(1, expires=5)) == [b"2"]


@pytest.mark.parametrize("profile", ["default"], indirect=True)  # a clock is the same on all of them
async def test_a_fetch_keeps_its_time_although_no_consumer_can_be_made(front: FrontName, profile: Profile) -> None:
    with NatsServer() as server:
        async with open_ground(front, profile, server) as ground:
            stream = await ground.stream()
            await ground.fill(f"{stream.name}.a", b"0")
            ordered = stream.ordered_consumer()
            server.pause()
            begin = time.monotonic()
            try:
                with pytest.raises(RequestTimeoutError):
                    await ordered.fetch(1, expires=1)
                assert 1.9 < time.monotonic() - begin < 5.0
            finally:
                server.resume()
            assert payloads(await ordered.fetch(1, expires=5)) == [b"0"]
