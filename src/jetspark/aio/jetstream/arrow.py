"""Streams and consumers as Arrow columns, for analysis without Spark. Needs the `arrow` extra.

`jetspark.bulk` reads over a connection of its own and in a thread, so the event loop is not blocked. The object itself
is an Arrow stream, which pandas, polars and DuckDB accept.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from jetspark.aio.futures import retrieve_error, set_done
from jetspark.aio.jetstream._drivers.left_messages import HandleMessages
from jetspark.aio.reader_threads import ReaderThreads
from jetspark.engine.pull import fetch_options
from jetspark.jetstream.config import AckPolicy
from jetspark.jetstream.errors import ConnectionClosedError

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark import bulk
    from jetspark.aio.jetstream._drivers.carry_over import CarryOver
    from jetspark.aio.jetstream.core import JetStreamCore
    from jetspark.jetstream.info import ConsumerInfo
    from jetspark.payload import DecodeOptions, PayloadFormat

__all__ = [
    "FetchReader",
    "ScanReader",
    "fetch_consumer",
    "read_last_per_subject",
    "run_over_connection",
    "scan_by",
    "scan_stream",
]

T = TypeVar("T")
B = TypeVar("B", bound="bulk.ScanReader | bulk.FetchReader")


class _ArrowReader(Generic[B]):
    """An asynchronous iterator of record batches.

        async with stream.scan() as batches:
            async for batch in batches:
                ...

    It connects when the first batch is requested. As a context manager it closes at the end.

    Attributes
    ----------
    reader
        The blocking iterator, an Arrow stream, for use in a thread of the caller.
    """

    def __init__(self, batches: B, threads: ReaderThreads | None = None) -> None:
        self.reader = batches
        self._threads = ReaderThreads() if threads is None else threads
        self._lock = asyncio.Lock()
        self._thread_call: asyncio.Future[Any] | None = None  # the call that runs in a thread
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    def __del__(self) -> None:
        if self.reader.opened:
            self._close_abandoned()
            warnings.warn(f"unclosed {type(self).__name__}", ResourceWarning, stacklevel=2)

    async def close(self) -> None:
        """End the iteration and close its connection; a read in progress ends. May be repeated."""
        self._closed = True
        if self._thread_call is not None and not self._thread_call.done():
            self.reader.interrupt()
            await asyncio.wait([self._thread_call])
        await self._run_in_thread(self.reader.close)

    def _close_abandoned(self) -> None:
        with suppress(RuntimeError):  # the interpreter ends
            self._threads.submit(self.reader.close)

    async def _start_in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread, after the work that a cancelled call has left running there."""
        while self._thread_call is not None and not self._thread_call.done():
            await asyncio.wait([self._thread_call])
        call = asyncio.wrap_future(self._threads.submit(work))
        call.add_done_callback(retrieve_error)
        self._thread_call = call
        return call

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """As `_start_in_thread`, and return the result. A cancelled call leaves the work running."""
        return await asyncio.shield(await self._start_in_thread(work))

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionClosedError("the record batches were closed")


class ScanReader(_ArrowReader["bulk.ScanReader"]):
    """A range of a stream as record batches. Created by `Stream.scan`.

    A cancelled wait loses nothing: the next one gets the batch.
    """

    def __init__(self, batches: bulk.ScanReader, threads: ReaderThreads | None = None) -> None:
        super().__init__(batches, threads)
        self._next_batch: asyncio.Future[Any] | None = None  # the next batch
        self._returned_batches: deque[pa.RecordBatch] = deque()  # batches of a cancelled `read_all`

    @property
    def report(self) -> bulk.ScanReport:
        """Counts of expected messages and of messages read so far; see `jetspark.bulk.ScanReport`."""
        return self.reader.report

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

    async def _next(self) -> pa.RecordBatch | None:
        if self._returned_batches:
            return self._returned_batches.popleft()
        if self._next_batch is None:
            self._check_open()
            self._next_batch = await self._start_in_thread(partial(next, self.reader, None))
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


