"""Batch reads of the newest message of every subject, at one moment of each stream: `readMode` = `lastPerSubject`, and
buckets without `history`.

One task reads a whole stream, because several tasks could not read at the same moment. It keeps one row for each
subject in memory.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from jetspark.jetstream.times import time_ns
from jetspark.spark.connections import borrow_connection, call_with_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.dead_letters import ReadDeadLetters, check_dead_letters
from jetspark.spark.read.entries import conversion_of, log_bad_records, plan_rows
from jetspark.spark.read.filter_pushdown import PushedFilters, column_names, push_filters, selected_subjects
from jetspark.spark.streams.buckets import EntrySelection, request_info, select_entries
from jetspark.spark.streams.listing import streams_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FilteringSnapshotReader", "SnapshotReader"]

_log: Final = logging.getLogger(__name__)

_PUSHED: Final = frozenset({"subject", "stream"})


@dataclass(frozen=True)
class SnapshotPartition(InputPartition):
    """The part of a read for one task: a whole stream.

    Attributes
    ----------
    stream
        Name of the stream.
    entries
        The entries to read, if the stream is read as a bucket.
    """

    stream: str
    entries: EntrySelection | None = None


class SnapshotReader(DataSourceReader):
    """Reads the last message of every subject. Raises ConfigError if the schema is not possible."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._rows = plan_rows(schema, options)
        self._push = PushedFilters(selected_subjects(options))
        self._job = secrets.token_urlsafe(9)

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each stream.

        Raises
        ------
        BucketNotFoundError, BadBucketError
            There is no such bucket.
        ConfigError
            No stream takes the dead letters.
        """
        options = self._options
        check_dead_letters(options)
        streams = () if self._push.empty else options.streams
        if options.stream_pattern is not None and not self._push.empty:
            streams = call_with_connection(
                options.server.connect,
                lambda connection: streams_of(connection, options),
                options.retry_timeout,
                first_contact=True,
            )
        return [
            SnapshotPartition(each, self._select_entries(each))
            for each in streams
            if self._push.streams is None or each in self._push.streams
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream."""
        from jetspark.bulk import last_per_subject

        if not isinstance(partition, SnapshotPartition):  # Spark's own empty partition, if there is none
            return
        options, server, entries = self._options, self._options.server, partition.entries
        letters = None
        if options.dead_letters is not None:
            letters = ReadDeadLetters(options, partition.stream, self._job)
        conversion = conversion_of(self._rows, partition.stream, entries, letters)
        with borrow_connection(server.connect, options.retry_timeout) as connection:
            snapshot = last_per_subject(
                connection,
                partition.stream,
                subjects=self._push.subjects if entries is None else entries.subjects,
                columns=conversion.columns,
                max_bytes_in_flight=options.bytes_in_flight,
                timeout=server.request_timeout,
                retry_timeout=options.retry_timeout,
                prefix=server.api_prefix,
                consumer_prefix=server.consumer_prefix,
            )
        if letters is not None:
            letters.created_ns = time_ns(snapshot.created)
        _log.info("stream %s at sequence %d: %d rows", partition.stream, snapshot.sequence, len(snapshot.table))
        for batch in snapshot.table.to_batches(max_chunksize=options.batch_rows):
            yield conversion.apply(batch)
        log_bad_records(conversion)

    def _select_entries(self, stream: str) -> EntrySelection | None:
        options = self._options
        if options.bucket is None:
            return None  # the task will notice if there is no such stream
        info = call_with_connection(
            options.server.connect,
            lambda connection: request_info(connection, options, stream),
            options.retry_timeout,
            first_contact=True,
        )
        return select_entries(info, options, self._push.subjects)


class FilteringSnapshotReader(SnapshotReader):
    """A snapshot reader that accepts filters; see `jetspark.spark.read.batch_reader.FilteringReader`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the filters on subject (key) and stream. Spark applies the others to the newest messages."""
        options, names = self._options, column_names(self._options)
        native = frozenset(each for each in self._rows.native_columns if names.get(each, each) in _PUSHED)
        self._push, rest = push_filters(filters, selected_subjects(options), native, names)
        return rest
