"""Read a range of a stream into Arrow record batches.

A range is read from an ephemeral, ack-none, in-memory pull consumer: the path on which the server is fastest. Nothing
is acknowledged and nothing is left behind, so a range can be read again and gives the same. When the connection, the
server or the consumer goes away, reading goes on with a new consumer behind the last sequence.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from jetspark.bulk.columns import Acks, build_batch, scan_schema
from jetspark.bulk.connection import Connection
from jetspark.bulk.consumer import RangeConsumer, ScanLimits, consumer_config
from jetspark.flow.backoff import Backoff
from jetspark.flow.ranges import RangeProgress, is_passing
from jetspark.jetstream import StreamInfo, Timestamp
from jetspark.jetstream.api import ConsumerCreateRequest, ConsumerDeleteRequest, StreamInfoRequest
from jetspark.jetstream.errors import ConfigError, DataLossError, Error
from jetspark.jetstream.names import API_PREFIX
from jetspark.jetstream.times import time_ns
from jetspark.wire.vector import FrameTable

__all__ = ["Scan", "ScanReport", "first_sequence_at", "scan"]


@dataclass(slots=True)
class ScanReport:
    """What a scan did.

    Attributes
    ----------
    stream, created
        The stream and when it was made.
    start_sequence, end_sequence
        First sequence of the range and the one behind it, cut to what the stream held at the beginning.
    stream_first_sequence, stream_last_sequence
        What the stream held at the beginning.
    expected
        Messages of the range that the server counted at the beginning, filters applied; None until then. While others
        publish, those of the last millisecond may be missing from it.
    received
        Messages handed out.
    bytes
        Bytes that these messages took on the wire.
    first_sequence, last_sequence
        Of the messages handed out; None when there is none.
    restarts
        How often reading went on with a new consumer.
    complete
        The whole range was read.
    """

    stream: str
    created: datetime | None = None
    start_sequence: int = 0
    end_sequence: int = 0
    stream_first_sequence: int = 0
    stream_last_sequence: int = 0
    expected: int | None = None
    received: int = 0
    bytes: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None
    restarts: int = 0
    complete: bool = False

    @property
    def missing(self) -> int:
        """Messages that were there at the beginning and have gone before they were read: purged, deleted, aged out."""
        return max((self.expected or 0) - self.received, 0) if self.complete else 0


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
) -> Scan:
    """Read a range of a stream as Arrow record batches.

    Parameters
    ----------
    connection
        From `connect`; the scan has it for itself until it is closed.
    stream
        Name of the stream.
    subjects
        Filters, with wildcards; they must not overlap. None reads all subjects.
    start_sequence, start_time
        First sequence, or the first message stored at or after a time (`datetime`, or nanoseconds since 1970 UTC).
        Neither starts with the first message of the stream.
    end_sequence, end_time
        The sequence, or the time, to stop before. Neither reads up to what is the last message now.
    columns
        Of `subject`, `data`, `headers`, `stream`, `sequence`, `timestamp` and `timestamp_ns`, in the order wanted.
        None gives all. What is not asked for is not decoded.
    max_batch_rows, max_batch_bytes
        Upper bounds of a record batch. One message alone may be larger.
    max_bytes_in_flight
        About what the server may have sent without our having read it.
    timeout
        Seconds for a request to the server.
    retry_timeout
        Seconds to go on trying when nothing can be read any more; 0 raises at once.
    prefix
        Prefix of the API's subjects, see `jetspark.jetstream.names.api_prefix`.

    Returns
    -------
    Scan
        An iterator of record batches, and a context manager; `report` counts what was expected and read.

    Raises
    ------
    ConfigError
        Options that make no sense or contradict each other.
    StreamNotFoundError, JetStreamNotEnabledError, APIError
        While reading: the server refuses.
    DataLossError
        While reading: the stream was deleted and made again.
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
    bounds = _Bounds(start_sequence, _ns(start_time), end_sequence, _ns(end_time))
    limits = ScanLimits(max_batch_rows, max_batch_bytes, max_bytes_in_flight, timeout, retry_timeout)
    return Scan(connection, stream, tuple(subjects), bounds, scan_schema(columns), limits, prefix)


def first_sequence_at(
    connection: Connection, stream: str, when: datetime | int, *, timeout: float = 5.0, prefix: str = API_PREFIX
) -> int:
    """First sequence that was stored at or after a time; one above the last when there is none.

    Parameters
    ----------
    when
        `datetime`, or nanoseconds since 1970 UTC.
    """
    info = connection.request(StreamInfoRequest(stream), timeout=timeout, prefix=prefix)
    config = consumer_config((), opt_start_time=Timestamp.from_ns(_ns(when) or 0))
    consumer = connection.request(ConsumerCreateRequest(stream, config), timeout=timeout, prefix=prefix)
    connection.post(ConsumerDeleteRequest(stream, consumer.name), prefix=prefix)
    if not consumer.num_pending:
        return info.state.last_seq + 1
    return consumer.delivered.stream_seq + 1


