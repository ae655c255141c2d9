"""Reads of a key-value bucket as columns: the newest entry of each key at one moment, or all revisions."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from jetspark.bulk.connection import Connection
from jetspark.bulk.decoding import decode_batches, decode_table
from jetspark.bulk.key_value_columns import EntryColumns
from jetspark.bulk.last_per_subject import ArrowTable, last_per_subject
from jetspark.bulk.last_up_to import last_up_to
from jetspark.bulk.scan import Scan, scan
from jetspark.bulk.scan_report import ScanReport
from jetspark.jetstream.errors import BucketNotFoundError, ConfigError, RevisionError, StreamNotFoundError
from jetspark.payload import RowDecoder

__all__ = ["EntryScan", "EntryTable", "KeyValueRead"]


@dataclass(frozen=True, slots=True)
class EntryTable(ArrowTable):
    """Entries of a bucket as they were at one revision. It is an Arrow stream, which pandas, polars and DuckDB accept.

    Attributes
    ----------
    table
        One row for each entry, in the order of the revisions.
    revision
        The bucket's newest revision at that moment.
    bad_records
        Entries whose value could not be decoded, with the parameter `decode`.
    """

    table: pa.Table
    revision: int
    bad_records: int = 0


@dataclass(frozen=True, slots=True)
class KeyValueRead:
    """A read of a bucket: its options, and the work.

    Attributes
    ----------
    bucket, stream
        Name of the bucket, and of its stream.
    subjects
        Filters of the subjects; they may overlap.
    entries
        Columns of the entries.
    history
        Whether to read all revisions, or the newest one of each key.
    start_revision
        First revision to read, with `history`.
    at_revision
        The last revision to read: the entries are those of that moment, as far as the history reaches.
    prefix
        Prefix of the API's subjects.
    timeout, retry_timeout
        Seconds for a request, and seconds to keep trying.
    rows
        Decodes the values of the entries.
    """

    bucket: str
    stream: str
    subjects: tuple[str, ...]
    entries: EntryColumns
    history: bool
    start_revision: int | None
    at_revision: int | None
    prefix: str
    timeout: float
    retry_timeout: float = 30.0
    rows: RowDecoder | None = None

    def __post_init__(self) -> None:
        """Check the revisions. Raises ConfigError."""
        if self.start_revision is not None and not self.history:
            raise ConfigError("start_revision is given without history=True; only a read of all revisions has a start")
        for name, revision in (("start_revision", self.start_revision), ("at_revision", self.at_revision)):
            if revision is not None and revision < 1:
                raise ConfigError(f"{name} must be positive, not {revision}")

    def scan(self, connection: Connection, max_batch_rows: int) -> Scan:
        """Read record batches of entries."""
        if self.history:
            entries, report = self._revisions(connection, max_batch_rows)
        else:
            report = ScanReport(self.stream)
            entries = self._newest_batches(connection, max_batch_rows, report)
        if self.rows is None:
            return EntryScan(self.entries.schema, entries, report)
        return EntryScan(self.rows.schema, decode_batches(self.rows, entries, report), report)

    def table(self, connection: Connection) -> EntryTable:
        """Read a table of entries.

        Raises
        ------
        BucketNotFoundError
            The bucket does not exist.
        RevisionError
            The bucket has not reached `at_revision`.
        RequestTimeoutError
            There was no moment at which all entries were read.
        PayloadError
            A value cannot be decoded, and the mode is FAILFAST.
        """
        found = self._table(connection)
        if self.rows is None:
            return found
        table, bad_records = decode_table(self.rows, found.table)
        return EntryTable(table, found.revision, bad_records)

    def _table(self, connection: Connection) -> EntryTable:
        if self.history:
            batches, report = self._revisions(connection)
            table = pa.Table.from_batches(batches, self.entries.schema)
            return EntryTable(table, min(report.end_sequence - 1, report.stream_last_sequence))
        with self._named_errors():
            return self._newest(connection, ScanReport(self.stream))

    def _revisions(
        self, connection: Connection, max_batch_rows: int = 16_384
    ) -> tuple[Generator[pa.RecordBatch], ScanReport]:
        messages = self._scan(connection, self.entries.message_columns, max_batch_rows)
        return self._converted(messages), messages.report

    def _converted(self, messages: Scan) -> Generator[pa.RecordBatch]:
        with messages, self._named_errors():
            for batch in messages:
                self._check_reached(messages.report.stream_last_sequence)
                if (entries := self.entries.convert(batch)).num_rows:
                    yield entries
            self._check_reached(messages.report.stream_last_sequence)

    def _scan(self, connection: Connection, columns: tuple[str, ...], max_batch_rows: int = 16_384) -> Scan:
        return scan(
            connection,
            self.stream,
            subjects=self.subjects,
            start_sequence=self.start_revision,
            end_sequence=None if self.at_revision is None else self.at_revision + 1,
            columns=columns,
            max_batch_rows=max_batch_rows,
            timeout=self.timeout,
            retry_timeout=self.retry_timeout,
            prefix=self.prefix,
        )

    def _newest_batches(
        self, connection: Connection, max_batch_rows: int, report: ScanReport
    ) -> Generator[pa.RecordBatch]:
        with self._named_errors():
            table = self._newest(connection, report).table
        for batch in table.to_batches(max_chunksize=max_batch_rows):
            report.received += batch.num_rows
            yield batch
        report.complete = True

    def _newest(self, connection: Connection, report: ScanReport) -> EntryTable:
        """Read the newest entry of each key; `report` gets the facts of the stream."""
        columns = self.entries.message_columns
        at, read = self.at_revision, last_per_subject
        if at is not None:
            read = partial(last_up_to, sequence=at)
        snapshot = read(
            connection,
            self.stream,
            subjects=self.subjects,
            columns=tuple(dict.fromkeys([*columns, "sequence"])),
            timeout=self.timeout,
            retry_timeout=self.retry_timeout,
            prefix=self.prefix,
        )
        self._check_reached(snapshot.sequence)
        messages = snapshot.table if at is None else snapshot.table.sort_by("sequence")
        revision, report.created = snapshot.sequence if at is None else at, snapshot.created
        table = self.entries.convert_table(messages.select(columns))
        report.expected, report.end_sequence = table.num_rows, revision + 1
        return EntryTable(table, revision)

    def _check_reached(self, last: int) -> None:
        if self.at_revision is not None and self.at_revision > last:
            text = f"{self.bucket}: revision {self.at_revision} lies in the future; the newest one is {last}"
            raise RevisionError(text, revision=self.at_revision, last=last)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Raise an error of the bucket for one of its stream."""
        try:
            yield
        except StreamNotFoundError:
            raise BucketNotFoundError(self.bucket) from None


class EntryScan(Scan):
    """Iterator of record batches of entries; see `KeyValueRead.scan`.

    Attributes
    ----------
    report
        Counts of messages, markers included.
    """

    def __init__(self, schema: pa.Schema, batches: Generator[pa.RecordBatch], report: ScanReport) -> None:
        self._schema = schema
        self.report = report
        self._batches = batches
