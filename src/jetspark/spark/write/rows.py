"""The common part of batch and streaming writes: record batches of Spark are prepared and published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jetspark.jetstream.control_headers import CONTROL_HEADER_PATTERN
from jetspark.spark.options.batch import WriteOptions
from jetspark.spark.schema import WriteColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection, PublishReport

__all__ = ["has_own_ids", "prepare_rows", "publish_rows"]


def has_own_ids(columns: WriteColumns, options: WriteOptions) -> bool:
    """Whether rows may have message ids of their own, in the column `msg_id` or in their headers."""
    return "msg_id" in columns or ("headers" in columns and options.keep_control_headers)


def prepare_rows(
    batches: Iterator[pa.RecordBatch],
    columns: WriteColumns,
    options: WriteOptions,
    prefix: str,
    left_out: set[str],
    *,
    stable: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with only the columns to publish, and with ids for rows that have none.

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

    from jetspark.spark.write.message_ids import add_message_ids
    from jetspark.wire.vector.headers import remove_headers

    names = list(columns.positions)
    row = 0
    for batch in batches:
        arrays = [batch.column(at) for at in columns.positions.values()]
        if "headers" in columns and not options.keep_control_headers:
            at = names.index("headers")
            arrays[at], found = remove_headers(arrays[at], CONTROL_HEADER_PATTERN)
            left_out.update(found)
        ours = pa.RecordBatch.from_arrays(arrays, names)
        yield add_message_ids(prefix, row, ours, stable=stable) if options.dedup else ours
        row += len(batch)


def publish_rows(
    connection: Connection, rows: Iterator[pa.RecordBatch], columns: WriteColumns, options: WriteOptions
) -> tuple[PublishReport, int]:
    """Publish rows by the options. Only rows with ids are sent again after a lost connection.

    Returns
    -------
    tuple[PublishReport, int]
        The report, and the number of rows that were found stored and not sent again.
    """
    from jetspark.bulk import publish, publish_atomic
    from jetspark.spark.write.unstored import ResentRows

    retry_timeout = options.retry_timeout if options.dedup or "msg_id" in columns else 0.0
    resent = ResentRows(options)
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
    return report, resent.skipped
