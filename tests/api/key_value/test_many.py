"""Many keys at once: read at one moment, written in a pipeline or all or nothing, markers removed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.api.key_value.buckets import make_bucket
from tests.fronts import Ground

from jetspark.aio.jetstream import KeyValue
from jetspark.errors import (
    ArgumentError,
    AtomicPublishDisabledError,
    BucketNotFoundError,
    ConfigError,
    InvalidKeyError,
    StreamStoreFailedError,
    TooManyResultsError,
    WrongLastRevisionError,
)
from jetspark.jetstream import StreamSource
from jetspark.jetstream.key_value import KeyValueSnapshot

NOW = timedelta(seconds=-1)


def values(snapshot: KeyValueSnapshot) -> dict[str, bytes | None]:
    return {key: entry.value for key, entry in snapshot.items()}


@pytest.mark.conformance("KVS-23", "KVS-44")
@pytest.mark.blocking
@pytest.mark.profiles
async def test_keys_are_read_as_they_are_at_one_moment(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=5)
    await bucket.put_many({"a": b"1", "b.x": "2", "b.y": b""})
    await bucket.delete("b.y")
    await bucket.put("a", b"3")
    for snapshot in (await bucket.get_many("a", "b.*", "none"), await bucket.entries()):
        assert (values(snapshot), snapshot.revision) == ({"b.x": b"2", "a": b"3"}, 5)
        assert list(snapshot) == ["b.x", "a"]
        assert repr(snapshot) == "<KeyValueSnapshot of 2 keys at revision 5>"
    before = await bucket.get_many(at_revision=3)
    assert (values(before), before.revision) == ({"a": b"1", "b.x": b"2", "b.y": b""}, 3)
    assert values(await bucket.entries("b.>")) == {"b.x": b"2"}
    for empty in (await bucket.get_many("none"), await bucket.entries("none.*")):
        assert values(empty) == {}


@pytest.mark.conformance("KVS-23", "KVS-44")
async def test_more_keys_than_one_request_takes_are_read_by_a_watch(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    revisions = await bucket.put_many({f"k{number}": str(number) for number in range(1025)})
    assert list(revisions.values()) == list(range(1, 1026))
    for snapshot in (await bucket.get_many(), await bucket.entries()):
        assert (len(snapshot), snapshot.revision) == (1025, 1025)
        assert snapshot["k7"].value == b"7"
    with pytest.raises(TooManyResultsError):
        await bucket.get_many(at_revision=1025)


@pytest.mark.conformance("KVS-44")
async def test_entries_are_of_one_moment_while_others_write(ground: Ground) -> None:
    """Each writer moves a pair of keys together, so at any moment they are at most one write apart."""
    bucket = await make_bucket(ground)
    stop = asyncio.Event()

    async def write(name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await bucket.put(f"{name}.first", str(number))
            await bucket.put(f"{name}.second", str(number))

    writers = [asyncio.create_task(write(name)) for name in "xyz"]
    try:
        await bucket.put_many({f"other{number}": b"" for number in range(500)})
        for _ in range(10):
            found = values(await bucket.entries())
            for name in "xyz":
                first, second = (int(found.get(f"{name}.{part}") or 0) for part in ("first", "second"))
                assert first - second in {0, 1}
    finally:
        stop.set()
        await asyncio.gather(*writers)


@pytest.mark.conformance("KVS-32")
async def test_many_keys_are_written_and_deleted(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=2)
    assert await bucket.put_many({"a": b"1", "b": "2"}) == {"a": 1, "b": 2}
    assert await bucket.put_many({"a": None, "c": bytearray(b"3")}, revisions={"a": 1, "c": 0}) == {"a": 3, "c": 4}
    assert values(await bucket.entries()) == {"b": b"2", "c": b"3"}
    assert await bucket.put_many({}) == {}
    with pytest.raises(WrongLastRevisionError) as caught:
        await bucket.put_many({"b": b"x", "d": b"4"}, revisions={"b": 1})
    assert (caught.value.key, caught.value.expected, caught.value.actual) == ("b", 1, 2)
    assert (await bucket.get("d")).value == b"4"


@pytest.mark.conformance("KVS-32")
async def test_many_keys_are_written_all_or_none(ground: Ground) -> None:
    bucket = await make_bucket(ground, allow_atomic=True)
    assert await bucket.put_many({"a": b"1", "b": b"2"}, atomic=True) == {"a": 1, "b": 2}
    assert await bucket.put_many({"a": None, "b": b"3"}, revisions={"a": 1, "b": 2}, atomic=True) == {"a": 3, "b": 4}
    with pytest.raises(WrongLastRevisionError) as caught:
        await bucket.put_many({"c": b"4", "b": b"5"}, revisions={"c": 0, "b": 2}, atomic=True)
    assert (caught.value.key, caught.value.expected, caught.value.actual) == ("b", 2, 4)
    assert values(await bucket.entries()) == {"b": b"3"}
    with pytest.raises(ConfigError):
        await bucket.put_many({f"k{number}": b"" for number in range(1001)}, atomic=True)
    plain = await make_bucket(ground)
    with pytest.raises(AtomicPublishDisabledError):
        await plain.put_many({"a": b"1", "b": b"2"}, atomic=True)


@pytest.mark.conformance("KVS-32")
async def test_nothing_is_sent_if_one_of_many_is_wrong(ground: Ground) -> None:
    bucket = await make_bucket(ground)
    with pytest.raises(InvalidKeyError):
        await bucket.put_many({"a": b"1", "b b": b"2"})
    with pytest.raises(ArgumentError, match="values takes a mapping"):
        await bucket.put_many({"a": b"1", "b": 2})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="'c'"):
        await bucket.put_many({"a": b"1"}, revisions={"c": 1})
    assert (await bucket.status()).values == 0


@pytest.mark.conformance("KVS-19", "KVS-32")
async def test_the_first_error_of_many_is_raised(ground: Ground) -> None:
    bucket = await make_bucket(ground, max_bytes=500)
    with pytest.raises(StreamStoreFailedError):
        await bucket.put_many({f"k{number}": b"x" * 100 for number in range(10)})
    assert 0 < (await bucket.status()).values < 10


@pytest.mark.conformance("KVS-33")
@pytest.mark.blocking
async def test_markers_are_removed_and_values_stay(ground: Ground) -> None:
    bucket = await make_bucket(ground, history=3)
    await bucket.put_many({"a": b"1", "b": b"2", "c": b"3"})
    await bucket.delete("a")
    await bucket.delete("b")
    assert await bucket.purge_deletes() == 2  # the markers are young: only what is older goes
    assert [entry.revision for entry in await bucket.history("a")] == [4]
    assert await bucket.purge_deletes(NOW) == 2
    assert (await bucket.history(">"))[0].key == "c"
    assert (await bucket.status()).values == 1
    assert await bucket.purge_deletes(NOW) == 0


@pytest.mark.conformance("KVS-33")
async def test_a_value_that_is_put_before_the_purge_stays(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = await make_bucket(ground, history=3)
    await bucket.put("a", b"1")
    await bucket.delete("a")
    stream = await ground.admin_js.stream(f"KV_{bucket.bucket}")
    await bucket.put("b", b"")
    marker = (await bucket.history("a"))[-1]
    await bucket.put("a", b"2")
    await stream.purge(subject=f"$KV.{bucket.bucket}.a", sequence=marker.revision + 1)  # the request of the purge
    assert (await bucket.get("a")).value == b"2"


@pytest.mark.conformance("KVS-14", "KVS-21")
async def test_a_consistent_get_on_a_mirror_asks_its_origin(ground: Ground) -> None:
    origin = await make_bucket(ground)
    mirror = await make_bucket(ground, mirror=StreamSource(origin.bucket))
    for number in range(20):
        await mirror.put("a", str(number))
        assert (await mirror.get("a", consistent=True)).value == str(number).encode()


@pytest.mark.conformance("KVS-23", "KVS-44")
async def test_a_bucket_that_is_gone_is_an_error_of_every_read(ground: Ground) -> None:
    bucket: KeyValue = await make_bucket(ground)
    await ground.js.delete_key_value(bucket.bucket)
    for call in (bucket.get_many("a"), bucket.entries(), bucket.history("a"), bucket.purge_deletes()):
        with pytest.raises(BucketNotFoundError):
            await call
