"""Publishes record batches, and sends rows again.

A row that is refused for the moment is sent again a few times: no answer from a stream that elects its leader or is
about to be created (PUB-03), or a flooded server. A flooded server gets fewer rows at a time. If several streams answer
for the same rows, one of them may have stored a row that another has refused. Then a row is sent again only if all rows
have message ids, by which the streams detect repeats, or if a `retry_timeout` accepts repeats.

When the connection is lost, the rows in flight may or may not be stored. With a `retry_timeout` a new connection is
opened and those rows are sent again; the stream detects repeats by their message ids. It does so only within its
duplicate window, so a `find_stored` of the caller may leave out rows that are stored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from jetspark.bulk.connection import Connection
from jetspark.bulk.pipeline import PublishPipeline, RowsRefusedError
from jetspark.bulk.publish_acks import StreamAcks
from jetspark.bulk.publish_report import BulkPublishOptions, PublishRefusedError, PublishReport
from jetspark.bulk.retry import RetryTimer
from jetspark.bulk.rows import Rows, check_schema
from jetspark.engine.retry import can_resume
from jetspark.jetstream.errors import Error, MaxControlLineError, NoStreamResponseError
from jetspark.jetstream.publish import RETRY_ATTEMPTS, RETRY_WAIT

__all__ = ["RetryingPublisher"]

_CHUNK_ROWS: Final = 8192


class RetryingPublisher:
    """Publishes record batches one after the other. Call `finish` and `close` at the end; `report` has the result."""

    def __init__(self, connection: Connection, settings: BulkPublishOptions) -> None:
        self._connection = connection
        self._settings = settings
        self._streams: dict[str, StreamAcks] = {}
        self._rows = 0
        self._bytes = 0  # of finished flights
        self._resent = 0
        self._refusals = 0  # in a row
        self._had_outage = False
        self._further_answers = self._unmatched_answers = 0  # of finished flights
        self._retry = RetryTimer(settings.retry_timeout)
        self._schema: pa.Schema | None = None
        self._collected: dict[int, Error] = {}  # refused rows, of finished flights
        self._without_stream: set[str] = set()  # subjects that no stream takes
        self._pipeline = self._next_pipeline(0)

    def close(self) -> None:
        """End the subscription."""
        self._pipeline.close()

    @property
    def next_row(self) -> int:
        """Number of the next row."""
        return self._rows

    def take_collected(self) -> dict[int, Error]:
        """Return the refused rows that were collected since the last call. Call it after `finish`."""
        found = {**self._collected, **self._pipeline.collected}
        self._collected.clear()
        self._pipeline.collected.clear()
        return found

    def report(self) -> PublishReport:
        """Return the counts of the acknowledgements so far."""
        count = sum(acks.count for acks in self._streams.values())
        flight = self._pipeline
        return PublishReport(
            count,
            self._bytes + flight.bytes,
            self._resent,
            self._streams,
            self._further_answers + flight.further_answers,
            self._unmatched_answers + flight.unmatched_answers,
        )

    def publish(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a record batch, as the window allows; afterwards the last ones are still in flight."""
        settings = self._settings
        if self._schema is None or not self._schema.equals(batch.schema):
            check_schema(batch.schema, settings.subject)
            self._schema = batch.schema
        limits = self._connection.message_limits
        self.send(Rows.of(batch, settings.subject, self._rows, limits, settings.header_lines(len(batch))))

    def send(self, rows: Rows) -> None:
        """Send checked rows, numbered from `next_row` on."""
        settings = self._settings
        self._rows += len(rows)
        for chunk in rows.chunks(_CHUNK_ROWS, settings.max_bytes_in_flight, self._pipeline.reply_length):
            while (at := self._pipeline.sent - chunk.first) < len(chunk):
                try:
                    self._pipeline.send(chunk.slice(at, len(chunk) - at))
                except Error as error:
                    self._resend_unsettled(error)

    def finish(self) -> None:
        """Wait for the last acknowledgements."""
        try:
            self._pipeline.finish()
        except Error as error:
            self._resend_unsettled(error)

    def _resend_unsettled(self, error: Error) -> None:
        """Send the rows that an early ended flight left open, and start a new flight for the next rows."""
        ended, recent = self._pipeline, list(self._pipeline.recent_rows)
        left = ended.unsettled_rows()
        self._wait_or_raise(ended.refusal_of_stored_row() or error, ended, left, recent)
        while left:
            rows = left
            again: PublishPipeline | None = None
            try:
                again = self._open_pipeline(0)
                rows = self._without_stored(recent, rows, ended.oldest_sent_at)
                for part in _select_rows(recent, rows):
                    again.send(part)
                again.finish()
                break
            except Error as failure:
                left = rows if again is None else _unsettled_rows(again, rows)
                refused = None if again is None else again.refusal_of_stored_row()
                self._wait_or_raise(refused or failure, again, left, recent, rows)
            finally:
                if again is not None:
                    self._resent += again.sent
                    self._end(again, rows)
        self._refusals = 0
        self._end(ended)
        self._pipeline = self._next_pipeline(ended.sent)
        self._retry.reset()

    def _end(self, flight: PublishPipeline, numbers: list[int] | None = None) -> None:
        """Keep the numbers of a finished flight, and close it; see `_wait_or_raise` for `numbers`."""
        for row, error in flight.collected.items():
            self._collected[row if numbers is None else numbers[row]] = error
        self._bytes += flight.bytes
        self._further_answers += flight.further_answers
        self._unmatched_answers += flight.unmatched_answers
        flight.close()

    def _without_stored(self, recent: list[Rows], rows: list[int], sent_at: float) -> list[int]:
        """Return the rows that are not stored, as far as `find_stored` shows it."""
        find = self._settings.find_stored
        if find is None:
            return rows
        parts = list(_select_rows(recent, rows))
        subjects = pa.concat_arrays([part.subjects for part in parts]).cast(pa.string())
        ids = pa.concat_arrays([part.message_ids() for part in parts])
        stored = find(subjects, ids, time.monotonic() - sent_at).to_pylist()
        return [row for row, there in zip(rows, stored, strict=True) if not there]

    def _next_pipeline(self, origin: int) -> PublishPipeline:
        """Return a new flight, when no rows are open."""
        while True:
            try:
                return self._open_pipeline(origin)
            except Error as error:
                self._wait_or_raise(error, None, [], [])

    def _open_pipeline(self, origin: int) -> PublishPipeline:
        if self._connection.closed and self._settings.retry_timeout > 0:
            self._connection.reconnect()
        return PublishPipeline(self._connection, self._settings, self._streams, origin)

    def _wait_or_raise(
        self,
        error: Error,
        pipeline: PublishPipeline | None,
        left: list[int],
        recent: list[Rows],
        numbers: list[int] | None = None,
    ) -> None:
        """Wait before the rows in `left` are sent again; raise if that would not help.

        `numbers` are the original row numbers if the flight has counted the rows from 0.
        """
        if isinstance(error, RowsRefusedError):
            assert pipeline is not None
            leave = self._connection.note_error(error.error)
            self._refusals += 1
            if self._collect_without_stream(pipeline, left, numbers):
                if not left:
                    return
                error = pipeline.refused_error()
            if not self._is_retryable(error, left, recent):
                row = error.row if numbers is None else numbers[error.row]
                expected = self._settings.expected_stream
                raise PublishRefusedError(row, error.subject, error.error, self.report(), expected) from error.error
            if error.too_many_requests:
                self._settings = replace(self._settings, max_pending=pipeline.reduced_limit)
            if leave is not None and self._settings.retry_timeout > 0:
                leave()
            time.sleep(RETRY_WAIT)  # nothing reports that the cause has passed
            return
        if isinstance(error, MaxControlLineError) and left:
            row, subject = _longest_subject(recent, left)
            if self._settings.retry_timeout > 0 and self._settings.collects(error):
                self._collected[row] = error
                left.remove(row)
                return
            raise PublishRefusedError(row, subject, error, self.report(), self._settings.expected_stream) from error
        doubtful = self._connection.note_error(error, self._settings.ack_timeout)
        if not (can_resume(error) and self._retry.wait(doubtful)):
            raise _with_context(error, left) from error
        self._had_outage = True

    def _collect_without_stream(self, pipeline: PublishPipeline, left: list[int], numbers: list[int] | None) -> bool:
        """Take rows out of `left` whose subject belongs to no stream, if the settings say so; return whether any."""
        has_stream = self._settings.has_stream
        if has_stream is None:
            return False
        given_up: set[int] = set()
        for at, subject in pipeline.unanswered_subjects().items():
            if subject not in self._without_stream and self._refusals > RETRY_ATTEMPTS and not has_stream(subject):
                self._without_stream.add(subject)
            if subject in self._without_stream:
                pipeline.collect(at)
                given_up.add(at if numbers is None else numbers[at])
        left[:] = [row for row in left if row not in given_up]
        return bool(given_up)

    def _is_retryable(self, error: RowsRefusedError, left: list[int], recent: list[Rows]) -> bool:
        if not error.transient or error.stored_elsewhere or self._refusals > self._max_retries(error.error):
            return False
        return (
            not error.several_streams
            or self._settings.retry_timeout > 0
            or all(part.all_have_ids() for part in _select_rows(recent, left))
        )

    def _max_retries(self, error: Error) -> int:
        """Return how often a temporarily refused row is sent again."""
        server = self._connection.server_info
        passing = self._had_outage or server.cluster or server.lame_duck
        if isinstance(error, NoStreamResponseError) and not passing:
            return RETRY_ATTEMPTS  # enough to create a stream; a cluster may hold an election
        return int(max(self._settings.ack_timeout, self._settings.retry_timeout) / RETRY_WAIT)


