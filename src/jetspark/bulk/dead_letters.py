"""Publishes dead letters, and rows of which some become dead letters, because they can never be stored.

`payload.dead_letters` decides which rows these are, and what is published for each. Here the other rows of a record
batch are stored first. Then the dead letters are published and acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import pyarrow as pa

from jetspark.bulk.connection import Connection
from jetspark.bulk.publish import publish
from jetspark.bulk.publish_report import BulkPublishOptions, PublishReport
from jetspark.bulk.retrying_publisher import RetryingPublisher
from jetspark.bulk.rows import Rows, check_schema
from jetspark.jetstream.errors import Error, PayloadError
from jetspark.jetstream.header_names import MSG_ID
from jetspark.payload.dead_letters import DeadLetter, dead_letter_id, is_refused_for_good, letter_message

__all__ = [
    "REASON",
    "DeadLetterPublisher",
    "TooManyDeadLettersError",
    "message_letters",
    "publish_storable",
    "row_as_json",
    "row_letter_id",
    "split_rows",
]

_HEADERS: Final = pa.map_(pa.string(), pa.string())
_SHOWN: Final = 300  # characters of the first reason

REASON: Final = "dead letter"
"""Column of `publish_storable` for rows that the caller finds bad: the fault, and null for other rows."""


class TooManyDeadLettersError(Error, RuntimeError):
    """A task has more dead letters than it may have. The rows that could be stored are stored.

    Attributes
    ----------
    count
        Bad rows that were found so far.
    limit
        Most dead letters of a task: so many were published.
    """

    def __init__(self, count: int, limit: int, reason: str) -> None:
        super().__init__(
            f"a task has {count} bad rows or more, and may publish {limit} dead letters; the first reason: "
            f"{reason[:_SHOWN]}; mend the cause, or raise maxDeadLetters"
        )
        self.count = count
        self.limit = limit


@dataclass(slots=True)
class DeadLetterPublisher:
    """Publishes the dead letters of one task.

    Attributes
    ----------
    subject
        Subject of all dead letters.
    query
        Id of the query or the job.
    limit
        Most dead letters; None for no limit.
    max_size
        Most bytes of headers and payload that the stream of dead letters takes; None for those of the server.
    ack_timeout, retry_timeout
        As for `publish`.
    count
        Dead letters that were published, including those that the stream had already.
    first_reason
        Reason of the first one.
    """

    subject: str
    query: str
    limit: int | None = None
    max_size: int | None = None
    ack_timeout: float = 5.0
    retry_timeout: float = 0.0
    count: int = 0
    first_reason: str | None = None

    def publish(self, connection: Connection, letters: Sequence[DeadLetter]) -> None:
        """Publish dead letters and wait for their acknowledgements.

        Raises
        ------
        TooManyDeadLettersError
            There are more than `limit` so far.
        PublishRefusedError, PublishTimeoutError, DisconnectedError
            Not all of them are stored.
        """
        if not letters:
            return
        if self.first_reason is None:
            self.first_reason = letters[0].reason[:_SHOWN]
        found = self.count + len(letters)
        allowed = letters if self.limit is None else letters[: self.limit - self.count]
        if allowed:
            self._publish(connection, allowed)
            self.count += len(allowed)
        if self.limit is not None and found > self.limit:
            raise TooManyDeadLettersError(found, self.limit, self.first_reason)

    def _publish(self, connection: Connection, letters: Sequence[DeadLetter]) -> None:
        limit = min(connection.message_limits.payload, self.max_size or connection.message_limits.payload)
        messages = [letter_message(letter, self.query, limit) for letter in letters]
        rows = pa.record_batch(
            {
                "data": pa.array([payload for payload, _ in messages], pa.binary()),
                "headers": pa.array([headers for _, headers in messages], _HEADERS),
                "msg_id": pa.array([letter.id for letter in letters], pa.string()),
            }
        )
        publish(
            connection,
            rows,
            subject=self.subject,
            ack_timeout=self.ack_timeout,
            retry_timeout=self.retry_timeout if all(letter.id is not None for letter in letters) else 0.0,
            control_headers="keep",  # there are none
        )


def publish_storable(
    connection: Connection,
    batches: Iterable[pa.RecordBatch],
    settings: BulkPublishOptions,
    letters: DeadLetterPublisher,
    has_stream: Callable[[str], bool],
) -> PublishReport:
    """Publish record batches, and the rows that can never be stored as dead letters.

    Parameters
    ----------
    batches
        As for `publish`, and perhaps `REASON`.
    has_stream
        Whether a stream takes a subject. Asked when nobody answers a publish: only rows whose subject no stream takes
        are dead letters.

    Raises
    ------
    TooManyDeadLettersError
        There are too many; the other rows up to then are stored.
    PublishRefusedError, PublishTimeoutError, DisconnectedError
        As for `publish`.
    """
    settings = replace(settings, is_collected=is_refused_for_good, has_stream=has_stream)
    publisher = RetryingPublisher(connection, settings)
    schema, first = None, 0
    try:
        for batch in batches:
            if schema is None or not schema.equals(batch.schema):
                at = batch.schema.get_field_index(REASON)
                check_schema(batch.schema if at < 0 else batch.schema.remove(at), settings.subject)
                schema = batch.schema
            bad = dict(_publish_batch(connection, publisher, settings, batch, first))
            letters.publish(connection, [_letter_of(batch, at, bad[at], settings, letters.query) for at in sorted(bad)])
            first += len(batch)
    finally:
        publisher.close()
    return publisher.report()


def _publish_batch(
    connection: Connection,
    publisher: RetryingPublisher,
    settings: BulkPublishOptions,
    batch: pa.RecordBatch,
    first: int,
) -> list[tuple[int, Error]]:
    """Store the rows of a record batch that can be stored; return the others and the reasons.

    `first` is the number of the first row, counted over all record batches.
    """

    def checked(rows: pa.RecordBatch, number: int) -> Rows:
        return Rows.of(rows, settings.subject, number, connection.message_limits, settings.header_lines(len(rows)))

    def check(rows: pa.RecordBatch, at: int) -> None:
        if REASON in rows.schema.names and rows.column(REASON).null_count < len(rows):
            raise PayloadError(rows.column(REASON).drop_null()[0].as_py())
        checked(rows, first + at)

    places, bad = split_rows(batch, check)
    if len(places):
        sent = publisher.next_row
        publisher.send(checked(batch if not bad else batch.take(pa.array(places, pa.int64())), sent))
        publisher.finish()
        bad += [(places[row - sent], error) for row, error in publisher.take_collected().items()]
    return bad


def split_rows(
    batch: pa.RecordBatch, check: Callable[[pa.RecordBatch, int], object]
) -> tuple[Sequence[int], list[tuple[int, Error]]]:
    """Return the rows that pass a check, and the others with their errors.

    Parameters
    ----------
    check
        Raises the error of one row of a record batch, if there is one; its second argument is the place of the first
        row. It is called with ever smaller parts, as long as they have such a row.
    """
    bad: list[tuple[int, Error]] = []
    left = [(0, len(batch))]
    while left:
        start, stop = left.pop()
        try:
            if start < stop:
                check(batch.slice(start, stop - start), start)
        except Error as error:
            if not is_refused_for_good(error):
                raise
            if stop - start == 1:
                bad.append((start, error))
            else:
                middle = (start + stop) // 2
                left += [(middle, stop), (start, middle)]  # the first half is checked first
    found = {row for row, _ in bad}
    return range(len(batch)) if not bad else [row for row in range(len(batch)) if row not in found], bad


def row_letter_id(query: str, msg_id: str) -> str:
    """Return the id of the dead letter of a row, by the row's message id."""
    return dead_letter_id(msg_id, "write", query)


