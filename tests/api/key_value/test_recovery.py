"""Watches through killed servers and leader changes: no entry is lost, and none comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.api.clusters import step_down
from tests.api.key_value.buckets import make_bucket
from tests.api.publishing.support import until
from tests.fronts import PROFILES, open_ground

from jetspark.aio.jetstream import KeyValue
from jetspark.errors import Error
from jetspark.jetstream.key_value import KeyValueEntry
from jetspark.server import NatsCluster, NatsServer

LAST = "end"
KEYS = 200
TIMEOUT = 120.0


class Follower:
    """A watch that keeps what it yields."""

    def __init__(self) -> None:
        self.entries: list[KeyValueEntry] = []
        self.ends_of_initial_data = 0
        self.first_change = 0

    async def run(self, bucket: KeyValue, started: asyncio.Event) -> None:
        async with await bucket.watch() as watch:
            async for entry in watch:
                if entry is None:
                    self.ends_of_initial_data += 1
                    self.first_change = len(self.entries)
                    started.set()
                elif entry.key == LAST:
                    return
                else:
                    self.entries.append(entry)


async def follow(bucket: KeyValue, puts: int, faults: list[Callable[[], Awaitable[None]]]) -> None:
    """Put numbers while faults happen; compare the watch with the history of the bucket."""
    follower, started = Follower(), asyncio.Event()
    for number in range(10):
        await bucket.put(f"k{number}", b"before")
    following = asyncio.create_task(follower.run(bucket, started))
    await started.wait()
    at = {(number + 1) * puts // (len(faults) + 1): fault for number, fault in enumerate(faults)}
    for number in range(puts):
        if (fault := at.get(number)) is not None:
            await fault()
        try:
            await bucket.put(f"k{number % KEYS}", str(number), timeout=5)
        except Error:
            continue  # it may be stored

    async def ended() -> bool:
        try:
            await bucket.put(LAST, b"")
        except Error:
            return False
        return True

    await until(ended, TIMEOUT)
    async with asyncio.timeout(TIMEOUT):
        await following
    stored = [entry for entry in await bucket.history(">") if entry.key != LAST]
    assert follower.ends_of_initial_data == 1
    initial, changes = follower.entries[: follower.first_change], follower.entries[follower.first_change :]
    assert len(initial) == 10
    assert [(each.revision, each.value) for each in changes] == [(each.revision, each.value) for each in stored[10:]]
    assert len(changes) > puts / 2


@pytest.mark.conformance("KVS-40")
@pytest.mark.parametrize("front", ["aio"], indirect=True)
@pytest.mark.parametrize("profile", ["default"], indirect=True)
@pytest.mark.parametrize(("puts", "kills"), [(600, 1), pytest.param(10_000, 3, marks=pytest.mark.matrix)])
async def test_a_watch_follows_through_killed_servers(front: str, profile: object, puts: int, kills: int) -> None:
    with NatsServer(config={}) as server:
        async with open_ground("aio", PROFILES["default"], server, reconnect_wait=0.05) as ground:
            bucket = await make_bucket(ground, storage="file", history=64)

            async def kill() -> None:
                def restart() -> None:
                    server.kill()
                    server.start()

                await asyncio.to_thread(restart)

            await follow(bucket, puts, [kill] * kills)


@pytest.mark.conformance("KVS-21", "KVS-40")
@pytest.mark.matrix
@pytest.mark.slow
async def test_a_watch_follows_through_leader_changes() -> None:
    with NatsCluster() as cluster:
        async with open_ground("aio", PROFILES["default"], cluster[0], servers=tuple(cluster.urls)) as ground:
            bucket = await make_bucket(ground, replicas=3, history=64)

            async def change_leader() -> None:
                await step_down(ground, f"KV_{bucket.bucket}")

            await follow(bucket, 2000, [change_leader] * 3)
            for number in range(100):
                revision = await bucket.put("last", str(number))
                assert (await bucket.get("last", consistent=True)).revision == revision
