"""Publish record batches: pipelined, with a bounded window, and with a check of every acknowledgement.

A record batch is checked as a whole before its first row is sent. Then it is encoded in C++ and written in blocks,
while the acknowledgements of earlier blocks come back. If the server refuses a message, publishing ends after all
messages in flight are answered, so the report says exactly what was stored.
"""

from __future__ import annotations

from typing import Final

from jetspark.bulk.ack_window import MAX_PENDING
from jetspark.bulk.connection import Connection
from jetspark.bulk.publish_report import (
    BulkPublishOptions,
    ControlHeaderFilter,
    ControlHeaders,
    PublishReport,
    RecordBatchInput,
    StoredRowsFinder,
    record_batches,
)
from jetspark.bulk.retrying_publisher import RetryingPublisher
from jetspark.jetstream.errors import BadHeadersError, BadSubjectError, ConfigError, MaxPayloadError
from jetspark.wire.argument_types import checks_arguments

__all__ = ["publish"]

_ROW_ERRORS: Final = (BadHeadersError, BadSubjectError, ConfigError, MaxPayloadError)


@checks_arguments()
def publish(
    connection: Connection,
    batches: RecordBatchInput,
    *,
    subject: str | None = None,
    max_pending: int | None = None,
    max_bytes_in_flight: int = 8 << 20,
    ack_timeout: float = 5.0,
    expected_stream: str | None = None,
    retry_timeout: float = 0.0,
    find_stored: StoredRowsFinder | None = None,
    control_headers: ControlHeaders = "drop",
) -> PublishReport:
    """Publish record batches and wait for every acknowledgement.

    Parameters
    ----------
    connection
        From `connect`; only this call may use it.
    batches
        A record batch, a table, a reader, or an iterable of record batches. Columns: `subject` (string), `data`
        (binary or string; null is an empty payload), and optionally `headers` (`map<string, list<string>>` or
        `map<string, string>`) and `msg_id` (string; the stream uses it to detect repeats). The other columns of a
        scan are left out; any other column is an error.
    subject
        Subject for all rows, in place of the column.
    max_pending
        Most rows that are not acknowledged, up to 10,000. None means 4,000 for a single server and 768 for a cluster.
    max_bytes_in_flight
        Most bytes that are encoded and written at once.
    ack_timeout
        Seconds without any acknowledgement before an error.
    expected_stream
        Name of the stream; rows whose subject belongs to another stream are refused. Only its answers count if more
        than one stream takes a subject. Without a name, the first answer counts, and a later refusal is an error.
    retry_timeout
        Seconds to keep trying if the connection is lost or acknowledgements stop. Rows that may or may not be stored
        are sent again: without a `msg_id`, or after the stream's duplicate window, they may be stored twice. 0 raises
        at once.
    find_stored
        Called before rows that may be stored are sent again, with their subjects, their message ids (null for none),
        and the seconds since the first of them was sent. The rows that it finds are not sent, and not counted.
    control_headers
        `drop`: headers by which a message commands the server (`Nats-Expected-*`, `Nats-Msg-Id`, `Nats-Rollup`,
        `Nats-TTL`, `Nats-Schedule*` and others) are left out, with one warning, because the rows of a scan may have
        them. `keep`: they are published and act on the server.

    Raises
    ------
    ConfigError
        A column is missing, unknown or there twice, or has another type.
    BadSubjectError, BadHeadersError, MaxPayloadError
        A row cannot be sent; no row of its record batch was sent, and those of earlier batches are stored.
    PublishRefusedError
        The server refused a row, or answered something else than an acknowledgement of the expected stream. A flooded
        server (TooManyRequestsError) is given time first.
    PublishTimeoutError, DisconnectedError
        Whether the rows in flight are stored is not known; publish them again with the same `msg_id`.
    """
    if max_pending is not None and not 1 <= max_pending <= MAX_PENDING:
        raise ConfigError(f"max_pending must be between 1 and {MAX_PENDING}, not {max_pending}")
    settings = BulkPublishOptions(
        subject, max_pending, max_bytes_in_flight, ack_timeout, expected_stream, retry_timeout, find_stored
    )
    control = ControlHeaderFilter(control_headers)
    publisher = RetryingPublisher(connection, settings)
    try:
        for batch in record_batches(batches):
            try:
                publisher.publish(control.apply(batch))
            except _ROW_ERRORS:
                publisher.finish()  # settle the earlier rows before the caller gets the error
                raise
        publisher.finish()
    finally:
        publisher.close()
        control.warn()
    return publisher.report()
