"""Removes chunks that no object has: of puts whose program has ended before it could clean up."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import timedelta

from jetspark.aio.jetstream._drivers.object_store import ObjectStoreCore
from jetspark.aio.jetstream._drivers.object_watch import list_objects
from jetspark.engine.watch import READ_TIMEOUT, WatchOptions
from jetspark.jetstream.api.streams import StreamSubjectsRequest, all_subjects
from jetspark.jetstream.errors import MessageNotFoundError
from jetspark.jetstream.times import duration_ns

__all__ = ["chunk_ids", "live_ids", "purge_orphans"]


async def chunk_ids(store: ObjectStoreCore, timeout: float | None) -> list[str]:  # noqa: ASYNC109
    """Return the ids of all content that the bucket has chunks of."""
    stream, prefix = store.origin
    first = store.chunk_subject("")
    pages = all_subjects(StreamSubjectsRequest(stream, f"{first}>"))
    request = next(pages)
    while True:
        page = await store.js.request(request, timeout, prefix)
        try:
            request = pages.send(page)
        except StopIteration as end:
            return [subject.removeprefix(first) for subject in end.value.state.subjects]


async def live_ids(store: ObjectStoreCore) -> set[str]:
    """Return the ids of the content that descriptions have. One that cannot be read has no content to keep."""
    infos = await list_objects(store, WatchOptions(store.meta_subjects), READ_TIMEOUT)
    return {info.nuid for info in infos if not info.deleted}


async def purge_orphans(
    store: ObjectStoreCore,
    found: Collection[str],
    live: Collection[str],
    older_than: timedelta,
    timeout: float,  # noqa: ASYNC109 (of each request)
) -> int:
    """Remove the chunks of those ids that are not live; return the number of ids.

    Content whose last chunk is younger stays: it may be of a put that still runs.
    """
    limit = time.time_ns() - duration_ns(older_than)
    removed = 0
    for nuid in found:
        if nuid in live:
            continue
        subject = store.chunk_subject(nuid)
        try:
            last = await store.get_message(subject, consistent=True, timeout=timeout)
        except MessageNotFoundError:
            continue  # removed meanwhile
        if older_than < timedelta(0) or last.timestamp_ns <= limit:
            await store.purge(subject, timeout, last.sequence + 1)
            removed += 1
    return removed