@dataclass(frozen=True, slots=True)
class _Bounds:
    start_sequence: int | None
    start_ns: int | None
    end_sequence: int | None
    end_ns: int | None


def _ns(when: datetime | int | None) -> int | None:
    return time_ns(when) if isinstance(when, datetime) else when


class Scan:
    """Iterator of record batches; see `scan`.

    Attributes
    ----------
    schema
        Schema of every batch.
    report
        What was expected and read so far.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        subjects: tuple[str, ...],
        bounds: _Bounds,
        schema: pa.Schema,
        limits: ScanLimits,
        prefix: str,
    ) -> None:
        self.schema = schema
        self.report = ScanReport(stream)
        self._connection = connection
        self._stream = stream
        self._subjects = subjects
        self._bounds = bounds
        self._limits = limits
        self._prefix = prefix
        self._message_bytes = 0
        self._consumer: RangeConsumer | None = None
        self._batches: Generator[pa.RecordBatch] = self._run()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading and delete the consumer; the connection stays open."""
        self._batches.close()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rest as a record batch reader, which pandas, polars and DuckDB take."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    # -- the range -----------------------------------------------------------------------------------------------

    def _run(self) -> Generator[pa.RecordBatch]:
        progress = self._plan()
        backoff = Backoff(self._limits.retry_timeout)
        try:
            while not progress.done:
                try:
                    if backoff.tries:
                        self._come_back()
                    for table, acks in self._open_consumer(progress).deliveries(progress):
                        backoff.reset()
                        yield from self._batches_of(table, acks, progress.end)
                except Error as error:
                    self._drop_consumer()
                    delay = backoff.next_delay(time.monotonic()) if is_passing(error) else None
                    if delay is None:
                        raise
                    self.report.restarts += 1
                    time.sleep(delay)  # nothing to wait for: the server is away
            self.report.complete = True
        finally:
            self._drop_consumer()

    def _plan(self) -> RangeProgress:
        """Cut the range to what the stream holds."""
        info = self._stream_info()
        state, report, bounds = info.state, self.report, self._bounds
        report.created = info.created
        self._message_bytes = state.bytes // max(state.messages, 1)
        report.stream_first_sequence, report.stream_last_sequence = state.first_seq, state.last_seq
        start, end = bounds.start_sequence, bounds.end_sequence
        if bounds.start_ns is not None:
            start = self._sequence_at(bounds.start_ns)
        if bounds.end_ns is not None:
            end = self._sequence_at(bounds.end_ns)
        report.start_sequence = max(start if start is not None else 0, state.first_seq, 1)
        report.end_sequence = min(end if end is not None else state.last_seq + 1, state.last_seq + 1)
        report.end_sequence = max(report.end_sequence, report.start_sequence)
        return RangeProgress(report.start_sequence, report.end_sequence)

    def _sequence_at(self, ns: int) -> int:
        return first_sequence_at(self._connection, self._stream, ns, timeout=self._limits.timeout, prefix=self._prefix)

    def _stream_info(self) -> StreamInfo:
        return self._connection.request(
            StreamInfoRequest(self._stream), timeout=self._limits.timeout, prefix=self._prefix
        )

    def _come_back(self) -> None:
        """Connect again where needed, and see that the stream is still the same one."""
        if self._connection.closed:
            self._connection.reconnect()
        created = self._stream_info().created
        if created != self.report.created:
            raise DataLossError(
                f"stream {self._stream!r} was deleted and made again while it was read: it was created at "
                f"{self.report.created}, now it says {created}"
            )

    def _open_consumer(self, progress: RangeProgress) -> RangeConsumer:
        self._consumer = consumer = RangeConsumer(
            self._connection,
            self._stream,
            self._subjects,
            progress,
            self._limits,
            self._prefix,
            message_bytes=self._message_bytes,
            careful=self.report.restarts > 0,
        )
        if self.report.expected is None:
            self.report.expected = consumer.count(progress.end, self.report.stream_last_sequence)
        return consumer

    def _drop_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and not self._connection.closed:
            consumer.close()

    def _batches_of(self, table: FrameTable, acks: Acks, end: int) -> Iterator[pa.RecordBatch]:
        """Record batches within the limits; what is behind the range is left out."""
        rows = int(np.searchsorted(acks.sequence, end))
        if not rows:
            return
        report = self.report
        if report.first_sequence is None:
            report.first_sequence = int(acks.sequence[0])
        batch = build_batch(table, acks, self.schema, self._stream)
        for first, stop in _slices(table, rows, self._limits):
            report.received += stop - first
            report.bytes += int((table.end[first:stop] - table.start[first:stop] + 2).sum())
            report.last_sequence = int(acks.sequence[stop - 1])
            yield batch.slice(first, stop - first)


def _slices(table: FrameTable, rows: int, limits: ScanLimits) -> Iterator[tuple[int, int]]:
    first = 0
    while first < rows:
        fitting = int(np.searchsorted(table.end, int(table.start[first]) + limits.bytes))
        stop = min(max(fitting, first + 1), first + limits.rows, rows)
        yield first, stop
        first = stop