def row_as_json(rows: pa.RecordBatch, at: int) -> bytes:
    """Return the columns of a row as JSON, for a row that its own format cannot encode. Bytes become Base64."""
    values = {name: _value(rows.column(name), at) for name in rows.schema.names}
    try:
        return msgspec.json.encode(values)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return msgspec.json.encode({name: _text(value) for name, value in values.items()})


def _value(column: pa.Array, at: int) -> object:
    try:
        value: object = column[at].as_py()
    except (ValueError, OverflowError):  # a time that Python does not have
        return str(column.slice(at, 1).cast(pa.int64())[0].as_py())
    return value


def _text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()


def message_letters(
    records: pa.RecordBatch, reasons: Sequence[str], stream: str, where: Sequence[str]
) -> list[DeadLetter]:
    """Return the dead letters of messages that were read.

    Parameters
    ----------
    records
        Their `subject`, `sequence`, `data` and `headers`.
    reasons
        The fault of each.
    stream
        Name of the stream.
    where
        As for `dead_letter_id`.
    """
    letters = []
    for row, reason in zip(records.to_pylist(), reasons, strict=True):
        headers = _pairs(row["headers"])
        letters.append(
            DeadLetter(
                reason=reason,
                subject=row["subject"],
                payload=row["data"] or b"",
                headers=headers,
                stream=stream,
                sequence=row["sequence"],
                msg_id=_header_id(headers),
                id=dead_letter_id(f"{stream}-{row['sequence']}", *where),
            )
        )
    return letters


def _letter_of(batch: pa.RecordBatch, at: int, error: Error, settings: BulkPublishOptions, query: str) -> DeadLetter:
    """Return the dead letter of a row."""
    row = {name: batch.column(name)[at].as_py() for name in batch.schema.names}
    headers = _pairs(row.get("headers"))
    msg_id = row.get("msg_id") or _header_id(headers)
    data = row["data"]
    return DeadLetter(
        reason=str(error),
        subject=settings.subject or row.get("subject"),
        payload=data.encode() if isinstance(data, str) else data or b"",
        headers=headers,
        stream=settings.expected_stream,
        msg_id=msg_id,
        id=None if msg_id is None else row_letter_id(query, msg_id),
    )


def _header_id(headers: Sequence[tuple[str, str | None]]) -> str | None:
    return next((value for name, value in headers if name == MSG_ID), None)


def _pairs(headers: Sequence[tuple[str, str | Sequence[str | None] | None]] | None) -> list[tuple[str, str | None]]:
    """Return the headers of a row as pairs; a value that is null is None."""
    pairs: list[tuple[str, str | None]] = []
    for name, values in headers or ():
        pairs += [(name, value) for value in ([values] if values is None or isinstance(values, str) else values)]
    return pairs