def _unsettled_rows(pipeline: PublishPipeline, rows: list[int]) -> list[int]:
    """Return the rows that the flight left open or did not send; the flight has numbered them from 0."""
    return [rows[at] for at in (*pipeline.unsettled_rows(), *range(pipeline.sent, len(rows)))]


def _select_rows(chunks: list[Rows], rows: list[int]) -> Iterator[Rows]:
    """Yield the rows with these numbers, renumbered from 0."""
    first = 0
    for chunk in chunks:
        part = [row - chunk.first for row in rows if chunk.first <= row < chunk.first + len(chunk)]
        if part:
            yield chunk.take(part, first)
            first += len(part)


def _longest_subject(chunks: list[Rows], rows: list[int]) -> tuple[int, str]:
    """Return the row whose control line was too long for the server: certainly the longest one."""
    number, longest = rows[0], b""
    for chunk in chunks:
        for row in rows:
            if chunk.first <= row < chunk.first + len(chunk):
                subject = chunk.subjects[row - chunk.first].as_py()
                if len(subject) > len(longest):
                    number, longest = row, subject
    return number, longest.decode("utf-8", "replace")


def _with_context(error: Error, left: list[int]) -> Error:
    """Return the error with the facts that are certain about the rows that were sent."""
    if not (error.outcome_unknown and left):
        return error
    return type(error)(
        f"{error}; all rows before row {left[0]} are answered, and it is unknown whether {len(left)} rows that were "
        "sent are stored"
    )
