"""Object stores are created, opened, changed, listed and deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.api.object_store.stores import make_store, new_store, write_meta
from tests.fronts import Ground

from jetspark import aio
from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    APIError,
    BadBucketError,
    BadObjectError,
    BucketExistsError,
    BucketNotFoundError,
    ConfigError,
    InvalidBucketNameError,
    InvalidObjectNameError,
    ObjectNotFoundError,
    StreamConfigError,
)
from jetspark.jetstream import DiscardPolicy, ObjectStoreConfig, StorageType, StreamSource
from jetspark.jetstream.object_store.names import meta_subject

HOUR = timedelta(hours=1)


@pytest.mark.conformance("OBJ-02")
@pytest.mark.blocking
async def test_a_store_is_created_and_opened(ground: Ground, js: JetStream) -> None:
    name = new_store(ground)
    store = await js.create_object_store(ObjectStoreConfig(name, storage=StorageType.MEMORY), ttl=HOUR, description="d")
    assert isinstance(store, aio.jetstream.ObjectStore)
    opened = await js.object_store(name)
    assert (store.bucket, opened.bucket) == (name, name)
    assert f"<ObjectStore {name!r}>" in repr(opened)
    status = await opened.status()
    assert (status.bucket, status.ttl, status.description, status.sealed, status.size) == (name, HOUR, "d", False, 0)
    config = (await js.stream(f"OBJ_{name}")).cached_info.config
    assert config == status.config
    assert (config.subjects, config.max_msgs_per_subject) == ([f"$O.{name}.C.>", f"$O.{name}.M.>"], -1)
    assert (config.allow_rollup_hdrs, config.deny_delete, config.allow_direct) == (True, False, True)
    assert (config.discard, config.duplicate_window) == (DiscardPolicy.NEW, timedelta(minutes=2))


@pytest.mark.conformance("OBJ-01", "OBJ-02")
async def test_bad_and_missing_names_are_errors(js: JetStream) -> None:
    for bad in ("", "a.b", "OBJ/x"):
        for call in (
            js.object_store(bad),
            js.create_object_store(bucket=bad),
            js.update_object_store(bucket=bad),
            js.delete_object_store(bad),
        ):
            with pytest.raises(InvalidBucketNameError):
                await call
    for call in (js.object_store("MISSING"), js.update_object_store(bucket="MISSING")):
        with pytest.raises(BucketNotFoundError) as caught:
            await call
        assert (caught.value.bucket, caught.value.err_code) == ("MISSING", 10059)
    with pytest.raises(BucketNotFoundError):
        await js.delete_object_store("MISSING")


@pytest.mark.conformance("OBJ-02")
async def test_a_stream_that_is_no_store_is_not_opened(ground: Ground, js: JetStream) -> None:
    name = new_store(ground)
    await ground.stream(name=f"OBJ_{name}", subjects=[f"$O.{name}.M.>"])
    with pytest.raises(BadBucketError):
        await js.object_store(name)
    with pytest.raises(BadBucketError):
        await js.update_object_store(bucket=name, description="d")


@pytest.mark.conformance("OBJ-02")
@pytest.mark.blocking
async def test_an_equal_store_is_returned_and_only_given_fields_are_changed(ground: Ground, js: JetStream) -> None:
    store = await make_store(ground, ttl=HOUR, metadata={"a": "b"})
    again = await make_store(ground, bucket=store.bucket, ttl=HOUR, metadata={"a": "b"})
    before = (await again.status()).config
    with pytest.raises(BucketExistsError) as caught:
        await make_store(ground, bucket=store.bucket)
    assert (caught.value.bucket, caught.value.err_code) == (store.bucket, 10058)
    await js.update_object_store(bucket=store.bucket, ttl=timedelta(seconds=30))
    after = (await store.status()).config
    assert after == before.replace(max_age=timedelta(seconds=30), duplicate_window=timedelta(seconds=30))
    with pytest.raises(StreamConfigError):
        await js.update_object_store(bucket=store.bucket, storage="file")
    await js.create_or_update_object_store(bucket=store.bucket, description="d")
    assert (await store.status()).description == "d"
    created = await js.create_or_update_object_store(bucket=new_store(ground), storage="memory", compression=True)
    assert (await created.status()).is_compressed


@pytest.mark.conformance("OBJ-02")
async def test_a_configuration_that_the_server_refuses_is_an_error(ground: Ground) -> None:
    with pytest.raises(APIError) as replicas:
        await make_store(ground, replicas=3)
    assert replicas.value.err_code == 10074
    with pytest.raises(ConfigError, match="did you mean 'replicas'"):
        await make_store(ground, num_replicas=1)


@pytest.mark.conformance("OBJ-02")
@pytest.mark.blocking
async def test_lists_have_stores_and_mirrors_and_nothing_else(ground: Ground, js: JetStream) -> None:
    store = await make_store(ground)
    mirror = await make_store(ground, mirror=StreamSource(store.bucket))
    strange = new_store(ground)
    await ground.stream(name=f"OBJ_{strange}")
    other = await ground.js.create_key_value(bucket=ground.name("KV_B").removeprefix("KV_"), storage="memory")
    mine = {store.bucket, mirror.bucket}
    names = await js.object_store_names().all()
    assert mine | {strange} <= set(names)
    assert other.bucket not in names
    statuses = {status.bucket: status async for status in js.object_stores()}
    assert mine <= statuses.keys()
    assert not {strange, other.bucket} & statuses.keys()


@pytest.mark.conformance("OBJ-02", "OBJ-19")
@pytest.mark.blocking
async def test_a_deleted_store_is_gone(ground: Ground, js: JetStream) -> None:
    store = await make_store(ground)
    await js.delete_object_store(store.bucket)
    for call in (store.status(), store.get_info("a"), js.object_store(store.bucket)):
        with pytest.raises(BucketNotFoundError):
            await call


@pytest.mark.conformance("OBJ-19")
@pytest.mark.blocking
async def test_the_description_of_an_object_is_its_last_one(ground: Ground) -> None:
    store = await make_store(ground)
    with pytest.raises(ObjectNotFoundError) as caught:
        await store.get_info("a")
    assert (caught.value.bucket, caught.value.name) == (store.bucket, "a")
    await write_meta(ground, store.bucket, "a", size=1)
    await write_meta(ground, store.bucket, "a", size=2, mtime="", new="x")
    info = await store.get_info("a")
    assert (info.name, info.bucket, info.size, info.revision) == ("a", store.bucket, 2, 2)
    stream = await ground.js.stream(f"OBJ_{store.bucket}")
    assert info.mtime == (await stream.get_msg(2)).timestamp
    assert info.extra == {"new": "x"}
    await write_meta(ground, store.bucket, "a", deleted=True)
    with pytest.raises(ObjectNotFoundError, match="deleted"):
        await store.get_info("a")
    assert (await store.get_info("a", show_deleted=True)).deleted


@pytest.mark.conformance("OBJ-01")
async def test_an_object_with_a_bad_name_is_not_looked_for(ground: Ground) -> None:
    store = await make_store(ground)
    names: list[Any] = ["", "x" * 3100, "\udc80", 7, None, b"x"]
    for name in names:
        with pytest.raises(InvalidObjectNameError):
            await store.get_info(name)
    await write_meta(ground, store.bucket, "dir/ä?~~~>>.bin")
    assert (await store.get_info("dir/ä?~~~>>.bin")).name == "dir/ä?~~~>>.bin"


@pytest.mark.conformance("OBJ-03")
async def test_a_description_that_cannot_be_read_is_an_error(ground: Ground, js: JetStream) -> None:
    store = await make_store(ground)
    await js.publish(meta_subject(f"$O.{store.bucket}.", "a"), b"no json")
    with pytest.raises(BadObjectError):
        await store.get_info("a")
    await write_meta(ground, store.bucket, "b", nuid="*")
    with pytest.raises(BadObjectError, match="no valid nuid"):
        await store.get_info("b")
