"""Record batches over a connection of their own, which is opened and closed for them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

import pyarrow as pa

from jetspark.bulk.connection import Connection, connect
from jetspark.bulk.fetch import ConsumerFetch
from jetspark.bulk.record_batch_iterator import RecordBatchIterator
from jetspark.bulk.scan import Scan, ScanReport
from jetspark.wire.options import ConnectOptions

__all__ = ["FetchReader", "OwnConnectionReader", "ScanReader"]

S = TypeVar("S", Scan, ConsumerFetch)


class OwnConnectionReader(RecordBatchIterator, Generic[S]):
    """An iterator of record batches. It is an Arrow stream, which pandas, polars and DuckDB accept.

        with stream.scan() as batches:
            frame = polars.DataFrame(batches)

    It connects when the first batch is requested. As a context manager it closes at the end.

    Parameters
    ----------
    options
        How to connect.
    start
        Starts to read over the connection.
    """

    def __init__(self, options: ConnectOptions, start: Callable[[Connection], S]) -> None:
        self._options = options
        self._start: Callable[[Connection], S] = start
        self._connection: Connection | None = None
        self._source: S | None = None
        self._batches = self._run()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @property
    def source(self) -> S:
        """The `Scan` or `ConsumerFetch` that it reads from; the first use connects.

        Raises
        ------
        ConnectError, AuthenticationError
            There is no connection yet, and none can be opened.
        """
        if self._source is None:
            self._connection = connect(self._options)
            try:
                self._source = self._start(self._connection)
            except BaseException:
                self._connection.close()
                raise
        return self._source

    @property
    def schema(self) -> pa.Schema:
        """Schema of every batch."""
        return self.source.schema

    def read_all(self) -> pa.Table:
        """Return the remaining batches as a table."""
        return self.to_reader().read_all()

    def interrupt(self) -> None:
        """Make a thread that waits for a batch fail at once. The only call for another thread."""
        if self._connection is not None:
            self._connection.interrupt()

    def close(self) -> None:
        """End the iteration and close the connection. May be repeated."""
        super().close()
        if self._source is not None:
            self._source.close()
        self._close_connection()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _run(self) -> Generator[pa.RecordBatch]:
        yield from self.source


class ScanReader(OwnConnectionReader[Scan]):
    """A range of a stream; see `jetspark.bulk.scan`. It closes itself after the last batch."""

    @property
    def report(self) -> ScanReport:
        """Counts of expected messages and of messages read so far."""
        return self.source.report

    def _run(self) -> Generator[pa.RecordBatch]:
        yield from self.source
        self._close_connection()


class FetchReader(OwnConnectionReader[ConsumerFetch]):
    """Messages of a consumer; see `jetspark.bulk.fetch`. It stays open for `ack` until it is closed."""

    @property
    def received(self) -> int:
        """Messages returned so far."""
        return self.source.received

    def ack(self) -> None:
        """Acknowledge the returned messages; see `jetspark.bulk.ConsumerFetch.ack`."""
        self.source.ack()
