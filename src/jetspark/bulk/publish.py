"""Publish record batches: pipelined, with a bounded window, every acknowledgement checked.

A record batch is checked as a whole before its first row is sent, then encoded in C++ and written in blocks, while the
acknowledgements of earlier blocks come back. A message that the server refuses ends it, after what is under way has
been answered, so that the report says exactly what was stored.
"""

from __future__ import annotations

from typing import Final

from jetspark.bulk.connection import Connection
from jetspark.bulk.publisher import Publisher
from jetspark.bulk.publishing import Batches, BulkSettings, PublishReport, record_batches
from jetspark.bulk.window import MOST_PENDING
from jetspark.jetstream.errors import BadHeadersError, BadSubjectError, ConfigError, MaxPayloadError

__all__ = ["publish"]

_OURS: Final = (BadHeadersError, BadSubjectError, ConfigError, MaxPayloadError)


def publish(
    connection: Connection,
    batches: Batches,
    *,
    subject: str | None = None,
    max_pending: int | None = None,
    max_bytes_in_flight: int = 8 << 20,
    ack_timeout: float = 5.0,
    expected_stream: str | None = None,
    retry_timeout: float = 0.0,
) -> PublishReport:
    """Publish record batches and wait for every acknowledgement.

    Parameters
    ----------
    connection
        From `connect`; the call has it for itself.
    batches
        A record batch, a table, a reader, or an iterable of record batches with the columns `subject` (string), `data`
        (binary or string; null is an empty payload) and, if wanted, `headers` (`map<string, list<string>>` or
        `map<string, string>`) and `msg_id` (string, by which the stream recognises a repeat).
    subject
        Subject for all rows, in place of the column.
    max_pending
        Most rows that are not acknowledged, up to 10,000. None takes 4,000 for a single server and 768 for a cluster.
    max_bytes_in_flight
        Most bytes that are encoded and written at a time.
    ack_timeout
        Seconds without any acknowledgement before giving up.
    expected_stream
        Name of the stream; a row whose subject is another stream's is refused.
    retry_timeout
        Seconds to go on trying when the connection is lost or nothing is acknowledged any more. The rows whose fate is
        not known are sent again: without a `msg_id` they may be stored twice. 0 raises at once.

    Raises
    ------
    ConfigError
        A column is missing or has another type.
    BadSubjectError, BadHeadersError, MaxPayloadError
        A row cannot be sent; no row of its record batch was, and those of the batches before are stored.
    PublishRefusedError
        The server refused a row. One that is flooded (TooManyRequestsError) is given time, if that is safe: the rows
        have ids, or a `retry_timeout` allows to store some twice.
    PublishTimeoutError, DisconnectedError
        What became of the rows under way is not known; publish them again with the same `msg_id`.
    """
    if max_pending is not None and not 1 <= max_pending <= MOST_PENDING:
        raise ConfigError(f"max_pending must be between 1 and {MOST_PENDING}, not {max_pending}")
    settings = BulkSettings(subject, max_pending, max_bytes_in_flight, ack_timeout, expected_stream, retry_timeout)
    publisher = Publisher(connection, settings)
    try:
        for batch in record_batches(batches):
            try:
                publisher.publish(batch)
            except _OURS:
                publisher.finish()  # the rows before are settled when the caller hears of it
                raise
        publisher.finish()
    finally:
        publisher.close()
    return publisher.report()
