"""Descriptions of objects are changed while others write, and while answers get lost."""

from __future__ import annotations

import pytest
from tests.driver.cancelling import cancel_everywhere
from tests.driver.objects import StoreScript, bucket
from tests.driver.world import World

from jetspark.errors import BadObjectError, ObjectExistsError, ObjectNotFoundError, PublishTimeoutError

__all__ = ["bucket"]

METAS = "$O.B.M.>"


@pytest.mark.conformance("OBJ-21")
async def test_a_second_deletion_sends_nothing(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    info = await store.put("a", b"x", metadata={"m": "n"})
    await store.delete("a")
    assert bucket.meta() == {
        "name": "a",
        "bucket": "B",
        "nuid": info.nuid,
        "size": 0,
        "chunks": 0,
        "deleted": True,
        "metadata": {"m": "n"},
        "options": {"max_chunk_size": 131072},
    }
    assert bucket.published[-1].headers["Nats-Expected-Last-Subject-Sequence"] == "2"
    assert bucket.chunks == {}
    sent, purges = len(bucket.published), len(bucket.purged)
    await store.delete("a")
    assert (len(bucket.published), len(bucket.purged)) == (sent, purges)


@pytest.mark.conformance("OBJ-20", "OBJ-21")
async def test_a_change_is_made_again_if_others_wrote_meanwhile(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    await store.put("a", b"x")
    original = bucket.on_get
    others = [b"y", b"z"]

    def get_then_others_write(pub: object) -> object:
        answer = original(pub)  # type: ignore[arg-type]
        if others:
            nuid = f"other{len(others)}"
            bucket.last += 2
            meta = b'{"name":"a","nuid":"%b","size":1,"chunks":1,"description":"%b"}' % (nuid.encode(), others[0])
            bucket.messages = [(bucket.last - 1, f"$O.B.C.{nuid}", others.pop(0)), (bucket.last, "$O.B.M.YQ==", meta)]
        return answer

    bucket.on_get = get_then_others_write
    info = await store.update_meta("a", metadata={"m": "n"})
    assert (info.nuid, info.description, info.metadata) == ("other1", "z", {"m": "n"})
    others.append(b"w")
    await store.delete("a")
    assert (bucket.content(), bucket.chunks) == (None, {})
    assert bucket.purged[-1] == "$O.B.C.other1"


@pytest.mark.conformance("OBJ-20")
async def test_a_lost_answer_to_a_change_is_no_failure(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    await store.put("a", b"x")
    bucket.silent.append(METAS)
    info = await store.update_meta("a", description="d")
    assert (info.revision, info.description) == (bucket.last, "d")
    renamed = await store.update_meta("a", new_name="b")
    assert (bucket.meta("a"), bucket.content("b"), renamed.name) == (None, b"x", "b")
    await store.delete("b")
    assert bucket.chunks == {}
    bucket.silent.clear()
    bucket.lost.append(METAS)
    with pytest.raises(ObjectNotFoundError):
        await store.update_meta("b", description="e")
    with pytest.raises(PublishTimeoutError):
        await store.add_bucket_link("b", store)


@pytest.mark.conformance("OBJ-20")
async def test_a_rename_removes_only_the_description_that_it_read(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    await store.put("a", b"x")
    original = bucket.on_purge

    def purge_after_a_put(pub: object) -> object:
        bucket.last += 1
        bucket.messages.append((bucket.last, "$O.B.M.YQ==", b'{"name":"a","nuid":"later"}'))
        return original(pub)  # type: ignore[arg-type]

    bucket.on_purge = purge_after_a_put
    await store.update_meta("a", new_name="b")
    assert bucket.content("b") == b"x"
    assert (bucket.meta("a") or {})["nuid"] == "later"


async def test_an_unreadable_description_is_replaced_by_a_put_only(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    bucket.last = 1
    bucket.messages.append((1, "$O.B.M.YQ==", b"no json"))
    for call in (store.delete("a"), store.update_meta("a", description="d")):
        with pytest.raises(BadObjectError):
            await call
    await store.put("a", b"x", overwrite=False)
    assert bucket.content() == b"x"
    with pytest.raises(ObjectExistsError):
        await store.add_bucket_link("a", store)


async def test_a_cancelled_deletion_is_complete_or_has_not_begun(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)

    async def before() -> None:
        await store.put("a", b"x")

    async def after() -> None:
        assert len(bucket.chunks) == (bucket.content() is not None)

    assert await cancel_everywhere(lambda: store.delete("a"), after, before=before) >= 3
