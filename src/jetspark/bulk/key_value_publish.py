"""Publishes the messages of rows into a bucket: in a pipeline, with expected revisions, and in the order of each key.

Two messages of one key are never in flight at the same time: a message that is sent again after an election or a lost
connection would otherwise overtake a later one of its key, and the older value would stay. So the rows of a record
batch go out in rounds, and the n-th row of each key is in the n-th round.

If the server refuses a message because the newest revision of its key is another one, the leader is asked for the
newest entry. `engine.key_value_write` decides what follows: the key is written again because it was deleted, or an
earlier attempt has stored the message, or it is a conflict.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.bulk.connection import Connection
from jetspark.bulk.key_value_bucket import BucketTarget, find_bucket
from jetspark.bulk.key_value_rows import EXPECTED, LINES
from jetspark.bulk.publish_acks import StreamAcks
from jetspark.bulk.publish_report import BulkPublishOptions, PublishRefusedError, PublishReport
from jetspark.bulk.retry import request_with_retry
from jetspark.bulk.retrying_publisher import RetryingPublisher
from jetspark.bulk.rows import Rows
from jetspark.engine.key_value_write import MAX_ROUNDS, Write, after_refusal, round_id
from jetspark.jetstream import header_names as names
from jetspark.jetstream.api import MessageGetRequest
from jetspark.jetstream.errors import (
    BadHeadersError,
    Error,
    MaxControlLineError,
    MaxPayloadError,
    MessageNotFoundError,
    NoStreamResponseError,
    RequestTimeoutError,
    ValueTooLargeError,
    WrongLastRevisionError,
    WrongLastSequenceError,
)
from jetspark.jetstream.key_value.entry import KeyValueEntry, stored_entry
from jetspark.wire.vector.byte_spans import Index
from jetspark.wire.vector.headers import encode_headers

__all__ = ["BucketWriteReport", "publish_messages"]

_MAX_KEYS: Final = 10  # of conflicts, for a log


@dataclass(slots=True)
class BucketWriteReport:
    """The outcome of a write into a bucket.

    Attributes
    ----------
    published
        Counts of the stored messages. Those that an earlier attempt has stored count as duplicates.
    conflicts
        Rows that were skipped, because the newest revision of their key was another one than expected.
    conflict_keys
        Keys of the first of them.
    """

    published: PublishReport
    conflicts: int
    conflict_keys: list[str]


def publish_messages(
    connection: Connection,
    bucket: BucketTarget,
    messages: Iterable[pa.RecordBatch],
    settings: BulkPublishOptions,
    *,
    skip_conflicts: bool = False,
    is_later: Callable[[str, str], bool] = lambda _found, _ours: False,
    timeout: float = 5.0,
) -> BucketWriteReport:
    """Publish messages, and wait for every acknowledgement.

    Parameters
    ----------
    bucket
        From `find_bucket`.
    messages
        Record batches of `key_value_rows.messages_of_rows`.
    settings
        As for `publish`. With a `retry_timeout`, messages without an id may be stored twice.
    skip_conflicts
        Whether a row is skipped if the newest revision of its key is another one than expected. The other rows of its
        record batch are stored in any case.
    is_later
        Whether the first message id belongs to a later row of this write than the second one. Then an earlier attempt
        has stored the row of the second one, if both have the same key. Within a record batch this is known.
    timeout
        Seconds to wait for an answer to a request.

    Raises
    ------
    WrongLastRevisionError
        The newest revision of a key is another one; KeyExistsError if it was to be created.
    BadHeadersError, MaxControlLineError, MaxPayloadError, ValueTooLargeError
        A row cannot be stored; no row of its record batch was sent, and those of earlier batches are stored.
    BucketNotFoundError
        The bucket was deleted.
    PublishRefusedError
        The server refused a row for another reason.
    PublishTimeoutError, DisconnectedError
        Whether the rows in flight are stored is not known.
    """
    publisher = _BucketPublisher(connection, bucket, settings, timeout, is_later, skip_conflicts=skip_conflicts)
    try:
        for batch in messages:
            publisher.publish(batch)
    finally:
        publisher.close()
    return publisher.report()


def _is_conflict(error: Error) -> bool:
    return isinstance(error, WrongLastSequenceError)


class _BucketPublisher:
    def __init__(
        self,
        connection: Connection,
        bucket: BucketTarget,
        settings: BulkPublishOptions,
        timeout: float,
        is_later: Callable[[str, str], bool],
        *,
        skip_conflicts: bool,
    ) -> None:
        self._connection = connection
        self._bucket = bucket
        self._settings = replace(settings, is_collected=_is_conflict)
        self._timeout = timeout
        self._is_later = is_later
        self._skip = skip_conflicts
        self._publisher = RetryingPublisher(connection, self._settings)
        self._rows = 0
        self._stored_before = 0
        self._conflicts = 0
        self._conflict_keys: list[str] = []

    def close(self) -> None:
        self._publisher.close()

    def report(self) -> BucketWriteReport:
        published = self._publisher.report()
        if self._stored_before:
            acks = published.streams.setdefault(self._bucket.stream, StreamAcks())
            acks.count += self._stored_before
            acks.duplicates += self._stored_before
            published.count += self._stored_before
            self._stored_before = 0
        return BucketWriteReport(published, self._conflicts, self._conflict_keys)

    def publish(self, messages: pa.RecordBatch) -> None:
        """Store the messages of a record batch."""
        first, self._rows = self._rows, self._rows + len(messages)
        rows = self._encode(messages, first)
        for places in _rounds(messages.column("subject")):
            part = rows if len(places) == len(rows) else rows.take(places.tolist(), 0)
            if refused := self._publish(part, first + places):
                self._settle(messages, first, [int(places[at]) for at in refused])

    def _encode(self, messages: pa.RecordBatch, first: int) -> Rows:
        """Check the sizes of messages, and encode their headers. `first` is the number of the first row."""
        columns = messages.schema.names
        lines = [messages.column(LINES)] if LINES in columns else []
        if EXPECTED in columns:
            expected = messages.column(EXPECTED).cast(pa.string())
            start = f"{names.EXPECTED_LAST_SUBJECT_SEQUENCE}: "
            lines.append(pc.fill_null(pc.binary_join_element_wise(start, expected, "\r\n", ""), ""))
        try:
            headers = encode_headers(
                messages.column("headers") if "headers" in columns else None,
                messages.column("msg_id") if "msg_id" in columns else None,
                pc.binary_join_element_wise(*lines, "") if lines else None,
            )
        except BadHeadersError as error:
            row = error.row or 0
            where = self._where(messages, row, first)
            raise BadHeadersError(f"{where}: {str(error).partition(': ')[2]}", row=first + row) from None
        payloads = messages.column("data")
        self._check_sizes(messages, payloads, headers, first)
        return Rows(first, messages.column("subject").cast(pa.binary()), payloads, headers)

    def _check_sizes(
        self, messages: pa.RecordBatch, payloads: pa.BinaryArray, headers: pa.BinaryArray | None, first: int
    ) -> None:
        lengths, room = pc.binary_length(messages.column("subject")), self._connection.message_limits.subject
        if (longest := pc.max(lengths).as_py() or 0) > room:
            where = self._where(messages, int(np.argmax(np.asarray(lengths))), first)
            raise MaxControlLineError(
                f"{where}: the subject has {longest} bytes, and a control line of the server has room for {room}; "
                "use a shorter key, or raise max_control_line of the server and of the connect options",
                size=longest,
                limit=room,
            )
        sizes = pc.binary_length(payloads)
        if headers is not None:
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(headers), 0))
        largest = pc.max(sizes).as_py() or 0
        bucket, server = self._bucket.max_size, self._connection.server_info.max_payload
        if largest <= min(bucket or server, server):
            return
        where = self._where(messages, int(np.argmax(np.asarray(sizes))), first)
        if bucket is not None and largest > bucket:
            raise ValueTooLargeError(f"{where} of bucket {self._bucket.bucket}", size=largest, limit=bucket)
        raise MaxPayloadError(
            f"{where}: {largest} bytes of headers and value exceed the server's max_payload of {server}",
            size=largest,
            limit=server,
        )

    def _where(self, messages: pa.RecordBatch, row: int, first: int) -> str:
        return f"row {first + row} (key {self._key(messages, row)!r})"

    def _key(self, messages: pa.RecordBatch, row: int) -> str:
        subject: str = messages.column("subject")[row].as_py()
        return subject.removeprefix(self._bucket.write_prefix)

    def _publish(self, rows: Rows, numbers: Index) -> list[int]:
        """Publish messages of different keys; return the places of those whose revision was another one."""
        first = self._publisher.next_row
        try:
            self._publisher.send(replace(rows, first=first))
            self._publisher.finish()
        except PublishRefusedError as refused:
            if isinstance(refused.error, NoStreamResponseError):
                self._find_bucket()  # raises if it was deleted
            row = int(numbers[refused.row - first])
            raise PublishRefusedError(row, refused.subject, refused.error, refused.report) from refused.error
        return sorted(row - first for row in self._publisher.take_collected())

    def _find_bucket(self) -> None:
        with contextlib.suppress(RequestTimeoutError):
            find_bucket(self._connection, self._bucket.bucket, timeout=self._timeout, prefix=self._bucket.own_prefix)

    def _settle(self, messages: pa.RecordBatch, first: int, places: list[int]) -> None:
        """Decide about the refused messages at these places, and write some of them again, until all are settled."""
        open_ones = [self._refused(messages, place) for place in places]
        for number in range(1, MAX_ROUNDS + 1):
            again = [each for each in open_ones if self._is_open(each, last=number == MAX_ROUNDS)]
            if not again:
                return
            at = np.array([each.place for each in again])
            batch = messages.take(pa.array(at))
            tried = pa.array([each.tried for each in again], pa.int64())
            batch = batch.set_column(batch.schema.get_field_index(EXPECTED), EXPECTED, tried)
            if "msg_id" in batch.schema.names:
                ids = pa.array([each.msg_id and round_id(each.msg_id, number) for each in again], pa.string())
                batch = batch.set_column(batch.schema.get_field_index("msg_id"), "msg_id", ids)
            open_ones = [again[row] for row in self._publish(self._encode(batch, first + int(at[0])), first + at)]

    def _refused(self, messages: pa.RecordBatch, place: int) -> _Refused:
        expected: int = messages.column(EXPECTED)[place].as_py()
        msg_id, later = None, frozenset[str]()
        if "msg_id" in messages.schema.names:
            msg_id = messages.column("msg_id")[place].as_py()
            rest = messages.slice(place + 1)
            of_key = pc.equal(rest.column("subject"), messages.column("subject")[place])
            later = frozenset(rest.column("msg_id").filter(of_key).to_pylist())
        return _Refused(place, self._key(messages, place), expected, msg_id, later, tried=expected)

    def _is_own(self, refused: _Refused, found: str) -> bool:
        """Return whether a message id is that of the refused row, or of a later one of its key."""
        if refused.msg_id is None or not found:
            return False
        return found == refused.msg_id or found in refused.later_ids or self._is_later(found, refused.msg_id)

    def _is_open(self, refused: _Refused, *, last: bool) -> bool:
        """Return whether a message is to be written again. Raises WrongLastRevisionError."""
        bucket, newest = self._bucket.bucket, self._newest(refused.key)
        then = after_refusal(
            bucket,
            refused.key,
            refused.expected,
            newest,
            tried=refused.tried,
            is_own=lambda found: self._is_own(refused, found),
        )
        if isinstance(then, int):
            self._stored_before += 1
            return False
        if isinstance(then, Write):
            if not last:
                refused.tried = then.expected
                return True
            actual = 0 if newest is None else newest.revision
            then = WrongLastRevisionError(bucket, refused.key, refused.tried, actual)
        if not self._skip:
            raise then
        self._conflicts += 1
        if len(self._conflict_keys) < _MAX_KEYS:
            self._conflict_keys.append(refused.key)
        return False

    def _newest(self, key: str) -> KeyValueEntry | None:
        bucket = self._bucket
        request = MessageGetRequest(bucket.stream, last_by_subject=bucket.stored_prefix + key)
        try:
            message = request_with_retry(
                self._connection,
                lambda: self._connection.request(request, timeout=self._timeout, prefix=bucket.prefix),
                self._settings.retry_timeout,
            )
        except MessageNotFoundError:
            return None
        return stored_entry(bucket.bucket, bucket.stored_prefix, message)


@dataclass(slots=True)
class _Refused:
    """A message whose expected revision was wrong."""

    place: int
    key: str
    expected: int
    msg_id: str | None
    later_ids: frozenset[str]
    """Message ids of later rows of the key in the same record batch."""
    tried: int
    """The revision that was expected last."""


def _rounds(subjects: pa.StringArray) -> list[Index]:
    """Return the places of the rows of each round: no key is twice in one, and each keeps its order."""
    count = len(subjects)
    if pc.count_distinct(subjects).as_py() == count:
        return [np.arange(count)]
    keys = np.asarray(subjects.dictionary_encode().indices)
    by_key = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[by_key], prepend=-1))
    round_of = np.empty(count, np.int64)
    round_of[by_key] = np.arange(count) - np.repeat(starts, np.diff(starts, append=count))
    in_order = np.argsort(round_of, kind="stable")
    return np.split(in_order, np.flatnonzero(np.diff(round_of[in_order])) + 1)
