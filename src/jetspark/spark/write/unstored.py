"""Leaves out the rows that an earlier run of a task has stored, also long after the duplicate window.

If the earlier run was done, the digests of its record batches show which of them are stored. The other rows are looked
up in the streams: the headers of the messages contain the ids, and all rows of this task were stored after its first
run began. `ResentRows` does the same for rows that one attempt sends again after an outage. Rows that consumers or
limits have removed in the meantime are not found. The stream's duplicate window, and the record of a finished run,
still recognise them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.bulk.retry import request_with_retry
from jetspark.engine.retry import can_resume
from jetspark.jetstream.api import Request, StreamInfoRequest, StreamNamesRequest
from jetspark.jetstream.errors import Error
from jetspark.jetstream.header_names import MSG_ID
from jetspark.jetstream.names import subject_matches
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.write.earlier_letters import EarlierDeadLetters
from jetspark.spark.write.id_set import IdSet
from jetspark.spark.write.message_ids import effective_ids, original_ids

__all__ = ["ResentRows", "UnstoredRows", "ids_digest"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

_MAX_CLOCK_SKEW_NS: Final = 60 * 1_000_000_000
"""Largest difference between the clocks of two servers."""

_MARGIN: Final = 1.0
"""Seconds for a look-up, and for the way of the rows to the server."""


def ids_digest(ids: pa.StringArray) -> str:
    """Return the digest of the ids of a record batch."""
    return blake2b("\n".join(ids.to_pylist()).encode(), digest_size=8).hexdigest()


class UnstoredRows:
    """Leaves out rows that an earlier run has stored.

    Parameters
    ----------
    prefix
        First part of the ids of this task; None if rows may have ids of their own.
    first_attempt_ns
        When the earlier run began; None if there was none.
    batch_digests
        Digests of the record batches of the earlier run, if it was done.
    age
        Seconds since the rows were sent: streams with a longer duplicate window are not read. None reads all.

    Attributes
    ----------
    batch_digests
        Digests of the record batches of this run.
    skipped
        Number of rows left out, because they are stored.
    dead_letters
        Number of rows left out, because they are dead letters.
    """

    def __init__(
        self,
        options: WriteOptions,
        prefix: str | None,
        first_attempt_ns: int | None,
        batch_digests: Sequence[str],
        age: float | None = None,
    ) -> None:
        self._options = options
        self._prefix = prefix
        self._first_attempt_ns = first_attempt_ns
        self._earlier_digests = batch_digests
        self._age = age
        self._checked_subjects: set[str] = set()
        self._filters: dict[str, Sequence[str]] = {}  # by stream that was read: its subjects
        self._stored = IdSet()
        self.batch_digests: list[str] = []
        self.skipped = 0
        self.dead_letters = 0
        self._earlier_letters: EarlierDeadLetters | None = None

    def look_up_dead_letters(self, query: str) -> None:
        """Leave out also the rows that an earlier run of this query has published as dead letters."""
        if self._options.dead_letters is not None and self._first_attempt_ns is not None:
            self._earlier_letters = EarlierDeadLetters(
                self._options, query, self._first_attempt_ns - _MAX_CLOCK_SKEW_NS
            )

    def filter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not stored yet, in their order."""
        for number, batch in enumerate(batches):
            ids = effective_ids(batch)
            self.batch_digests.append(ids_digest(ids))
            if self._first_attempt_ns is None:
                yield batch
            elif self._earlier_digests[number : number + 1] == [self.batch_digests[-1]]:
                self.skipped += len(batch)
                self._pass(ids)
            else:
                alive = self._without_dead_letters(batch, ids)
                left = self._without_stored(alive, effective_ids(alive))
                self.skipped += len(alive) - len(left)
                if len(left):
                    yield left

    def _without_dead_letters(self, batch: pa.RecordBatch, ids: pa.StringArray) -> pa.RecordBatch:
        if self._earlier_letters is None:
            return batch
        alive = batch.filter(pc.invert(self._earlier_letters.contain(ids)))
        self.dead_letters += len(batch) - len(alive)
        return alive

    def _pass(self, ids: pa.StringArray) -> None:
        """Note the ids of rows that are stored."""

    def _without_stored(self, batch: pa.RecordBatch, ids: pa.StringArray) -> pa.RecordBatch:
        subjects = [self._options.subject] if self._options.subject else pc.unique(batch.column("subject")).to_pylist()
        return batch.filter(pc.invert(self.are_stored(subjects, ids)))

    def are_stored(self, subjects: Iterable[str | None], ids: pa.StringArray) -> pa.BooleanArray:
        """Return for each id whether one of the streams of these subjects has it."""
        self._load_ids_for(subject for subject in subjects if subject)
        return pc.and_(pc.is_valid(ids), self._stored.contains(pc.fill_null(ids, "")))

    def _load_ids_for(self, subjects: Iterable[str]) -> None:
        """Read the ids of the streams that capture these subjects; each stream once."""
        unknown = [subject for subject in subjects if not self._is_covered(subject)]
        if not unknown:
            return
        # The worker's connection publishes rows at the same time, so another one is needed.
        with borrow_connection(self._options.server.connect, self._options.retry_timeout) as connection:
            for subject in unknown:
                if not self._is_covered(subject):
                    self._checked_subjects.add(subject)
                    self._load_ids(connection, subject)

    def _is_covered(self, subject: str) -> bool:
        if subject in self._checked_subjects:
            return True
        return any(subject_matches(each, subject) for filters in self._filters.values() for each in filters)

    def _load_ids(self, connection: Connection, subject: str) -> None:
        try:
            for stream in self._streams_of(connection, subject):
                if stream not in self._filters:
                    self._filters[stream] = ()
                    self._filters[stream] = self._read_ids(connection, stream)
        except Error as error:
            if can_resume(error):
                raise
            _log.warning(
                "subject %s: cannot look up the rows that an earlier run has stored; they may be stored twice: %s",
                subject,
                error,
            )

    def _streams_of(self, connection: Connection, subject: str) -> Sequence[str]:
        if self._options.expected_stream is not None:
            return [self._options.expected_stream]
        return self._request(connection, StreamNamesRequest(subject_filter=subject)).items

    def _read_ids(self, connection: Connection, stream: str) -> Sequence[str]:
        """Add the ids in a stream to the set. Return the stream's subjects."""
        server = self._options.server
        info = self._request(connection, StreamInfoRequest(stream))
        window = info.config.duplicate_window
        if self._age is not None and window is not None and window.total_seconds() > self._age + _MARGIN:
            return info.config.subjects or ()
        with bulk.scan(
            connection,
            stream,
            start_time=max((self._first_attempt_ns or 0) - _MAX_CLOCK_SKEW_NS, 0),
            columns=["headers"],
            timeout=server.request_timeout,
            retry_timeout=self._options.retry_timeout,
            prefix=server.api_prefix,
            consumer_prefix=server.consumer_prefix,
        ) as batches:
            for batch in batches:
                self._stored.add(self._ids_of(batch))
        return info.config.subjects or ()

    def _request(self, connection: Connection, request: Request[T]) -> T:
        options = self._options
        return request_with_retry(
            connection, lambda: options.server.request(connection, request), options.retry_timeout
        )

    def _ids_of(self, batch: pa.RecordBatch) -> pa.StringArray:
        lists = pc.map_lookup(batch.column("headers"), MSG_ID, "first")
        ids = original_ids(pc.drop_null(pc.list_flatten(lists)))
        return ids if self._prefix is None else ids.filter(pc.starts_with(ids, self._prefix))


class ResentRows:
    """Finds rows that are stored before one attempt sends them again later than a duplicate window allows.

    Attributes
    ----------
    skipped
        Number of rows that were found.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self.skipped = 0

    def find(self, subjects: pa.StringArray, ids: pa.StringArray, age: float) -> pa.BooleanArray:
        """Return which of the rows are stored. The first of them was sent `age` seconds ago."""
        sent_ns = time.time_ns() - int(age * 1e9)
        lookup = UnstoredRows(self._options, None, sent_ns, (), age)
        stored = lookup.are_stored(pc.unique(subjects).to_pylist(), original_ids(ids))
        self.skipped += pc.sum(stored, min_count=0).as_py()
        return stored
