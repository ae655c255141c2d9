"""Streams and consumers as Arrow columns, for analysis without Spark. Needs the `arrow` extra.

`jetspark.bulk` reads over a connection of its own and in a thread, so the event loop is not blocked. The object itself
is an Arrow stream, which pandas, polars and DuckDB accept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from jetspark.jetstream.errors import ConnectionClosedError

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark import bulk
    from jetspark.aio.jetstream.api import JetStreamAPI

__all__ = ["FetchedBatches", "ScannedBatches", "fetch_from", "scan_stream"]

B = TypeVar("B", bound="bulk.ScannedBatches | bulk.FetchedBatches")


class _Batches(Generic[B]):
    """An asynchronous iterator of record batches.

        async with stream.scan() as batches:
            async for batch in batches:
                ...

    A cancelled wait loses nothing: the next one gets the batch. It connects when the first batch is requested. As a
    context manager it closes at the end.

    Attributes
    ----------
    batches
        The blocking iterator, an Arrow stream, for use in a thread of the caller.
    """

    def __init__(self, batches: B) -> None:
        self.batches = batches
        self._turn = asyncio.Lock()
        self._busy: asyncio.Future[Any] | None = None  # the call that runs in a thread
        self._ahead: asyncio.Future[Any] | None = None  # the next batch
        self._back: deque[pa.RecordBatch] = deque()  # batches of a cancelled `read_all`
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        async with self._turn:
            batch = await self._next()
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def read_all(self) -> pa.Table:
        """Return the remaining batches as a table."""
        async with self._turn:
            import pyarrow as pa

            read: list[pa.RecordBatch] = []
            try:
                while (batch := await self._next()) is not None:
                    read.append(batch)
            except BaseException:
                self._back.extend(read)
                raise
            return pa.Table.from_batches(read, self.batches.schema)

    async def close(self) -> None:
        """End the iteration and close its connection; a read in progress ends. May be repeated."""
        self._closed = True
        if self._busy is not None and not self._busy.done():
            self.batches.interrupt()
            await asyncio.wait([self._busy])
        await asyncio.to_thread(self.batches.close)

    async def _next(self) -> pa.RecordBatch | None:
        if self._back:
            return self._back.popleft()
        if self._ahead is None:
            self._ahead = await self._start(partial(next, self.batches, None))
        ahead = self._ahead
        try:
            batch = await asyncio.shield(ahead)
        except asyncio.CancelledError:
            raise  # the batch is for the next call, even if it has just come
        except BaseException:
            self._ahead = None
            raise
        self._ahead = None
        return batch

    async def _start(self, work: Callable[[], object]) -> asyncio.Future[Any]:
        """Run `work` in a thread, after the work that a cancelled call has left running there."""
        if self._busy is not None:
            await asyncio.wait([self._busy])
        if self._closed:
            raise ConnectionClosedError("the record batches were closed")
        self._busy = asyncio.ensure_future(asyncio.to_thread(work))
        self._busy.add_done_callback(_heard)
        return self._busy


def _heard(busy: asyncio.Future[Any]) -> None:
    """Retrieve the error, because the caller that would get it may be gone."""
    if not busy.cancelled():
        busy.exception()


class ScannedBatches(_Batches["bulk.ScannedBatches"]):
    """A range of a stream as record batches. Created by `Stream.scan`."""

    @property
    def report(self) -> bulk.ScanReport:
        """Counts of expected messages and of messages read so far; see `jetspark.bulk.ScanReport`."""
        return self.batches.report


class FetchedBatches(_Batches["bulk.FetchedBatches"]):
    """Messages of a consumer as record batches. Created by `Consumer.fetch_arrow`."""

    @property
    def received(self) -> int:
        """Messages returned so far."""
        return self.batches.received

    async def ack(self) -> None:
        """Acknowledge all returned messages, and wait until the server has confirmed; see `jetspark.bulk.Fetch.ack`.

        Raises
        ------
        RequestTimeoutError, DisconnectedError
            Not confirmed; the messages may be delivered again.
        ConsumerNotFoundError, NoRespondersError
            The consumer does not exist any more.
        """
        async with self._turn:
            await asyncio.shield(await self._start(self.batches.ack))


def scan_stream(js: JetStreamAPI, stream: str, **options: Any) -> ScannedBatches:
    """Begin a `jetspark.bulk.scan` with these options, over a new connection with the context's settings."""
    from jetspark import bulk

    begin = partial(bulk.scan, stream=stream, prefix=js.prefix, timeout=js.timeout, **options)
    return ScannedBatches(bulk.ScannedBatches(js.connection.options, begin))


def fetch_from(js: JetStreamAPI, stream: str, consumer: str, **options: Any) -> FetchedBatches:
    """Begin a `jetspark.bulk.fetch` with these options, over a new connection with the context's settings."""
    from jetspark import bulk

    begin = partial(bulk.fetch, stream=stream, consumer=consumer, prefix=js.prefix, timeout=js.timeout, **options)
    return FetchedBatches(bulk.FetchedBatches(js.connection.options, begin))
