"""Streams and consumers as Arrow columns; as in the asyncio front, but blocking. Needs the `arrow` extra.

Written by hand, because the readers are blocking anyway and run in the caller's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from jetspark.aio.jetstream import arrow as aio
from jetspark.jetstream.errors import ConnectionClosedError, DisconnectedError
from jetspark.sync.loop_proxy import LoopProxy

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark import bulk
    from jetspark.sync.core import ConnectionCore

__all__ = ["FetchReader", "ScanReader"]

A = TypeVar("A", bound="aio.ScanReader | aio.FetchReader")


class _ArrowReader(LoopProxy, Generic[A]):
    """An iterator of record batches. It is an Arrow stream, which pandas, polars and DuckDB accept.

        with stream.scan() as batches:
            for batch in batches:
                ...

    It connects when the first batch is requested. As a context manager it closes at the end. Calls of several threads
    wait for each other; `close` ends a read of another thread.
    """

    _inner: A

    def __init__(self, connection: ConnectionCore, inner: A) -> None:
        super().__init__(connection, inner)
        # A signal handler may call `close` within a read of the same thread, and must not wait for itself.
        self._in_use = threading.RLock()
        self._closing = threading.RLock()
        self._interrupted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._use():
            return next(self._inner.reader)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the remaining batches as a record batch reader."""
        import pyarrow as pa

        with self._use():
            schema = self._inner.reader.schema
        return pa.RecordBatchReader.from_batches(schema, self)

    def read_all(self) -> pa.Table:
        """Return the remaining batches as a table."""
        with self._use():
            return self._inner.reader.read_all()

    def close(self) -> None:
        """End the iteration and close its connection; a read in another thread ends. May be repeated."""
        with self._closing:
            if not self._in_use.acquire(blocking=False):
                self._interrupted = True
                self._inner.reader.interrupt()
                self._in_use.acquire()
            try:
                self._inner.reader.close()
            finally:
                self._in_use.release()

    @contextmanager
    def _use(self) -> Iterator[None]:
        with self._in_use:
            try:
                yield
            except DisconnectedError:
                if self._interrupted:
                    raise ConnectionClosedError("the record batches were closed") from None
                raise


class ScanReader(_ArrowReader[aio.ScanReader]):
    """A range of a stream as record batches. Created by `Stream.scan`."""

    @property
    def report(self) -> bulk.ScanReport:
        """Counts of expected messages and of messages read so far; see `jetspark.bulk.ScanReport`."""
        return self._inner.report


class FetchReader(_ArrowReader[aio.FetchReader]):
    """Messages of a consumer as record batches. Created by `Consumer.fetch_arrow`.

    Messages that were received and not returned before a `close`, or before a read failed or was interrupted, are for
    the next call of the consumer's handle.
    """

    @property
    def received(self) -> int:
        """Messages returned so far."""
        return self._inner.received

    @property
    def bad_records(self) -> int:
        """Messages returned so far whose payload could not be decoded, with the parameter `decode`."""
        return self._inner.bad_records

    def ack(self) -> None:
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
        with self._use():
            self._inner.reader.ack()
