"""Reads the content of an object: a small one by one direct get, others by an ordered consume.

Memory is bounded either way, and no request is sent for each chunk. The digest of a large object is computed in a
thread, while the next chunks come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from jetspark.aio.jetstream._drivers.buckets import get_bucket_info
from jetspark.aio.jetstream._drivers.content_digest import ContentDigest
from jetspark.aio.jetstream._drivers.direct_get import direct_get_batches
from jetspark.aio.jetstream._drivers.object_store import ObjectStoreCore
from jetspark.aio.jetstream._drivers.watch import WatchCore
from jetspark.aio.message import Msg
from jetspark.engine.direct_read import DIRECT_BATCH, DIRECT_BATCH_BYTES
from jetspark.engine.object_read import (
    READ_BYTES,
    READ_HEARTBEAT,
    REPLICA_WAIT,
    SMALL_READ,
    ChunkPlace,
    ChunkTable,
    ChunkTables,
    ObjectRead,
    check_digest,
    check_range,
    why_missing,
)
from jetspark.engine.watch import WatchOptions
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.direct_get import DirectBatchRequest
from jetspark.jetstream.errors import (
    BucketNotFoundError,
    Error,
    LinkError,
    ObjectChangedError,
    ObjectNotFoundError,
    RequestTimeoutError,
    SubscriptionClosedError,
)
from jetspark.jetstream.header_names import MSG_SIZE
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.wire.untrusted import parse_number

__all__ = ["ObjectReadCore", "open_reader", "read_range"]


class _Chunk(NamedTuple):
    """A chunk. Without its data, if only headers are read."""

    place: ChunkPlace
    data: bytes


class _ChunkReader:
    """Reads consecutive chunks of an object, in lists of those available at the time.

    Parameters
    ----------
    store, info
        The bucket, and the description of the object.
    read
        Which chunks must come.
    timeout
        Seconds without a chunk after which it gives up.
    headers_only
        Whether to leave out the data.
    """

    def __init__(
        self, store: ObjectStoreCore, info: ObjectInfo, read: ObjectRead, timeout: float, *, headers_only: bool = False
    ) -> None:
        self.where = f"{store.bucket}: object {info.name!r}"
        self._store = store
        self._info = info
        self._read = read
        self._timeout = timeout
        self._headers_only = headers_only
        self._subject = store.chunk_subject(info.nuid)
        self._watch: WatchCore[_Chunk] | None = None
        self._at_end = False  # nothing more is pending
        self._waited = 0.0  # for a replica, in seconds

    async def next(self) -> list[_Chunk]:
        """Return the next chunks; an empty list at the end.

        Raises
        ------
        ObjectIncompleteError, ObjectChangedError
            Chunks are missing.
        RequestTimeoutError
            No chunk came in time.
        """
        try:
            if self._is_small and (chunks := await self._read_small()):
                return self._take(chunks)
            while not self._read.complete:
                if chunks := await self._next_of_watch():
                    return self._take(chunks)
                await self._find_missing()
        except Error:
            await self.stop()
            raise
        await self.stop()
        return []

    async def stop(self) -> None:
        """End now, and delete the consumer."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.stop()

    def _take(self, chunks: list[_Chunk]) -> list[_Chunk]:
        self._waited = 0.0
        return chunks[: self._read.take([chunk.place for chunk in chunks])]

    # -- few chunks ----------------------------------------------------------------------------------------------

    @property
    def _is_small(self) -> bool:
        read, direct = self._read, bool(self._store.info.config.allow_direct)
        fits = read.bytes_left <= SMALL_READ and 0 < read.chunks_left <= DIRECT_BATCH
        return fits and direct and not self._headers_only and self._watch is None

    async def _read_small(self) -> list[_Chunk]:
        """Read the chunks by one request. Returns nothing if they are not all there: the other way finds out why."""
        store, read = self._store, self._read
        start = read.next_sequence or 1
        request = DirectBatchRequest(store.stream, read.chunks_left, start, None, self._subject, DIRECT_BATCH_BYTES)
        found: list[_Chunk] = []
        size = 0
        try:
            async with aclosing(direct_get_batches(store.js, request, read.chunks_left, self._timeout)) as pages:
                async for page in pages:
                    found += [_Chunk(ChunkPlace(each.sequence, len(each.payload)), each.payload) for each in page]
                    size += sum(len(each.payload) for each in page)
                    if size > read.bytes_left:  # the description is wrong: read no more of it
                        return found
        except RequestTimeoutError:
            raise
        except Error:  # an old server, a lost session, or none of the chunks is there
            return []
        return found if len(found) == read.chunks_left else []

    # -- many chunks ---------------------------------------------------------------------------------------------

    async def _next_of_watch(self) -> list[_Chunk]:
        """Return the chunks that have come; an empty list if no more are pending."""
        if self._at_end:
            return []
        watch = self._watch
        try:
            async with asyncio.timeout(self._timeout):
                if watch is None:
                    watch = self._start_watch()
                    await watch.wait_started()  # ends the watch if it is cancelled
                    self._watch = watch
                    if watch.initial_count is not None and watch.initial_count < self._read.chunks_left:
                        return []
                await watch.fill()
        except TimeoutError:
            raise RequestTimeoutError(f"{self.where}: no chunk came for {self._timeout:g} s") from None
        if not watch.entries:
            raise SubscriptionClosedError(f"{self.where}: the reader was closed")
        chunks = [chunk for chunk in watch.entries if chunk is not None]
        self._at_end = watch.initial_data_given
        watch.entries.clear()
        return chunks

    def _start_watch(self) -> WatchCore[_Chunk]:
        store, start = self._store, self._read.next_sequence
        options = WatchOptions(
            (self._subject,), include_history=not start, resume_from=start or None, meta_only=self._headers_only
        )
        longest = store.js.connection.client.outbound.max_payload
        convert = _without_data if self._headers_only else _with_data
        buffer = max(READ_BYTES, 2 * longest)
        return WatchCore(store.js, store.bucket, store.stream, options, convert, buffer, READ_HEARTBEAT)

    async def _find_missing(self) -> None:
        """Raise why chunks are missing. If the leader has them, begin again after the last chunk, a little later."""
        await self.stop()
        self._at_end = False
        store, info, request = self._store, self._info, StreamInfoRequest(self._store.stream, False, self._subject)
        current = await store.find_info(info.name, self._timeout, consistent=True)
        stored = ((await store.js.request(request, self._timeout)).state.subjects or {}).get(self._subject, 0)
        problem = why_missing(self.where, info, current, stored)
        if problem is not None:
            raise problem
        self._waited += REPLICA_WAIT
        if self._waited > self._timeout:
            raise RequestTimeoutError(f"{self.where}: the replica that answers lacks chunks for {self._timeout:g} s")
        await asyncio.sleep(REPLICA_WAIT)


