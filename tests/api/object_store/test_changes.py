"""Objects are deleted, described again, renamed and linked; buckets are sealed."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from tests.api.object_store.stores import make_store, nuids_of, write_meta
from tests.fronts import Ground

from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    ArgumentError,
    BucketNotFoundError,
    InvalidObjectNameError,
    LinkError,
    ObjectExistsError,
    ObjectNotFoundError,
    StreamConfigError,
    StreamSealedError,
)
from jetspark.jetstream import ObjectInfo

ALL = timedelta(seconds=-1)
DIGEST = "SHA-256=LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTbAiWHF5IaSIE="
"""Of `x`."""


@pytest.mark.conformance("OBJ-21")
@pytest.mark.blocking
async def test_a_deleted_object_has_a_description_and_no_chunks(ground: Ground) -> None:
    store = await make_store(ground)
    info = await store.put("a", b"x" * 1000, chunk_size=100, metadata={"m": "n"})
    await store.delete("a")
    deleted = await store.get_info("a", show_deleted=True)
    assert (deleted.deleted, deleted.size, deleted.chunks, deleted.digest) == (True, 0, 0, "")
    assert (deleted.nuid, deleted.metadata) == (info.nuid, {"m": "n"})
    assert await nuids_of(ground, store) == set()
    await store.delete("a")
    assert (await store.get_info("a", show_deleted=True)).revision == deleted.revision
    with pytest.raises(ObjectNotFoundError) as caught:
        await store.delete("never")
    assert (caught.value.bucket, caught.value.name) == (store.bucket, "never")
    again = await store.put("a", b"x", overwrite=False)
    assert (await store.get_info("a")).nuid == again.nuid


@pytest.mark.conformance("OBJ-20")
@pytest.mark.blocking
async def test_a_description_is_changed_and_the_content_stays(ground: Ground) -> None:
    store = await make_store(ground)
    info = await store.put("a", b"x", description="d", headers={"k": "v"}, metadata={"m": "n"}, chunk_size=5)
    changed = await store.update_meta("a", metadata={"o": "p"})
    assert changed == info.replace(metadata={"o": "p"}, revision=changed.revision, mtime_ns=changed.mtime_ns)
    assert (changed.digest, changed.options.max_chunk_size) == (DIGEST, 5)
    cleared = await store.update_meta("a", description="", headers={}, metadata={})
    stored = await store.get_info("a")
    assert (stored.description, stored.headers, stored.metadata) == ("", {}, {})
    assert stored == cleared.replace(mtime_ns=stored.mtime_ns)
    await write_meta(ground, store.bucket, "b", later="field", size=7, chunks=1)
    await store.update_meta("b", description="d")
    assert (await store.get_info("b")).extra == {"later": "field"}


@pytest.mark.conformance("OBJ-20")
async def test_a_renamed_object_has_its_content_under_the_new_name(ground: Ground) -> None:
    store = await make_store(ground)
    info = await store.put("a", b"x")
    renamed = await store.update_meta("a", new_name="dir/b", description="d")
    assert (renamed.name, renamed.nuid, renamed.digest, renamed.description) == ("dir/b", info.nuid, DIGEST, "d")
    assert (await store.get_info("dir/b")).nuid == info.nuid
    with pytest.raises(ObjectNotFoundError):
        await store.get_info("a", show_deleted=True)
    assert await nuids_of(ground, store) == {info.nuid}
    await store.put("a", b"y")
    with pytest.raises(ObjectExistsError) as caught:
        await store.update_meta("a", new_name="dir/b")
    assert caught.value.name == "dir/b"
    await store.delete("dir/b")
    assert (await store.update_meta("a", new_name="dir/b")).name == "dir/b"
    await store.delete("dir/b")
    for name in ("a", "dir/b"):
        with pytest.raises(ObjectNotFoundError):
            await store.update_meta(name, description="e")
    with pytest.raises(InvalidObjectNameError):
        await store.update_meta("dir/b", new_name="")


@pytest.mark.conformance("OBJ-22")
@pytest.mark.blocking
async def test_links_point_to_objects_and_buckets(ground: Ground) -> None:
    store, other = await make_store(ground), await make_store(ground)
    target = await other.put("a", b"x")
    link = await store.add_link("l", target)
    stored = await store.get_info("l")
    assert stored == link.replace(mtime_ns=stored.mtime_ns)
    assert stored.link is not None
    assert (stored.link.bucket, stored.link.name) == (other.bucket, "a")
    assert (stored.size, stored.chunks, stored.digest) == (0, 0, "")
    assert len(stored.nuid) == 22
    assert stored.nuid != target.nuid
    whole = await store.add_bucket_link("l", other)
    assert whole.link is not None
    assert (whole.link.bucket, whole.link.name) == (other.bucket, None)
    await store.delete("l")
    assert (await store.add_link("l", target)).link is not None
    replaced = await store.put("l", b"content")
    assert (await store.get_info("l")).link is None
    assert await nuids_of(ground, store) == {replaced.nuid}


@pytest.mark.conformance("OBJ-22")
async def test_a_link_that_cannot_be_is_refused(ground: Ground) -> None:
    store = await make_store(ground)
    target = await store.put("a", b"x")
    link = await store.add_link("l", target)
    await store.put("gone", b"x")
    await store.delete("gone")
    before = (await store.status()).stream_info.state.last_sequence
    for bad in (link, await store.get_info("gone", show_deleted=True), ObjectInfo(), target.replace(bucket="")):
        with pytest.raises(LinkError):
            await store.add_link("m", bad)
    for call in (store.add_link("a", target), store.add_bucket_link("a", store)):
        with pytest.raises(ObjectExistsError):
            await call
    names: list[Any] = ["", 7, None]
    for name in names:
        for change in (store.add_link(name, target), store.add_bucket_link(name, store), store.delete(name)):
            with pytest.raises(InvalidObjectNameError):
                await change
    wrong: Any = "B"
    with pytest.raises(ArgumentError, match="store takes an ObjectStore, not str"):
        await store.add_bucket_link("m", wrong)
    assert (await store.status()).stream_info.state.last_sequence == before


@pytest.mark.conformance("OBJ-26")
@pytest.mark.blocking
async def test_a_sealed_bucket_takes_no_changes(
    ground: Ground, js: JetStream, caplog: pytest.LogCaptureFixture
) -> None:
    store = await make_store(ground)
    info = await store.put("a", b"x")
    assert not (await store.status()).sealed
    await store.seal()
    assert (await store.status()).sealed
    with caplog.at_level(logging.WARNING, "jetspark"):
        for call in (
            store.put("a", b"y"),
            store.put("b", b""),
            store.delete("a"),
            store.update_meta("a", description="d"),
            store.update_meta("a", new_name="b"),
            store.add_link("b", info),
        ):
            with pytest.raises(StreamSealedError) as caught:
                await call
            assert caught.value.err_code == 10109
            assert not hasattr(caught.value, "__notes__")
    assert not caplog.records
    assert (await store.get_info("a")).nuid == info.nuid
    stream = await js.stream(f"OBJ_{store.bucket}")
    with pytest.raises(StreamConfigError):
        await stream.update(sealed=False)
    await js.delete_object_store(store.bucket)
    with pytest.raises(BucketNotFoundError):
        await store.seal()


@pytest.mark.conformance("OBJ-11")
@pytest.mark.blocking
async def test_a_sweep_removes_old_chunks_without_an_object(ground: Ground, js: JetStream) -> None:
    store = await make_store(ground)
    assert await store.sweep(ALL) == 0
    kept = await store.put("a", b"x" * 10, chunk_size=3)
    await store.add_link("l", kept)
    for orphan in ("ORPHAN1", "ORPHAN2"):
        for _ in range(3):
            await js.publish(f"$O.{store.bucket}.C.{orphan}", b"x")
    await write_meta(ground, store.bucket, "deleted", nuid="ORPHAN2", deleted=True)
    assert await store.sweep() == 0
    assert await nuids_of(ground, store) == {kept.nuid, "ORPHAN1", "ORPHAN2"}
    assert await store.sweep(timedelta(0)) == 2
    assert await nuids_of(ground, store) == {kept.nuid}
    await js.publish(f"$O.{store.bucket}.C.ORPHAN3", b"x")
    assert await store.sweep(ALL) == 1
    assert (await store.get_info("a")).nuid == kept.nuid
