"""Publish record batches: pipelined, with a bounded window, every acknowledgement checked.

A record batch is checked as a whole before its first row is sent, then encoded in C++ and written in blocks, while the
acknowledgements of earlier blocks come back. A message that the server refuses ends it, after what is under way has
been answered, so that the report says exactly what was stored. Only what may pass by itself is sent again first: no
answer from a stream that elects its leader, or is about to be made (PUB-03).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

from jetspark.bulk.acks import AckReader, Refusal, StreamAcks
from jetspark.bulk.connection import Connection
from jetspark.bulk.rows import Rows, check_schema
from jetspark.bulk.window import MOST_PENDING, Window
from jetspark.jetstream.errors import (
    BadHeadersError,
    BadSubjectError,
    ConfigError,
    DisconnectedError,
    Error,
    JetStreamUnavailableError,
    MaxPayloadError,
    NoStreamResponseError,
    PublishTimeoutError,
    TooManyRequestsError,
)
from jetspark.jetstream.names import check_publish_subject
from jetspark.wire.vector.encoder import encode_publishes, row_offsets
from jetspark.wire.vector.words import contents

__all__ = ["PublishRefusedError", "PublishReport", "publish"]

_CHUNK_ROWS: Final = 8192
_ACK_BYTES: Final = 64  # about what one acknowledgement takes
_RETRY_DELAY: Final = 0.25
# What a stream that has no leader for a moment answers, or that is flooded for a moment.
_PASSING: Final = (NoStreamResponseError, JetStreamUnavailableError, TooManyRequestsError)

_OURS: Final = (BadHeadersError, BadSubjectError, ConfigError, MaxPayloadError)

Batches: TypeAlias = pa.RecordBatch | pa.Table | pa.RecordBatchReader | Iterable[pa.RecordBatch]


@dataclass(slots=True)
class PublishReport:
    """What was stored.

    Attributes
    ----------
    count
        Rows acknowledged, duplicates included.
    bytes
        Bytes written to the socket.
    streams
        By the name of the stream: counts, first and last sequence.
    """

    count: int = 0
    bytes: int = 0
    streams: dict[str, StreamAcks] = field(default_factory=dict)

    @property
    def duplicates(self) -> int:
        """Rows that were there already, by their message id."""
        return sum(acks.duplicates for acks in self.streams.values())

    @property
    def stream(self) -> str | None:
        """Name of the stream, None when there was none or more than one."""
        return next(iter(self.streams)) if len(self.streams) == 1 else None

    @property
    def first_sequence(self) -> int | None:
        """First sequence in the one stream; None for none or several streams."""
        return next(iter(self.streams.values())).first_sequence if len(self.streams) == 1 else None

    @property
    def last_sequence(self) -> int | None:
        """Last sequence in the one stream; None for none or several streams."""
        return next(iter(self.streams.values())).last_sequence if len(self.streams) == 1 else None


class PublishRefusedError(Error):
    """The server refused a row. Its own error is the cause.

    Attributes
    ----------
    row
        Number of the row, counted from 0 over all record batches. Where several streams answer, and only within the
        first window, before that is known, it may be one of the few rows next to it.
    subject
        Subject of the row.
    error
        Error of the server.
    report
        What was stored, before that row and of what was under way behind it.
    """

    def __init__(self, row: int, subject: str, error: Error, report: PublishReport) -> None:
        super().__init__(f"row {row}, subject {subject!r}: {error}")
        self.row = row
        self.subject = subject
        self.error = error
        self.report = report


def publish(
    connection: Connection,
    batches: Batches,
    *,
    subject: str | None = None,
    max_pending: int | None = None,
    max_bytes_in_flight: int = 8 << 20,
    ack_timeout: float = 5.0,
) -> PublishReport:
    """Publish record batches and wait for every acknowledgement.

    Parameters
    ----------
    connection
        From `connect`; the call has it for itself.
    batches
        A record batch, a table, a reader, or an iterable of record batches with the columns `subject` (string), `data`
        (binary or string; null is an empty payload) and, if wanted, `headers` (`map<string, list<string>>` or
        `map<string, string>`) and `msg_id` (string, by which the stream recognises a repeat).
    subject
        Subject for all rows, in place of the column.
    max_pending
        Most rows that are not acknowledged, up to 10,000. None takes 4,000 for a single server and 768 for a cluster.
    max_bytes_in_flight
        Most bytes that are encoded and written at a time.
    ack_timeout
        Seconds without any acknowledgement before giving up.

    Raises
    ------
    ConfigError
        A column is missing or has another type.
    BadSubjectError, BadHeadersError, MaxPayloadError
        A row cannot be sent; no row of its record batch was, and those of the batches before are stored.
    PublishRefusedError
        The server refused a row.
    PublishTimeoutError, DisconnectedError
        What became of the rows under way is not known; publish them again with the same `msg_id`.
    """
    if max_pending is not None and not 1 <= max_pending <= MOST_PENDING:
        raise ConfigError(f"max_pending must be between 1 and {MOST_PENDING}, not {max_pending}")
    if subject is not None:
        check_publish_subject(subject)
    publisher = _Publisher(connection, subject, max_pending, max_bytes_in_flight, ack_timeout)
    try:
        for batch in _record_batches(batches):
            try:
                publisher.publish(batch)
            except _OURS:
                publisher.finish()  # the rows before are settled when the caller hears of it
                raise
        publisher.finish()
    finally:
        publisher.close()
    return publisher.report()


def _record_batches(batches: Batches) -> Iterator[pa.RecordBatch]:
    if isinstance(batches, pa.RecordBatch):
        yield batches
    elif isinstance(batches, pa.Table):
        yield from batches.to_batches()
    else:
        yield from batches


class _Publisher:
    def __init__(
        self,
        connection: Connection,
        subject: str | None,
        max_pending: int | None,
        max_bytes: int,
        ack_timeout: float,
        retries: int | None = None,
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._max_bytes = max_bytes
        self._ack_timeout = ack_timeout
        inbox = connection.new_inbox()
        clustered = bool(connection.server_info.cluster)
        self._window = Window(inbox, max_pending, in_order=not clustered)
        # A cluster may need the time of an election; a single server only that of making the stream.
        self._retries = (int(ack_timeout / _RETRY_DELAY) if clustered else 2) if retries is None else retries
        self._acks = AckReader(self._window)
        self._sid = connection.subscribe(f"{inbox}.*")
        # Large enough to be worth a write, small enough that the window never runs dry while we encode.
        self._block = max(self._window.size // 4, 1)
        self._rows = 0
        self._bytes = 0
        self._recent: deque[Rows] = deque()  # chunks with rows under way, for what an error says of them
        self._schema: pa.Schema | None = None

    def close(self) -> None:
        if not self._connection.closed:
            self._connection.unsubscribe(self._sid)

    def report(self) -> PublishReport:
        streams = self._acks.streams
        return PublishReport(sum(acks.count for acks in streams.values()), self._bytes, streams)

    def publish(self, batch: pa.RecordBatch) -> None:
        if self._schema is None or not self._schema.equals(batch.schema):
            check_schema(batch.schema, self._subject)
            self._schema = batch.schema
        rows = Rows.of(batch, self._subject, self._rows, self._connection.server_info.max_payload)
        self._rows += len(rows)
        for chunk in rows.chunks(_CHUNK_ROWS, self._max_bytes, self._window.reply_length):
            self._send(chunk)

    def _send(self, rows: Rows) -> None:
        if self._window.span > 1 and len(self._acks.streams) > 1:  # their answers may overtake one another
            self._wait_for_all()
            self._window.separate()
            self._block = max(self._window.size // 4, 1)
        replies = self._window.replies(rows.first, len(rows))
        frames = encode_publishes(rows.subjects, replies, rows.payloads, rows.headers)
        offsets = row_offsets(frames)
        data = contents(frames.buffers()[2])
        self._recent.append(rows)
        at = 0
        while at < len(rows):
            wanted = min(self._block, len(rows) - at)
            self._wait_for_room(wanted)
            first, stop = int(offsets[at]), int(offsets[at + wanted])
            self._window.send(wanted)
            self._write(data[first:stop])
            at += wanted
            self._settle_refused()

    def _write(self, data: memoryview) -> None:
        try:
            self._connection.send(data, time.monotonic() + self._ack_timeout)
        except DisconnectedError as error:
            raise self._lost(error) from error
        self._bytes += len(data)

    def _wait_for_room(self, wanted: int) -> None:
        """Read acknowledgements until the window has room for so many rows."""
        while self._window.room < wanted:
            self._await_acks(wanted - self._window.room)

    def _wait_for_all(self) -> None:
        while self._window.answered < self._window.sent:
            self._await_acks(self._window.sent - self._window.answered)

    def _await_acks(self, missing: int) -> None:
        """Read acknowledgements, so many if they come soon."""
        window, answered = self._window, self._window.answered
        deadline = time.monotonic() + self._ack_timeout
        while window.answered == answered:
            self._take_acks(deadline, missing * _ACK_BYTES)
            if window.answered == answered and time.monotonic() >= deadline:
                raise PublishTimeoutError(
                    f"no acknowledgement within {self._ack_timeout:g} s for {window.sent - answered} messages, the "
                    f"first of them behind row {window.floor}; whether they are stored is not known"
                )

    def _take_acks(self, deadline: float, enough: int) -> None:
        try:
            table = self._connection.read(deadline, enough=enough)
        except DisconnectedError as error:
            raise self._lost(error) from error
        if table is not None:
            ours = table.lines.sid == self._sid
            self._acks.read(table if ours.all() else table.select(ours))

    def _settle_refused(self) -> None:
        """See to the rows that were refused, after what is under way has been answered: send again, or raise."""
        if self._acks.refusals:
            self._wait_for_all()
            groups: dict[int, list[Refusal]] = {}
            for one in self._acks.refusals:
                groups.setdefault(one.rows.start, []).append(one)
            pairs = [(self._row_of(one, group), one) for group in groups.values() for one in group]
            refused = sorted(pairs, key=lambda pair: pair[0])
            exact = self._window.span == 1 or all(self._all_of_subject(group) for group in groups.values())
            if exact and self._may_pass(refused):
                self._acks.refusals.clear()
                self._send_again([row for row, _ in refused])
            else:
                row, refusal = refused[0]
                raise PublishRefusedError(row, self._subject_of(row), refusal.error, self.report()) from refusal.error
        while self._recent and self._recent[0].first + len(self._recent[0]) <= self._window.floor:
            self._recent.popleft()

    def _may_pass(self, refused: list[tuple[int, Refusal]]) -> bool:
        """Whether sending these rows again may help, and they are known to be the ones (PUB-03)."""
        passing = self._retries and all(isinstance(one.error, _PASSING) for _, one in refused)
        return bool(passing) and len({row for row, _ in refused}) == len(refused)

    def _all_of_subject(self, group: list[Refusal]) -> bool:
        """Whether of rows that share a reply subject every row of the subjects that nobody takes was refused."""
        nobodys = {one.subject for one in group if one.subject is not None}
        rows = sum(self._subject_of(row) in nobodys for row in group[-1].rows)
        return rows == sum(one.subject is not None for one in group)

    def _send_again(self, rows: list[int]) -> None:
        """Publish rows once more, a little later: a stream may just be electing its leader."""
        time.sleep(_RETRY_DELAY)  # nothing tells when it is done
        again = _Publisher(
            self._connection, self._subject, self._window.size, self._max_bytes, self._ack_timeout, self._retries - 1
        )
        again._acks.streams = self._acks.streams
        sent = 0
        try:
            for chunk in self._recent:
                part = [row - chunk.first for row in rows if chunk.first <= row < chunk.first + len(chunk)]
                if part:
                    again._send(chunk.take(part, sent))
                    sent += len(part)
            again.finish()
        except PublishRefusedError as error:
            raise PublishRefusedError(rows[error.row], error.subject, error.error, self.report()) from error.error
        finally:
            self._bytes += again._bytes
            again.close()

    def _row_of(self, refusal: Refusal, group: list[Refusal]) -> int:
        """The row of a refusal, one of those on a reply subject."""
        if refusal.subject is not None:
            # The n-th of those that nobody takes is the n-th row of that subject.
            same = [one for one in group if one.subject == refusal.subject]
            rows = [row for row in refusal.rows if self._subject_of(row) == refusal.subject]
            if len(same) <= len(rows):
                return rows[same.index(refusal)]
        # Answers that nobody takes a subject overtake the others, so both they and their rows are left out.
        ahead = [one for one in group if one.subject]
        nobodys = {one.subject for one in ahead}
        rows = [row for row in refusal.rows if self._subject_of(row) not in nobodys] or list(refusal.rows)
        nth = refusal.nth - sum(one.nth < refusal.nth for one in ahead)
        return rows[min(nth, len(rows) - 1)]

    def _subject_of(self, row: int) -> str:
        rows = next(rows for rows in self._recent if row < rows.first + len(rows))
        subject: bytes = rows.subjects[row - rows.first].as_py()
        return subject.decode("utf-8", "replace")

    def _lost(self, error: DisconnectedError) -> DisconnectedError:
        window = self._window
        return DisconnectedError(
            f"{error}; all rows before row {window.floor} are answered, and of the {window.sent - window.answered} "
            "others that were sent it is not known whether they are stored"
        )

    def finish(self) -> None:
        """Wait for the last acknowledgements."""
        self._wait_for_all()
        self._settle_refused()
