"""Objects are put from every kind of source; they replace each other and leave nothing after a failure."""

from __future__ import annotations

import array
import asyncio
import hashlib
import io
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.object_store.stores import chunks_of, make_store, nuids_of
from tests.fronts import Ground

from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    ArgumentError,
    BucketNotFoundError,
    ConfigError,
    InvalidObjectNameError,
    LinkError,
    MaxPayloadError,
    ObjectExistsError,
    StreamStoreFailedError,
)
from jetspark.jetstream import ObjectLink, ObjectOptions

CONTENT = bytes(range(256)) * 1000


@pytest.mark.conformance("OBJ-04", "OBJ-06", "OBJ-08")
@pytest.mark.blocking
async def test_an_object_is_stored_in_full_chunks_and_described(ground: Ground) -> None:
    store = await make_store(ground)
    info = await store.put(
        "a", CONTENT, description="d", headers={"k": ["v", "w"]}, metadata={"m": "n"}, chunk_size=100_000
    )
    digest = urlsafe_b64encode(hashlib.sha256(CONTENT).digest()).decode()
    assert (info.name, info.bucket, info.size, info.chunks) == ("a", store.bucket, 256_000, 3)
    assert (info.digest, info.description) == (f"SHA-256={digest}", "d")
    assert (info.headers, info.metadata, info.options.max_chunk_size) == ({"k": ["v", "w"]}, {"m": "n"}, 100_000)
    assert len(info.nuid) == 22
    stored = await store.get_info("a")
    assert abs((stored.mtime - info.mtime).total_seconds()) < 60
    assert stored == info.replace(mtime_ns=stored.mtime_ns)
    messages = await chunks_of(ground, store, info.nuid)
    assert [len(message.payload) for message in messages] == [100_000, 100_000, 56_000]
    assert b"".join(message.payload for message in messages) == CONTENT
    assert not any(message.headers for message in messages)
    copy = await store.put("b", CONTENT, options=info.options)
    assert (copy.chunks, copy.options) == (3, info.options)


@pytest.mark.conformance("OBJ-05", "OBJ-06")
@pytest.mark.blocking
async def test_every_kind_of_source_is_put(ground: Ground, tmp_path: Path) -> None:
    store = await make_store(ground)
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)

    class ReusedBuffer:
        """Yields one buffer again and again with other content."""

        def __iter__(self) -> Iterator[bytes | memoryview]:
            buffer = bytearray(7)
            for start in range(0, len(CONTENT), 7):
                part = CONTENT[start : start + 7]
                buffer[: len(part)] = part
                yield part if start % 2 else memoryview(buffer)[: len(part)]

    async def agenerator() -> AsyncIterator[bytes]:
        for start in range(0, len(CONTENT), 70_000):
            await asyncio.sleep(0)
            yield CONTENT[start : start + 70_000]

    class ShortReads(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 1000))

    sources: list[Any] = [
        CONTENT,
        bytearray(CONTENT),
        memoryview(CONTENT),
        array.array("Q", CONTENT),
        path,
        io.BytesIO(CONTENT),
        ShortReads(CONTENT),
        [CONTENT[:99], b"", CONTENT[99:]],
        ReusedBuffer(),
        (CONTENT[start : start + 7] for start in range(0, len(CONTENT), 7)),
        agenerator(),
    ]
    infos = [await store.put(f"o{number}", source) for number, source in enumerate(sources)]
    with path.open("rb") as file:
        infos.append(await store.put("file", file))
    assert {(info.size, info.chunks) for info in infos} == {(256_000, 2)}
    assert len({info.digest for info in infos}) == 1
    by_path = await store.put_file(str(path))
    assert (by_path.name, by_path.digest) == ("file.bin", infos[0].digest)
    assert (await store.put_file(path, name="other")).name == "other"
    for info in infos:
        first, second = await chunks_of(ground, store, info.nuid)
        assert (len(first.payload), first.payload + second.payload == CONTENT) == (131_072, True)


@pytest.mark.conformance("OBJ-06", "OBJ-07")
async def test_an_empty_object_has_no_chunks(ground: Ground) -> None:
    store = await make_store(ground)
    seen: list[tuple[int, int | None]] = []
    empty: list[Any] = [b"", [], io.BytesIO(), [b"", b""]]
    for source in empty:
        info = await store.put("a", source, progress=lambda *at: seen.append(at))
        assert (info.size, info.chunks) == (0, 0)
        assert info.digest == "SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="
    assert seen == [(0, 0), (0, None), (0, None), (0, None)]
    assert (await store.status()).stream_info.state.messages == 1


