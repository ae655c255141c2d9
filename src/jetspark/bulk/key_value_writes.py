"""Writes columns of any library into a key-value bucket."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from jetspark.bulk.connection import Connection
from jetspark.bulk.key_value_bucket import find_bucket
from jetspark.bulk.key_value_publish import publish_messages
from jetspark.bulk.key_value_rows import check_row_types, messages_of_rows
from jetspark.bulk.publish_report import BulkPublishOptions, PublishReport
from jetspark.jetstream.message_columns import ArrowStream

__all__ = ["put_rows"]

_log: Final = logging.getLogger(__name__)
_BATCH_ROWS: Final = 65_536
"""Rows of a table that are published before their last acknowledgement is awaited."""


def put_rows(connection: Connection, bucket: str, rows: ArrowStream, *, prefix: str, timeout: float) -> PublishReport:
    """Write rows, and wait for every acknowledgement; see `KeyValue.put_many`."""
    target = find_bucket(connection, bucket, timeout=timeout, prefix=prefix)
    reader = pa.RecordBatchReader.from_stream(rows)
    check_row_types(reader.schema)
    left_out: set[str] = set()
    batches: Iterable[pa.RecordBatch] = reader
    if not isinstance(rows, pa.RecordBatchReader):
        batches = reader.read_all().combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)
    messages: Iterable[pa.RecordBatch] = _messages(batches, target.write_prefix, left_out)
    if not isinstance(rows, pa.RecordBatchReader):
        messages = list(messages)  # all rows are checked before any is sent
    settings = BulkPublishOptions(ack_timeout=timeout, expected_stream=target.stream)
    report = publish_messages(connection, target, messages, settings, timeout=timeout).published
    if left_out:
        _log.warning("headers that command the server were left out: %s", ", ".join(sorted(left_out)))
    return report


def _messages(batches: Iterable[pa.RecordBatch], prefix: str, left_out: set[str]) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in batches:
        if len(batch):
            yield messages_of_rows(batch, prefix, first, left_out)
        first += len(batch)
