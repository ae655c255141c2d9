"""The last message of every subject of a stream at one moment, while others continue to write.

It reads from an ephemeral consumer that starts with the last message of each subject and continues with new messages.
Batched direct get with `multi_last` (ADR-31) returns the same at one sequence, but takes 1,024 subjects in a request
and needs their names: for 100,000 subjects it was measured to take five times as long, for 500,000 fifteen times. It is
used if a second consumer is refused or changes which messages the stream keeps.

*The moment.* In a stream that keeps all messages, all messages up to its end just after the creation of the consumer
are there: the table is the stream at that sequence. In other streams new messages remove old ones (key-value buckets
keep one for each key), so a last message may be gone before it is read; its successor comes later. So reading continues
until nothing is pending: then every message in the stream was seen, and the table is the stream at the last sequence
that was seen.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from jetspark.bulk.columns import scan_schema
from jetspark.bulk.connection import Connection
from jetspark.bulk.consumer_source import ConsumerSource, consumer_config
from jetspark.bulk.decoding import decode_table, message_schema
from jetspark.bulk.direct_get_source import check_direct
from jetspark.bulk.leader_queries import has_replicas, next_matching_sequence
from jetspark.bulk.multi_last import MultiLast
from jetspark.bulk.range_source import DecodedMessages, ReadLimits, ReadMethod, ReadTarget
from jetspark.bulk.retry import RetryTimer, request_with_retry
from jetspark.engine.ranges import InterruptedReadError, RangeProgress
from jetspark.engine.retry import can_resume
from jetspark.jetstream import ConsumerConfig, DeliverPolicy, RetentionPolicy, StreamInfo
from jetspark.jetstream.api import StreamInfoRequest, StreamSubjectsRequest, all_subjects
from jetspark.jetstream.errors import Error, RequestTimeoutError
from jetspark.jetstream.names import (
    API_PREFIX,
    CONSUMER_PREFIX,
    check_consumer_prefix,
    check_filter_subject,
    check_stream_name,
)
from jetspark.payload import DecodeOptions, PayloadFormat, RowDecoder
from jetspark.wire.argument_types import checks_arguments

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["ArrowTable", "Snapshot", "last_per_subject"]

_EVERYTHING: Final = ">"
_NO_END: Final = 1 << 62


class ArrowTable:
    """A table that pandas, polars and DuckDB accept."""

    __slots__ = ()

    table: pa.Table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a DataFrame of pandas, which must be installed.

        Raises
        ------
        ModuleNotFoundError
            pandas is not installed.
        """
        _check_installed("pandas", f"{type(self).__name__}.to_pandas")
        return self.table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the table as a DataFrame of polars, which must be installed.

        Raises
        ------
        ModuleNotFoundError
            polars is not installed.
        """
        _check_installed("polars", f"{type(self).__name__}.to_polars")
        import polars as pl

        return pl.DataFrame(self.table)


@dataclass(frozen=True, slots=True)
class Snapshot(ArrowTable):
    """A stream at one moment. It is an Arrow stream, which pandas, polars and DuckDB accept.

    Attributes
    ----------
    table
        One row for each subject, in the order of the sequences.
    sequence
        The stream's last sequence at that moment.
    created
        When the stream was created.
    bad_records
        Messages whose payload could not be decoded, with the parameter `decode`.
    """

    table: pa.Table
    sequence: int
    created: datetime
    bad_records: int = 0


def _check_installed(package: str, method: str) -> None:
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        problem = f"{method} needs {package}: pip install {package}"
        raise ModuleNotFoundError(problem, name=package) from None


@checks_arguments()
def last_per_subject(
    connection: Connection,
    stream: str,
    *,
    subjects: str | Sequence[str] = (),
    columns: Sequence[str] | None = None,
    max_bytes_in_flight: int = 16 << 20,
    timeout: float = 5.0,
    retry_timeout: float = 30.0,
    prefix: str = API_PREFIX,
    read_method: ReadMethod | str = ReadMethod.AUTO,
    decode: PayloadFormat | DecodeOptions | None = None,
    consumer_prefix: str = CONSUMER_PREFIX,
) -> Snapshot:
    """Read the last message of every subject (DIR-08, DIR-09).

    A message that marks a deletion counts as a message. In a key-value bucket it has the header `KV-Operation` (`DEL`,
    `PURGE`); a marker from the server has `Nats-Marker-Reason`. Subjects without any message have no row.

    Parameters
    ----------
    connection
        From `connect`; only this call may use it.
    stream
        Name of the stream; a key-value bucket's is `KV_<bucket>`.
    subjects
        A subject filter or several, with wildcards; they must not overlap. Empty means all subjects.
    columns, decode
        As for `scan`. A message that marks a deletion has an empty payload.
    max_bytes_in_flight
        Approximate bytes that the server may have sent and we have not read.
    timeout
        Seconds for a request to the server. Creating the consumer takes about a second for a million subjects.
    retry_timeout
        Seconds to keep trying if the server goes away, or if others write faster than we can read.
    prefix
        Prefix of the API's subjects.
    read_method
        `consumer`, `direct` (`multi_last`; the stream must set `allow_direct`), or `auto`: direct get on streams with
        retention `workqueue` or `interest`, a consumer on others.
    consumer_prefix
        Beginning of the names of the consumers that are created.

    Raises
    ------
    StreamNotFoundError, JetStreamNotEnabledError, APIError
        The server refuses the request.
    ConfigError
        The stream does not allow direct get, and a consumer would change which messages it keeps.
    RequestTimeoutError
        There was no moment at which all messages were read.
    PayloadError
        A payload cannot be decoded, and the mode is FAILFAST.
    """
    check_stream_name(stream)
    subjects = (subjects,) if isinstance(subjects, str) else tuple(subjects)
    for subject in subjects:
        check_filter_subject(subject)
    limits = ReadLimits(0, 0, max_bytes_in_flight, timeout, retry_timeout)
    target = ReadTarget(connection, stream, subjects, prefix, limits, check_consumer_prefix(consumer_prefix))
    schema = scan_schema(columns)
    rows = None if decode is None else RowDecoder.for_columns(decode, schema, where=f"stream {stream!r}")
    schema = schema if rows is None else message_schema(rows)
    whole = scan_schema([*schema.names, *({"subject", "sequence"} - set(schema.names))])
    method = ReadMethod(read_method)
    retry = RetryTimer(retry_timeout)
    info = request_with_retry(connection, lambda: _stream_info(target), retry_timeout)
    while True:
        try:
            if retry.retries:
                if connection.closed:
                    connection.reconnect()
                info = _stream_info(target)
            table, sequence = _read(target, info, method, whole)
        except Error as error:
            if connection.interrupted or not (can_resume(error) and retry.wait(connection.note_error(error))):
                raise
        else:
            table = _last_of_each(table).select(schema.names)
            bad_records = 0
            if rows is not None:
                table, bad_records = decode_table(rows, table)
            return Snapshot(table, sequence, info.created, bad_records)


def _stream_info(target: ReadTarget) -> StreamInfo:
    request = StreamInfoRequest(target.stream)
    return target.connection.request(request, timeout=target.limits.timeout, prefix=target.prefix)


def _read(target: ReadTarget, info: StreamInfo, method: ReadMethod, schema: pa.Schema) -> tuple[pa.Table, int]:
    """Return rows in sequence order, with possible repeats of a subject, and the stream's last sequence."""
    kept = info.config.retention in {None, RetentionPolicy.LIMITS}
    if method is ReadMethod.DIRECT or (method is ReadMethod.AUTO and not kept):
        check_direct(info.config, target.subjects)
        table, head = _DirectSnapshot(target, schema).read(info.state.last_sequence), info.state.last_sequence
        last = table.column("sequence")[-1].as_py() if len(table) else 0
        _check_end(target, info, last + 1, head)
        return table, head
    return _read_by_consumer(target, info, schema)


