"""Puts of objects: bytes in flight, lost sessions and answers, cancellation at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.driver.cancelling import Moment, cancel_everywhere
from tests.driver.jetstream import JetStreamScript, refusal
from tests.driver.objects import StoreScript, bucket
from tests.driver.server import MemoryServer
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.errors import (
    BucketNotFoundError,
    DisconnectedError,
    InvalidAckError,
    NoStreamResponseError,
    ObjectExistsError,
    PublishTimeoutError,
    StreamStoreFailedError,
    WrongDomainError,
)

__all__ = ["bucket"]

CHUNKS = "$O.B.C.>"
METAS = "$O.B.M.>"
OLD, NEW = b"old content", b"new content!"


@pytest.mark.conformance("OBJ-07")
async def test_at_most_8_mib_are_in_flight(
    world: World, bucket: StoreScript, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_HASHED_HERE", "_BATCH"):  # threads have no virtual time
        monkeypatch.setattr(f"jetspark.aio.jetstream._drivers.content_digest.{name}", 1 << 30)
    store = await bucket.open(world)
    bucket.held = []
    seen: list[tuple[int, int | None]] = []
    size = 1 << 20
    parts = [b"x" * size] * 20
    putting = asyncio.create_task(store.put("a", parts, chunk_size=size, progress=lambda *at: seen.append(at)))
    await clock.settle()
    assert [len(pub.payload) for pub in bucket.published] == [size] * 8
    assert not seen
    bucket.release()
    info = await putting
    assert seen == [(size * number, None) for number in range(1, 21)]
    assert (info.size, info.chunks, bucket.content()) == (20 * size, 20, b"".join(parts))


@pytest.mark.conformance("OBJ-08")
async def test_the_description_goes_out_after_all_acknowledgements(
    world: World, bucket: StoreScript, clock: Clock
) -> None:
    store = await bucket.open(world)
    bucket.held = []
    putting = asyncio.create_task(store.put("a", b"x" * 10, chunk_size=4))
    await clock.settle()
    assert [pub.payload for pub in bucket.published] == [b"xxxx", b"xxxx", b"xx"]
    bucket.release()
    await putting
    meta = bucket.published[-1]
    assert (meta.subject, meta.headers["Nats-Rollup"]) == ("$O.B.M.YQ==", "sub")
    assert meta.headers["Nats-Expected-Last-Subject-Sequence"] == "0"


@pytest.mark.conformance("OBJ-08")
async def test_chunks_that_are_stored_in_another_order_are_no_object(
    world: World, bucket: StoreScript, script: JetStreamScript
) -> None:
    store = await bucket.open(world)
    bucket.refused[CHUNKS] = {"stream": "OBJ_B", "seq": 7}
    with pytest.raises(Exception, match="stored at sequence 7, after a chunk at 7"):
        await store.put("a", [b"1", b"2"], chunk_size=1)
    bucket.refused[CHUNKS] = {"stream": "OTHER", "seq": 7}
    with pytest.raises(InvalidAckError, match="OTHER"):
        await store.put("a", [b"1"])
    assert bucket.meta() is None


@pytest.mark.conformance("OBJ-11")
@pytest.mark.parametrize("answer", ["503", "lost"])
async def test_bytes_are_put_once_more_with_a_new_id_after_lost_chunks(
    world: World, bucket: StoreScript, server: MemoryServer, clock: Clock, answer: str
) -> None:
    store = await bucket.open(world)
    bucket.held = []
    putting = asyncio.create_task(store.put("a", b"x" * 10, chunk_size=4))
    await clock.settle()
    if answer == "lost":  # the session, after one chunk was stored
        first, bucket.held = bucket.held[0], None
        bucket._answer(*first)
        await clock.settle()
        server.session.reset()
    else:
        bucket.refused[CHUNKS] = answer
        bucket.release()
        bucket.refused.clear()
    info = await putting
    assert bucket.content() == b"x" * 10
    assert list(bucket.chunks) == [info.nuid]
    sent = [pub.subject for pub in bucket.published if pub.subject.startswith("$O.B.C.")]
    assert len(sent) == 6
    assert len(set(sent)) == 2
    assert sent == sorted(sent, key=sent.index)


@pytest.mark.conformance("OBJ-11")
async def test_an_iterable_cannot_be_put_again_and_its_chunks_are_removed(
    world: World, bucket: StoreScript, server: MemoryServer, clock: Clock
) -> None:
    store = await bucket.open(world)
    bucket.silent.append(CHUNKS)
    putting = asyncio.create_task(store.put("a", [b"x" * 10]))
    await clock.settle()
    server.session.reset()
    with pytest.raises(DisconnectedError):
        await putting
    assert bucket.messages == []
    assert len(bucket.published) == 1


@pytest.mark.conformance("OBJ-10", "OBJ-13")
async def test_a_refused_chunk_stops_the_put_and_removes_the_others(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    await store.put("a", OLD)

    def parts() -> Iterator[bytes]:
        yield b"1234"
        bucket.refused[CHUNKS] = refusal(503, 10077, "maximum bytes exceeded")
        yield from [b"5678"] * 100_000

    with pytest.raises(StreamStoreFailedError):
        await store.put("a", parts(), chunk_size=4)
    assert bucket.content() == OLD
    assert len(bucket.chunks) == 1
    assert len(bucket.published) < 5000


@pytest.mark.conformance("OBJ-10")
async def test_a_failed_removal_is_noted_with_the_id(
    world: World, bucket: StoreScript, script: JetStreamScript, clock: Clock
) -> None:
    store = await bucket.open(world)
    script.answer("STREAM.PURGE.OBJ_B", refusal(500, 10110, "purge not permitted"))

    def parts() -> Iterator[bytes]:
        yield b"1234"
        raise OSError("the source failed")

    with pytest.raises(OSError, match="the source failed") as caught:
        await store.put("a", parts(), chunk_size=4)
    (nuid,) = bucket.chunks
    (note,) = caught.value.__notes__
    assert nuid in note
    assert "purge not permitted" in note
    assert clock.now < 2.0


@pytest.mark.conformance("OBJ-10")
async def test_a_lost_answer_to_the_description_is_no_failure(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    await store.put("a", OLD)
    bucket.silent.append(METAS)
    info = await store.put("a", NEW)
    assert bucket.content() == NEW
    assert list(bucket.chunks) == [info.nuid]
    assert info.revision == bucket.last


@pytest.mark.conformance("OBJ-10")
async def test_a_lost_description_is_written_again_and_then_reported(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    await store.put("a", OLD)
    bucket.lost.append(METAS)
    with pytest.raises(PublishTimeoutError) as caught:
        await store.put("a", NEW)
    assert bucket.content() == OLD
    _, new = bucket.chunks
    assert new in caught.value.__notes__[0]
    assert len([pub for pub in bucket.published if pub.subject == "$O.B.M.YQ=="]) == 3


@pytest.mark.conformance("OBJ-09")
async def test_the_last_put_wins_and_removes_what_it_replaced(world: World, bucket: StoreScript, clock: Clock) -> None:
    store = await bucket.open(world)
    bucket.held = []
    first = asyncio.create_task(store.put("a", OLD))
    await clock.settle()
    (session, chunk), bucket.held = bucket.held[0], None
    second = await store.put("a", NEW)
    bucket._answer(session, chunk)
    assert (await first).revision > second.revision
    assert bucket.content() == OLD
    assert len(bucket.chunks) == 1
    assert bucket.purged == [f"$O.B.C.{second.nuid}"]


@pytest.mark.conformance("OBJ-09")
async def test_an_object_that_exists_is_kept_if_asked(world: World, bucket: StoreScript, clock: Clock) -> None:
    store = await bucket.open(world)
    bucket.held = []
    late = asyncio.create_task(store.put("a", NEW, overwrite=False))
    await clock.settle()
    (session, chunk), bucket.held = bucket.held[0], None
    await store.put("a", OLD, overwrite=False)
    bucket._answer(session, chunk)
    with pytest.raises(ObjectExistsError):
        await late
    sent = len(bucket.published)
    with pytest.raises(ObjectExistsError):
        await store.put("a", NEW, overwrite=False)
    assert len(bucket.published) == sent
    assert bucket.content() == OLD
    assert len(bucket.chunks) == 1


@pytest.mark.conformance("OBJ-12")
async def test_chunks_that_cannot_be_removed_are_a_warning(
    world: World, bucket: StoreScript, script: JetStreamScript, caplog: pytest.LogCaptureFixture
) -> None:
    store = await bucket.open(world)
    old = await store.put("a", OLD)
    script.answer("STREAM.PURGE.OBJ_B", refusal(500, 10110, "purge not permitted"))
    await store.put("a", NEW)
    assert bucket.content() == NEW
    assert old.nuid in caplog.text
    assert len(bucket.chunks) == 2


@pytest.mark.conformance("OBJ-27")
async def test_an_answer_of_another_domain_is_an_error(world: World, bucket: StoreScript) -> None:
    store = await bucket.open(world)
    original = bucket._store

    def stored_elsewhere(pub: Any) -> Any:
        answer: Any = original(pub)
        return {**answer, "domain": "leaf"}

    bucket._store = stored_elsewhere  # type: ignore[method-assign]
    with pytest.raises(WrongDomainError) as caught:
        await store.put("a", NEW)
    assert (caught.value.expected, caught.value.actual) == ("", "leaf")
    assert bucket.messages == []


@pytest.mark.conformance("OBJ-27")
async def test_a_store_whose_subjects_nobody_takes_is_an_error(
    world: World, bucket: StoreScript, script: JetStreamScript
) -> None:
    store = await bucket.open(world)
    bucket.refused["$O.B.>"] = "503"
    with pytest.raises(NoStreamResponseError):
        await store.put("a", NEW)
    script.answer("STREAM.INFO.OBJ_B", refusal(404, 10059, "stream not found"))
    with pytest.raises(BucketNotFoundError):
        await store.put("a", NEW)
    assert bucket.purged == []


@pytest.mark.conformance("OBJ-10")
@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_cancelled_put_leaves_the_old_object_or_the_new_one(
    world: World, bucket: StoreScript, moment: Moment
) -> None:
    store = await bucket.open(world)

    async def before() -> None:
        await store.put("a", OLD)

    async def after() -> None:
        assert bucket.content() in {OLD, NEW}
        assert len(bucket.chunks) == 1

    async def put() -> None:
        await store.put("a", NEW, chunk_size=4)

    assert await cancel_everywhere(put, after, moment, before=before) >= 3
