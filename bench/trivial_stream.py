"""The simplest streaming source in Python: a counter and generated rows. It measures the cost of Spark itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["TrivialDataSource"]


class TrivialDataSource(DataSource):
    """`count` rows of one number in micro-batches of `rows`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format()`."""
        return "trivial"

    def schema(self) -> str:
        """The only column."""
        return "sequence bigint"

    def streamReader(self, schema: StructType) -> TrivialReader:  # noqa: ARG002, N802 - as Spark calls it
        """The reader."""
        return TrivialReader(int(self.options["count"]), int(self.options["rows"]))


class TrivialReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Counts up to `count`."""

    def __init__(self, count: int, rows: int) -> None:
        self._count = count
        self._rows = rows

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """There never is more."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The size of a micro-batch."""
        return ReadMaxRows(self._rows)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The beginning."""
        return {"next": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """The next few."""
        return {"next": min(start["next"] + self._rows, self._count)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One, with its numbers."""
        return [InputPartition((start["next"], end["next"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One record batch."""
        import pyarrow as pa

        start, end = partition.value
        yield pa.record_batch({"sequence": pa.array(range(start, end), pa.int64())})
