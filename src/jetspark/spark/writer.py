"""Batch writes: every task publishes its rows as they come, pipelined, and waits for every acknowledgement.

A stream only grows, so a write appends. What a task that failed had published stays; Spark runs it again. So that the
stream then drops what it has already, every row gets a message id that the repeated task gives again: the job, the
partition, the number of the row, and a hash of its content. The hash is there for plans that give rows in another order
the second time, as shuffles do: another row under the same number is another message, never taken for a repeat. Such
rows may be stored twice, and none is lost. A column `msg_id` of one's own has no such limits.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.connections import lend
from jetspark.spark.options import WriteOptions
from jetspark.spark.schema import WriteColumns, write_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import PublishReport

__all__ = ["JetStreamWriter", "PublishedRows", "StreamRows", "plan_write"]

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class StreamRows:
    """Rows that one stream stored.

    Attributes
    ----------
    count
        Rows acknowledged, duplicates included.
    duplicates
        Rows that were there already, by their message id.
    first_sequence, last_sequence
        Lowest and highest sequence of the rows stored newly; None when there is none.
    """

    count: int
    duplicates: int
    first_sequence: int | None
    last_sequence: int | None

    def add(self, other: StreamRows) -> None:
        """Add the rows of another task."""
        self.count += other.count
        self.duplicates += other.duplicates
        first = [each for each in (self.first_sequence, other.first_sequence) if each is not None]
        last = [each for each in (self.last_sequence, other.last_sequence) if each is not None]
        self.first_sequence = min(first, default=None)
        self.last_sequence = max(last, default=None)


@dataclass
class PublishedRows(WriterCommitMessage):
    """What one task published.

    Attributes
    ----------
    partition
        Number of the task's partition.
    bytes
        Bytes sent.
    streams
        By the stream's name, what it stored.
    """

    partition: int
    bytes: int
    streams: dict[str, StreamRows] = field(default_factory=dict)

    @classmethod
    def of(cls, partition: int, report: PublishReport) -> PublishedRows:
        """Take over what `bulk.publish` reports."""
        streams = {
            name: StreamRows(acks.count, acks.duplicates, acks.first_sequence, acks.last_sequence)
            for name, acks in report.streams.items()
        }
        return cls(partition, report.bytes, streams)


def plan_write(schema: StructType, options: WriteOptions, overwrite: bool) -> JetStreamWriter:
    """Check what can be checked before a task runs, the connection included.

    Raises
    ------
    ConfigError
        The mode is `overwrite`, or the rows lack a column.
    ConnectError, AuthenticationError, TLSError
        The server cannot be reached or does not take us.
    """
    if overwrite:
        raise ConfigError(
            "mode overwrite: a stream can only be appended to; use mode append, and purge the stream before if it is "
            "to be replaced"
        )
    columns = write_columns(schema, options.subject)
    with lend(options.server.connect):
        pass
    return JetStreamWriter(options, columns)


class JetStreamWriter(DataSourceArrowWriter):
    """Publishes rows. Made once for a job, on the driver, and sent to every task."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._options = options
        self._columns = columns
        self._job = secrets.token_urlsafe(9)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PublishedRows:
        """Publish the rows of a task and return what was stored."""
        from jetspark.bulk import publish

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        with lend(self._options.server.connect) as connection:
            report = publish(
                connection,
                self._rows(iterator, partition),
                subject=self._options.subject,
                max_pending=self._options.max_pending,
                ack_timeout=self._options.ack_timeout,
            )
        done = PublishedRows.of(partition, report)
        _log.info("partition %d: %s", partition, _told(done.streams))
        return done

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Tell what the job has stored."""
        _log.info("write done: %s", _told(_sum(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Tell what stays of a job that failed: a stream takes nothing back."""
        done = [message for message in messages if message is not None]
        _log.warning(
            "write failed: %d of %d tasks were done, and their rows stay (%s); of the others it is not known",
            len(done),
            len(messages),
            _told(_sum(messages)),
        )

    def _rows(self, iterator: Iterator[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
        """The batches with our columns only, under our names, and ids where there are none."""
        import pyarrow as pa

        from jetspark.spark.message_ids import message_ids

        names = list(self._columns.positions)
        prefix = f"{self._job}-{partition}"
        row = 0
        for batch in iterator:
            arrays = [batch.column(at) for at in self._columns.positions.values()]
            ours = pa.RecordBatch.from_arrays(arrays, names)
            if self._options.dedup and "msg_id" not in self._columns:
                ours = ours.append_column("msg_id", message_ids(prefix, row, ours))
            row += len(batch)
            yield ours


def _sum(messages: Iterable[WriterCommitMessage | None]) -> dict[str, StreamRows]:
    total: dict[str, StreamRows] = {}
    for message in messages:
        if isinstance(message, PublishedRows):
            for stream, rows in message.streams.items():
                total.setdefault(stream, StreamRows(0, 0, None, None)).add(rows)
    return total


def _told(streams: dict[str, StreamRows]) -> str:
    return "; ".join(_told_one(name, rows) for name, rows in sorted(streams.items())) or "no rows"


def _told_one(name: str, rows: StreamRows) -> str:
    text = f"stream {name}: {rows.count} rows"
    if rows.first_sequence is not None:
        text += f", stored at sequences {rows.first_sequence} to {rows.last_sequence}"
    return f"{text}, {rows.duplicates} there already" if rows.duplicates else text
