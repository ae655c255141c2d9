"""Batch writes: each task publishes its rows in a pipeline, and waits for all acknowledgements.

A write can only append to a stream, or put keys into a bucket. The messages of a failed task stay, and Spark runs the
task again. Every row gets a message id, and the repeated task gives the row the same id, so the stream drops
duplicates. The id consists of the job, the partition, the row number, and a hash of the content. The hash is for plans
that return rows in another order the second time, such as shuffles: another row with the same number is another
message, and no duplicate. Such rows may be stored twice, but none is lost. Ids in a column `msg_id` have no such limit.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.schema import WriteColumns
from jetspark.spark.task_log import log_counts
from jetspark.spark.write.bucket_rows import find_target
from jetspark.spark.write.commit_message import (
    TaskCommitMessage,
    conflicts_warning,
    dead_letters_warning,
    duplicates_warning,
    left_out_warning,
    merge_messages,
    summary,
)
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

__all__ = ["JetStreamWriter", "plan_write"]

_log: Final = logging.getLogger(__name__)


def plan_write(schema: StructType, options: WriteOptions, overwrite: bool) -> JetStreamWriter:
    """Check everything that can be checked before a task runs, including the connection.

    Raises
    ------
    ConfigError
        The mode is `overwrite`, or a column is missing, or no stream takes the dead letters.
    BucketNotFoundError, BadBucketError, MessageTTLDisabledError
        There is no such bucket, or it has no times to live.
    ConnectError, AuthenticationError, TLSError
        The server cannot be reached or rejects the login.
    """
    if overwrite:
        raise ConfigError(
            "mode overwrite is not supported, because rows can only be appended to a stream or put into a bucket; use "
            "mode append, and purge the stream before to replace its messages"
        )
    columns = plan_columns(schema, options)
    for text in column_warnings(columns).values():
        _log.warning("%s", text)
    with borrow_connection(options.server.connect, options.retry_timeout, first_contact=True) as connection:
        columns, options = find_target(connection, columns, options)
        options = with_dead_letter_stream(connection, options)
    return JetStreamWriter(options, columns)


class JetStreamWriter(DataSourceArrowWriter):
    """Publishes rows. Created once for a job on the driver, and sent to every task."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._options = options
        self._columns = columns
        self._job = secrets.token_urlsafe(9)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        """Publish the rows of a task, and return the counts."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        left_out: set[str] = set()
        prefix = f"{self._job}-{partition}"
        rows = prepare_rows(iterator, self._columns, self._options, prefix, left_out, stable=False)
        with borrow_connection(self._options.server.connect, self._options.retry_timeout) as connection:
            published = publish_rows(connection, rows, self._columns, self._options, prefix, self._job)
        done = TaskCommitMessage.of(partition, published)
        done.left_out, done.own_ids = left_out, has_own_ids(self._columns, self._options)
        log_counts(_log, "partition %d: %s", partition, summary(done))
        return done

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the counts of the job, and warn about headers that were left out and rows that were not stored."""
        whole = merge_messages(messages)
        _log.info("write done: %s", summary(whole))
        if whole.left_out:
            _log.warning("%s", left_out_warning(whole.left_out))
        for text in (duplicates_warning(whole), conflicts_warning(whole), dead_letters_warning(whole)):
            if text is not None:
                _log.warning("%s", text)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the rows that stay in the stream after a failed job: they cannot be removed."""
        done = [message for message in messages if message is not None]
        _log.warning(
            "write failed: %d of %d tasks were done, and their rows stay (%s); the other tasks may have stored rows",
            len(done),
            len(messages),
            summary(merge_messages(messages)),
        )
