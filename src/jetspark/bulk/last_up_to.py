"""The last message of every subject at or before an earlier sequence, as far as the stream still has it.

The newest message of each subject comes from `last_per_subject`. Where it is after the sequence, an earlier one is read
by direct get (`multi_last` with `up_to_seq`). If the stream does not have that one any more, the subject has no row. A
scan of all messages up to the sequence would be wrong: it could return a message whose successor, at or before the
sequence as well, was removed before the scan reached it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from jetspark.bulk.columns import scan_schema
from jetspark.bulk.connection import Connection
from jetspark.bulk.last_per_subject import Snapshot, last_per_subject
from jetspark.bulk.multi_last import MultiLast
from jetspark.bulk.range_source import ReadLimits, ReadTarget
from jetspark.bulk.retry import RetryTimer
from jetspark.engine.retry import can_resume
from jetspark.jetstream.errors import Error
from jetspark.jetstream.names import API_PREFIX, CONSUMER_PREFIX

__all__ = ["last_up_to"]


def last_up_to(
    connection: Connection,
    stream: str,
    sequence: int,
    *,
    subjects: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    max_bytes_in_flight: int = 16 << 20,
    timeout: float = 5.0,
    retry_timeout: float = 30.0,
    prefix: str = API_PREFIX,
    consumer_prefix: str = CONSUMER_PREFIX,
) -> Snapshot:
    """Read the last message of every subject at or before a sequence.

    Parameters
    ----------
    connection, stream, subjects, columns, max_bytes_in_flight, timeout, retry_timeout, prefix, consumer_prefix
        As for `last_per_subject`. The stream must set `allow_direct`.
    sequence
        The sequence.

    Returns
    -------
    Snapshot
        The messages, in no order; the sequence and the creation time are those of the stream at the end of the read.

    Raises
    ------
    StreamNotFoundError, NoDirectGetError, RequestTimeoutError, ...
        As `last_per_subject`.
    """
    names = scan_schema(columns).names
    schema = scan_schema([*names, *({"subject", "sequence"} - set(names))])
    newest = last_per_subject(
        connection,
        stream,
        subjects=subjects,
        columns=schema.names,
        max_bytes_in_flight=max_bytes_in_flight,
        timeout=timeout,
        retry_timeout=retry_timeout,
        prefix=prefix,
        consumer_prefix=consumer_prefix,
    )
    is_before = pc.less_equal(newest.table.column("sequence"), pa.scalar(sequence, pa.int64()))
    later = newest.table.filter(pc.invert(is_before)).column("subject").to_pylist()
    limits = ReadLimits(0, 0, max_bytes_in_flight, timeout, retry_timeout)
    target = ReadTarget(connection, stream, tuple(subjects), prefix, limits)
    found = [newest.table.filter(is_before)]
    if later and sequence:
        found.append(pa.Table.from_batches(_read_earlier(target, later, sequence, schema), schema))
    return replace(newest, table=pa.concat_tables(found).select(names))


def _read_earlier(target: ReadTarget, subjects: list[str], sequence: int, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the last messages of subjects up to a sequence; start over on a new connection after a fault."""
    retry = RetryTimer(target.limits.retry_timeout)
    connection = target.connection
    while True:
        try:
            if connection.closed:
                connection.reconnect()
            with MultiLast(target, schema) as reader:
                return [batch for _, batches in reader.read(subjects, sequence) for batch in batches]
        except Error as error:
            if connection.interrupted or not (can_resume(error) and retry.wait(connection.note_error(error))):
                raise
