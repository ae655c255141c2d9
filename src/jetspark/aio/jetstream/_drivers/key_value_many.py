"""Many keys of a bucket at once: read at one moment, written in a pipeline, markers removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from jetspark.aio.jetstream._drivers.direct_get import direct_get_batches
from jetspark.aio.jetstream._drivers.key_value import KeyValueCore, KeyWrite
from jetspark.aio.jetstream._drivers.key_watch import entry_pages
from jetspark.aio.jetstream.async_publisher import AsyncPublisher, PubAckFuture
from jetspark.engine.direct_read import DIRECT_BATCH, DIRECT_BATCH_BYTES
from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.engine.watch import WatchOptions
from jetspark.jetstream.api import StreamPurgeRequest
from jetspark.jetstream.direct_get import DirectMultiLastRequest
from jetspark.jetstream.errors import Error, WrongLastRevisionError, WrongLastSequenceError
from jetspark.jetstream.key_value.entry import KeyValueEntry, stored_entry
from jetspark.jetstream.key_value.snapshot import KeyValueSnapshot
from jetspark.jetstream.times import duration_ns

__all__ = ["as_mapping", "purge_markers", "read_at_revision", "read_newest", "write_many"]

_PURGES_IN_FLIGHT: Final = 32
"""Most purges at a time; each one waits for the disk, and in a cluster for the replicas."""


async def read_at_revision(
    bucket: KeyValueCore,
    subjects: Sequence[str],
    at_revision: int | None,
    timeout: float,  # noqa: ASYNC109 (of silence)
) -> KeyValueSnapshot:
    """Read keys as they are, or were, at one revision, by one direct get of up to 1,024 keys (DIR-08, DIR-09).

    Raises
    ------
    TooManyResultsError
        More keys match.
    """
    request = DirectMultiLastRequest(
        bucket.stream, tuple(subjects), DIRECT_BATCH, None, at_revision, None, DIRECT_BATCH_BYTES
    )
    found: dict[str, KeyValueEntry] = {}
    newest = at_revision or 0
    async for messages in direct_get_batches(bucket.js, request, None, timeout):
        for message in messages:
            newest = max(newest, message.sequence)
            entry = stored_entry(bucket.bucket, bucket.stored_prefix, message)
            if not entry.is_marker:
                found[entry.key] = entry
    return KeyValueSnapshot(found, newest)


async def read_newest(bucket: KeyValueCore, options: WatchOptions, timeout: float) -> KeyValueSnapshot:  # noqa: ASYNC109
    """Read the newest entries by a watch. It ends when it has seen all that the bucket has at that moment (KVS-44)."""
    found: dict[str, KeyValueEntry] = {}
    newest = 0
    async for page in entry_pages(bucket, options, timeout):
        if page:
            newest = page[-1].revision
        for entry in page:
            found.pop(entry.key, None)  # so that the order is that of the revisions
            if not entry.is_marker:
                found[entry.key] = entry
    return KeyValueSnapshot(found, newest)


async def write_many(
    bucket: KeyValueCore,
    writes: Sequence[KeyWrite],
    timeout: float,  # noqa: ASYNC109 (for each acknowledgement)
) -> dict[str, int | Error]:
    """Publish entries without waiting for each; return the revision of each key, or the error of its write."""
    publisher = AsyncPublisher(bucket.js.connection, AsyncPublishOptions(ack_timeout=timeout))
    futures: list[tuple[str, PubAckFuture]] = []
    for key, value, headers in writes:
        while (future := publisher.send(bucket.write_prefix + key, value, headers, None)) is None:
            await publisher.wait_writable()
        futures.append((key, future))
    await publisher.wait_completed(None)
    outcomes: dict[str, int | Error] = {}
    for key, future in futures:
        try:
            outcomes[key] = future.result().sequence
        except Error as problem:
            outcomes[key] = problem
    return outcomes


async def purge_markers(bucket: KeyValueCore, older_than: timedelta, timeout: float) -> int:  # noqa: ASYNC109
    """Remove the markers of deleted keys, and what is older of these keys; return the number of keys (KVS-33).

    Each purge ends at the marker, so a value that is put meanwhile stays.
    """
    limit = time.time_ns() - duration_ns(older_than)
    options = WatchOptions((bucket.stored_prefix + ">",), meta_only=True)
    purges: list[tuple[str, int]] = []
    async for page in entry_pages(bucket, options, timeout):
        for entry in page:
            if entry.is_marker:
                old = older_than < timedelta(0) or entry.created_ns <= limit
                purges.append((entry.key, entry.revision + 1 if old else entry.revision))
    waiting = iter(purges)

    async def purge_next() -> None:
        for key, sequence in waiting:
            await bucket.js.request(StreamPurgeRequest(bucket.stream, bucket.stored_prefix + key, sequence))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_PURGES_IN_FLIGHT, len(purges))):
                group.create_task(purge_next(), name="jetspark purge")
    except* Error as failures:
        raise failures.exceptions[0] from None
    return len(purges)


def as_mapping(outcomes: Mapping[str, int | Error], expected: Mapping[str, int], bucket: str) -> dict[str, int]:
    """Return the revisions of all keys. Raises the first error."""
    revisions: dict[str, int] = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, WrongLastSequenceError):
            raise WrongLastRevisionError(bucket, key, expected.get(key, 0), outcome.last_sequence)
        if isinstance(outcome, Error):
            raise outcome
        revisions[key] = outcome
    return revisions
