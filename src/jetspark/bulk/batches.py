"""Record batches over a connection of their own, which is opened for them and closed behind them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

import pyarrow as pa

from jetspark.bulk.connection import Connection, connect
from jetspark.bulk.fetch import Fetch
from jetspark.bulk.reading import RecordBatches
from jetspark.bulk.scan import Scan, ScanReport
from jetspark.wire.options import ConnectOptions

__all__ = ["Batches", "FetchedBatches", "ScannedBatches"]

S = TypeVar("S", Scan, Fetch)


class Batches(RecordBatches, Generic[S]):
    """An iterator of record batches, and whatever takes an Arrow stream takes it: pandas, polars, DuckDB.

        with stream.scan() as batches:
            frame = polars.DataFrame(batches)

    It connects when the first batch is asked for. A context manager closes at its end.

    Parameters
    ----------
    options
        How to connect.
    begin
        Starts the reading over the connection.
    """

    def __init__(self, options: ConnectOptions, begin: Callable[[Connection], S]) -> None:
        self._options = options
        self._begin: Callable[[Connection], S] = begin
        self._connection: Connection | None = None
        self._source: S | None = None
        self._batches = self._run()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @property
    def source(self) -> S:
        """What it reads from: the `Scan` with its report, or the `Fetch`.

        Raises
        ------
        ConnectError, AuthenticationError
            There is no connection yet, and none can be had.
        """
        if self._source is None:
            self._connection = connect(self._options)
            try:
                self._source = self._begin(self._connection)
            except BaseException:
                self._connection.close()
                raise
        return self._source

    @property
    def schema(self) -> pa.Schema:
        """Schema of every batch."""
        return self.source.schema

    def read_all(self) -> pa.Table:
        """The rest as a table."""
        return self.to_reader().read_all()

    def interrupt(self) -> None:
        """Let a thread that waits for a batch go on at once, with an error. The only call for another thread."""
        if self._connection is not None:
            self._connection.interrupt()

    def close(self) -> None:
        """End it and close its connection. May be repeated."""
        super().close()
        if self._source is not None:
            self._source.close()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _run(self) -> Generator[pa.RecordBatch]:
        yield from self.source


class ScannedBatches(Batches[Scan]):
    """A range of a stream; see `jetspark.bulk.scan`. It closes by itself when all of it was read."""

    @property
    def report(self) -> ScanReport:
        """What was expected and read so far."""
        return self.source.report

    def _run(self) -> Generator[pa.RecordBatch]:
        yield from self.source
        self._hang_up()


class FetchedBatches(Batches[Fetch]):
    """Messages of a consumer; see `jetspark.bulk.fetch`. It stays open for `ack` until it is closed."""

    @property
    def received(self) -> int:
        """Messages handed out so far."""
        return self.source.received

    def ack(self) -> None:
        """Acknowledge what was handed out; see `jetspark.bulk.Fetch.ack`."""
        self.source.ack()
