"""Drives a watch of a bucket: an ordered consume whose messages become entries, with the end of the initial data."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial

from jetspark.aio.jetstream._drivers.consume import start_consume
from jetspark.aio.jetstream._drivers.key_value import KeyValueCore
from jetspark.aio.jetstream._drivers.ordered_pull import OrderedPullDriver
from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.pull import consume_options
from jetspark.engine.watch import WATCH_HEARTBEAT, InitialDataCatchUp, WatchCursor, WatchOptions
from jetspark.jetstream.errors import (
    BucketNotFoundError,
    BucketReplacedError,
    ConnectionClosedError,
    Error,
    RequestTimeoutError,
    StreamNotFoundError,
    StreamRecreatedError,
)
from jetspark.jetstream.info import ConsumerInfo
from jetspark.jetstream.key_value.entry import DeliveredEntry, KeyValueEntry

__all__ = ["KeyWatchCore", "initial_pages", "key_pages"]


class KeyWatchCore:
    """The core of a watch.

    Attributes
    ----------
    entries
        The entries that were not handed out yet; None is the end of the initial data.
    initial_data_given
        Whether `entries` has had the end of the initial data.
    """

    def __init__(self, bucket: KeyValueCore, options: WatchOptions) -> None:
        self.entries: deque[KeyValueEntry | None] = deque()
        self.initial_data_given = False
        self._bucket = bucket
        self._options = options
        self._cursor = WatchCursor(options.config)
        self._stopped = False
        self._taken = 0
        self._end_of_initial_data: int | None = None  # number of messages before it
        self._newest: KeyValueEntry | None = None  # the last one that was taken
        self._consume = start_consume(bucket.js.connection, f"bucket {bucket.bucket}", self._make_source, None, None)

    def __repr__(self) -> str:
        return f"<KeyWatch of bucket {self._bucket.bucket!r}{', closed' if self.closed else ''}>"

    def _make_source(self, on_ready: Callable[[], None], on_warning: Callable[[Error], None]) -> OrderedPullDriver:
        return OrderedPullDriver(
            self._bucket.js,
            self._bucket.stream,
            consume_options(idle_heartbeat=WATCH_HEARTBEAT),
            self._cursor,
            OrderedEngine(self._cursor, catch_up=InitialDataCatchUp(self._cursor)),
            on_ready,
            on_warning,
            on_info=_ignore,
            on_end=_do_nothing,
            until_caught_up=False,
            on_caught_up=partial(_on_initial_data, weakref.ref(self)),  # so that a handle without references stops
        )

    @property
    def closed(self) -> bool:
        """Whether it has ended and its entries were taken."""
        return self._consume.closed and not self.entries

    @property
    def initial_count_reached(self) -> bool:
        """Whether as many entries have come as there were when the consumer was created."""
        return self._cursor.serial > 0 and self._cursor.delivered >= self._cursor.pending > 0

    async def wait_started(self) -> None:
        """Wait until the server has the consumer, for a limited time."""
        await self._consume.source.wait_started()

    async def fill(self) -> None:
        """Wait until `entries` has an entry, or until the watch has ended. Raises the error that ended it."""
        consume = self._consume
        consume.connection.check_loop()
        while not self.entries:
            self._take_available()
            if self.entries:
                return
            source = consume.source
            if source.ended:
                if source.error is not None:
                    raise self._as_bucket_error(source.error)
                return
            source.on_consumed()
            await consume.wait_changed()

    async def stop(self) -> None:
        """End now, and delete the consumer."""
        self._stopped = True
        self.entries.clear()
        await self._consume.stop()

    def _take_available(self) -> None:
        """Move the messages that have come to `entries`, with None at the end of the initial data."""
        ready, end = self._consume.source.ready, self._end_of_initial_data
        if self._stopped:  # what has come is dropped
            return
        if end is not None and not self.initial_data_given:
            self._take(end - self._taken)
            self.initial_data_given = True
            self.entries.append(None)
        self._take(len(ready))
        self._consume.source.on_consumed()

    def _take(self, count: int) -> None:
        name, prefix, popleft = self._bucket.bucket, self._bucket.stored_prefix, self._consume.source.ready.popleft
        self._taken += count
        taken: list[KeyValueEntry] = [DeliveredEntry(name, prefix, popleft()) for _ in range(count)]
        if self._cursor.serial > 1:  # after a lost consumer, entries may come again
            taken = list(self._without_repeats(taken))
        if taken:
            self._newest = taken[-1]
        if self._options.ignore_deletes:
            taken = [entry for entry in taken if not entry.is_marker]
        self.entries.extend(taken)

    def _without_repeats(self, entries: Iterable[KeyValueEntry]) -> Iterator[KeyValueEntry]:
        newest = 0 if self._newest is None else self._newest.revision
        for entry in entries:
            if entry.revision > newest:
                newest = entry.revision
                yield entry

    def on_initial_data(self, position: int) -> None:
        """Note that the initial data has come: so many messages."""
        self._end_of_initial_data = position
        self._consume.wake()

    def _as_bucket_error(self, error: Error) -> Error:
        name = self._bucket.bucket
        if isinstance(error, StreamNotFoundError):
            return BucketNotFoundError(name)
        if isinstance(error, StreamRecreatedError):
            return BucketReplacedError(
                f"bucket {name!r} was deleted and created again while it was watched; watch it again",
                stream=self._bucket.stream,
            )
        return error


def _on_initial_data(watch: weakref.ref[KeyWatchCore], position: int) -> None:
    if (found := watch()) is not None:
        found.on_initial_data(position)


def _ignore(info: ConsumerInfo | None) -> None:
    """Take the info of a consumer, which nobody asks for."""


def _do_nothing() -> None:
    """Do nothing at the end of the reading."""


async def initial_pages(
    bucket: KeyValueCore,
    options: WatchOptions,
    timeout: float,  # noqa: ASYNC109 (see below)
) -> AsyncGenerator[list[KeyValueEntry], None]:
    """Yield the entries of the initial data of a watch, in lists of those available at the time.

    Raises
    ------
    RequestTimeoutError
        No entry came for `timeout` seconds, or others wrote for so long faster than the entries could be read.
    """
    clock = asyncio.get_running_loop().time
    deadline: float | None = None  # once the entries that were there at the start have come
    watch = KeyWatchCore(bucket, options)
    try:
        while True:
            if deadline is None and watch.initial_count_reached:
                deadline = clock() + timeout
            try:
                async with asyncio.timeout_at(clock() + timeout if deadline is None else deadline):
                    await watch.fill()
            except TimeoutError:
                what = "no entry came" if deadline is None else "others write faster than the entries can be read,"
                raise RequestTimeoutError(f"bucket {bucket.bucket!r}: {what} for {timeout:g} s") from None
            if not watch.entries:
                raise ConnectionClosedError(f"bucket {bucket.bucket!r}: the read was stopped before its end")
            taken = list(watch.entries)
            watch.entries.clear()
            complete = None in taken
            yield [entry for entry in (taken[: taken.index(None)] if complete else taken) if entry is not None]
            if complete:
                return
    finally:
        await watch.stop()


async def key_pages(
    bucket: KeyValueCore,
    options: WatchOptions,
    timeout: float,  # noqa: ASYNC109 (as for `initial_pages`)
) -> AsyncGenerator[list[str], None]:
    """Yield the keys of the initial data, each once, although a key may be written again meanwhile."""
    seen: set[str] = set()
    pages = initial_pages(bucket, options, timeout)
    try:
        async for page in pages:
            keys = [key for key in dict.fromkeys(entry.key for entry in page) if key not in seen]
            seen.update(keys)
            yield keys
    finally:
        await pages.aclose()
