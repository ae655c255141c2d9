"""Record batches over a connection of their own, which is opened and closed for them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, Generic, TypeVar

import pyarrow as pa

from jetspark.bulk.connection import Connection, connect
from jetspark.bulk.fetch import ConsumerFetch
from jetspark.bulk.pull_reading import Wait
from jetspark.bulk.record_batch_iterator import RecordBatchIterator
from jetspark.bulk.scan import Scan
from jetspark.bulk.scan_report import ScanReport
from jetspark.engine.pull import PullOptions
from jetspark.wire.options import ConnectOptions

__all__ = ["FetchReader", "OwnConnectionReader", "ScanReader"]

_LINGER: Final = 1.0  # seconds for the server to read the last request, which deletes a consumer

S = TypeVar("S", Scan, ConsumerFetch)


class _Opening(Generic[S]):
    """The connection of a reader and what it reads, once there is one."""

    def __init__(self, options: ConnectOptions, start: Callable[[Connection], S]) -> None:
        self.connection: Connection | None = None
        self._options = options
        self._start: Callable[[Connection], S] = start
        self.source: S | None = None

    def open(self) -> S:
        """Connect and start, unless done before."""
        if self.source is None:
            self.connection = connect(self._options)
            try:
                self.source = self._start(self.connection)
            except BaseException:
                self.connection.close()
                raise
        return self.source

    def close(self) -> None:
        """End the reading and close the connection. May be repeated."""
        if self.source is not None:
            self.source.close()
        if self.connection is not None:
            self.connection.close(linger=_LINGER)


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
        self._opening: _Opening[S] = _Opening(options, start)
        self._batches = self._run(self._opening)

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
        return self._opening.open()

    @property
    def started(self) -> bool:
        """Whether it has connected."""
        return self._opening.source is not None

    @property
    def opened(self) -> bool:
        """Whether its connection is open."""
        return self._opening.connection is not None and not self._opening.connection.closed

    @property
    def schema(self) -> pa.Schema:
        """Schema of every batch."""
        return self.source.schema

    def interrupt(self) -> None:
        """Make a thread that waits for a batch fail at once. The only call for another thread."""
        if self._opening.connection is not None:
            self._opening.connection.interrupt()

    def close(self) -> None:
        """End the iteration and close the connection. May be repeated."""
        super().close()
        self._opening.close()

    @staticmethod
    def _run(opening: _Opening[S]) -> Generator[pa.RecordBatch]:
        yield from opening.open()


class ScanReader(OwnConnectionReader[Scan]):
    """A range of a stream; see `jetspark.bulk.scan`. It closes itself after the last batch."""

    @property
    def report(self) -> ScanReport:
        """Counts of expected messages and of messages read so far."""
        return self.source.report

    @staticmethod
    def _run(opening: _Opening[Scan]) -> Generator[pa.RecordBatch]:
        try:
            yield from opening.open()
        finally:
            opening.close()


class FetchReader(OwnConnectionReader[ConsumerFetch]):
    """Messages of a consumer; see `jetspark.bulk.fetch`. It stays open for `ack` until it is closed."""

    @property
    def received(self) -> int:
        """Messages returned so far."""
        return self.source.received

    @property
    def bad_records(self) -> int:
        """Messages returned so far whose payload could not be decoded, with the parameter `decode`."""
        return self.source.bad_records

    def ack(self) -> None:
        """Acknowledge the returned messages; see `jetspark.bulk.ConsumerFetch.ack`."""
        self.source.ack()

    def read_all(self) -> pa.Table:
        """Return the remaining batches as a table. If it fails, all of its messages go to the next fetch."""
        return self.source.read_all()

    def read_available(self) -> pa.RecordBatch | Wait | None:
        """Return the next batch, or what to wait for; see `jetspark.bulk.ConsumerFetch.read_available`."""
        return self.source.read_available()

    def release(self) -> None:
        """End the pull and give its messages back; see `jetspark.bulk.ConsumerFetch.release`."""
        if self._opening.source is not None:
            self._opening.source.release()

    @property
    def remaining(self) -> PullOptions | None:
        """Options of a pull for the rest; see `jetspark.bulk.ConsumerFetch.remaining`."""
        return self.source.remaining
