"""The content of an object: read by chunk, whole, into a file; and what is wrong with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.api.object_store.content import FOREIGN, pieces, store_object
from tests.api.object_store.stores import make_store, write_meta
from tests.api.publishing.support import until
from tests.connection.support import eventually
from tests.fronts import PROFILES, Ground, open_ground

from jetspark.aio.jetstream import ObjectStore
from jetspark.errors import (
    BucketNotFoundError,
    DigestMismatchError,
    InvalidObjectNameError,
    LinkError,
    ObjectChangedError,
    ObjectIncompleteError,
    ObjectNotFoundError,
    SubscriptionClosedError,
)
from jetspark.jetstream import StreamSource
from jetspark.jetstream.names import API_PREFIX
from jetspark.jetstream.object_store.info import digest_text
from jetspark.server import NatsServer

SOON = 10.0
KIB = 1 << 10
LARGE = (64 * KIB,) * 40
"""Chunks of an object that is too large for one request, and whose digest is computed in a thread."""
TOO_LARGE_FOR_THE_BUFFER = (128 * KIB,) * 200


async def read_by_chunk(store: ObjectStore, name: str) -> bytes:
    async with await store.get(name) as reader:
        return b"".join([chunk async for chunk in reader])


async def read_in_parts(store: ObjectStore, name: str) -> bytes:
    parts = []
    async with await store.get(name) as reader:
        while part := await reader.read(70_001):
            parts.append(part)
    return b"".join(parts)


async def read_whole(store: ObjectStore, name: str) -> bytes:
    return await store.get_bytes(name)


def files(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


READS = (read_by_chunk, read_in_parts, read_whole)


async def no_consumers(ground: Ground, store: ObjectStore) -> None:
    async def gone() -> bool:
        return not await ground.admin_js.consumer_names(f"OBJ_{store.bucket}").all()

    await until(gone, SOON)


@pytest.mark.conformance("OBJ-14")
@pytest.mark.blocking
@pytest.mark.profiles
@pytest.mark.parametrize("sizes", [(), (1,), FOREIGN, LARGE], ids=["empty", "byte", "foreign", "large"])
async def test_content_is_read_by_chunk_in_parts_and_whole(
    ground: Ground, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    store = await make_store(ground)
    chunks = pieces(*sizes)
    await store_object(ground, store.bucket, "dir/ä?.bin", chunks)
    content = b"".join(chunks)
    spy = await ground.spy()
    for read in READS:
        assert await read(store, "dir/ä?.bin") == content
    path = tmp_path / "file"
    path.write_bytes(b"former")
    info = await store.get_file("dir/ä?.bin", path)
    assert (info.size, path.read_bytes()) == (len(content), content)
    assert files(tmp_path) == ["file"]
    assert len(await spy.settled()) < 4 * 9  # not one for each chunk
    async with await store.get("dir/ä?.bin") as reader:
        assert reader.info == info
        assert [chunk async for chunk in reader] == chunks
        assert reader.closed
        assert await reader.read() == b""
    await no_consumers(ground, store)


@pytest.mark.conformance("OBJ-14")
async def test_a_small_object_needs_two_requests_and_no_consumer(ground: Ground) -> None:
    store = await make_store(ground)
    await store_object(ground, store.bucket, "small", pieces(*FOREIGN))
    spy = await ground.spy()
    await store.get_bytes("small")
    await spy.settled()
    assert [subject.split(".")[2:4] for subject in spy.subjects] == [["DIRECT", "GET"]] * 2


@pytest.mark.conformance("OBJ-14")
async def test_a_store_without_direct_get_is_read_with_a_consumer(ground: Ground) -> None:
    made = await make_store(ground)
    stream = (await made.status()).config
    await ground.admin_js.update_stream(stream.replace(allow_direct=False))
    store = await ground.js.object_store(made.bucket)
    chunks = pieces(*FOREIGN)
    await store_object(ground, store.bucket, "x", chunks)
    assert await store.get_bytes("x") == b"".join(chunks)
    assert await made.get_bytes("x") == b"".join(chunks)  # a handle that does not know
    await no_consumers(ground, store)


@pytest.mark.conformance("OBJ-14")
async def test_objects_that_do_not_exist_are_errors(ground: Ground, tmp_path: Path) -> None:
    store = await make_store(ground)
    await write_meta(ground, store.bucket, "gone", deleted=True)
    for name in ("none", "gone"):
        for call in (
            store.get(name),
            store.get_bytes(name),
            store.get_file(name, tmp_path / "f"),
            store.read_range(name, 0),
        ):
            with pytest.raises(ObjectNotFoundError, match=name):
                await call
    with pytest.raises(InvalidObjectNameError):
        await store.get("")
    assert files(tmp_path) == []
    await ground.js.delete_object_store(store.bucket)
    with pytest.raises(BucketNotFoundError):
        await store.get("none")


@pytest.mark.conformance("OBJ-15")
@pytest.mark.parametrize("sizes", [FOREIGN, LARGE], ids=["small", "large"])
async def test_damaged_content_is_an_error_at_once(ground: Ground, sizes: tuple[int, ...], tmp_path: Path) -> None:
    store = await make_store(ground)
    chunks, size, count = pieces(*sizes), sum(sizes), len(sizes)
    wrong: dict[str, dict[str, Any]] = {
        "none": {"nuid": "M" * 22},  # as a ttl leaves it that has taken the chunks
        "fewer": {"chunks": count + 1},
        "bytes": {"size": size + 1},
        "too many bytes": {"size": size - 1},
        "no chunks": {"chunks": 0},
        "digest": {"digest": digest_text(bytes(32))},
        "no digest": {"digest": ""},
    }
    for name, fields in wrong.items():
        await store_object(ground, store.bucket, name, chunks, **fields)
        error = DigestMismatchError if "digest" in name else ObjectIncompleteError
        for read in READS:
            with pytest.raises(error, match=name):
                async with asyncio.timeout(SOON):
                    await read(store, name)
        with pytest.raises(error):
            await store.get_file(name, tmp_path / "file")
        assert files(tmp_path) == []
    await no_consumers(ground, store)


@pytest.mark.conformance("OBJ-15")
async def test_a_wrong_digest_is_an_error_instead_of_the_end(ground: Ground) -> None:
    store = await make_store(ground)
    chunks = pieces(*FOREIGN)
    await store_object(ground, store.bucket, "x", chunks, digest=digest_text(bytes(32)))
    reader = await store.get("x")
    assert [await anext(reader) for _ in chunks] == chunks
    for _ in range(2):
        with pytest.raises(DigestMismatchError):
            await anext(reader)
    reader = await store.get("x")
    with pytest.raises(DigestMismatchError):  # the last byte is not given without an error
        await reader.read(sum(FOREIGN))


@pytest.mark.conformance("OBJ-16")
@pytest.mark.blocking
@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "replaced"])
async def test_an_object_that_changes_while_it_is_read_is_an_error(ground: Ground, deleted: bool) -> None:
    store = await make_store(ground)
    nuid = await store_object(ground, store.bucket, "x", pieces(*TOO_LARGE_FOR_THE_BUFFER))
    async with await store.get("x") as reader:
        await anext(reader)
        if deleted:
            await write_meta(ground, store.bucket, "x", deleted=True)
        else:
            await store_object(ground, store.bucket, "x", pieces(5))
        stream = await ground.admin_js.stream(f"OBJ_{store.bucket}")
        await stream.purge(subject=f"$O.{store.bucket}.C.{nuid}")
        with pytest.raises(ObjectChangedError, match="deleted" if deleted else "replaced"):
            async for _ in reader:
                pass
    await no_consumers(ground, store)


class Replaced:
    """Replaces an object between the read of its description and that of its content, so many times."""

    def __init__(self, ground: Ground, store: ObjectStore, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.content = b""
        self._ground = ground
        self._bucket = store.bucket
        self._left = times
        self._get_info = store._core.get_info
        monkeypatch.setattr(store._core, "get_info", self.get_info)

    async def get_info(self, *args: Any, **options: Any) -> Any:
        info = await self._get_info(*args, **options)
        if self._left:
            self._left -= 1
            await self.replace(info.nuid)
        return info

    async def replace(self, nuid: str) -> None:
        chunks = pieces(*FOREIGN, seed=self._left)
        self.content = b"".join(chunks)
        await store_object(self._ground, self._bucket, "x", chunks)
        stream = await self._ground.admin_js.stream(f"OBJ_{self._bucket}")
        await stream.purge(subject=f"$O.{self._bucket}.C.{nuid}")


@pytest.mark.conformance("OBJ-16")
async def test_an_object_that_changes_before_its_first_byte_is_read_again_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await ground.admin_js.object_store((await make_store(ground)).bucket)
    for size in (FOREIGN, LARGE):
        await store_object(ground, store.bucket, "x", pieces(*size))
        with monkeypatch.context() as patch:
            replaced = Replaced(ground, store, 1, patch)
            assert await store.get_bytes("x") == replaced.content
            await store_object(ground, store.bucket, "x", pieces(*size))
        with monkeypatch.context() as patch:
            Replaced(ground, store, 2, patch)
            with pytest.raises(ObjectChangedError):
                await store.get("x")
        with monkeypatch.context() as patch:
            replaced = Replaced(ground, store, 1, patch)
            assert await store.read_range("x", 50, 100) == replaced.content[50:150]


@pytest.mark.conformance("OBJ-14")
async def test_a_slow_reader_does_not_fill_the_memory(ground: Ground) -> None:
    store = await make_store(ground)
    chunks = pieces(*TOO_LARGE_FOR_THE_BUFFER)
    await store_object(ground, store.bucket, "x", chunks)
    async with await store.get("x") as reader:
        delivered = [-1, 0]

        async def stopped() -> bool:
            [info] = await ground.admin_js.consumers(f"OBJ_{store.bucket}").all()
            delivered.append(info.delivered.consumer_sequence)
            return delivered[-2] == delivered[-1] > 0

        await until(stopped, SOON)
        assert delivered[-1] * 128 * KIB <= 9 << 20
        assert [chunk async for chunk in reader] == chunks


@pytest.mark.conformance("OBJ-14")
async def test_a_closed_reader_ends(ground: Ground) -> None:
    store = await make_store(ground)
    await store_object(ground, store.bucket, "x", pieces(*TOO_LARGE_FOR_THE_BUFFER))
    reader = await store.get("x")
    await anext(reader)
    for _ in range(2):
        await reader.close()
    assert reader.closed
    with pytest.raises(SubscriptionClosedError):
        await anext(reader)
    with pytest.raises(SubscriptionClosedError):  # not an end that looks like that of the object
        await reader.read()
    async with await store.get("x") as reader:
        async for _ in reader:
            break
    await no_consumers(ground, store)


@pytest.mark.conformance("OBJ-14")
async def test_a_file_is_not_left_by_a_read_that_fails(ground: Ground, tmp_path: Path) -> None:
    store = await ground.admin_js.object_store((await make_store(ground)).bucket)
    await store_object(ground, store.bucket, "x", pieces(*TOO_LARGE_FOR_THE_BUFFER))
    reading = asyncio.create_task(store.get_file("x", tmp_path / "file"))
    await eventually(lambda: files(tmp_path) != [])
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert files(tmp_path) == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        await store.get_file("x", tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        await store.get_file("x", tmp_path / "none" / "file")
    assert files(tmp_path) == ["folder"]
    await no_consumers(ground, store)


@pytest.mark.conformance("OBJ-23")
@pytest.mark.blocking
async def test_a_link_leads_to_one_object(ground: Ground) -> None:
    store, other = await make_store(ground), await make_store(ground)
    content = pieces(*FOREIGN)
    await store_object(ground, store.bucket, "here", content)
    await store_object(ground, other.bucket, "there", content)

    async def link(name: str, bucket: str, target: str | None = None) -> None:
        place = {"bucket": bucket} if target is None else {"bucket": bucket, "name": target}
        await write_meta(ground, store.bucket, name, options={"link": place})

    await link("to here", store.bucket, "here")
    await link("to there", other.bucket, "there")
    await link("to a bucket", other.bucket)
    await link("to a link", store.bucket, "to here")
    await link("to nothing", other.bucket, "nothing")
    await link("to no bucket", "MISSING", "x")
    await link("to a bad bucket", "a.b", "x")
    for name, target in (("to here", "here"), ("to there", "there")):
        assert await store.get_bytes(name) == b"".join(content)
        assert await store.read_range(name, 100, 80) == b"".join(content)[100:180]
        async with await store.get(name) as reader:
            assert reader.info.name == target
    for name in ("to a bucket", "to a link", "to a bad bucket"):
        with pytest.raises(LinkError, match=name):
            await store.get(name)
    for name, target in (("to nothing", "nothing"), ("to no bucket", "MISSING")):
        with pytest.raises(ObjectNotFoundError, match=f"{name}.*{target}"):
            await store.get_bytes(name)


@pytest.mark.conformance("OBJ-14")
async def test_a_read_continues_after_a_restart_of_the_server() -> None:
    with NatsServer() as server:
        async with open_ground("aio", PROFILES["default"], server, reconnect_wait=0.05) as ground:
            made = await make_store(ground, storage="file")
            chunks = pieces(*TOO_LARGE_FOR_THE_BUFFER)
            await store_object(ground, made.bucket, "x", chunks)
            async with await made.get("x") as reader:
                found = [await anext(reader)]
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                found += [chunk async for chunk in reader]
    assert found == chunks


@pytest.mark.conformance("OBJ-14")
async def test_a_mirror_is_read_like_its_origin(ground: Ground) -> None:
    origin = await make_store(ground)
    mirror = await make_store(ground, mirror=StreamSource(origin.bucket))
    await write_meta(ground, origin.bucket, "link", options={"link": {"bucket": origin.bucket, "name": "small"}})
    for name, sizes in (("large", LARGE), ("small", FOREIGN)):
        content = pieces(*sizes)
        await store_object(ground, origin.bucket, name, content)
        last = (await origin.get_info(name)).revision

        async def copied(last: int = last) -> bool:
            return (await mirror.status()).stream_info.state.last_sequence >= last

        await until(copied, SOON)
        assert await mirror.get_bytes(name) == b"".join(content)
        assert await mirror.read_range(name, 90, 100) == b"".join(content)[90:190]
    assert [info.name for info in await mirror.list()] == ["link", "large", "small"]
    spy = await ground.spy(f"{API_PREFIX}STREAM.INFO.OBJ_{origin.bucket}")
    assert await mirror.get_bytes("link") == b"".join(content)
    assert await spy.settled() == []  # the origin may be in another domain
