"""Streaming writes: micro-batches that Spark may run twice, whose rows are stored once.

Spark runs a micro-batch again when the query was stopped before Spark had recorded the batch as done. It runs a task
again if an attempt failed; the failed attempt may still be running then. All attempts give a row the same message id.
It consists of query, micro-batch, partition and row number, which come from the task's properties, and of a hash of the
content, for plans that return rows in another order the second time (see `message_ids`). The stream drops duplicates.

A stream does so only within its duplicate window. If a micro-batch may be run again later, a warning is logged, or the
task ledger prevents duplicates (`ledger`, `unstored`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.jetstream.errors import ConfigError, ProtocolError
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.stream_write import StreamWriteOptions
from jetspark.spark.schema import WriteColumns
from jetspark.spark.task_log import log_counts
from jetspark.spark.write.bucket_rows import find_target
from jetspark.spark.write.commit_message import (
    TaskCommitMessage,
    conflicts_warning,
    dead_letters_warning,
    merge_messages,
    summary,
)
from jetspark.spark.write.duplicate_window import warn_once, window_warnings
from jetspark.spark.write.ledger import TaskLedger, TaskName, TaskRecord
from jetspark.spark.write.rows import (
    column_warnings,
    has_own_ids,
    plan_columns,
    prepare_rows,
    publish_rows,
    with_dead_letter_stream,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection

__all__ = ["JetStreamStreamWriter", "plan_stream_write"]

_log: Final = logging.getLogger(__name__)

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "spark.jobGroup.id"


def plan_stream_write(schema: StructType, options: StreamWriteOptions, overwrite: bool) -> JetStreamStreamWriter:
    """Check everything that can be checked before a micro-batch runs. Spark calls it for each micro-batch and commit.

    Raises
    ------
    ConfigError
        The output mode is `complete`, a column is missing, the ledger stream does not fit, or no stream takes the dead
        letters.
    BucketNotFoundError, BadBucketError, MessageTTLDisabledError
        There is no such bucket, or it has no times to live.
    ConnectError, AuthenticationError, TLSError
        A server is needed for the ledger, the bucket or the dead letters, and cannot be reached or rejects the login.
    """
    if overwrite:
        raise ConfigError(
            "output mode complete is not supported, because rows can only be appended to a stream or put into a "
            "bucket; use output mode append, or write the changed rows from foreachBatch"
        )
    write, ledger = options.write, None
    columns = plan_columns(schema, write)
    if options.ledger_stream is None and write.bucket is None and write.dead_letters is None:
        return JetStreamStreamWriter(options, columns, ledger)
    with borrow_connection(write.server.connect, write.retry_timeout) as connection:
        if options.ledger_stream is not None:
            ledger = TaskLedger(options.ledger_stream, write.server, write.retry_timeout)
            if ledger.prepare(connection):
                ledger.retention = options.ledger_retention
        columns, write = find_target(connection, columns, write)
        write = with_dead_letter_stream(connection, write)
    return JetStreamStreamWriter(replace(options, write=write), columns, ledger)


class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a micro-batch. Created on the driver for each one, and sent to every task."""

    def __init__(self, options: StreamWriteOptions, columns: WriteColumns, ledger: TaskLedger | None) -> None:
        self._options = options
        self._columns = columns
        self._ledger = ledger

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        """Publish the rows of a task, and return the counts."""
        task, run = _current_task()
        return self.publish(task, iterator, run)

    def publish(self, task: TaskName, batches: Iterator[pa.RecordBatch], run_id: str = "") -> TaskCommitMessage:
        """Publish the rows of the task with this name, in this run of its query.

        Raises
        ------
        SupersededBatchError
            A later micro-batch of the query has begun.
        """
        first = next(batches, None)
        if first is None:  # after a shuffle, many tasks have no rows
            return TaskCommitMessage(task.partition, 0)
        write = self._options.write
        left_out: set[str] = set()
        rows = prepare_rows(_chain(first, batches), self._columns, write, str(task), left_out, stable=True)
        with borrow_connection(write.server.connect, write.retry_timeout) as connection:
            if self._ledger is None:
                published = publish_rows(connection, rows, self._columns, write, str(task), task.query)
                done = TaskCommitMessage.of(task.partition, published)
            else:
                done = self._publish_recorded(connection, self._record(self._ledger, task), task, rows)
            done.warnings = window_warnings(connection, done.streams, run_id, self._options)
        done.warnings |= column_warnings(self._columns)
        done.run_id, done.left_out, done.own_ids = run_id, left_out, has_own_ids(self._columns, write)
        log_counts(_log, "query %s, batch %d, partition %d: %s", task.query, task.batch, task.partition, summary(done))
        return done

    def _record(self, ledger: TaskLedger, task: TaskName) -> TaskRecord:
        bucket = self._columns.bucket
        return TaskRecord(ledger, task, 0 if bucket is None else bucket.last_revision)

    def _publish_recorded(
        self, connection: Connection, record: TaskRecord, task: TaskName, rows: Iterator[pa.RecordBatch]
    ) -> TaskCommitMessage:
        from jetspark.spark.write.unstored import UnstoredRows
        from jetspark.spark.write.unstored_entries import UnstoredEntries

        write, bucket = self._options.write, self._columns.bucket
        record.begin(connection)
        prefix = None if has_own_ids(self._columns, write) else str(task)
        earlier = (write, prefix, record.first_attempt_ns, record.batch_digests)
        unstored = UnstoredRows(*earlier) if bucket is None else UnstoredEntries(*earlier, bucket, record.revision)
        if bucket is None:
            unstored.look_up_dead_letters(task.query)
        published = publish_rows(connection, unstored.filter(rows), self._columns, write, str(task), task.query)
        record.finish(connection, unstored.batch_digests)
        done = TaskCommitMessage.of(task.partition, published)
        done.skipped += unstored.skipped
        done.dead_letters += unstored.dead_letters
        return done

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log the counts of the micro-batch, and once in a run the warnings about duplicates."""
        stored = merge_messages(messages)
        _log.info("batch %d done: %s", batchId, summary(stored))
        for text in (conflicts_warning(stored), dead_letters_warning(stored)):
            if text is not None:
                _log.warning("batch %d: %s", batchId, text)
        warn_once(stored)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log the rows that stay in the stream after a failed micro-batch: they cannot be removed."""
        done = [message for message in messages if message is not None]
        _log.warning(
            "batch %d failed: %d of %d tasks were done (%s), the other tasks may have stored rows; stored rows stay, "
            "and keep their message ids when the batch is run again",
            batchId,
            len(done),
            len(messages),
            summary(merge_messages(messages)),
        )


def _current_task() -> tuple[TaskName, str]:
    """Return the name of the task, and the id of the query's run, which is Spark's job group."""
    context = TaskContext.get()
    if context is None:
        raise ConfigError("a streaming write must run in a task of Spark")
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    if query is None or batch is None:
        raise ProtocolError(
            f"Spark did not set the query and micro-batch of the task: {_QUERY} {query}, {_BATCH} {batch}"
        )
    return TaskName(query, int(batch), context.partitionId()), context.getLocalProperty(_RUN) or query


def _chain(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
