"""Reads the range of one task, and checks that no message in it is missing.

Batch reads and streaming reads use the same code. A repeated task reads the same range.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from jetspark.jetstream import ConsumerConfig
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import ConsumerNotFoundError, DataLossError, StreamNotFoundError
from jetspark.jetstream.times import time_ns
from jetspark.spark.commit.commit_consumer import losses_if_deleted
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.dead_letters import ReadDeadLetters
from jetspark.spark.read.entries import RowConversion, conversion_of, log_bad_records, plan_rows
from jetspark.spark.read.partitions import StreamPartition
from jetspark.spark.streams.offsets import StreamOffset
from jetspark.spark.streams.ranges import Loss
from jetspark.spark.task_log import log_counts

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection, Scan, ScanReport
    from jetspark.bulk.retry import RetryTimer

__all__ = ["RangeReader", "report_loss"]

_log: Final = logging.getLogger(__name__)


def report_loss(loss: Loss, options: ReadOptions) -> None:
    """Report a loss by a DataLossError or by a warning, as the option `failOnDataLoss` says."""
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{loss}; to read the rest, set option failOnDataLoss = false",
            stream=loss.stream,
            first=loss.first,
            last=loss.last,
        )
    _log.warning("data loss: %s", loss)


class RangeReader:
    """Reads ranges. Created on the driver, and sent to every task.

    Attributes
    ----------
    options
        Options of the read.
    rows
        Columns of the read.
    subjects
        Subject filters that the server applies; empty for all subjects. A partition of a bucket has its own.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self.options = options
        self.rows = plan_rows(schema, options)
        self.subjects = options.subjects
        self._job = secrets.token_urlsafe(9)

    def read(self, part: StreamPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition.

        Raises
        ------
        DataLossError
            Messages of the partition are lost, or the stream is another one, and `failOnDataLoss` is true.
        TooManyDeadLettersError, PublishRefusedError, ...
            Messages that cannot be decoded cannot be published as dead letters.
        """
        if part.start == part.end:
            return
        from jetspark.bulk.retry import RetryTimer

        timer = RetryTimer(self.options.retry_timeout)
        with borrow_connection(self.options.server.connect, self.options.retry_timeout) as connection:
            read_once = self._read_newest if part.newest_only else self._read_once
            done = False
            while not done:
                done = yield from read_once(connection, part, timer)
            if part.commit_consumer is not None:
                self._check_retained(connection, part, part.commit_consumer)

    def _read_once(
        self, connection: Connection, part: StreamPartition, timer: RetryTimer
    ) -> Generator[pa.RecordBatch, None, bool]:
        """Read the partition and return True. Return False, after a wait, if the leader does not know all of it yet."""
        begin = time.monotonic()
        letters = None
        if self.options.dead_letters is not None:
            letters = ReadDeadLetters(self.options, part.stream, self._job, part.created_ns)
        conversion = conversion_of(self.rows, part.stream, part.entries, letters)
        with self._scan(connection, part, conversion.columns) as batches:
            try:
                batch = _next_batch(batches)
                if _has_stale_leader(part, batches.report) and timer.wait(batches.close):
                    return False
                yield from self._verified_batches(part, batches, batch, conversion)
            except (StreamNotFoundError, _StreamReplacedError) as error:
                last = batches.report.last_sequence
                first = part.start if last is None else last + 1
                report_loss(Loss(part.stream, first, part.end - 1, str(error)), self.options)
            _log_counts(part, batches.report, time.monotonic() - begin)
            log_bad_records(conversion)
        return True

    def _read_newest(
        self, connection: Connection, part: StreamPartition, timer: RetryTimer
    ) -> Generator[pa.RecordBatch, None, bool]:
        """Read the newest entry of each key in the partition; return as `_read_once`."""
        from jetspark.bulk.last_up_to import last_up_to

        assert part.entries is not None
        options, server = self.options, self.options.server
        conversion = conversion_of(self.rows, part.stream, part.entries)
        try:
            found = last_up_to(
                connection,
                part.stream,
                part.end - 1,
                subjects=part.entries.subjects,
                columns=conversion.columns,
                max_bytes_in_flight=options.bytes_in_flight,
                timeout=server.request_timeout,
                retry_timeout=options.retry_timeout,
                prefix=server.api_prefix,
                consumer_prefix=server.consumer_prefix,
            )
        except StreamNotFoundError as error:
            report_loss(Loss(part.stream, part.start, part.end - 1, str(error)), options)
            return True
        end = StreamOffset(part.created_ns, part.end)
        if part.replicated and end.is_past_end(time_ns(found.created), found.sequence) and timer.wait():
            return False
        if time_ns(found.created) != part.created_ns:
            reason = "the stream was deleted and created again after the read was planned"
            report_loss(Loss(part.stream, part.start, part.end - 1, reason), options)
            return True
        for batch in found.table.to_batches(max_chunksize=options.batch_rows):
            yield conversion.apply(batch)
        log_bad_records(conversion)
        return True

    def _check_retained(self, connection: Connection, part: StreamPartition, commit_consumer: str) -> None:
        """Check that the stream retained the range until it was read. Only the task can check this."""
        from jetspark.bulk.retry import request_with_retry

        server = self.options.server

        def ask() -> ConsumerConfig | None:
            try:
                return server.request(connection, ConsumerInfoRequest(part.stream, commit_consumer)).config
            except ConsumerNotFoundError:
                return None

        found = request_with_retry(connection, ask, self.options.retry_timeout)
        for loss in losses_if_deleted(part.stream, commit_consumer, part.start, part.end - 1, found):
            report_loss(loss, self.options)

    def _scan(self, connection: Connection, part: StreamPartition, columns: tuple[str, ...]) -> Scan:
        from jetspark.bulk import scan

        options, server = self.options, self.options.server
        return scan(
            connection,
            part.stream,
            subjects=self.subjects if part.entries is None else part.entries.subjects,
            start_sequence=part.start,
            end_sequence=part.end,
            columns=columns,
            max_batch_rows=options.batch_rows,
            max_batch_bytes=options.batch_bytes,
            max_bytes_in_flight=options.bytes_in_flight,
            timeout=server.request_timeout,
            retry_timeout=options.retry_timeout,
            prefix=server.api_prefix,
            consumer_prefix=server.consumer_prefix,
        )

    def _verified_batches(
        self, part: StreamPartition, batches: Scan, batch: pa.RecordBatch | None, conversion: RowConversion
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan. Checks the stream before the first one, and the count after the last one."""
        if not self._check_planned_stream(part, batches.report):
            return
        while batch is not None:
            yield conversion.apply(batch)
            batch = _next_batch(batches)
        if batches.report.missing and not part.drops_single_messages:
            reason = (
                f"{batches.report.missing} messages between sequences {part.start} and {part.end - 1} were purged, "
                "deleted or expired during the read"
            )
            report_loss(Loss(part.stream, None, None, reason), self.options)

    def _check_planned_stream(self, part: StreamPartition, report: ScanReport) -> bool:
        """Check that the stream still holds the range. Return whether it is the stream of the plan."""
        if report.created is None or time_ns(report.created) != part.created_ns:
            reason = "the stream was deleted and created again after the read was planned"
            report_loss(Loss(part.stream, part.start, part.end - 1, reason), self.options)
            return False
        if report.stream_first_sequence > part.start and not part.drops_single_messages:
            last = min(report.stream_first_sequence, part.end) - 1
            reason = f"they were purged, deleted or expired; the stream starts at {report.stream_first_sequence} now"
            report_loss(Loss(part.stream, part.start, last, reason), self.options)
        elif report.stream_last_sequence < part.end - 1:
            reason = f"the stream ends at {report.stream_last_sequence} now"
            first = max(report.stream_last_sequence + 1, part.start)
            report_loss(Loss(part.stream, first, part.end - 1, reason), self.options)
        return True


class _StreamReplacedError(DataLossError):
    """The stream of the partition was deleted, and another one has its name."""


def _next_batch(batches: Scan) -> pa.RecordBatch | None:
    try:
        return next(batches, None)
    except DataLossError as error:  # after a reconnect, the scan found another stream
        raise _StreamReplacedError(str(error)) from error


def _has_stale_leader(part: StreamPartition, report: ScanReport) -> bool:
    """Whether a stream with replicas ends before the end of the range, which its former leader had."""
    if report.created is None or not part.replicated:
        return False
    end = StreamOffset(part.created_ns, part.end)
    return end.is_past_end(time_ns(report.created), report.stream_last_sequence)


def _log_counts(part: StreamPartition, report: ScanReport, seconds: float) -> None:
    """Log the counts of the task, because Spark has no metrics for a Python source."""
    log_counts(
        _log,
        "stream %s, sequences %d to %d: %d rows, %d bytes, %.3f s, read by %s, continued %d times after a fault",
        part.stream,
        part.start,
        part.end - 1,
        report.received,
        report.bytes,
        seconds,
        report.read_method.value,
        report.restarts,
    )
