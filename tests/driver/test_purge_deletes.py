"""The purges of markers: many at a time, but not all, and none is left running by an error or a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.driver.frames import Pub
from tests.driver.jetstream import JetStreamScript
from tests.driver.server import MemoryServer, Session
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream import KeyValue
from jetspark.aio.jetstream._drivers import key_value_many
from jetspark.errors import APIError
from jetspark.jetstream.key_value import KeyValueEntry, KeyValueOperation
from jetspark.wire.headers import Headers

MARKERS = 100
IN_FLIGHT = 32
DONE = b'{"success": true, "purged": 1}'
REFUSED = b'{"error": {"code": 500, "err_code": 10110, "description": "stream purge is not permitted"}}'


class Purges:
    """Holds the requests of purges until they are answered."""

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self.clock = clock
        self.open: list[tuple[Session, Pub]] = []
        self.keys: list[str] = []
        server.on("$JS.API.STREAM.PURGE.KV_B", self._take)

    def _take(self, session: Session, pub: Pub) -> None:
        self.open.append((session, pub))
        self.keys.append(pub.json["filter"])

    async def answer(self, payload: bytes = DONE) -> None:
        """Answer the requests that have come, and wait for those that follow."""
        answered, self.open = self.open, []
        for session, pub in answered:
            session.deliver(pub.reply, payload)
        await self.clock.settle()


@pytest.fixture
def purges(server: MemoryServer, script: JetStreamScript, clock: Clock) -> Purges:
    return Purges(server, clock)


@pytest.fixture
async def bucket(world: World, script: JetStreamScript, monkeypatch: pytest.MonkeyPatch) -> KeyValue:
    """A bucket whose watch finds markers only."""

    async def markers(*_: Any) -> AsyncIterator[list[KeyValueEntry]]:
        yield [
            KeyValueEntry("B", f"k{number}", b"", number + 1, 0, KeyValueOperation.DELETE, Headers())
            for number in range(MARKERS)
        ]

    monkeypatch.setattr(key_value_many, "entry_pages", markers)
    config = {"name": "KV_B", "subjects": ["$KV.B.>"], "max_msgs_per_subject": 1, "allow_direct": True}
    answer = {"config": config, "created": "2026-01-02T03:04:05Z", "state": {"messages": 0}}
    script.answer("STREAM.INFO.KV_B", answer)
    return await (await world.connect()).jetstream(timeout=2.0).key_value("B")


@pytest.mark.conformance("KVS-33")
async def test_markers_are_purged_many_at_a_time_with_a_bound(bucket: KeyValue, purges: Purges) -> None:
    call = asyncio.ensure_future(bucket.purge_deletes(timedelta(seconds=-1)))
    await purges.clock.settle()
    sizes = []
    while not call.done():
        sizes.append(len(purges.open))
        await purges.answer()
    assert await call == MARKERS
    assert sizes[0] == IN_FLIGHT
    assert max(sizes) == IN_FLIGHT
    assert purges.keys == [f"$KV.B.k{number}" for number in range(MARKERS)]


async def test_a_refused_purge_ends_the_others_and_is_raised_alone(bucket: KeyValue, purges: Purges) -> None:
    call = asyncio.ensure_future(bucket.purge_deletes(timedelta(seconds=-1)))
    await purges.clock.settle()
    await purges.answer(REFUSED)
    with pytest.raises(APIError, match="not permitted"):
        await call
    assert len(purges.keys) == IN_FLIGHT


async def test_a_cancelled_purge_sends_no_more(bucket: KeyValue, purges: Purges) -> None:
    call = asyncio.ensure_future(bucket.purge_deletes(timedelta(seconds=-1)))
    await purges.clock.settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await purges.answer()
    assert len(purges.keys) == IN_FLIGHT
