"""The base class of all iterators of record batches."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Self

import pyarrow as pa

__all__ = ["RecordBatchIterator"]


class RecordBatchIterator:
    """An iterator of record batches; as a context manager it closes at the end."""

    _schema: pa.Schema
    _batches: Generator[pa.RecordBatch]
    """It must not refer to this object, so that it ends with the last reference to it."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of every batch."""
        return self._schema

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration. May be repeated."""
        self._batches.close()

    def read_all(self) -> pa.Table:
        """Return the remaining batches as a table."""
        return self.to_reader().read_all()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the remaining batches as a blocking record batch reader, which pandas, polars and DuckDB accept."""
        return pa.RecordBatchReader.from_batches(self.schema, self)
