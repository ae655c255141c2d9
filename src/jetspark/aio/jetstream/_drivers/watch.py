"""Drives a watch of a bucket: an ordered consume whose messages become entries, with the end of the initial data."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial
from typing import Generic, TypeVar

from jetspark.aio.jetstream._drivers.consume import start_consume
from jetspark.aio.jetstream._drivers.ordered_pull import OrderedPullDriver
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.message import Msg
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
from jetspark.jetstream.message import message_size

__all__ = ["WatchCore", "initial_pages"]

T = TypeVar("T")


class WatchCore(Generic[T]):
    """The core of a watch.

    Parameters
    ----------
    js
        The context.
    bucket, stream
        Name of the bucket, and of its stream.
    options
        Subjects to watch, and where to begin.
    convert
        Makes entries of messages; it may leave some out.
    max_bytes
        Limit of the buffer in bytes; None counts messages.
    heartbeat
        Seconds of silence after which the server says that it has nothing to send.

    Attributes
    ----------
    entries
        The entries that were not handed out yet; None is the end of the initial data.
    initial_data_given
        Whether `entries` has had the end of the initial data.
    """

    def __init__(
        self,
        js: JetStreamCore,
        bucket: str,
        stream: str,
        options: WatchOptions,
        convert: Callable[[list[Msg]], list[T]],
        max_bytes: int | None = None,
        heartbeat: float = WATCH_HEARTBEAT,
    ) -> None:
        self.entries: deque[T | None] = deque()
        self.initial_data_given = False
        self.bucket = bucket
        self._js = js
        self._stream = stream
        self._convert = convert
        self._consume_options = consume_options(idle_heartbeat=heartbeat, max_bytes=max_bytes)
        self._cursor = WatchCursor(options.config)
        self._stopped = False
        self._taken = 0
        self._end_of_initial_data: int | None = None  # number of messages before it
        self._newest: Msg | None = None  # the last one that was taken
        self._consume = start_consume(js.connection, f"bucket {bucket}", self._make_source, None, None)

    def _make_source(self, on_ready: Callable[[], None], on_warning: Callable[[Error], None]) -> OrderedPullDriver:
        return OrderedPullDriver(
            self._js,
            self._stream,
            self._consume_options,
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
    def initial_count(self) -> int | None:
        """Number of entries that the bucket had when the consumer was created; None if it is not created yet."""
        return self._cursor.pending if self._cursor.stream.begun else None

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
        source = self._consume.source
        popleft = source.ready.popleft
        self._taken += count
        taken = [popleft() for _ in range(count)]
        if source.counts_bytes:
            source.taken_size += sum(map(message_size, taken))
        if self._cursor.serial > 1:  # after a lost consumer, entries may come again
            taken = list(self._without_repeats(taken))
        if taken:
            self._newest = taken[-1]
            self.entries.extend(self._convert(taken))

    def _without_repeats(self, messages: Iterable[Msg]) -> Iterator[Msg]:
        newest = 0 if self._newest is None else self._newest.metadata.stream_sequence
        for message in messages:
            if message.metadata.stream_sequence > newest:
                newest = message.metadata.stream_sequence
                yield message

    def on_initial_data(self, position: int) -> None:
        """Note that the initial data has come: so many messages."""
        self._end_of_initial_data = position
        self._consume.wake()

    def _as_bucket_error(self, error: Error) -> Error:
        if isinstance(error, StreamNotFoundError):
            return BucketNotFoundError(self.bucket)
        if isinstance(error, StreamRecreatedError):
            return BucketReplacedError(
                f"bucket {self.bucket!r} was deleted and created again while it was watched; watch it again",
                stream=self._stream,
            )
        return error


def _on_initial_data(watch: weakref.ref[WatchCore[T]], position: int) -> None:
    if (found := watch()) is not None:
        found.on_initial_data(position)


def _ignore(info: ConsumerInfo | None) -> None:
    """Take the info of a consumer, which nobody asks for."""


def _do_nothing() -> None:
    """Do nothing at the end of the reading."""


async def initial_pages(make_watch: Callable[[], WatchCore[T]], timeout: float) -> AsyncGenerator[list[T], None]:  # noqa: ASYNC109 (see below)
    """Yield the entries of the initial data of a watch, in lists of those available at the time.

    Raises
    ------
    RequestTimeoutError
        No entry came for `timeout` seconds, or others wrote for so long faster than the entries could be read.
    """
    clock = asyncio.get_running_loop().time
    deadline: float | None = None  # once the entries that were there at the start have come
    watch = make_watch()
    try:
        while True:
            if deadline is None and watch.initial_count_reached:
                deadline = clock() + timeout
            try:
                async with asyncio.timeout_at(clock() + timeout if deadline is None else deadline):
                    await watch.fill()
            except TimeoutError:
                what = "no entry came" if deadline is None else "others write faster than the entries can be read,"
                raise RequestTimeoutError(f"bucket {watch.bucket!r}: {what} for {timeout:g} s") from None
            if not watch.entries:
                raise ConnectionClosedError(f"bucket {watch.bucket!r}: the read was stopped before its end")
            taken = list(watch.entries)
            watch.entries.clear()
            complete = None in taken
            yield [entry for entry in (taken[: taken.index(None)] if complete else taken) if entry is not None]
            if complete:
                return
    finally:
        await watch.stop()
