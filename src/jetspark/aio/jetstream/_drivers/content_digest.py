"""The SHA-256 digest of content of any size, which delays no other task."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import Future
from functools import partial
from typing import Final

from jetspark.aio.reader_threads import ReaderThreads
from jetspark.wire.outbound import Payload

__all__ = ["ContentDigest"]

_HASHED_HERE: Final = 1 << 20
"""Bytes up to which content is hashed on the event loop; hashing more would delay other tasks."""
_BATCH: Final = 2 << 20
"""Bytes for which a thread is woken; more often costs more than the hashing."""


class ContentDigest:
    """The digest of content. More than a mebibyte is hashed in a thread while the next chunks are sent or read."""

    def __init__(self, threads: ReaderThreads) -> None:
        self._sha = hashlib.sha256()
        self._threads = threads
        self._waiting: list[Payload] = []
        self._size = 0
        self._job: Future[None] | None = None

    async def add(self, *chunks: Payload) -> None:
        """Add chunks, which must not be changed later. May wait until the thread has hashed earlier ones.

        If it is cancelled, the chunks were added.
        """
        self._waiting += chunks
        self._size += sum(map(len, chunks))
        if self._size > _BATCH:
            await self._hash_in_thread()

    async def finish(self) -> bytes:
        """Return the digest of all chunks."""
        if self._size > _HASHED_HERE:
            await self._hash_in_thread()
        await self._wait()
        self._update(self._waiting)
        self._waiting, self._size = [], 0
        return self._sha.digest()

    async def _hash_in_thread(self) -> None:
        await self._wait()
        self._job = self._threads.submit(partial(self._update, self._waiting))
        self._waiting, self._size = [], 0

    async def _wait(self) -> None:
        """Wait for the thread, which ends its work also if this wait is cancelled."""
        if self._job is not None:
            await asyncio.wait([asyncio.wrap_future(self._job)])
            self._job.result()

    def _update(self, chunks: list[Payload]) -> None:
        for chunk in chunks:
            self._sha.update(chunk)