def _keeps_all(info: StreamInfo) -> bool:
    """Whether new messages never remove older messages of their subject."""
    return (info.config.max_msgs_per_subject or 0) <= 0 and not info.config.allow_rollup_hdrs


def _last_of_each(table: pa.Table) -> pa.Table:
    """Return the last row of each subject."""
    subjects = table.column("subject").combine_chunks().dictionary_encode()
    if len(subjects.dictionary) == len(table):
        return table
    codes = np.asarray(subjects.indices)[::-1]
    first = np.unique(codes, return_index=True)[1]
    return table.take(pa.array(np.sort(len(table) - 1 - first), pa.int64()))


# -- by a consumer ---------------------------------------------------------------------------------------------------


class _LastPerSubjectSource(ConsumerSource):
    def _config(self, progress: RangeProgress) -> ConsumerConfig:  # noqa: ARG002 - it has no start
        config = consumer_config(self.name, self._target.subjects or (_EVERYTHING,))
        config.description = "reads the last message of every subject once"
        config.deliver_policy = DeliverPolicy.LAST_PER_SUBJECT
        return config


def _read_by_consumer(target: ReadTarget, info: StreamInfo, schema: pa.Schema) -> tuple[pa.Table, int]:
    message_bytes = info.state.bytes // max(info.state.messages, 1)
    source = _LastPerSubjectSource(target, message_bytes=message_bytes, server_counts_bytes=False)
    progress = RangeProgress(1, _NO_END)
    batches: list[pa.RecordBatch] = []
    try:
        source.open(progress)
        head = _stream_info(target).state.last_sequence
        keeps_all = _keeps_all(info)
        if keeps_all:
            progress.end = head + 1
        deadline: float | None = None
        for run in source.read_messages(progress):
            batches.append(_batch_until(run, progress.end, schema))
            if progress.next_sequence > head and not progress.done:
                deadline = deadline or time.monotonic() + max(target.limits.retry_timeout, target.limits.timeout)
                if time.monotonic() > deadline:
                    raise RequestTimeoutError(
                        f"stream {target.stream!r} grows faster than it can be read, so no snapshot of one moment was "
                        "possible; read fewer subjects, or raise retry_timeout"
                    )
    finally:
        if not target.connection.closed:
            source.close()
    _check_end(target, info, progress.next_sequence, head)
    return pa.Table.from_batches(batches, schema), head if keeps_all else max(head, progress.next_sequence - 1)


