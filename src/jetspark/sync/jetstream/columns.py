"""Streams and consumers as Arrow columns; as the asyncio ones, only blocking. Needs the `arrow` extra.

Written by hand: the reading is blocking by itself, in the caller's thread.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from jetspark.aio.jetstream import columns as aio
from jetspark.sync.blocking import Blocking

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark import bulk

__all__ = ["FetchedBatches", "ScannedBatches"]

A = TypeVar("A", bound="aio.ScannedBatches | aio.FetchedBatches")


class _Batches(Blocking, Generic[A]):
    """An iterator of record batches, and whatever takes an Arrow stream takes it: pandas, polars, DuckDB.

        with stream.scan() as batches:
            for batch in batches:
                ...

    It connects when the first batch is asked for; a context manager closes at its end.
    """

    _inner: A

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._inner.batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._inner.batches.__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rest as a record batch reader."""
        return self._inner.batches.to_reader()

    def read_all(self) -> pa.Table:
        """The rest as a table."""
        return self._inner.batches.read_all()

    def close(self) -> None:
        """End it and close its connection. May be repeated."""
        self._inner.batches.close()


class ScannedBatches(_Batches[aio.ScannedBatches]):
    """A range of a stream as record batches. Made by `Stream.scan`."""

    @property
    def report(self) -> bulk.ScanReport:
        """What was expected and read so far; see `jetspark.bulk.ScanReport`."""
        return self._inner.report


class FetchedBatches(_Batches[aio.FetchedBatches]):
    """Messages of a consumer as record batches. Made by `Consumer.fetch_arrow`."""

    @property
    def received(self) -> int:
        """Messages handed out so far."""
        return self._inner.received

    def ack(self) -> None:
        """Acknowledge all that was handed out, and wait until the server has it; see `jetspark.bulk.Fetch.ack`.

        Raises
        ------
        RequestTimeoutError, DisconnectedError
            Not confirmed; the messages may come again.
        ConsumerNotFoundError, NoRespondersError
            The consumer is gone.
        """
        self._inner.batches.ack()
