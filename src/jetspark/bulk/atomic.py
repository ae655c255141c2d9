"""Publish record batches in atomic batches (ADR-50): the rows of one are stored together or not at all.

The server takes at most 1,000 messages in a batch, so more rows become several batches, in row order. The first batches
may be stored without the last ones, but never a part of a batch. Only the first message of a batch and its commit are
answered.

A batch whose answer got lost may be stored. If it is sent again, the stream refuses all of it because it has one of its
message ids (BAT-08). Then its rows are published one by one, and the stream drops rows that it has. If the batch was
stored, nothing changes. If only some of its rows were stored (because the caller has changed the rows), the others are
stored without atomicity.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.bulk.connection import Connection
from jetspark.bulk.ping_probe import PingProbe
from jetspark.bulk.publish_acks import StreamAcks, status_error
from jetspark.bulk.publish_report import (
    BulkPublishOptions,
    ControlHeaderFilter,
    ControlHeaders,
    PublishRefusedError,
    PublishReport,
    RecordBatchInput,
    StoredRowsFinder,
    record_batches,
)
from jetspark.bulk.retry import RetryTimer
from jetspark.bulk.retrying_publisher import RetryingPublisher
from jetspark.bulk.rows import Rows, check_schema
from jetspark.engine.retry import can_resume
from jetspark.jetstream.errors import (
    APIError,
    ConfigError,
    DuplicateInBatchError,
    Error,
    IncompleteBatchError,
    InvalidAckError,
    MaxControlLineError,
    NoStreamResponseError,
    PublishTimeoutError,
    StatusError,
)
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import (
    MAX_ATOMIC_BATCH,
    OTHER_STREAM_WAIT,
    RETRY_WAIT,
    batch_headers,
    check_commit,
    is_refusal_of_other_stream,
    not_stored_hint,
    read_pub_ack,
)
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import parse_status
from jetspark.wire.reply_tokens import new_tokens
from jetspark.wire.vector.byte_spans import buffer_bytes
from jetspark.wire.vector.encoder import encode_publishes

__all__ = ["publish_atomic"]

_WHERE: Final = "atomic batch"
_ANSWERS: Final = (APIError, InvalidAckError, NoStreamResponseError, StatusError)  # of the server to a batch
_MAX_DROPS: Final = 3  # a batch whose rows belong to several streams is dropped every time


@checks_arguments()
def publish_atomic(
    connection: Connection,
    batches: RecordBatchInput,
    *,
    subject: str | None = None,
    batch_rows: int = MAX_ATOMIC_BATCH,
    ack_timeout: float = 5.0,
    expected_stream: str | None = None,
    retry_timeout: float = 0.0,
    find_stored: StoredRowsFinder | None = None,
    control_headers: ControlHeaders = "drop",
) -> PublishReport:
    """Publish record batches; each run of `batch_rows` rows is stored together or not at all.

    Parameters
    ----------
    connection, batches, subject, expected_stream
        As for `publish`. All rows must belong to one stream, which must set `allow_atomic`.
    batch_rows
        Rows of an atomic batch, at most 1,000.
    ack_timeout
        Seconds to wait for the answer to a batch.
    retry_timeout
        Seconds to keep trying if the connection is lost, nobody answers, or the server has dropped the batch. Only rows
        with a `msg_id` can be sent again without being stored twice.
    find_stored
        As for `publish`. If a part of a batch is stored, the other rows are stored one by one.
    control_headers
        As for `publish`.

    Raises
    ------
    ConfigError, BadSubjectError, BadHeadersError, MaxPayloadError
        As for `publish`, for the rows of one batch; earlier batches are stored.
    PublishRefusedError
        The server refused a batch. The cause is AtomicPublishDisabledError if the stream allows no batches.
    PublishTimeoutError, DisconnectedError
        Whether the last batch is stored is not known.
    """
    if not 1 <= batch_rows <= MAX_ATOMIC_BATCH:
        raise ConfigError(f"batch_rows must be 1 to {MAX_ATOMIC_BATCH}, not {batch_rows}")
    publisher = _AtomicPublisher(
        connection,
        BulkPublishOptions(
            subject,
            ack_timeout=ack_timeout,
            expected_stream=expected_stream,
            retry_timeout=retry_timeout,
            find_stored=find_stored,
        ),
    )
    control = ControlHeaderFilter(control_headers)
    try:
        for batch in _regroup(record_batches(batches), batch_rows):
            publisher.publish(control.apply(batch))
    finally:
        control.warn()
    return publisher.report


def _regroup(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in record batches of `rows` rows; the last one may be shorter."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        at = 0
        while at < len(batch):
            part = batch.slice(at, rows - count)
            held.append(part)
            at += len(part)
            count += len(part)
            if count == rows:
                yield pa.concat_batches(held)
                held, count = [], 0
    if held:
        yield pa.concat_batches(held)


def _is_refused_for_now(error: Error) -> bool:
    return error.transient and isinstance(error, _ANSWERS)


class _AtomicPublisher:
    def __init__(self, connection: Connection, settings: BulkPublishOptions) -> None:
        self._connection = connection
        self._settings = settings
        self._rows = 0
        self.report = PublishReport()

    def publish(self, batch: pa.RecordBatch) -> None:
        """Publish the rows of a record batch as one atomic batch."""
        check_schema(batch.schema, self._settings.subject)
        first, self._rows = self._rows, self._rows + len(batch)
        once = _without_repeats(batch)
        sent_at = time.monotonic()
        stream: str | None
        retry = RetryTimer(max(self._settings.retry_timeout, 2 * RETRY_WAIT))
        while True:
            try:
                if self._connection.closed and self._settings.retry_timeout:
                    self._connection.reconnect()
                if retry.retries and (left := self._without_stored(once, first, sent_at)) is not None:
                    stream = self._publish_one_by_one(left) if len(left) else None
                    break
                stream = self._commit(once, first)
                break
            except DuplicateInBatchError:
                stream = self._publish_one_by_one(once)
                break
            except Error as error:
                again = self._is_retryable(error, retry.retries)
                doubtful = self._connection.note_error(error, self._settings.ack_timeout)
                if not self._settings.retry_timeout:
                    doubtful = None  # the connection stays open
                if not (again and retry.wait(doubtful, min_delay=RETRY_WAIT if _is_refused_for_now(error) else 0.0)):
                    raise self._with_context(error, batch, first) from error
        self.report.resent += retry.retries * len(once)
        if stream is not None:
            self._count_repeats(stream, len(batch) - len(once))

    def _without_stored(self, batch: pa.RecordBatch, first: int, sent_at: float) -> pa.RecordBatch | None:
        """Return the rows that are not stored; None if none of them is, as far as `find_stored` shows it."""
        find = self._settings.find_stored
        if find is None:
            return None
        rows = Rows.of(batch, self._settings.subject, first, self._connection.message_limits)
        stored = find(rows.subjects.cast(pa.string()), rows.message_ids(), time.monotonic() - sent_at)
        return batch.filter(pc.invert(stored)) if pc.any(stored, min_count=0).as_py() else None

    def _is_retryable(self, error: Error, tries: int) -> bool:
        if _is_refused_for_now(error):
            return True  # a refused batch stores nothing
        if isinstance(error, IncompleteBatchError):
            return tries < _MAX_DROPS
        return self._settings.retry_timeout > 0 and can_resume(error)

    def _with_context(self, error: Error, batch: pa.RecordBatch, first: int) -> Error:
        too_long = isinstance(error, MaxControlLineError) and not error.size  # the server says so
        if too_long and "subject" in batch.schema.names:
            lengths = pc.binary_length(batch["subject"])
            row = pc.index(lengths, pc.max(lengths)).as_py()
            batch, first = batch.slice(row), first + row
        elif not (too_long or isinstance(error, _ANSWERS)):
            return error
        rows = Rows.of(batch.slice(0, 1), self._settings.subject, first, self._connection.message_limits)
        subject: bytes = rows.subjects[0].as_py()
        return PublishRefusedError(
            first, subject.decode("utf-8", "replace"), error, self.report, self._settings.expected_stream
        )

    def _count_repeats(self, stream: str, count: int) -> None:
        """Count rows that repeat the id of another row in the batch, as duplicates."""
        acks = self.report.streams.setdefault(stream, StreamAcks())
        acks.count += count
        acks.duplicates += count
        self.report.count += count

    def _publish_one_by_one(self, batch: pa.RecordBatch) -> str:
        """Publish rows as single messages, because the stream has some of them; return the stream's name."""
        publisher = RetryingPublisher(self._connection, self._settings)
        try:
            publisher.publish(batch)
            publisher.finish()
        finally:
            publisher.close()
        done = publisher.report()
        for name, acks in done.streams.items():
            self.report.streams.setdefault(name, StreamAcks()).merge(acks)
        self.report.count += done.count
        self.report.bytes += done.bytes
        self.report.resent += len(batch)
        self.report.further_answers += done.further_answers
        self.report.unmatched_answers += done.unmatched_answers
        return next(iter(done.streams))

    def _commit(self, batch: pa.RecordBatch, first: int) -> str:
        """Send the rows as one batch and wait for the answer; return the stream's name."""
        connection, settings, count = self._connection, self._settings, len(batch)
        batch_id = secrets.token_urlsafe(12)
        lines = _batch_lines(batch_id, count)
        if (ours := settings.header_lines(count)) is not None:
            lines = pc.binary_join_element_wise(lines, ours, "")
        rows = Rows.of(batch, settings.subject, first, connection.message_limits, lines)
        inbox = connection.new_inbox()
        token = new_tokens()
        replies = np.full(count, b"", object)
        for at in {0, count - 1}:
            replies[at] = f"{inbox}.".encode() + token()
        frames = encode_publishes(rows.subjects, pa.array(replies, pa.binary()), rows.payloads, rows.headers)
        data = buffer_bytes(frames.buffers()[2])
        sid = connection.subscribe(f"{inbox}.*")
        try:
            connection.send(data, time.monotonic() + settings.ack_timeout)
            self.report.bytes += len(data)
            answer = self._await_answer(sid, replies[0], replies[-1])
        finally:
            if not connection.closed:
                connection.unsubscribe(sid)
        ack = check_commit(answer, batch_id, count, _WHERE)
        self.report.streams.setdefault(ack.stream, StreamAcks()).add(ack.sequence - count + 1, ack.sequence, count)
        self.report.count += count
        return ack.stream

    def _await_answer(self, sid: int, first: bytes, last: bytes) -> PubAck:
        """Return the answer to the last message; raise if it, or the first message, is refused."""
        expected = self._settings.expected_stream
        probe = PingProbe(self._connection, self._settings.ack_timeout)
        refused_by_other: Error | None = None
        latest = probe.deadline
        while True:
            table = self._connection.read(min(probe.next_wait(), latest))
            for row in () if table is None else np.flatnonzero(table.lines.sid == sid):
                assert table is not None
                message = table.message(int(row))
                if message.subject not in (first, last):
                    self.report.unmatched_answers += 1
                    continue
                status = parse_status(message.header) if message.header and not message.payload else None
                if status is not None:
                    raise status_error(status.code, status.description, _WHERE)
                if message.subject != last and not message.payload:
                    continue  # the batch is open
                try:
                    return read_pub_ack(message.payload, _WHERE, expected)
                except Error as error:
                    if not is_refusal_of_other_stream(error, message.payload, expected):
                        raise
                    refused_by_other = error
                    latest = min(latest, time.monotonic() + OTHER_STREAM_WAIT)
            if time.monotonic() >= latest:
                if refused_by_other is not None:
                    raise refused_by_other
                raise PublishTimeoutError(
                    f"no answer to an atomic batch within {self._settings.ack_timeout:g} s; it is unknown whether the "
                    "batch is stored" + not_stored_hint(ping_answered=probe.answered)
                )


def _batch_lines(batch_id: str, count: int) -> pa.StringArray:
    """Return the header lines of a batch's messages (BAT-01, BAT-03), as `batch_headers` returns them for each."""
    *before, (counted, _) = batch_headers(batch_id, count)
    start = "".join(f"{key}: {value}\r\n" for key, value in before)
    numbers = pa.array(np.arange(1, count)).cast(pa.string())
    lines = pc.binary_join_element_wise(f"{start}{counted}: ", numbers, "\r\n", "")
    last = "".join(f"{key}: {value}\r\n" for key, value in batch_headers(batch_id, count, "1"))
    return pa.concat_arrays([lines, pa.array([last])])


def _without_repeats(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows without repeats of a `msg_id`: a batch with a repeat is refused as a whole."""
    if "msg_id" not in batch.schema.names:
        return batch
    ids = batch.column("msg_id")
    if len(pc.unique(ids)) + max(ids.null_count - 1, 0) == len(batch):
        return batch
    seen: set[str] = set()
    kept = []
    for row, msg_id in enumerate(ids.to_pylist()):
        if msg_id is None or msg_id not in seen:
            kept.append(row)
            seen.add(msg_id)
    return batch.take(pa.array(kept, pa.int64()))