def _check_end(target: ReadTarget, info: StreamInfo, sequence: int, head: int) -> None:
    """Check that the server that answered had all messages up to `head`; raise if not."""
    if has_replicas(info) and sequence <= head:
        following = next_matching_sequence(target, sequence)
        if following is not None and following <= head:
            raise InterruptedReadError(
                f"stream {target.stream!r}: the server that answered does not have sequence {following} yet"
            )


def _batch_until(run: DecodedMessages, end: int, schema: pa.Schema) -> pa.RecordBatch:
    return run.to_record_batch(schema).slice(0, int(np.searchsorted(run.sequence, end)))


# -- by direct get ---------------------------------------------------------------------------------------------------


class _DirectSnapshot:
    def __init__(self, target: ReadTarget, schema: pa.Schema) -> None:
        self._target = target
        self._schema = schema

    def read(self, up_to: int) -> pa.Table:
        """Return the last messages as of a sequence (DIR-09).

        Raises
        ------
        InterruptedReadError
            A reply is missing, or a new message has removed the last message of a subject.
        """
        batches: list[pa.RecordBatch] = []
        subjects = self._subjects() if up_to else []
        with MultiLast(self._target, self._schema) as reader:
            for some, found in reader.read(subjects, up_to):
                batches += found
                missing = set(some).difference(*(batch.column("subject").to_pylist() for batch in found))
                self._check_missing(reader, missing, up_to)
        return pa.Table.from_batches(batches, self._schema).sort_by("sequence")

    def _subjects(self) -> list[str]:
        """Return the subjects of the stream; some may be newer than the moment."""
        found: dict[str, int] = {}
        for subject in self._target.subjects or (_EVERYTHING,):
            pages = all_subjects(StreamSubjectsRequest(self._target.stream, subject))
            request = next(pages)
            try:
                while True:
                    limits = self._target.limits
                    page = self._target.connection.request(request, timeout=limits.timeout, prefix=self._target.prefix)
                    request = pages.send(page)
            except StopIteration as done:
                found.update(done.value.state.subjects or {})
        return list(found)

    def _check_missing(self, reader: MultiLast, missing: set[str], up_to: int) -> None:
        """Check subjects without a message up to the sequence: a new message may have removed their last one."""
        if not missing:
            return
        if _keeps_all(_stream_info(self._target)):
            return
        for _, found in reader.read(tuple(missing)):
            for batch in found:
                raise InterruptedReadError(
                    f"{reader.where}: a message after sequence {up_to} has replaced the last message of subject "
                    f"{batch.column('subject')[0].as_py()}"
                )
