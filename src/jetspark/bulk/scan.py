"""Read a range of a stream into Arrow record batches.

A range is read from an ephemeral, ack-none, in-memory pull consumer, the fastest way on the server. If the consumer
would be refused, or would change which messages the stream keeps, the range is read by batched direct get
(`direct_get_source`). Nothing is acknowledged and nothing is left on the server, so a repeated read returns the same.
If the connection, the server or the consumer goes away, reading continues after the last sequence.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa

from jetspark.bulk.columns import scan_schema
from jetspark.bulk.connection import Connection
from jetspark.bulk.consumer_source import ConsumerSource, delete_consumer_nowait
from jetspark.bulk.decoding import decode_batches, message_schema
from jetspark.bulk.direct_get_source import DirectGetSource, check_direct
from jetspark.bulk.leader_queries import has_replicas, next_matching_sequence
from jetspark.bulk.range_source import DecodedMessages, RangeSource, ReadLimits, ReadMethod, ReadTarget
from jetspark.bulk.record_batch_iterator import RecordBatchIterator
from jetspark.bulk.retry import RetryTimer, is_retryable
from jetspark.bulk.scan_range import ScanBounds, choose_method, sequence_at, to_ns
from jetspark.bulk.scan_report import ScanReport
from jetspark.engine.ranges import InterruptedReadError, RangeProgress
from jetspark.engine.retry import can_resume
from jetspark.jetstream import StreamInfo
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.errors import (
    ConfigError,
    ConnectionClosedError,
    DataLossError,
    Error,
)
from jetspark.jetstream.names import (
    API_PREFIX,
    CONSUMER_PREFIX,
    check_consumer_prefix,
    check_filter_subject,
    check_stream_name,
)
from jetspark.payload import DecodeOptions, PayloadFormat, RowDecoder
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.vector import FrameTable

__all__ = ["Scan", "ScanReport", "scan"]


@checks_arguments()
def scan(
    connection: Connection,
    stream: str,
    *,
    subjects: Sequence[str] = (),
    start_sequence: int | None = None,
    start_time: datetime | int | None = None,
    end_sequence: int | None = None,
    end_time: datetime | int | None = None,
    columns: Sequence[str] | None = None,
    max_batch_rows: int = 16_384,
    max_batch_bytes: int = 8 << 20,
    max_bytes_in_flight: int = 16 << 20,
    timeout: float = 5.0,
    retry_timeout: float = 30.0,
    prefix: str = API_PREFIX,
    read_method: ReadMethod | str = ReadMethod.AUTO,
    decode: PayloadFormat | DecodeOptions | None = None,
    consumer_prefix: str = CONSUMER_PREFIX,
) -> Scan:
    """Read a range of a stream as Arrow record batches.

    Parameters
    ----------
    connection
        From `connect`; only the scan may use it until it is closed.
    stream
        Name of the stream.
    subjects
        Subject filters, with wildcards; they must not overlap. Empty means all subjects.
    start_sequence, start_time
        First sequence, or the time of the first message (`datetime`, or nanoseconds since 1970 UTC). Default: the first
        message of the stream.
    end_sequence, end_time
        The sequence, or the time, to stop before. Default: after the message that is the last one now.
    columns
        Any of `subject`, `data`, `headers`, `stream`, `sequence`, `timestamp` and `timestamp_ns`, in the wanted order.
        None means all. Columns that are not requested are not decoded.
    max_batch_rows, max_batch_bytes
        Upper bounds of a record batch. A single message may be larger.
    max_bytes_in_flight
        Approximate bytes that the server may have sent and we have not read.
    timeout
        Seconds for a request to the server.
    retry_timeout
        Seconds to keep trying if nothing can be read any more; 0 raises at once.
    prefix
        Prefix of the API's subjects, see `jetspark.jetstream.names.api_prefix`.
    read_method
        `consumer`, `direct` (batched direct get, ADR-31; needs server 2.11 and a stream with `allow_direct`), or
        `auto`: direct get on streams with retention `workqueue` or `interest`, where another consumer is refused or
        changes which messages are kept, and a consumer on all others.
    decode
        Format of the payloads: its fields take the place of `data` among the columns. `DecodeOptions` add what happens
        to bad records, and a prefix for the names of the other columns.
    consumer_prefix
        Beginning of the names of the consumers that are created.

    Returns
    -------
    Scan
        An iterator of record batches, and a context manager; `report` has the counts.

    Raises
    ------
    ConfigError
        The options are not valid or contradict each other; while reading: the stream does not allow direct get.
    StreamNotFoundError, JetStreamNotEnabledError, APIError
        While reading: the server refuses the request.
    DataLossError
        While reading: the stream was deleted and created again.
    PayloadError
        While reading: a payload cannot be decoded, and the mode is FAILFAST.
    """
    if start_sequence is not None and start_time is not None:
        raise ConfigError("give start_sequence or start_time, not both")
    if end_sequence is not None and end_time is not None:
        raise ConfigError("give end_sequence or end_time, not both")
    for name, value in (
        ("max_batch_rows", max_batch_rows),
        ("max_batch_bytes", max_batch_bytes),
        ("max_bytes_in_flight", max_bytes_in_flight),
    ):
        if value < 1:
            raise ConfigError(f"{name} must be positive, not {value}")
    bounds = ScanBounds(start_sequence, to_ns(start_time), end_sequence, to_ns(end_time))
    limits = ReadLimits(max_batch_rows, max_batch_bytes, max_bytes_in_flight, timeout, retry_timeout)
    try:
        method = ReadMethod(read_method)
    except ValueError:
        known = ", ".join(each.value for each in ReadMethod)
        raise ConfigError(f"read_method must be one of {known}, not {read_method!r}") from None
    check_stream_name(stream)
    for subject in subjects:
        check_filter_subject(subject)
    target = ReadTarget(connection, stream, tuple(subjects), prefix, limits, check_consumer_prefix(consumer_prefix))
    return Scan(target, bounds, scan_schema(columns), method, decode)


class Scan(RecordBatchIterator):
    """Iterator of record batches; see `scan`. The connection stays open.

    The end, `close`, or the end of the last reference to it deletes the consumer.

    Attributes
    ----------
    report
        Counts of expected messages and of messages read so far.
    """

    def __init__(
        self,
        target: ReadTarget,
        bounds: ScanBounds,
        schema: pa.Schema,
        method: ReadMethod,
        decode: PayloadFormat | DecodeOptions | None,
    ) -> None:
        self._schema = schema
        self.report = report = ScanReport(target.stream, read_method=method)
        if decode is None:
            self._batches = _ScanReading(target, bounds, schema, report).run()
        else:
            rows = RowDecoder.for_columns(decode, schema, where=f"stream {target.stream!r}")
            self._schema = rows.schema
            messages = _ScanReading(target, bounds, message_schema(rows), report).run()
            self._batches = decode_batches(rows, messages, report)


class _ScanReading:
    """Reads the range of a scan."""

    def __init__(self, target: ReadTarget, bounds: ScanBounds, schema: pa.Schema, report: ScanReport) -> None:
        self.report = report
        self._schema = schema
        self._target = target
        self._connection = target.connection
        self._stream = target.stream
        self._bounds = bounds
        self._limits = target.limits
        self._message_bytes = 0
        self._source: RangeSource | None = None
        self._orphaned_consumers: list[str] = []  # consumers left by a lost connection
        self._rechecked = False
        self._replicated = False

    # -- the range -----------------------------------------------------------------------------------------------

    def run(self) -> Generator[pa.RecordBatch]:
        """Yield the record batches."""
        self._check_open()
        progress: RangeProgress | None = None
        retry = RetryTimer(self._limits.retry_timeout)
        try:
            while progress is None or not progress.done:
                try:
                    if self._connection.closed:
                        self._connection.reconnect()
                    if progress is None:
                        progress = self._plan_range()
                        continue
                    if retry.retries:
                        self._check_same_stream()
                    for run in self._open_source(progress).read_messages(progress):
                        retry.reset()
                        yield from self._batches_of(run, progress.end)
                    self._close_source()
                    if self.report.read_method is ReadMethod.DIRECT:
                        self._check_same_stream()  # direct get does not notice another stream of that name
                    self._recheck_missing(progress)
                    self._check_end(progress)
                except Error as error:
                    self._close_source()
                    known = progress is not None
                    passing = can_resume(error) if known else is_retryable(self._connection, error)
                    passing = passing and not self._connection.interrupted
                    doubtful = self._connection.note_error(error)
                    if not (passing and retry.wait(doubtful)):
                        raise
                    self.report.restarts += 1
            self.report.complete = True
        finally:
            self._close_source()

    def _check_open(self) -> None:
        if self._connection.closed:
            raise ConnectionClosedError(f"the connection to {self._connection.address} is closed; open another one")

    def _plan_range(self) -> RangeProgress:
        """Limit the range to the messages of the stream."""
        info = self._stream_info()
        state, report, bounds = info.state, self.report, self._bounds
        report.created = info.created
        report.read_method = method = choose_method(info, report.read_method)
        self._replicated = has_replicas(info) and method is ReadMethod.CONSUMER  # the direct source checks that itself
        if method is ReadMethod.DIRECT:
            check_direct(info.config, self._target.subjects)
        self._message_bytes = state.bytes // max(state.messages, 1)
        report.stream_first_sequence, report.stream_last_sequence = state.first_sequence, state.last_sequence
        start, end = bounds.start_sequence, bounds.end_sequence
        if bounds.start_ns is not None:
            start = sequence_at(self._target, info, method, bounds.start_ns)
        if bounds.end_ns is not None:
            end = sequence_at(self._target, info, method, bounds.end_ns)
        report.start_sequence = max(start if start is not None else 0, state.first_sequence, 1)
        report.end_sequence = min(end if end is not None else state.last_sequence + 1, state.last_sequence + 1)
        report.end_sequence = max(report.end_sequence, report.start_sequence)
        gapless = state.messages == state.last_sequence - state.first_sequence + 1
        if report.start_sequence == report.end_sequence or (gapless and not self._target.subjects):
            report.expected = report.end_sequence - report.start_sequence  # exact, without counting
        return RangeProgress(report.start_sequence, report.end_sequence)

    def _stream_info(self) -> StreamInfo:
        return self._connection.request(
            StreamInfoRequest(self._stream), timeout=self._limits.timeout, prefix=self._target.prefix
        )

    def _check_same_stream(self) -> None:
        """Check that the stream was not deleted and created again."""
        while self._orphaned_consumers:
            delete_consumer_nowait(self._target, self._orphaned_consumers.pop())
        created = self._stream_info().created
        if created != self.report.created:
            raise DataLossError(
                f"stream {self._stream!r} was deleted and created again during the read: the first one was created at "
                f"{self.report.created}, the present one at {created}",
                stream=self._stream,
            )

    def _recheck_missing(self, progress: RangeProgress) -> None:
        """Ask once more if messages are missing: the server's pending count may be out of date."""
        report = self.report
        if not self._rechecked and report.received < (report.expected or 0):
            self._rechecked = progress.reopen()

    def _check_end(self, progress: RangeProgress) -> None:
        """Check the end with the leader: the server that reported no pending messages may lag behind."""
        if not self._replicated or not progress.done or not progress.reopen():
            return
        following = next_matching_sequence(self._target, progress.next_sequence)
        if following is not None and following < progress.end:
            raise InterruptedReadError(
                f"stream {self._stream!r}: the server of the consumer does not have sequence {following} yet"
            )
        progress.finish()

    def _open_source(self, progress: RangeProgress) -> RangeSource:
        report = self.report
        if report.read_method is ReadMethod.DIRECT:
            source: RangeSource = DirectGetSource(self._target)
        else:
            source = ConsumerSource(
                self._target, message_bytes=self._message_bytes, server_counts_bytes=report.restarts > 0
            )
        self._source = source
        source.open(progress)
        if report.expected is None:
            report.expected = source.count(progress.end)
        return source

    def _close_source(self) -> None:
        source, self._source = self._source, None
        if source is None:
            return
        if not self._connection.closed:
            source.close()
        if self._connection.closed and source.name:
            self._orphaned_consumers.append(source.name)

    def _batches_of(self, run: DecodedMessages, end: int) -> Iterator[pa.RecordBatch]:
        """Yield record batches within the limits, without messages after the range."""
        table, sequence = run.table, run.sequence
        rows = int(np.searchsorted(sequence, end))
        if not rows:
            return
        report = self.report
        if report.first_sequence is None:
            report.first_sequence = int(sequence[0])
        batch = run.to_record_batch(self._schema)
        for first, stop in _slices(table, rows, self._limits):
            report.received += stop - first
            report.bytes += int((table.end[first:stop] - table.start[first:stop] + 2).sum())
            report.last_sequence = int(sequence[stop - 1])
            yield batch.slice(first, stop - first)


def _slices(table: FrameTable, rows: int, limits: ReadLimits) -> Iterator[tuple[int, int]]:
    first = 0
    while first < rows:
        fitting = int(np.searchsorted(table.end, int(table.start[first]) + limits.max_batch_bytes))
        stop = min(max(fitting, first + 1), first + limits.max_batch_rows, rows)
        yield first, stop
        first = stop
