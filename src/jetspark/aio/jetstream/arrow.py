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
    from jetspark.aio.jetstream.core import JetStreamCore

__all__ = ["FetchReader", "ScanReader", "fetch_consumer", "read_last_per_subject", "scan_stream"]

B = TypeVar("B", bound="bulk.ScanReader | bulk.FetchReader")


class _ArrowReader(Generic[B]):
    """An asynchronous iterator of record batches.

        async with stream.scan() as batches:
            async for batch in batches:
                ...

    A cancelled wait loses nothing: the next one gets the batch. It connects when the first batch is requested. As a
    context manager it closes at the end.

    Attributes
    ----------
    reader
        The blocking iterator, an Arrow stream, for use in a thread of the caller.
    """

    def __init__(self, batches: B) -> None:
        self.reader = batches
        self._lock = asyncio.Lock()
        self._thread_call: asyncio.Future[Any] | None = None  # the call that runs in a thread
        self._next_batch: asyncio.Future[Any] | None = None  # the next batch
        self._returned_batches: deque[pa.RecordBatch] = deque()  # batches of a cancelled `read_all`
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
        async with self._lock:
            batch = await self._next()
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def read_all(self) -> pa.Table:
        """Return the remaining batches as a table."""
        async with self._lock:
            import pyarrow as pa

            read: list[pa.RecordBatch] = []
            try:
                while (batch := await self._next()) is not None:
                    read.append(batch)
            except BaseException:
                self._returned_batches.extend(read)
                raise
            return pa.Table.from_batches(read, self.reader.schema)

    async def close(self) -> None:
        """End the iteration and close its connection; a read in progress ends. May be repeated."""
        self._closed = True
        if self._thread_call is not None and not self._thread_call.done():
            self.reader.interrupt()
            await asyncio.wait([self._thread_call])
        await asyncio.to_thread(self.reader.close)

    async def _next(self) -> pa.RecordBatch | None:
        if self._returned_batches:
            return self._returned_batches.popleft()
        if self._next_batch is None:
            self._next_batch = await self._run_in_thread(partial(next, self.reader, None))
        ahead = self._next_batch
        try:
            batch = await asyncio.shield(ahead)
        except asyncio.CancelledError:
            raise  # the batch is for the next call, even if it has just come
        except BaseException:
            self._next_batch = None
            raise
        self._next_batch = None
        return batch

    async def _run_in_thread(self, work: Callable[[], object]) -> asyncio.Future[Any]:
        """Run `work` in a thread, after the work that a cancelled call has left running there."""
        if self._thread_call is not None:
            await asyncio.wait([self._thread_call])
        if self._closed:
            raise ConnectionClosedError("the record batches were closed")
        self._thread_call = asyncio.ensure_future(asyncio.to_thread(work))
        self._thread_call.add_done_callback(_retrieve_error)
        return self._thread_call


def _retrieve_error(busy: asyncio.Future[Any]) -> None:
    """Retrieve the error, because the caller that would get it may be gone."""
    if not busy.cancelled():
        busy.exception()


class ScanReader(_ArrowReader["bulk.ScanReader"]):
    """A range of a stream as record batches. Created by `Stream.scan`."""

    @property
    def report(self) -> bulk.ScanReport:
        """Counts of expected messages and of messages read so far; see `jetspark.bulk.ScanReport`."""
        return self.reader.report


class FetchReader(_ArrowReader["bulk.FetchReader"]):
    """Messages of a consumer as record batches. Created by `Consumer.fetch_arrow`."""

    @property
    def received(self) -> int:
        """Messages returned so far."""
        return self.reader.received

    async def ack(self) -> None:
        """Acknowledge the returned messages and wait for the server, as `jetspark.bulk.ConsumerFetch.ack` does.

        Raises
        ------
        RequestTimeoutError, DisconnectedError
            Not confirmed; the messages may be delivered again.
        ConsumerNotFoundError, NoRespondersError
            The consumer does not exist any more.
        """
        async with self._lock:
            await asyncio.shield(await self._run_in_thread(self.reader.ack))


def scan_stream(js: JetStreamCore, stream: str, **options: Any) -> ScanReader:
    """Begin a `jetspark.bulk.scan` with these options, over a new connection with the context's settings."""
    from jetspark import bulk

    begin = partial(bulk.scan, stream=stream, prefix=js.prefix, timeout=js.timeout, **options)
    return ScanReader(bulk.ScanReader(js.connection.options, begin))


def fetch_consumer(js: JetStreamCore, stream: str, consumer: str, **options: Any) -> FetchReader:
    """Begin a `jetspark.bulk.fetch` with these options, over a new connection with the context's settings."""
    from jetspark import bulk

    begin = partial(
        bulk.fetch, stream=stream, consumer=consumer, prefix=js.prefix, request_timeout=js.timeout, **options
    )
    return FetchReader(bulk.FetchReader(js.connection.options, begin))


async def read_last_per_subject(js: JetStreamCore, stream: str, **options: Any) -> bulk.Snapshot:
    """Run `jetspark.bulk.last_per_subject` in a thread, over a new connection with the context's settings."""
    from jetspark import bulk

    opened: list[bulk.Connection] = []
    cancelled = False

    def read() -> bulk.Snapshot:
        with bulk.connect(js.connection.options) as connection:
            opened.append(connection)
            if cancelled:
                raise ConnectionClosedError("the read was cancelled")
            return bulk.last_per_subject(connection, stream, prefix=js.prefix, **options)

    call = asyncio.ensure_future(asyncio.to_thread(read))
    call.add_done_callback(_retrieve_error)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        cancelled = True
        for connection in opened:
            connection.interrupt()
        raise
