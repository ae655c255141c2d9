"""Performs the steps of a put: sends chunks, hashes them meanwhile, and cleans up after a failure."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, TypeVar

from jetspark.aio.jetstream._drivers.content_digest import ContentDigest
from jetspark.aio.jetstream._drivers.object_source import Source
from jetspark.aio.jetstream._drivers.object_store import ObjectStoreCore
from jetspark.aio.jetstream.async_publisher import AsyncPublisher, PubAckFuture
from jetspark.engine.object_chunks import ChunkAcks, Chunker
from jetspark.engine.object_write import (
    CleanUp,
    FindMeta,
    PurgeMeta,
    PurgeReplaced,
    SendChunks,
    Sent,
    Step,
    WriteMeta,
    Writing,
)
from jetspark.jetstream.errors import Error, NoStreamResponseError
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.jetstream.object_store.info import digest_text
from jetspark.wire.outbound import Payload

__all__ = ["ObjectPut", "Progress", "run_writing"]

T = TypeVar("T")
Progress = Callable[[int, int | None], object]
_log: Final = logging.getLogger("jetspark.object_store")


class ObjectPut:
    """The content of one put.

    Parameters
    ----------
    store
        The bucket.
    source
        The content.
    chunk_size
        Bytes of a chunk.
    progress
        Gets the acknowledged bytes, and all bytes if they are known.
    timeout
        Seconds for each request and acknowledgement.
    """

    def __init__(
        self, store: ObjectStoreCore, source: Source, chunk_size: int, progress: Progress | None, timeout: float
    ) -> None:
        self._store = store
        self._source = source
        self._chunk_size = chunk_size
        self._progress = progress
        self._timeout = timeout
        self._in_flight: deque[tuple[PubAckFuture, int]] = deque()
        self._begin()

    def _begin(self) -> None:
        store = self._store
        self._in_flight.clear()
        self._acks = ChunkAcks(store.bucket, store.origin[0], store.domain)

    async def send(self, step: SendChunks) -> Sent:
        """Send the content in chunks; return when all are stored."""
        store = self._store
        self._begin()
        subject = store.chunk_subject(step.nuid)
        publisher = store.publisher(self._timeout)
        chunker, digest = Chunker(self._chunk_size), ContentDigest(store.js.connection.reader_threads)
        try:
            async with aclosing(self._source.parts()) as parts:
                async for part in parts:
                    for chunk in chunker.add(part):
                        await self._send_chunk(publisher, subject, chunk, digest)
            if rest := chunker.rest():
                await self._send_chunk(publisher, subject, rest, digest)
            # Together with the last chunks, so that it costs a small object no round trip.
            found = None if step.find is None else await store.find_meta(step.find, self._timeout, consistent=False)
            while self._in_flight:
                await self._take_ack()
            if not self._acks.chunks:
                await self._report()
            return Sent(self._acks.size, self._acks.chunks, digest_text(await digest.finish()), found)
        except NoStreamResponseError:
            await store.refresh(self._timeout)  # raises if the bucket is gone
            raise

    async def clean_up(self, step: CleanUp) -> None:
        """Wait for the answers to the chunks that were sent, and remove the chunks. Raises the error of the purge."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._timeout
        stored = self._acks.acknowledged > 0
        for future, _ in self._in_flight:
            try:
                async with asyncio.timeout_at(deadline):
                    await future
                stored = True
            except TimeoutError:  # also a PublishTimeoutError
                stored = True
            except Error as error:
                stored = stored or error.outcome_unknown
        if stored:
            await self._store.purge(self._store.chunk_subject(step.nuid), max(deadline - clock(), 0))

    async def _send_chunk(self, publisher: AsyncPublisher, subject: str, chunk: Payload, digest: ContentDigest) -> None:
        size = len(chunk)
        while self._in_flight and (self._in_flight[0][0].done() or not self._acks.has_room(size)):
            await self._take_ack()
        while (future := publisher.send(subject, chunk, None, None)) is None:
            await publisher.wait_writable()
        self._in_flight.append((future, size))
        self._acks.sent(size)
        await digest.add(chunk)

    async def _take_ack(self) -> None:
        future, size = self._in_flight[0]
        ack = await future
        self._acks.stored(size, ack)
        self._in_flight.popleft()
        await self._report()

    async def _report(self) -> None:
        if self._progress is not None:
            result = self._progress(self._acks.acknowledged, self._source.total)
            if inspect.isawaitable(result):
                await result


async def run_writing(
    store: ObjectStoreCore,
    workflow: Writing,
    timeout: float,  # noqa: ASYNC109 (of each step)
    put: ObjectPut | None = None,
) -> ObjectInfo:
    """Perform the steps of a write to its end; return the new description.

    Only the sending of content can be interrupted. If the call is cancelled later, it ends after the other steps.
    """
    cancelled = False
    step = next(workflow)
    while True:
        problem: BaseException | None = None
        answer: object = None
        try:
            if step.final:
                work = asyncio.ensure_future(_perform(store, step, timeout, put))
                cancelled = await _wait_for(work) or cancelled
                answer = work.result()
            elif cancelled:
                problem = asyncio.CancelledError()
            else:
                answer = await _perform(store, step, timeout, put)
        except BaseException as error:  # noqa: BLE001 - the workflow decides
            problem = error
            cancelled = cancelled or isinstance(error, asyncio.CancelledError)
        try:
            step = workflow.send(answer) if problem is None else workflow.throw(problem)
        except StopIteration as end:
            info: ObjectInfo = end.value
            if cancelled:
                raise asyncio.CancelledError from None
            return info.replace(mtime_ns=time.time_ns())
        except Exception as error:
            if cancelled:
                raise asyncio.CancelledError from error
            raise
        finally:
            problem = None  # its traceback holds this frame


async def _perform(store: ObjectStoreCore, step: Step, timeout: float, put: ObjectPut | None) -> object:  # noqa: ASYNC109
    match step:
        case SendChunks():
            assert put is not None
            return await put.send(step)
        case CleanUp():
            assert put is not None
            await put.clean_up(step)
            return None
        case FindMeta(name, consistent, pause):
            await asyncio.sleep(pause)
            return await store.find_meta(name, timeout, consistent=consistent)
        case WriteMeta(info, expected):
            return await store.write_meta(info, expected, timeout)
        case PurgeMeta(name, revision):
            await store.purge(store.meta_subject(name), timeout, revision + 1)
            return None
        case PurgeReplaced(nuid):
            try:
                await store.purge(store.chunk_subject(nuid), timeout)
            except Error as error:
                _log.warning(
                    "bucket %s: chunks with the nuid %s are left, sweep removes them: %s", store.bucket, nuid, error
                )
            return None
        case _:
            raise AssertionError(step)


async def _wait_for(task: asyncio.Future[object]) -> bool:
    """Wait for the end of a task, also if the caller is cancelled; return whether that happened."""
    interrupted = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            interrupted = True
    return interrupted