def _with_data(messages: Sequence[Msg]) -> list[_Chunk]:
    return [_Chunk(ChunkPlace(each.metadata.stream_sequence, len(each.payload)), each.payload) for each in messages]


def _without_data(messages: Sequence[Msg]) -> list[_Chunk]:
    sizes = [parse_number(each.headers.get(MSG_SIZE)) or 0 for each in messages]
    return [
        _Chunk(ChunkPlace(each.metadata.stream_sequence, size), b"") for each, size in zip(messages, sizes, strict=True)
    ]


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
        self._reader = _ChunkReader(store, info, self._read, timeout)
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
    where = f"{store.bucket}: link {name!r}"
    if not link.name:
        raise LinkError(f"{where} leads to bucket {link.bucket!r}, which is no object; open the bucket")
    target = f"object {link.name!r} of bucket {link.bucket!r}"
    try:
        place = store
        own = {store.prefix, OBJECTS.subjects_of(store.bucket)}  # two, if it is a mirror
        if OBJECTS.subjects_of(link.bucket) not in own:
            stream = OBJECTS.stream_of(link.bucket)
            place = ObjectStoreCore(store.js, await get_bucket_info(store.js, link.bucket, stream, timeout))
        found = await place.get_info(link.name, timeout)
    except (ObjectNotFoundError, BucketNotFoundError):
        text = f"{where}: its target, {target}, does not exist"
        raise ObjectNotFoundError(text, bucket=store.bucket, name=name) from None
    except ValueError as error:
        raise LinkError(f"{where} cannot be followed to {target}: {error}") from None
    if found.link is not None:
        raise LinkError(f"{where} leads to {target}, which is a link, too")
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
        async for chunks in _chunks(_ChunkReader(store, info, read, timeout, headers_only=True)):
            table.add([chunk.place for chunk in chunks])
        tables.put(info.nuid, table)
    wanted = table.find(offset, length)
    if wanted is None:
        return b""
    read = ObjectRead(where, len(wanted.sequences), wanted.size, wanted.sequences)
    parts: list[bytes | memoryview] = []
    async for chunks in _chunks(_ChunkReader(store, info, read, timeout)):
        parts += [chunk.data for chunk in chunks]
    parts[0] = memoryview(parts[0])[wanted.skip :]
    parts[-1] = memoryview(parts[-1])[: len(parts[-1]) - wanted.excess]
    return b"".join(parts)


async def _chunks(reader: _ChunkReader) -> AsyncGenerator[list[_Chunk], None]:
    try:
        while chunks := await reader.next():
            yield chunks
    finally:
        await reader.stop()
