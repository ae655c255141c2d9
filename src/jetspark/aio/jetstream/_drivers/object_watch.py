"""Watches of an object store, and the list of its objects, which reads the initial data of a watch."""

from __future__ import annotations

from functools import partial

from jetspark.aio.jetstream._drivers.object_store import ObjectStoreCore
from jetspark.aio.jetstream._drivers.watch import WatchCore, initial_pages
from jetspark.aio.message import Msg
from jetspark.engine.watch import WatchOptions
from jetspark.jetstream.errors import BadObjectError
from jetspark.jetstream.object_store import ObjectInfo
from jetspark.jetstream.object_store.info import read_info
from jetspark.wire.events import ErrorOccurred

__all__ = ["list_objects", "start_object_watch"]


def start_object_watch(store: ObjectStoreCore, options: WatchOptions) -> WatchCore[ObjectInfo]:
    """Start a watch of the descriptions. One that cannot be read is left out and reported."""

    def convert(messages: list[Msg]) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        for message in messages:
            place = message.metadata
            try:
                info = read_info(
                    store.bucket, message.subject, message.payload, place.stream_sequence, place.timestamp_ns
                )
            except BadObjectError as error:
                store.js.connection.emit(ErrorOccurred(error))
                continue
            if not (info.deleted and options.ignore_deletes):
                found.append(info)
        return found

    return WatchCore(store.js, store.bucket, store.stream, options, convert)


async def list_objects(store: ObjectStoreCore, options: WatchOptions, timeout: float) -> list[ObjectInfo]:  # noqa: ASYNC109
    """Return the newest description of each object, in the order of their last changes."""
    found: dict[str, ObjectInfo] = {}
    async for page in initial_pages(partial(start_object_watch, store, options), timeout):
        for info in page:
            found.pop(info.name, None)
            found[info.name] = info
    return list(found.values())
