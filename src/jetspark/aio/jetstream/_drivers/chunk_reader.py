"""Reads the chunks of an object: a few by one direct get, more by an ordered consume.

Memory is bounded either way, and no request is sent for each chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import NamedTuple

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
    ObjectRead,
    why_missing,
)
from jetspark.engine.watch import WatchOptions
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.direct_get import DirectBatchRequest
from jetspark.jetstream.errors import (
    Error,
    RequestTimeoutError,
    SubscriptionClosedError,
)
from jetspark.jetstream.header_names import MSG_SIZE
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.wire.untrusted import parse_number

__all__ = ["Chunk", "ChunkReader"]


class Chunk(NamedTuple):
    """A chunk. Without its data, if only headers are read."""

    place: ChunkPlace
    data: bytes


class ChunkReader:
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
        self._watch: WatchCore[Chunk] | None = None
        self._at_end = False  # nothing more is pending
        self._waited = 0.0  # for a replica, in seconds

    async def next(self) -> list[Chunk]:
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

    def _take(self, chunks: list[Chunk]) -> list[Chunk]:
        self._waited = 0.0
        return chunks[: self._read.take([chunk.place for chunk in chunks])]

    # -- few chunks ----------------------------------------------------------------------------------------------

    @property
    def _is_small(self) -> bool:
        read, direct = self._read, bool(self._store.info.config.allow_direct)
        fits = read.bytes_left <= SMALL_READ and 0 < read.chunks_left <= DIRECT_BATCH
        return fits and direct and not self._headers_only and self._watch is None

    async def _read_small(self) -> list[Chunk]:
        """Read the chunks by one request. Returns nothing if they are not all there: the other way finds out why."""
        store, read = self._store, self._read
        start = read.next_sequence or 1
        request = DirectBatchRequest(store.stream, read.chunks_left, start, None, self._subject, DIRECT_BATCH_BYTES)
        found: list[Chunk] = []
        size = 0
        try:
            async with aclosing(direct_get_batches(store.js, request, read.chunks_left, self._timeout)) as pages:
                async for page in pages:
                    found += [Chunk(ChunkPlace(each.sequence, len(each.payload)), each.payload) for each in page]
                    size += sum(len(each.payload) for each in page)
                    if size > read.bytes_left:  # the description is wrong: read no more of it
                        return found
        except RequestTimeoutError:
            raise
        except Error:  # an old server, a lost session, or none of the chunks is there
            return []
        return found if len(found) == read.chunks_left else []

    # -- many chunks ---------------------------------------------------------------------------------------------

    async def _next_of_watch(self) -> list[Chunk]:
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

    def _start_watch(self) -> WatchCore[Chunk]:
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


def _with_data(messages: Sequence[Msg]) -> list[Chunk]:
    return [Chunk(ChunkPlace(each.metadata.stream_sequence, len(each.payload)), each.payload) for each in messages]


def _without_data(messages: Sequence[Msg]) -> list[Chunk]:
    sizes = [parse_number(each.headers.get(MSG_SIZE)) or 0 for each in messages]
    return [
        Chunk(ChunkPlace(each.metadata.stream_sequence, size), b"") for each, size in zip(messages, sizes, strict=True)
    ]
