"""Lists and watches of objects."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.api.object_store.content import pieces, store_object
from tests.api.object_store.stores import make_store, write_meta
from tests.fronts import Ground, Recorder

from jetspark.aio.jetstream import ObjectWatch
from jetspark.errors import (
    BadObjectError,
    BucketNotFoundError,
    BucketReplacedError,
    ConfigError,
    NoMessageError,
    RevisionError,
    SubscriptionClosedError,
)
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.wire.events import ErrorOccurred

SOON = 10.0


def places(infos: list[ObjectInfo]) -> list[tuple[str, int, bool]]:
    return [(info.name, info.revision, info.deleted) for info in infos]


async def three(ground: Ground) -> str:
    """Return a store with b and c; a is deleted, and c was put twice."""
    store = await make_store(ground)
    for name in "abcc":
        await store_object(ground, store.bucket, name, pieces(5, 5))
    await write_meta(ground, store.bucket, "a", deleted=True)
    return store.bucket


@pytest.mark.conformance("OBJ-24")
@pytest.mark.blocking
async def test_a_list_has_the_objects_that_are_not_deleted(ground: Ground) -> None:
    store = await make_store(ground)
    assert await store.list() == []
    store = await ground.js.object_store(await three(ground))
    spy = await ground.spy(f"$O.{store.bucket}.>")
    assert places(list(await store.list())) == [("b", 6, False), ("c", 12, False)]
    assert places(list(await store.list(show_deleted=True))) == [("b", 6, False), ("c", 12, False), ("a", 13, True)]
    assert (await store.list())[0] == await store.get_info("b")
    assert await spy.settled() == []
    await ground.js.delete_object_store(store.bucket)
    with pytest.raises(BucketNotFoundError):
        await store.list()


@pytest.mark.conformance("OBJ-24")
async def test_a_list_reads_no_chunk(ground: Ground) -> None:
    store = await ground.js.object_store(await three(ground))
    requests = await ground.spy()
    await store.list()
    await requests.settled()
    [created] = [each for each in requests.messages if ".CONSUMER.CREATE." in each.subject]
    assert f'"filter_subjects":["$O.{store.bucket}.M.>"]'.encode() in created.payload


@pytest.mark.conformance("OBJ-24")
async def test_a_description_that_cannot_be_read_is_reported_and_left_out(ground: Ground) -> None:
    bucket = await three(ground)
    events = Recorder()
    connection = await ground.connect(on_event=events)
    store = await connection.jetstream(domain=ground.profile.domain).object_store(bucket)
    await ground.admin_js.publish(f"$O.{bucket}.M.YmFk", b"{no json")
    assert [info.name for info in await store.list()] == ["b", "c"]
    assert isinstance((await events.wait(ErrorOccurred)).error, BadObjectError)
    async with await store.watch() as watch:
        assert [info.name for info in await watch.initial()] == ["b", "c", "a"]


@pytest.mark.conformance("OBJ-25")
@pytest.mark.blocking
@pytest.mark.profiles
async def test_a_watch_has_the_newest_descriptions_then_the_changes(ground: Ground) -> None:
    store = await ground.js.object_store(await three(ground))
    async with await store.watch() as watch:
        assert "ObjectWatch" in repr(watch)
        assert places(await watch.initial()) == [("b", 6, False), ("c", 12, False), ("a", 13, True)]
        await store_object(ground, store.bucket, "d", pieces(3))
        change = await watch.next(SOON)
        assert change == await store.get_info("d")
        with pytest.raises(NoMessageError):
            await watch.next(0.05)
    assert watch.closed
    with pytest.raises(SubscriptionClosedError):
        await watch.next(SOON)
    async with await store.watch(ignore_deletes=True) as watch:
        assert [info.name async for info in watched(watch)] == ["b", "c", "d"]


async def watched(watch: ObjectWatch) -> AsyncIterator[ObjectInfo]:
    async for info in watch:
        if info is None:
            break
        yield info


@pytest.mark.conformance("OBJ-25")
async def test_options_of_a_watch_of_objects(ground: Ground) -> None:
    store = await ground.js.object_store(await three(ground))
    for options in ({"resume_from": 10}, {"include_history": True}):
        async with await store.watch(**options) as watch:
            found = places(await watch.initial())
            assert (
                found == [("b", 6, False), ("c", 12, False), ("a", 13, True)][-2 if "resume_from" in options else 0 :]
            )
    async with await store.watch(updates_only=True) as watch:
        assert await watch.next(SOON) is None
        await store_object(ground, store.bucket, "d", pieces(3))
        change = await watch.next(SOON)
        assert change is not None
        assert change.name == "d"
    with pytest.raises(ConfigError):
        await store.watch(updates_only=True, include_history=True)
    with pytest.raises(ValueError, match="positive"):
        await store.watch(resume_from=0)
    with pytest.raises(RevisionError) as caught:
        await store.watch(resume_from=17)
    assert (caught.value.revision, caught.value.last) == (17, 15)


@pytest.mark.conformance("OBJ-25")
async def test_a_watch_of_objects_ends_with_its_bucket(ground: Ground) -> None:
    bucket = await three(ground)
    store = await ground.js.object_store(bucket)
    async with await store.watch() as watch:
        await watch.initial()
        await ground.js.delete_object_store(bucket)
        with pytest.raises((BucketNotFoundError, BucketReplacedError)):
            await watch.next(SOON)
