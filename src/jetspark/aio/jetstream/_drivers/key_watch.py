"""Watches of a key-value bucket, and the lists of its keys and revisions, which read the initial data of a watch."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from jetspark.aio.jetstream._drivers.key_value import KeyValueCore
from jetspark.aio.jetstream._drivers.watch import WatchCore, initial_pages
from jetspark.aio.message import Msg
from jetspark.engine.watch import WatchOptions
from jetspark.jetstream.key_value.entry import DeliveredEntry, KeyValueEntry

__all__ = ["entry_pages", "key_pages", "start_key_watch"]


def start_key_watch(bucket: KeyValueCore, options: WatchOptions) -> WatchCore[KeyValueEntry]:
    """Start a watch of keys."""
    name, prefix, hides_markers = bucket.bucket, bucket.stored_prefix, options.ignore_deletes

    def convert(messages: list[Msg]) -> list[KeyValueEntry]:
        entries: list[KeyValueEntry] = [DeliveredEntry(name, prefix, message) for message in messages]
        return [entry for entry in entries if not entry.is_marker] if hides_markers else entries

    return WatchCore(bucket.js, name, bucket.stream, options, convert)


def entry_pages(bucket: KeyValueCore, options: WatchOptions, timeout: float) -> AsyncGenerator[list[KeyValueEntry]]:
    """Yield the entries of the initial data; see `initial_pages`."""
    return initial_pages(partial(start_key_watch, bucket, options), timeout)


async def key_pages(
    bucket: KeyValueCore,
    options: WatchOptions,
    timeout: float,  # noqa: ASYNC109 (as for `initial_pages`)
) -> AsyncGenerator[list[str], None]:
    """Yield the keys of the initial data, each once, although a key may be written again meanwhile."""
    seen: set[str] = set()
    pages = entry_pages(bucket, options, timeout)
    try:
        async for page in pages:
            keys = [key for key in dict.fromkeys(entry.key for entry in page) if key not in seen]
            seen.update(keys)
            yield keys
    finally:
        await pages.aclose()