class FetchReader(_ArrowReader["bulk.FetchReader"]):
    """Messages of a consumer as record batches. Created by `Consumer.fetch_arrow`.

    A cancelled or failed call gives back the messages that it has received: the next call of the consumer's handle
    gets them first. That may be another call of this object, which then pulls for the rest. Messages that were
    received and not returned before a `close` are given back, too.
    """

    def __init__(self, batches: bulk.FetchReader, threads: ReaderThreads, left: HandleMessages) -> None:
        super().__init__(batches, threads)
        self._left = left
        self._pulling = False
        self._ended = False
        self._readable: asyncio.Future[None] | None = None  # set when messages may have come

    @property
    def received(self) -> int:
        """Messages returned so far."""
        return self.reader.received

    @property
    def bad_records(self) -> int:
        """Messages returned so far whose payload could not be decoded, with the parameter `decode`."""
        return self.reader.bad_records

    async def __anext__(self) -> pa.RecordBatch:
        async with self._lock:
            try:
                batch = await self._next()
            except BaseException:
                self._give_back()
                raise
            if batch is None:
                raise StopAsyncIteration
            self.reader.source.confirm()
            return batch

    async def read_all(self) -> pa.Table:
        """Return the remaining batches as a table."""
        async with self._lock:
            import pyarrow as pa

            read: list[pa.RecordBatch] = []
            try:
                while (batch := await self._next()) is not None:
                    read.append(batch)
                table = pa.Table.from_batches(read, self.reader.schema)
            except BaseException:
                self._give_back()
                raise
            self.reader.source.confirm()
            return table

    async def ack(self) -> None:
        """Acknowledge the returned messages and wait for the server, as `jetspark.bulk.ConsumerFetch.ack` does.

        Raises
        ------
        RequestTimeoutError, DisconnectedError
            Not confirmed; the messages may be delivered again.
        NoRespondersError
            The consumer does not exist any more.
        ConsumerUnavailableError
            No server has served it in time; the messages may be delivered again.
        """
        async with self._lock:
            self._check_open()
            await self._run_in_thread(self.reader.ack)

    async def close(self) -> None:
        """End the iteration and close its connection; a call in progress ends. May be repeated."""
        self._closed = True
        if self._readable is not None:
            set_done(self._readable)
        async with self._lock:
            await self._run_in_thread(self.reader.close)

    async def _next(self) -> pa.RecordBatch | None:
        """Return the next batch, or None at the end. Threads do not wait for messages; the event loop does."""
        self._check_open()
        if not self._pulling:
            if self._ended:
                return None
            await self._left.prepare(self.reader)
            self._pulling = True
        from jetspark.bulk.pull_reading import Wait

        while True:
            step = await self._run_in_thread(self.reader.read_available)
            if step is None:
                self._pulling, self._ended = False, True
                return None
            if not isinstance(step, Wait):
                return step
            if not self._closed:
                await self._wait_readable(step.socket, step.deadline)
            self._check_open()

    async def _wait_readable(self, socket: int, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self._readable = readable = loop.create_future()
        loop.add_reader(socket, set_done, readable)
        timer = loop.call_later(max(deadline - monotonic(), 0), set_done, readable)
        try:
            await readable
        finally:
            timer.cancel()
            loop.remove_reader(socket)

    def _give_back(self) -> None:
        """End the pull in a thread, and give back its messages. Other calls of the handle wait for that."""
        self._pulling = self._ended = False
        given_back = asyncio.create_task(self._release(), name="jetspark release")
        given_back.add_done_callback(retrieve_error)
        self._left.wait_for(given_back)

    async def _release(self) -> None:
        try:
            await self._run_in_thread(self.reader.release)
        finally:
            self._left.restore()

    def _close_abandoned(self) -> None:
        with suppress(RuntimeError):  # the interpreter ends
            self._left.wait_for_thread(self._threads.submit(self.reader.close))


def scan_stream(js: JetStreamCore, stream: str, **options: Any) -> ScanReader:
    """Begin a `jetspark.bulk.scan` with these options, over a new connection with the context's settings."""
    from jetspark import bulk

    return scan_by(js, partial(bulk.scan, stream=stream, prefix=js.prefix, timeout=js.timeout, **options))


def scan_by(js: JetStreamCore, begin: Callable[[bulk.Connection], bulk.Scan]) -> ScanReader:
    """Begin a scan over a new connection with the context's settings."""
    from jetspark import bulk

    return ScanReader(bulk.ScanReader(js.connection.options, begin), js.connection.reader_threads)


def fetch_consumer(
    js: JetStreamCore,
    info: ConsumerInfo,
    carry_over: CarryOver,
    *,
    columns: Sequence[str] | None,
    decode: PayloadFormat | DecodeOptions | None,
    **options: Any,
) -> FetchReader:
    """Begin a `jetspark.bulk.fetch` with these options, over a new connection with the context's settings.

    It begins with the messages that other calls left, and leaves those that its caller does not get.
    """
    from jetspark import bulk

    acks = info.config.ack_policy is not AckPolicy.NONE
    left = HandleMessages(js.connection, carry_over, partial(fetch_options, **options), acks=acks)

    def begin(connection: bulk.Connection) -> bulk.ConsumerFetch:
        fetch = bulk.fetch(
            connection,
            info.stream_name,
            info.name,
            prefix=js.prefix,
            request_timeout=js.timeout,
            columns=columns,
            decode=decode,
            **options,
        )
        fetch.leave_messages_to(left)
        return fetch

    return FetchReader(bulk.FetchReader(js.connection.options, begin), js.connection.reader_threads, left)


async def read_last_per_subject(js: JetStreamCore, stream: str, **options: Any) -> bulk.Snapshot:
    """Run `jetspark.bulk.last_per_subject` in a thread, over a new connection with the context's settings."""
    from jetspark import bulk

    return await run_over_connection(js, partial(bulk.last_per_subject, stream=stream, prefix=js.prefix, **options))


async def run_over_connection(js: JetStreamCore, work: Callable[[bulk.Connection], T]) -> T:
    """Run blocking work in a thread, over a new connection with the context's settings; return its result.

    A cancelled call ends the connection, so the work fails.
    """
    from jetspark import bulk

    opened: list[bulk.Connection] = []
    cancelled = False

    def run() -> T:
        with bulk.connect(js.connection.options) as connection:
            opened.append(connection)
            if cancelled:
                raise ConnectionClosedError("the call was cancelled")
            return work(connection)

    thread_call = js.connection.reader_threads.submit(run)
    call = asyncio.wrap_future(thread_call)
    call.add_done_callback(retrieve_error)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        cancelled = True
        thread_call.cancel()  # if no thread has begun it
        for connection in opened:
            connection.interrupt()
        raise
