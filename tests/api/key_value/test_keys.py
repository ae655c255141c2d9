"""Keys are written, read, deleted and purged, one at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.api.key_value.buckets import make_bucket
from tests.fronts import Ground

from jetspark.errors import (
    ArgumentError,
    ConfigError,
    InvalidKeyError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    MessageTTLDisabledError,
    StreamStoreFailedError,
    ValueTooLargeError,
    WrongLastRevisionError,
)
from jetspark.jetstream.key_value import KeyValueOperation

SECOND = timedelta(seconds=1)


@pytest.mark.conformance("KVS-15", "KVS-19", "KVS-20", "KVS-25")
@pytest.mark.profiles
async def test_a_value_is_stored_and_read(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    spy = await ground.spy(f"$KV.{bucket.bucket}.>")
    before = datetime.now(UTC) - SECOND
    assert [await bucket.put("a.b", b"1"), await bucket.put("c", "ü"), await bucket.put("e", b"")] == [1, 2, 3]
    entry = await bucket.get("a.b")
    assert (entry.bucket, entry.key, entry.value, entry.revision) == (bucket.bucket, "a.b", b"1", 1)
    assert (entry.operation, entry.expired, entry.delta, entry.size) == (KeyValueOperation.PUT, False, None, 1)
    assert before < entry.created < datetime.now(UTC) + SECOND
    assert entry.created.tzinfo is not None
    assert ((await bucket.get("c")).value, (await bucket.get("e")).value) == ("ü".encode(), b"")
    assert await spy.wait(3)


@pytest.mark.conformance("KVS-17", "KVS-19")
async def test_bad_keys_and_values_are_refused_before_anything_is_sent(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    spy = await ground.spy(f"$KV.{bucket.bucket}.>", "$JS.API.DIRECT.GET.>")
    for key in ("", ".a", "a..b", "a b", "ü", "*", "a.>"):
        for call in (bucket.put(key, b""), bucket.get(key), bucket.create(key, b""), bucket.delete(key)):
            with pytest.raises(InvalidKeyError):
                await call
    with pytest.raises(InvalidKeyError, match="reserved"):
        await bucket.put("_kv.a", b"")
    with pytest.raises(TypeError):
        await bucket.put("a", None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        await bucket.delete("a", ttl=SECOND)  # type: ignore[call-arg]
    assert await spy.settled() == []


@pytest.mark.conformance("KVS-20")
@pytest.mark.blocking
async def test_a_missing_and_a_deleted_key_are_different_errors(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    with pytest.raises(KeyNotFoundError) as missing:
        await bucket.get("a")
    assert not isinstance(missing.value, KeyDeletedError)
    assert (missing.value.bucket, missing.value.key, missing.value.revision) == (bucket.bucket, "a", None)
    await bucket.put("a", b"1")
    revision = await bucket.delete("a")
    with pytest.raises(KeyDeletedError) as deleted:
        await bucket.get("a")
    assert (deleted.value.entry.revision, deleted.value.entry.operation) == (revision, KeyValueOperation.DELETE)


@pytest.mark.conformance("KVS-20", "KVS-21")
async def test_without_direct_get_the_leader_answers(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    await bucket.put("a", b"1")
    spy = await ground.spy()
    assert (await bucket.get("a")).value == b"1"
    assert (await bucket.get("a", consistent=True)).value == b"1"
    await spy.settled()
    asked = [subject.removeprefix("$JS.API.").split(".KV_")[0] for subject in spy.subjects]
    assert asked == ["DIRECT.GET", "STREAM.MSG.GET"]
    await spy.close()  # the server counts it as a responder
    await (await ground.admin_js.stream(f"KV_{bucket.bucket}")).update(allow_direct=False)
    assert (await bucket.get("a")).value == b"1"
    assert (await bucket.get("a", revision=1)).value == b"1"
    with pytest.raises(KeyNotFoundError):
        await bucket.get("b")


@pytest.mark.conformance("KVS-22")
async def test_a_revision_is_read(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=2)
    for value in (b"1", b"2", b"3"):
        await bucket.put("a", value)
    await bucket.put("b", b"4")
    await bucket.delete("b")
    assert (await bucket.get("a", revision=2)).value == b"2"
    for revision in (1, 4, 99):  # gone, of another key, never there
        with pytest.raises(KeyNotFoundError) as caught:
            await bucket.get("a", revision=revision)
        assert caught.value.revision == revision
    with pytest.raises(KeyDeletedError):
        await bucket.get("b", revision=5)
    for revision in (0, -1):
        with pytest.raises(ValueError, match="revision"):
            await bucket.get("a", revision=revision)


@pytest.mark.conformance("KVS-26", "KVS-28", "KVS-29", "KVS-30")
@pytest.mark.blocking
async def test_create_update_delete_and_purge(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=5)
    assert await bucket.create("a", b"1") == 1
    with pytest.raises(KeyExistsError) as exists:
        await bucket.create("a", b"2")
    assert exists.value.actual == 1
    assert await bucket.update("a", b"2", 1) == 2
    with pytest.raises(WrongLastRevisionError) as wrong:
        await bucket.update("a", b"3", 1)
    assert (wrong.value.expected, wrong.value.actual) == (1, 2)
    with pytest.raises(WrongLastRevisionError):
        await bucket.delete("a", revision=1)
    assert await bucket.delete("a", revision=2) == 3
    assert await bucket.create("a", b"4") == 4
    with pytest.raises(WrongLastRevisionError):
        await bucket.purge("a", revision=3)
    assert (await bucket.status()).values == 4
    assert await bucket.purge("a", revision=4) == 5
    assert (await bucket.status()).values == 1
    assert await bucket.create("a", b"5") == 6
    assert (await bucket.get("a")).value == b"5"


@pytest.mark.conformance("KVS-29", "KVS-30")
async def test_a_missing_key_can_be_deleted_and_purged(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    assert [await bucket.delete("a"), await bucket.purge("b")] == [1, 2]
    marker = await ground.admin_js.stream(f"KV_{bucket.bucket}")
    deleted, purged = await marker.get_msg(1), await marker.get_msg(2)
    assert (dict(deleted.headers.items()), deleted.payload) == ({"KV-Operation": "DEL"}, b"")
    assert (dict(purged.headers.items()), purged.payload) == ({"KV-Operation": "PURGE", "Nats-Rollup": "sub"}, b"")


@pytest.mark.conformance("KVS-26")
async def test_of_ten_that_create_a_key_one_wins(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=3)
    await bucket.put("a", b"0")
    await bucket.delete("a")
    outcomes = await asyncio.gather(*(bucket.create("a", str(number)) for number in range(10)), return_exceptions=True)
    won = [each for each in outcomes if isinstance(each, int)]
    lost = [each for each in outcomes if isinstance(each, KeyExistsError)]
    assert (len(won), len(lost)) == (1, 9)
    assert (await bucket.get("a")).revision == won[0]


@pytest.mark.conformance("KVS-06", "KVS-24", "KVS-26", "KVS-27")
async def test_a_key_with_a_time_to_live_expires_and_can_be_created_again(ground: Ground) -> None:
    bucket = await make_bucket(ground, limit_marker_ttl=timedelta(minutes=1))
    revision = await bucket.create("a", b"1", ttl=SECOND)
    assert (await bucket.get("a")).value == b"1"
    async with asyncio.timeout(10):
        while True:
            try:
                await bucket.get("a")
            except KeyDeletedError as error:
                marker = error.entry
                break
            await asyncio.sleep(0.05)
    assert (marker.operation, marker.expired, marker.value) == (KeyValueOperation.PURGE, True, b"")
    assert marker.revision > revision
    assert await bucket.create("a", b"2", ttl="never") == marker.revision + 1


@pytest.mark.conformance("KVS-27", "KVS-30")
async def test_a_time_to_live_needs_a_bucket_that_allows_it(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    for call in (bucket.create("a", b"1", ttl=SECOND), bucket.purge("a", ttl=SECOND)):
        with pytest.raises(MessageTTLDisabledError):
            await call
    for call in (bucket.create("a", b"1", ttl=SECOND / 2), bucket.purge("a", ttl=timedelta(0))):
        with pytest.raises(ConfigError, match="at least a second"):
            await call
    assert (await bucket.status()).values == 0


@pytest.mark.conformance("KVS-07")
async def test_a_value_that_is_too_large_names_both_sizes(ground: Ground) -> None:
    bucket = await make_bucket(ground, max_value_size=10)
    await bucket.put("a", b"x" * 10)
    with pytest.raises(ValueTooLargeError) as caught:
        await bucket.put("a", b"x" * 11)
    assert (caught.value.size, caught.value.limit, caught.value.err_code) == (11, 10, 10054)
    assert "xx" not in str(caught.value)
    for call in (bucket.delete("a"), bucket.update("a", b"x", 1)):
        with pytest.raises(ValueTooLargeError) as small:
            await call
        assert small.value.size > 10


@pytest.mark.conformance("KVS-19")
async def test_a_full_bucket_refuses(ground: Ground) -> None:
    bucket = await make_bucket(ground, max_bytes=200)
    await bucket.put("a", b"x" * 100)
    with pytest.raises(StreamStoreFailedError) as caught:
        await bucket.put("b", b"x" * 100)
    assert caught.value.err_code == 10077
