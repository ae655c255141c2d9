"""The common part of batch and streaming writes: record batches of Spark are prepared and published."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from jetspark.jetstream.control_headers import CONTROL_HEADER_PATTERN
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.schema import WriteColumns, write_columns
from jetspark.spark.streams.dead_letters import find_dead_letter_stream, has_stream
from jetspark.spark.write.bucket_rows import entry_write_columns
from jetspark.spark.write.typed import TypedWriteColumns, typed_write_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection, PublishReport
    from jetspark.bulk.key_value_bucket import BucketTarget
    from jetspark.spark.write.unstored import ResentRows

__all__ = [
    "Published",
    "column_warnings",
    "has_own_ids",
    "plan_columns",
    "prepare_rows",
    "publish_rows",
    "with_dead_letter_stream",
]

_log: Final = logging.getLogger(__name__)

_COLUMNS: Final = " columns"  # no stream has a name with a space


def plan_columns(schema: StructType, options: WriteOptions) -> WriteColumns:
    """Check the columns of a write into a stream or a bucket. Raises ConfigError."""
    if options.payload is not None:
        return typed_write_columns(schema, options, options.payload)
    return write_columns(schema, options.subject) if options.bucket is None else entry_write_columns(schema)


def column_warnings(columns: WriteColumns) -> dict[str, str]:
    """Return the warnings about columns that are not written, as `TaskCommitMessage.warnings` has them."""
    encoded = columns.encoded if isinstance(columns, TypedWriteColumns) else None
    text = None if encoded is None else encoded.ignored_warning()
    return {} if text is None else {_COLUMNS: text}


def has_own_ids(columns: WriteColumns, options: WriteOptions) -> bool:
    """Whether rows may have message ids of their own, in the column `msg_id` or in their headers."""
    return "msg_id" in columns or ("headers" in columns and options.keep_control_headers)


def with_dead_letter_stream(connection: Connection, options: WriteOptions) -> WriteOptions:
    """Return the options with the stream that takes the dead letters, if there are any. Raises ConfigError."""
    if options.dead_letters is None:
        return options
    found = find_dead_letter_stream(connection, options.server, options.retry_timeout, options.dead_letters)
    return replace(options, dead_letters=found)


def prepare_rows(
    batches: Iterator[pa.RecordBatch],
    columns: WriteColumns,
    options: WriteOptions,
    prefix: str,
    left_out: set[str],
    *,
    stable: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages to publish, with ids for rows that have none.

    Parameters
    ----------
    prefix
        First part of the ids: job and partition.
    left_out
        Receives the names of the headers that are left out because they command the server.
    stable
        Whether the ids must be the same in other sessions, see `message_ids`.
    """
    import pyarrow as pa

    from jetspark.bulk.dead_letters import REASON
    from jetspark.bulk.key_value_rows import messages_of_rows
    from jetspark.spark.write.message_ids import add_message_ids
    from jetspark.wire.vector.headers import remove_headers

    names = list(columns.positions)
    encoded = columns.encoded if isinstance(columns, TypedWriteColumns) else None
    encoder = None if encoded is None else encoded.for_task()
    row = 0
    for batch in batches:
        arrays = [batch.column(at) for at in columns.positions.values()]
        if columns.bucket is None and "headers" in columns and not options.keep_control_headers:
            at = names.index("headers")
            arrays[at], found = remove_headers(arrays[at], CONTROL_HEADER_PATTERN)
            left_out.update(found)
        reasons = None
        if encoded is not None and encoder is not None:
            if options.dead_letters is None:
                arrays.append(encoded.encode(encoder, batch, row))
            else:
                payloads, reasons = encoded.encode_storable(encoder, batch, row)
                arrays.append(payloads)
        ours = pa.RecordBatch.from_arrays(arrays, names if encoded is None else [*names, encoded.content])
        if columns.bucket is not None:
            ours = messages_of_rows(ours, columns.bucket.write_prefix, row, left_out)
        if options.dedup:
            ours = add_message_ids(prefix, row, ours, stable=stable)
        yield ours if reasons is None else ours.append_column(REASON, reasons)
        row += len(batch)


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome of the rows of a task.

    Attributes
    ----------
    report
        Counts of the acknowledged rows.
    skipped
        Rows that were found stored, and not sent again.
    conflicts
        Rows for a bucket that were left out because of another revision.
    dead_letters, dead_letter_reason
        Rows that are dead letters, and the reason of the first one.
    """

    report: PublishReport
    skipped: int
    conflicts: int = 0
    dead_letters: int = 0
    dead_letter_reason: str | None = None


def publish_rows(
    connection: Connection,
    rows: Iterator[pa.RecordBatch],
    columns: WriteColumns,
    options: WriteOptions,
    prefix: str,
    job: str,
) -> Published:
    """Publish messages by the options. Only those with ids are sent again after a lost connection.

    Parameters
    ----------
    prefix
        First part of their ids.
    job
        Id of the query, or of the job of a batch.
    """
    from jetspark.bulk import publish, publish_atomic
    from jetspark.spark.write.unstored import ResentRows

    retry_timeout = options.retry_timeout if options.dedup or "msg_id" in columns else 0.0
    resent = ResentRows(options)
    if columns.bucket is not None:
        return _publish_entries(connection, rows, columns.bucket, options, retry_timeout, resent, prefix)
    if options.dead_letters is not None:
        return _publish_storable(connection, rows, options, retry_timeout, resent, job)
    if options.atomic:
        report = publish_atomic(
            connection,
            rows,
            subject=options.subject,
            ack_timeout=options.ack_timeout,
            expected_stream=options.expected_stream,
            retry_timeout=retry_timeout,
            find_stored=resent.find,
            control_headers="keep",  # `prepare_rows` has left them out
        )
    else:
        report = publish(
            connection,
            rows,
            subject=options.subject,
            max_pending=options.max_pending,
            ack_timeout=options.ack_timeout,
            expected_stream=options.expected_stream,
            retry_timeout=retry_timeout,
            find_stored=resent.find,
            control_headers="keep",  # `prepare_rows` has left them out
        )
    return Published(report, resent.skipped)


def _publish_storable(
    connection: Connection,
    rows: Iterator[pa.RecordBatch],
    options: WriteOptions,
    retry_timeout: float,
    resent: ResentRows,
    job: str,
) -> Published:
    from jetspark.bulk.dead_letters import DeadLetterPublisher, publish_storable
    from jetspark.bulk.publish_report import BulkPublishOptions

    dead = options.dead_letters
    assert dead is not None
    letters = DeadLetterPublisher(
        dead.subject, job, dead.limit, dead.max_size, options.ack_timeout, options.retry_timeout
    )
    settings = BulkPublishOptions(
        subject=options.subject,
        max_pending=options.max_pending,
        ack_timeout=options.ack_timeout,
        expected_stream=options.expected_stream,
        retry_timeout=retry_timeout,
        find_stored=resent.find,
    )
    report = publish_storable(
        connection, rows, settings, letters, lambda subject: has_stream(connection, options.server, subject)
    )
    return Published(report, resent.skipped, 0, letters.count, letters.first_reason)


def _publish_entries(
    connection: Connection,
    rows: Iterator[pa.RecordBatch],
    bucket: BucketTarget,
    options: WriteOptions,
    retry_timeout: float,
    resent: ResentRows,
    prefix: str,
) -> Published:
    from jetspark.bulk.key_value_publish import publish_messages
    from jetspark.bulk.publish_report import BulkPublishOptions
    from jetspark.spark.write.message_ids import is_later_id

    settings = BulkPublishOptions(  # without the stream: its header would count as a part of the value
        max_pending=options.max_pending,
        ack_timeout=options.ack_timeout,
        retry_timeout=retry_timeout,
        find_stored=resent.find,
    )
    done = publish_messages(
        connection,
        bucket,
        rows,
        settings,
        skip_conflicts=options.skip_conflicts,
        is_later=partial(is_later_id, prefix),
        timeout=options.server.request_timeout,
    )
    if done.conflicts:
        keys = ", ".join(map(repr, done.conflict_keys))
        _log.warning(
            "bucket %s: %d rows were not stored because of another revision; the first keys: %s",
            bucket.bucket,
            done.conflicts,
            keys,
        )
    return Published(done.published, resent.skipped, done.conflicts)
