"""Streams and consumers as Arrow columns, for who analyses without Spark. Needs the `arrow` extra.

The reading is `jetspark.bulk`'s, over a connection of its own and in a thread, so that the event loop goes on. What
pandas, polars or DuckDB take is the object itself: it is an Arrow stream.
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

    A wait that is cancelled loses nothing: the next one gets the batch. It connects when the first batch is asked for;
    a context manager closes at its end.

    Attributes
    ----------
    batches
        The blocking iterator, an Arrow stream, for who reads it in a thread of their own.
    """

    def __init__(self, batches: B) -> None:
        self.batches = batches
        self._turn = asyncio.Lock()
        self._busy: asyncio.Future[Any] | None = None  # what runs in a thread
        self._ahead: asyncio.Future[Any] | None = None  # the next batch
        self._back: deque[pa.RecordBatch] = deque()  # batches of a `read_all` that was cancelled
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
        """The rest as a table."""
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
        """End it and close its connection; a read that is under way ends. May be repeated."""
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
            raise  # it is for the next call, also when it has just come
        except BaseException:
            self._ahead = None
            raise
        self._ahead = None
        return batch

    async def _start(self, work: Callable[[], object]) -> asyncio.Future[Any]:
        """Run it in a thread, after what a cancelled call has left running there."""
        if self._busy is not None:
            await asyncio.wait([self._busy])
        if self._closed:
            raise ConnectionClosedError("the record batches were closed")
        self._busy = asyncio.ensure_future(asyncio.to_thread(work))
        self._busy.add_done_callback(_heard)
        return self._busy


def _heard(busy: asyncio.Future[Any]) -> None:
    """Whoever asked for it may be gone, and nobody left to hear of its error."""
    if not busy.cancelled():
        busy.exception()


class ScannedBatches(_Batches["bulk.ScannedBatches"]):
    """A range of a stream as record batches. Made by `Stream.scan`."""

    @property
    def report(self) -> bulk.ScanReport:
        """What was expected and read so far; see `jetspark.bulk.ScanReport`."""
        return self.batches.report


class FetchedBatches(_Batches["bulk.FetchedBatches"]):
    """Messages of a consumer as record batches. Made by `Consumer.fetch_arrow`."""

    @property
    def received(self) -> int:
        """Messages handed out so far."""
        return self.batches.received

    async def ack(self) -> None:
        """Acknowledge all that was handed out, and wait until the server has it; see `jetspark.bulk.Fetch.ack`.

        Raises
        ------
        RequestTimeoutError, DisconnectedError
            Not confirmed; the messages may come again.
        ConsumerNotFoundError, NoRespondersError
            The consumer is gone.
        """
        async with self._turn:
            await asyncio.shield(await self._start(self.batches.ack))


def scan_stream(js: JetStreamAPI, stream: str, **options: Any) -> ScannedBatches:
    """Begin a `jetspark.bulk.scan` with these options, over a connection like the context's."""
    from jetspark import bulk

    begin = partial(bulk.scan, stream=stream, prefix=js.prefix, timeout=js.timeout, **options)
    return ScannedBatches(bulk.ScannedBatches(js.connection.options, begin))


def fetch_from(js: JetStreamAPI, stream: str, consumer: str, **options: Any) -> FetchedBatches:
    """Begin a `jetspark.bulk.fetch` with these options, over a connection like the context's."""
    from jetspark import bulk

    begin = partial(bulk.fetch, stream=stream, consumer=consumer, prefix=js.prefix, timeout=js.timeout, **options)
    return FetchedBatches(bulk.FetchedBatches(js.connection.options, begin))
