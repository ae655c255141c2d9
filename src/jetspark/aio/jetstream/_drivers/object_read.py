"""Reads the content of an object: whole, or a range of it. Links lead to their targets."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from jetspark.aio.jetstream._drivers.buckets import get_bucket_info
from jetspark.aio.jetstream._drivers.chunk_reader import Chunk, ChunkReader
from jetspark.aio.jetstream._drivers.content_digest import ContentDigest
from jetspark.aio.jetstream._drivers.object_store import ObjectStoreCore
from jetspark.engine.object_read import (
    ChunkTable,
    ChunkTables,
    LinkTarget,
    ObjectRead,
    check_digest,
    check_range,
)
from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.errors import (
    Error,
    ObjectChangedError,
    SubscriptionClosedError,
)
from jetspark.jetstream.object_store import ObjectInfo

__all__ = ["ObjectReadCore", "open_reader", "read_range"]


class ObjectReadCore:
    """The core of a reader of one object.

    Attributes
    ----------
    info
        The description of the object.
    chunks
        The chunks that were not handed out yet.
    error
        Why the read ended before its end. It follows the chunks.
    """

    def __init__(self, store: ObjectStoreCore, info: ObjectInfo, timeout: float) -> None:
        self.info = info
        self.chunks: deque[bytes | memoryview] = deque()
        self.error: Error | None = None
        self._where = f"{store.bucket}: object {info.name!r}"
        self._read = ObjectRead(self._where, info.chunks, info.size)
        self._reader = ChunkReader(store, info, self._read, timeout)
        self._digest = ContentDigest(store.js.connection.reader_threads)
        self._checked = self._closed = False
        self._filling = asyncio.Lock()

    @property
    def closed(self) -> bool:
        """Whether nothing more is to be read."""
        return not self.chunks and (self._checked or self._closed)

    async def fill(self) -> None:
        """Wait until `chunks` has some, or for the end. Raises the error that ended the read."""
        async with self._filling:
            while not (self.chunks or self._checked):
                if self.error is not None:
                    raise self.error
                if self._closed:
                    raise SubscriptionClosedError(f"{self._where}: the reader was closed")
                try:
                    await self._fill()
                except Error as error:
                    self.error = error

    async def _fill(self) -> None:
        """Wait for more chunks, or compare the digest at the end."""
        chunks = await self._reader.next()
        if chunks:
            data = [chunk.data for chunk in chunks]
            self.chunks.extend(data)
            await self._digest.add(*data)
        else:
            check_digest(self._where, self.info, await self._digest.finish())
            self._checked = True

    async def read(self, count: int) -> bytes:
        """Return the next bytes; see `ObjectReader.read`."""
        parts: list[bytes | memoryview] = []
        left = count
        try:
            while left:
                if not self.chunks:
                    await self.fill()
                    if not self.chunks:
                        break
                part = self.chunks.popleft()
                if 0 <= left < len(part):
                    whole = memoryview(part)
                    self.chunks.appendleft(whole[left:])
                    part = whole[:left]
                parts.append(part)
                if left > 0:
                    left -= len(part)
            if self._read.complete and not self.chunks:
                await self.fill()  # so that nobody takes the last bytes for good who does not read on
        except BaseException:
            self.chunks.extendleft(reversed(parts))
            raise
        return b"".join(parts)

    async def stop(self) -> None:
        """End now."""
        self._closed = True
        self.chunks.clear()
        await self._reader.stop()


async def find_object(
    store: ObjectStoreCore,
    name: str,
    timeout: float,  # noqa: ASYNC109
) -> tuple[ObjectStoreCore, ObjectInfo]:
    """Return the description of an object, and its bucket. A link leads to its target (OBJ-23).

    Raises
    ------
    ObjectNotFoundError
        There is no such object, or no target of the link.
    LinkError
        It is a link to a bucket, or to another link.
    """
    info = await store.get_info(name, timeout)
    link = info.link
    if link is None:
        return store, info
    target = LinkTarget(store.bucket, name, link)
    try:
        place = store
        own = {store.prefix, OBJECTS.subjects_of(store.bucket)}  # two, if it is a mirror
        if OBJECTS.subjects_of(target.bucket) not in own:
            stream = OBJECTS.stream_of(target.bucket)
            place = ObjectStoreCore(store.js, await get_bucket_info(store.js, target.bucket, stream, timeout))
        found = await place.get_info(target.name, timeout)
    except (LookupError, ValueError) as error:
        raise target.failed(error) from None
    target.check(found)
    return place, found


async def open_reader(store: ObjectStoreCore, name: str, timeout: float) -> ObjectReadCore:  # noqa: ASYNC109 (of silence)
    """Begin to read an object: wait for its first bytes. If it is replaced before them, begin again once (OBJ-16)."""
    place, info = await find_object(store, name, timeout)
    try:
        return await _begin(place, info, timeout)
    except ObjectChangedError:
        place, info = await find_object(store, name, timeout)
        return await _begin(place, info, timeout)


async def _begin(store: ObjectStoreCore, info: ObjectInfo, timeout: float) -> ObjectReadCore:  # noqa: ASYNC109
    core = ObjectReadCore(store, info, timeout)
    try:
        await core.fill()
    except BaseException:
        await core.stop()
        raise
    return core


async def read_range(
    store: ObjectStoreCore,
    name: str,
    offset: int,
    length: int | None,
    timeout: float,  # noqa: ASYNC109 (of silence)
) -> bytes:
    """Return a range of an object's content; see `ObjectStore.read_range`."""
    check_range(offset, length)
    place, info = await find_object(store, name, timeout)
    try:
        return await _read_range(store.chunk_tables, place, info, offset, length, timeout)
    except ObjectChangedError:
        place, info = await find_object(store, name, timeout)
        return await _read_range(store.chunk_tables, place, info, offset, length, timeout)


async def _read_range(
    tables: ChunkTables,
    store: ObjectStoreCore,
    info: ObjectInfo,
    offset: int,
    length: int | None,
    timeout: float,  # noqa: ASYNC109
) -> bytes:
    where = f"{store.bucket}: object {info.name!r}"
    table = tables.get(info.nuid)
    if table is None:
        table = ChunkTable()
        read = ObjectRead(where, info.chunks, info.size)
        async for chunks in _chunks(ChunkReader(store, info, read, timeout, headers_only=True)):
            table.add([chunk.place for chunk in chunks])
        tables.put(info.nuid, table)
    wanted = table.find(offset, length)
    if wanted is None:
        return b""
    read = ObjectRead(where, len(wanted.sequences), wanted.size, wanted.sequences)
    parts: list[bytes | memoryview] = []
    async for chunks in _chunks(ChunkReader(store, info, read, timeout)):
        parts += [chunk.data for chunk in chunks]
    parts[0] = memoryview(parts[0])[wanted.skip :]
    parts[-1] = memoryview(parts[-1])[: len(parts[-1]) - wanted.excess]
    return b"".join(parts)


async def _chunks(reader: ChunkReader) -> AsyncGenerator[list[Chunk], None]:
    try:
        while chunks := await reader.next():
            yield chunks
    finally:
        await reader.stop()
