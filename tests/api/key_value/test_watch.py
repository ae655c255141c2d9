"""Watches, keys and histories of a bucket."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.api.key_value.buckets import make_bucket
from tests.api.publishing.support import until
from tests.connection.support import eventually
from tests.fronts import Ground

from jetspark.aio.jetstream import KeyValue
from jetspark.errors import (
    BucketNotFoundError,
    BucketReplacedError,
    ConfigError,
    ConnectionClosedError,
    InvalidKeyError,
    KeyNotFoundError,
    NoMessageError,
    RevisionError,
    SubscriptionClosedError,
)
from jetspark.jetstream.key_value import KeyValueEntry

SOON = 10.0


async def filled(ground: Ground, history: int = 3) -> KeyValue:
    """Return a bucket with a, b.x, b.y; b.y is deleted, and a was written twice."""
    bucket = await make_bucket(ground, history=history)
    for key in ("a", "b.x", "b.y"):
        await bucket.put(key, key)
    await bucket.put("a", b"2")
    await bucket.delete("b.y")
    return bucket


def places(entries: list[KeyValueEntry]) -> list[tuple[str, int]]:
    return [(entry.key, entry.revision) for entry in entries]


async def no_consumers(ground: Ground, bucket: KeyValue) -> None:
    async def gone() -> bool:
        return not await ground.admin_js.consumer_names(f"KV_{bucket.bucket}").all()

    await until(gone, SOON)


@pytest.mark.conformance("KVS-34", "KVS-35", "KVS-46")
@pytest.mark.blocking
@pytest.mark.profiles
async def test_a_watch_has_the_newest_entries_then_the_changes(ground: Ground) -> None:
    bucket = await filled(ground)
    async with await bucket.watch() as watch:
        found = [await anext(watch) for _ in range(4)]
        assert found[3] is None
        entries = [entry for entry in found if entry is not None]
        assert places(entries) == [("b.x", 2), ("a", 4), ("b.y", 5)]
        assert [entry.delta for entry in entries] == [2, 1, 0]
        assert [entry.value for entry in entries] == [b"b.x", b"2", b""]
        assert entries[2].is_marker
        await bucket.put("c", b"3")
        change = await watch.next(SOON)
        assert change is not None
        assert (change.key, change.value, change.revision) == ("c", b"3", 6)
        assert change == await bucket.get("c") or change.delta == 0
        with pytest.raises(NoMessageError):
            await watch.next(0.05)
    assert watch.closed
    await no_consumers(ground, bucket)


@pytest.mark.conformance("KVS-35", "KVS-38", "KVS-39")
async def test_options_of_a_watch(ground: Ground) -> None:
    bucket = await filled(ground)

    async def initial(*filters: str, **options: object) -> list[KeyValueEntry]:
        async with await bucket.watch(*filters, **options) as watch:  # type: ignore[arg-type]
            return await watch.initial()

    assert places(await initial("b.*")) == [("b.x", 2), ("b.y", 5)]
    assert places(await initial("b.x", "a", "b.*", "*.y")) == [("b.x", 2), ("a", 4), ("b.y", 5)]
    assert places(await initial(ignore_deletes=True)) == [("b.x", 2), ("a", 4)]
    assert [revision for _, revision in places(await initial(include_history=True))] == [1, 2, 3, 4, 5]
    assert places(await initial(resume_from=3)) == [("b.y", 3), ("a", 4), ("b.y", 5)]
    assert places(await initial(resume_from=6)) == []
    plain = await initial(meta_only=True)
    assert [(entry.value, entry.size, entry.is_marker) for entry in plain] == [
        (None, 3, False),
        (None, 1, False),
        (None, 0, True),
    ]
    async with await bucket.watch(updates_only=True) as watch:
        assert await watch.next(SOON) is None
        revision = await bucket.put("c", b"3")
        change = await watch.next(SOON)
        assert change is not None
        assert change.revision == revision


@pytest.mark.conformance("KVS-18", "KVS-35", "KVS-38", "KVS-39")
async def test_wrong_options_are_refused_before_anything_is_sent(ground: Ground) -> None:
    bucket = await filled(ground)
    spy = await ground.spy()
    for filters in (("a..b",), ("a.>.b",), ("",), ("a*",)):
        with pytest.raises(InvalidKeyError):
            await bucket.watch(*filters)
    for options in ({"updates_only": True, "include_history": True}, {"updates_only": True, "resume_from": 1}):
        with pytest.raises(ConfigError):
            await bucket.watch(**options)
    with pytest.raises(ValueError, match="positive"):
        await bucket.watch(resume_from=0)
    with pytest.raises(ConfigError, match="257"):
        await bucket.watch(*(f"k{number}" for number in range(257)))
    assert await spy.settled() == []
    with pytest.raises(RevisionError) as caught:
        await bucket.watch(resume_from=7)
    assert (caught.value.revision, caught.value.last) == (7, 5)


@pytest.mark.conformance("KVS-37")
async def test_the_initial_data_ends_also_if_entries_are_purged_meanwhile(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    for key in "abcd":
        await bucket.put(key, key)
    stream = await ground.admin_js.stream(f"KV_{bucket.bucket}")
    async with await bucket.watch() as watch:  # the entries are in its buffer
        await stream.purge(subject=f"$KV.{bucket.bucket}.b")
        assert [entry.key for entry in await watch.initial()] in (["a", "b", "c", "d"], ["a", "c", "d"])


@pytest.mark.conformance("KVS-43")
@pytest.mark.blocking
async def test_keys_are_those_with_a_value(ground: Ground) -> None:
    bucket = await filled(ground)
    assert await bucket.keys().all() == ["b.x", "a"]
    assert [key async for key in bucket.keys("b.*", "b.x")] == ["b.x"]
    assert await bucket.keys("none.*").all() == []
    empty = await make_bucket(ground)
    assert await empty.keys().all() == []
    await no_consumers(ground, bucket)


@pytest.mark.conformance("KVS-45")
@pytest.mark.blocking
async def test_a_history_has_all_revisions_of_a_key(ground: Ground) -> None:
    bucket = await filled(ground)
    history = await bucket.history("b.y")
    assert [(entry.revision, entry.operation) for entry in history] == [(3, "PUT"), (5, "DEL")]
    assert places(await bucket.history("b.*")) == [("b.x", 2), ("b.y", 3), ("b.y", 5)]
    assert await bucket.history("none.*") == []
    with pytest.raises(KeyNotFoundError):
        await bucket.history("none")


@pytest.mark.conformance("KVS-42")
@pytest.mark.blocking
async def test_every_end_of_a_watch_deletes_its_consumer(ground: Ground) -> None:
    bucket = await filled(ground)
    watch = await bucket.watch()
    await watch.stop()
    await watch.stop()
    assert [entry async for entry in watch] == []
    with pytest.raises(SubscriptionClosedError):
        await watch.next(1)
    await no_consumers(ground, bucket)
    async with await bucket.watch() as watch:
        async for _ in watch:
            break
    await no_consumers(ground, bucket)
    abandoned = await bucket.watch()
    assert await abandoned.next(SOON)
    del abandoned
    gc.collect()
    await no_consumers(ground, bucket)


@pytest.mark.conformance("KVS-42")
@pytest.mark.parametrize("front", ["aio"], indirect=True)
async def test_a_cancelled_wait_loses_nothing(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    async with await bucket.watch(updates_only=True) as watch:
        assert await watch.next(SOON) is None
        waiting = asyncio.ensure_future(watch.next())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await bucket.put("a", b"1")
        entry = await watch.next(SOON)
        assert entry is not None
        assert entry.key == "a"


@pytest.mark.conformance("KVS-41")
async def test_a_deleted_bucket_ends_its_watches(ground: Ground) -> None:
    bucket = await filled(ground)
    async with await bucket.watch() as watch:
        await watch.initial()
        await ground.admin_js.delete_stream(f"KV_{bucket.bucket}")
        with pytest.raises(BucketNotFoundError):
            await watch.next(SOON)
    with pytest.raises(BucketNotFoundError):
        await bucket.keys().all()


@pytest.mark.conformance("KVS-41")
async def test_a_bucket_that_is_created_again_ends_its_watches(ground: Ground) -> None:
    bucket = await filled(ground)
    config = (await bucket.status()).config
    async with await bucket.watch() as watch:
        await watch.initial()
        await ground.admin_js.delete_stream(config.name)
        await ground.admin_js.create_stream(config)
        with pytest.raises((BucketReplacedError, BucketNotFoundError)):
            await watch.next(SOON)


@pytest.mark.conformance("KVS-34")
async def test_a_closed_connection_ends_its_watches(ground: Ground) -> None:
    bucket = await filled(ground)
    connection = await ground.connect()
    other = await connection.jetstream(domain=ground.profile.domain).key_value(bucket.bucket)
    watch = await other.watch()
    await watch.initial()
    await connection.close()
    with pytest.raises(ConnectionClosedError):
        await anext(watch)
    await eventually(lambda: watch.closed)
