"""Buckets are created, opened, changed, listed and deleted."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest
from tests.api.key_value.buckets import make_bucket, new_bucket
from tests.api.management.fake import fake_api
from tests.fronts import Ground

from jetspark import aio
from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    APIError,
    BadBucketError,
    BucketExistsError,
    BucketNotFoundError,
    ConfigError,
    InvalidBucketNameError,
    KeyNotFoundError,
    RequiredAPILevelError,
    StreamConfigError,
)
from jetspark.jetstream import DiscardPolicy, Republish, StorageType, StreamSource
from jetspark.jetstream.key_value import KeyValueConfig, KeyValueEntry

HOUR = timedelta(hours=1)


@pytest.mark.conformance("KVS-02", "KVS-11", "KVS-16")
@pytest.mark.blocking
async def test_a_bucket_is_created_and_opened(ground: Ground, js: JetStream) -> None:
    name = new_bucket(ground)
    bucket = await js.create_key_value(KeyValueConfig(name, storage=StorageType.MEMORY), history=5, ttl=HOUR)
    assert isinstance(bucket, aio.jetstream.KeyValue)
    opened = await js.key_value(name)
    assert (bucket.bucket, opened.bucket) == (name, name)
    assert f"<KeyValue {name!r}>" in repr(opened)
    await bucket.put("a", b"1")
    status = await opened.status()
    assert (status.bucket, status.values, status.history, status.ttl) == (name, 1, 5, HOUR)
    assert status.bytes > 0
    config = (await js.stream(f"KV_{name}")).cached_info.config
    assert config == status.config
    assert (config.subjects, config.max_msgs_per_subject) == ([f"$KV.{name}.>"], 5)
    assert (config.allow_rollup_hdrs, config.deny_delete, config.allow_direct) == (True, True, True)
    assert (config.discard, config.duplicate_window) == (DiscardPolicy.NEW, timedelta(minutes=2))


@pytest.mark.conformance("KVS-01", "KVS-11")
async def test_bad_and_missing_names_are_errors(js: JetStream) -> None:
    for bad in ("", "a.b", "KV/x"):
        with pytest.raises(InvalidBucketNameError):
            await js.key_value(bad)
        with pytest.raises(InvalidBucketNameError):
            await js.create_key_value(bucket=bad)
        with pytest.raises(InvalidBucketNameError):
            await js.delete_key_value(bad)
    for call in (js.key_value("MISSING"), js.delete_key_value("MISSING"), js.update_key_value(bucket="MISSING")):
        with pytest.raises(BucketNotFoundError) as caught:
            await call
        assert (caught.value.bucket, caught.value.err_code) == ("MISSING", 10059)


@pytest.mark.conformance("KVS-11")
async def test_a_stream_that_is_no_bucket_is_not_opened(ground: Ground, js: JetStream) -> None:
    name = new_bucket(ground)
    await ground.stream(name=f"KV_{name}")
    with pytest.raises(BadBucketError):
        await js.key_value(name)
    with pytest.raises(BadBucketError):
        await js.update_key_value(bucket=name, history=2)


@pytest.mark.conformance("KVS-09")
async def test_creating_an_equal_bucket_succeeds_and_another_one_fails(ground: Ground, js: JetStream) -> None:
    bucket = await make_bucket(ground, history=3)
    await bucket.put("a", b"1")
    again = await make_bucket(ground, bucket=bucket.bucket, history=3)
    assert (await again.get("a")).value == b"1"
    with pytest.raises(BucketExistsError) as caught:
        await make_bucket(ground, bucket=bucket.bucket, history=4)
    assert (caught.value.bucket, caught.value.err_code) == (bucket.bucket, 10058)
    assert (await bucket.status()).history == 3


@pytest.mark.conformance("KVS-09")
async def test_a_bucket_of_an_older_client_is_brought_up_to_date(ground: Ground, js: JetStream) -> None:
    bucket = await make_bucket(ground)
    stream = await js.stream(f"KV_{bucket.bucket}")
    await stream.update(discard="old", allow_direct=False)
    await make_bucket(ground, bucket=bucket.bucket)
    config = (await bucket.status()).config
    assert (config.discard, config.allow_direct) == (DiscardPolicy.NEW, True)
    await stream.update(discard="old")
    with pytest.raises(BucketExistsError):
        await make_bucket(ground, bucket=bucket.bucket, description="new")
    assert (await bucket.status()).config.discard is DiscardPolicy.OLD


@pytest.mark.conformance("KVS-04", "KVS-10")
@pytest.mark.blocking
async def test_an_update_changes_only_the_given_fields(ground: Ground, js: JetStream) -> None:
    bucket = await make_bucket(ground, history=3, ttl=HOUR, metadata={"a": "b"})
    before = (await bucket.status()).config
    await js.update_key_value(bucket=bucket.bucket, ttl=timedelta(seconds=30))
    after = (await bucket.status()).config
    assert after == before.replace(max_age=timedelta(seconds=30), duplicate_window=timedelta(seconds=30))
    with pytest.raises(StreamConfigError):
        await js.update_key_value(bucket=bucket.bucket, storage="file")


@pytest.mark.conformance("KVS-10")
@pytest.mark.blocking
async def test_a_bucket_is_updated_or_else_created(ground: Ground, js: JetStream) -> None:
    config = KeyValueConfig(new_bucket(ground), storage=StorageType.MEMORY, history=2)
    bucket = await js.create_or_update_key_value(config)
    await js.create_or_update_key_value(config, description="d")
    status = await bucket.status()
    assert (status.history, status.config.description) == (2, "d")


@pytest.mark.conformance("KVS-05")
async def test_markers_can_be_switched_on_and_stay_on(ground: Ground, js: JetStream) -> None:
    bucket = await make_bucket(ground)
    await js.update_key_value(bucket=bucket.bucket, limit_marker_ttl=timedelta(seconds=2))
    status = await bucket.status()
    assert (status.limit_marker_ttl, status.config.allow_msg_ttl) == (timedelta(seconds=2), True)


@pytest.mark.conformance("KVS-05")
async def test_markers_need_a_server_that_has_them(ground: Ground) -> None:
    asked: list[str] = []

    def answers(endpoint: str, payload: bytes) -> list[bytes]:
        asked.append(endpoint)
        return [b'{"api":{"level":0}}']

    old = await fake_api(ground, answers)
    with pytest.raises(RequiredAPILevelError, match="needs API level 1"):
        await old.create_key_value(bucket="B", limit_marker_ttl=timedelta(seconds=1))
    assert asked == ["INFO"]


@pytest.mark.conformance("KVS-07")
async def test_a_bucket_for_small_values_warns(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jetspark"):
        await make_bucket(ground, max_value_size=256)
        assert not caplog.records
        await make_bucket(ground, max_value_size=255)
    assert "deletions may not fit" in caplog.text


@pytest.mark.conformance("KVS-08")
async def test_a_configuration_that_the_server_refuses_is_an_error(ground: Ground, js: JetStream) -> None:
    with pytest.raises(APIError) as replicas:
        await make_bucket(ground, replicas=3)
    assert replicas.value.err_code == 10074
    name = new_bucket(ground)
    with pytest.raises(StreamConfigError):
        await make_bucket(ground, bucket=name, republish=Republish(f"$KV.{name}.x", src=f"$KV.{name}.>"))
    with pytest.raises(ConfigError, match="did you mean 'replicas'"):
        await make_bucket(ground, num_replicas=1)
    compressed = await js.create_key_value(bucket=new_bucket(ground), compression=True)
    assert (await compressed.status()).is_compressed


@pytest.mark.conformance("KVS-12")
@pytest.mark.blocking
async def test_lists_have_buckets_and_mirrors_and_nothing_else(ground: Ground, js: JetStream) -> None:
    bucket = await make_bucket(ground)
    mirror = await make_bucket(ground, mirror=StreamSource(bucket.bucket))
    strange = new_bucket(ground)
    await ground.stream(name=f"KV_{strange}")
    other = await ground.stream()
    mine = {bucket.bucket, mirror.bucket}
    names = await js.key_value_names().all()
    assert mine | {strange} <= set(names)
    assert other.name not in names
    statuses = {status.bucket: status async for status in js.key_values()}
    assert mine <= statuses.keys()
    assert strange not in statuses
    assert statuses[bucket.bucket].history == 1


@pytest.mark.conformance("KVS-11")
@pytest.mark.blocking
async def test_a_deleted_bucket_is_gone(ground: Ground, js: JetStream) -> None:
    bucket = await make_bucket(ground)
    await js.delete_key_value(bucket.bucket)
    for call in (
        bucket.status(),
        bucket.get("a"),
        bucket.put("a", b"1"),
        bucket.delete("a"),
        bucket.create("a", b"1"),
        js.key_value(bucket.bucket),
    ):
        with pytest.raises(BucketNotFoundError):
            await call


@pytest.mark.conformance("KVS-13", "KVS-14")
async def test_a_mirror_reads_its_copy_and_writes_to_its_origin(ground: Ground, js: JetStream) -> None:
    origin = await make_bucket(ground)
    mirror = await make_bucket(ground, mirror=StreamSource(origin.bucket))
    revision = await mirror.put("a", b"1")
    assert (await origin.get("a")).revision == revision
    entry = await eventually_get(mirror, "a")
    assert (entry.bucket, entry.key, entry.value, entry.revision) == (mirror.bucket, "a", b"1", revision)


@pytest.mark.conformance("KVS-13")
async def test_the_keys_of_a_source_are_keys_of_the_bucket(ground: Ground, js: JetStream) -> None:
    source = await make_bucket(ground)
    await source.put("a.b", b"1")
    bucket = await make_bucket(ground, sources=[StreamSource(source.bucket)])
    entry = await eventually_get(bucket, "a.b")
    assert (entry.key, entry.value) == ("a.b", b"1")
    await bucket.put("c", b"2")
    assert (await bucket.get("c")).value == b"2"


async def eventually_get(bucket: aio.jetstream.KeyValue, key: str) -> KeyValueEntry:
    async with asyncio.timeout(10):
        while True:
            try:
                return await bucket.get(key)
            except KeyNotFoundError:
                await asyncio.sleep(0.02)