@pytest.mark.conformance("OBJ-04", "OBJ-05")
async def test_a_source_or_an_option_that_cannot_be_is_refused(ground: Ground, tmp_path: Path) -> None:
    store = await make_store(ground)
    text: list[Any] = ["text", io.StringIO("text"), 5, None, object()]
    for source in text:
        with pytest.raises(ArgumentError):
            await store.put("a", source)
    with (tmp_path / "text").open("w+") as file, pytest.raises(ArgumentError, match="binary mode"):
        await store.put("a", file)  # type: ignore[arg-type]
    parts: list[Any] = [[b"x" * 200_000, "text"], [b"x", 5], "text"]
    for source in (parts[0], parts[1], iter(parts[1])):
        with pytest.raises(ArgumentError, match="each part must be bytes"):
            await store.put("a", source)
    for chunk_size in (0, -1, 2**20 + 1):
        with pytest.raises(ConfigError, match="chunk_size"):
            await store.put("a", b"x", chunk_size=chunk_size)
        with pytest.raises(ConfigError, match="chunk_size"):
            await store.put("a", b"x", options=ObjectOptions(max_chunk_size=chunk_size))
    with pytest.raises(LinkError):
        await store.put("a", b"x", options=ObjectOptions(link=ObjectLink(bucket="B", name="b")))
    names: list[Any] = ["", "x" * 3000, 7, None, b"x"]
    for name in names:
        with pytest.raises(InvalidObjectNameError):
            await store.put(name, b"x")
    with pytest.raises(MaxPayloadError):
        await store.put("a", b"x", description="d" * 2**20)
    with pytest.raises(ConfigError):
        await store.put("a", b"x", metadata={"a": "\udc80"})
    with pytest.raises(FileNotFoundError):
        await store.put("a", tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        await store.put_file(tmp_path / "missing")
    assert (await store.status()).stream_info.state.messages == 0


@pytest.mark.conformance("OBJ-07")
@pytest.mark.blocking
async def test_progress_ascends_to_the_size_and_can_stop_a_put(ground: Ground) -> None:
    store = await make_store(ground)
    seen: list[tuple[int, int | None]] = []
    await store.put("a", CONTENT, chunk_size=10_000, progress=lambda *at: seen.append(at))
    assert seen == [(min(number * 10_000, 256_000), 256_000) for number in range(1, 27)]

    class StopError(Exception):
        pass

    def stop(done: int, total: int | None) -> None:
        if done >= 50_000:
            raise StopError

    old = await nuids_of(ground, store)
    with pytest.raises(StopError):
        await store.put("a", CONTENT, chunk_size=10_000, progress=stop)
    assert await nuids_of(ground, store) == old
    assert (await store.get_info("a")).nuid in old


@pytest.mark.conformance("OBJ-09", "OBJ-12")
async def test_a_put_replaces_the_object_and_its_chunks(ground: Ground) -> None:
    store = await make_store(ground)
    first = await store.put("a", CONTENT)
    second = await store.put("a", b"new")
    assert (await store.get_info("a")).nuid == second.nuid
    assert await nuids_of(ground, store) == {second.nuid}
    assert first.nuid != second.nuid
    with pytest.raises(ObjectExistsError) as caught:
        await store.put("a", b"x", overwrite=False)
    assert (caught.value.bucket, caught.value.name) == (store.bucket, "a")
    assert await nuids_of(ground, store) == {second.nuid}


@pytest.mark.conformance("OBJ-09")
async def test_parallel_puts_of_a_name_leave_one_object(ground: Ground) -> None:
    store = await make_store(ground)
    puts = [store.put("a", bytes([number]) * 1000, chunk_size=100) for number in range(10)]
    infos = await asyncio.gather(*puts)
    last = await store.get_info("a")
    assert last.nuid in {info.nuid for info in infos}
    assert last.revision == max(info.revision for info in infos)
    assert await nuids_of(ground, store) == {last.nuid}
    assert len(await chunks_of(ground, store, last.nuid)) == 10
    outcomes = await asyncio.gather(*(store.put("b", b"x", overwrite=False) for _ in range(10)), return_exceptions=True)
    assert sum(isinstance(outcome, ObjectExistsError) for outcome in outcomes) == 9
    assert len(await nuids_of(ground, store)) == 2


@pytest.mark.conformance("OBJ-10", "OBJ-13")
async def test_a_full_bucket_keeps_what_it_had(ground: Ground) -> None:
    store = await make_store(ground, max_bytes=400_000)
    old = await store.put("a", CONTENT)
    with pytest.raises(StreamStoreFailedError) as caught:
        await store.put("a", CONTENT * 2)
    assert caught.value.err_code == 10077
    assert await nuids_of(ground, store) == {old.nuid}
    assert (await store.get_info("a")).nuid == old.nuid


@pytest.mark.conformance("OBJ-10")
async def test_a_source_that_fails_leaves_nothing(ground: Ground) -> None:
    store = await make_store(ground)

    def failing() -> Iterator[bytes]:
        yield CONTENT
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError, match="the source failed"):
        await store.put("a", failing())
    assert (await store.status()).stream_info.state.messages == 0


@pytest.mark.conformance("OBJ-10")
async def test_a_cancelled_put_leaves_nothing(ground: Ground) -> None:
    if ground.front != "aio":
        pytest.skip("blocking calls are not cancelled")
    store = await make_store(ground)
    reached = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield CONTENT
        reached.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(store.put("a", endless()))
    await reached.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert (await store.status()).stream_info.state.messages == 0


@pytest.mark.conformance("OBJ-10")
async def test_a_put_to_a_deleted_bucket_says_so(ground: Ground, js: JetStream) -> None:
    store = await make_store(ground)
    await js.delete_object_store(store.bucket)
    for overwrite in (True, False):
        with pytest.raises(BucketNotFoundError):
            await store.put("a", CONTENT, overwrite=overwrite)
