"""A stream as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jetspark.aio.jetstream.arrow import ScanReader, scan_stream
from jetspark.aio.jetstream.stream_consumers import StreamConsumers

__all__ = ["StreamColumns"]


class StreamColumns(StreamConsumers):
    """Reading a stream as Arrow columns."""

    def scan(
        self,
        *,
        subjects: Sequence[str] = (),
        start_sequence: int | None = None,
        start_time: datetime | int | None = None,
        end_sequence: int | None = None,
        end_time: datetime | int | None = None,
        columns: Sequence[str] | None = None,
        max_batch_rows: int = 16_384,
    ) -> ScanReader:
        """Read a range of the stream as Arrow record batches, which pandas, polars and DuckDB accept.

        It reads over a connection of its own, acknowledges nothing and leaves nothing on the server. Needs the `arrow`
        extra.

        Parameters
        ----------
        subjects
            Subject filters, with wildcards; they must not overlap. Empty means all subjects.
        start_sequence, start_time
            First sequence, or the time of the first message (`datetime`, or nanoseconds since 1970 UTC). Default: the
            first message.
        end_sequence, end_time
            The sequence, or the time, to stop before. Default: after the message that is the last one now.
        columns
            Any of `subject`, `data`, `headers`, `stream`, `sequence`, `timestamp` and `timestamp_ns`; None means all.
        max_batch_rows
            Most rows of a record batch.

        Raises
        ------
        ConfigError, StreamNotFoundError, ConnectError, DataLossError
            While reading; see `jetspark.bulk.scan`.
        """
        return scan_stream(
            self._js,
            self.name,
            subjects=subjects,
            start_sequence=start_sequence,
            start_time=start_time,
            end_sequence=end_sequence,
            end_time=end_time,
            columns=columns,
            max_batch_rows=max_batch_rows,
        )
