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

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa

from jetspark.bulk.columns import scan_schema
from jetspark.bulk.connection import Connection
from jetspark.bulk.consumer import RangeConsumer, consumer_config
from jetspark.bulk.direct import ask, chained, check_direct
from jetspark.bulk.direct_replies import DirectRun
from jetspark.bulk.leader import is_replicated, next_from
from jetspark.bulk.patience import Patience, patiently
from jetspark.bulk.source import ReadBy, Run, ScanLimits, Target
from jetspark.flow.ranges import InterruptedReadError, RangeProgress, is_passing
from jetspark.jetstream import ConsumerConfig, DeliverPolicy, RetentionPolicy, StreamInfo
from jetspark.jetstream.api import StreamInfoRequest, StreamSubjectsRequest, all_subjects
from jetspark.jetstream.direct import DirectEnd, DirectMultiLastRequest
from jetspark.jetstream.errors import Error, RequestTimeoutError
from jetspark.jetstream.names import API_PREFIX, check_filter_subject, check_stream_name

__all__ = ["Snapshot", "last_per_subject"]

_EVERYTHING: Final = ">"
_NO_END: Final = 1 << 62
_MOST_SUBJECTS: Final = 1024
"""Most subjects of a `multi_last`; the server refuses more (413)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stream at one moment.

    Attributes
    ----------
    table
        One row for each subject, in the order of the sequences.
    sequence
        The stream's last sequence at that moment.
    created
        When the stream was created.
    """

    table: pa.Table
    sequence: int
    created: datetime


def last_per_subject(
    connection: Connection,
    stream: str,
    *,
    subjects: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    max_bytes_in_flight: int = 16 << 20,
    timeout: float = 5.0,
    retry_timeout: float = 30.0,
    prefix: str = API_PREFIX,
    read_by: ReadBy | str = ReadBy.AUTO,
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
        Subject filters, with wildcards; they must not overlap. Empty means all subjects.
    columns
        As for `scan`; None means all.
    max_bytes_in_flight
        Approximate bytes that the server may have sent and we have not read.
    timeout
        Seconds for a request to the server. Creating the consumer takes about a second for a million subjects.
    retry_timeout
        Seconds to keep trying if the server goes away, or if others write faster than we can read.
    prefix
        Prefix of the API's subjects.
    read_by
        `consumer`, `direct` (`multi_last`; the stream must set `allow_direct`), or `auto`: direct get on streams with
        retention `workqueue` or `interest`, a consumer on others.

    Raises
    ------
    StreamNotFoundError, JetStreamNotEnabledError, APIError
        The server refuses the request.
    ConfigError
        The stream does not allow direct get, and a consumer would change which messages it keeps.
    RequestTimeoutError
        There was no moment at which all messages were read.
    """
    check_stream_name(stream)
    for subject in subjects:
        check_filter_subject(subject)
    limits = ScanLimits(0, 0, max_bytes_in_flight, timeout, retry_timeout)
    target = Target(connection, stream, tuple(subjects), prefix, limits)
    schema = scan_schema(columns)
    whole = scan_schema([*schema.names, *({"subject", "sequence"} - set(schema.names))])
    way = ReadBy(read_by)
    patience = Patience(retry_timeout)
    info = patiently(connection, lambda: _stream_info(target), retry_timeout)
    while True:
        try:
            if patience.tries:
                if connection.closed:
                    connection.reconnect()
                info = _stream_info(target)
            table, sequence = _read(target, info, way, whole)
        except Error as error:
            if not (is_passing(error) and patience.wait()):
                raise
        else:
            return Snapshot(_last_of_each(table).select(schema.names), sequence, info.created)


def _stream_info(target: Target) -> StreamInfo:
    request = StreamInfoRequest(target.stream)
    return target.connection.request(request, timeout=target.limits.timeout, prefix=target.prefix)


def _read(target: Target, info: StreamInfo, way: ReadBy, schema: pa.Schema) -> tuple[pa.Table, int]:
    """Return rows in sequence order, with possible repeats of a subject, and the stream's last sequence."""
    kept = info.config.retention in {None, RetentionPolicy.LIMITS}
    if way is ReadBy.DIRECT or (way is ReadBy.AUTO and not kept):
        check_direct(info.config, target.subjects)
        table, head = _DirectSnapshot(target, schema).read(info.state.last_seq), info.state.last_seq
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


class _LastPerSubjectConsumer(RangeConsumer):
    def _config(self, progress: RangeProgress) -> ConsumerConfig:  # noqa: ARG002 - it has no start
        config = consumer_config(self.name, self._target.subjects or (_EVERYTHING,))
        config.description = "reads the last message of every subject once"
        config.deliver_policy = DeliverPolicy.LAST_PER_SUBJECT
        return config


def _read_by_consumer(target: Target, info: StreamInfo, schema: pa.Schema) -> tuple[pa.Table, int]:
    message_bytes = info.state.bytes // max(info.state.messages, 1)
    source = _LastPerSubjectConsumer(target, message_bytes=message_bytes, careful=False)
    progress = RangeProgress(1, _NO_END)
    batches: list[pa.RecordBatch] = []
    try:
        source.open(progress)
        head = _stream_info(target).state.last_seq
        keeps_all = _keeps_all(info)
        if keeps_all:
            progress.end = head + 1
        deadline: float | None = None
        for run in source.deliveries(progress):
            batches.append(_until(run, progress.end, schema))
            if progress.next_sequence > head and not progress.done:
                deadline = deadline or time.monotonic() + max(target.limits.retry_timeout, target.limits.timeout)
                if time.monotonic() > deadline:
                    raise RequestTimeoutError(
                        f"stream {target.stream!r} is written to faster than it can be read, so there is no moment at "
                        "which all of it was read; read fewer subjects, or raise retry_timeout"
                    )
    finally:
        if not target.connection.closed:
            source.close()
    _check_end(target, info, progress.next_sequence, head)
    return pa.Table.from_batches(batches, schema), head if keeps_all else max(head, progress.next_sequence - 1)


def _check_end(target: Target, info: StreamInfo, sequence: int, head: int) -> None:
    """Check that the server that answered had all messages up to `head`; raise if not."""
    if is_replicated(info) and sequence <= head:
        following = next_from(target, sequence)
        if following is not None and following <= head:
            raise InterruptedReadError(
                f"stream {target.stream!r}: the server that answered does not know of sequence {following} yet"
            )


def _until(run: Run, end: int, schema: pa.Schema) -> pa.RecordBatch:
    return run.batch(schema).slice(0, int(np.searchsorted(run.sequence, end)))


# -- by direct get ---------------------------------------------------------------------------------------------------


class _DirectSnapshot:
    def __init__(self, target: Target, schema: pa.Schema) -> None:
        self._target = target
        self._schema = schema
        self._where = f"direct get from stream {target.stream!r}"
        self._inbox = target.connection.new_inbox()

    def read(self, up_to: int) -> pa.Table:
        """Return the last messages as of a sequence (DIR-09).

        Raises
        ------
        InterruptedReadError
            A reply is missing, or a new message has removed the last message of a subject.
        """
        subjects = self._subjects() if up_to else []
        connection = self._target.connection
        self._sid = connection.subscribe(self._inbox)
        batches: list[pa.RecordBatch] = []
        try:
            for at in range(0, len(subjects), _MOST_SUBJECTS):
                some = tuple(subjects[at : at + _MOST_SUBJECTS])
                found = list(self._last(DirectMultiLastRequest(self._target.stream, some, up_to_seq=up_to)))
                batches += found
                missing = set(some).difference(*(batch.column("subject").to_pylist() for batch in found))
                self._check_gone(missing, up_to)
        finally:
            if not connection.closed:
                connection.unsubscribe(self._sid)
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

    def _last(self, request: DirectMultiLastRequest | None) -> Iterator[pa.RecordBatch]:
        """Yield all pages of a request."""
        while request is not None:
            page, request = replace(request, max_bytes=self._target.limits.in_flight), None
            last = 0
            for reply in ask(self._target, page, self._inbox, self._sid, self._where):
                if isinstance(reply, DirectRun):
                    if chained(reply, last) < len(reply):
                        raise InterruptedReadError(f"{self._where}: a message behind sequence {last} is missing")
                    last = int(reply.sequence[-1])
                    yield reply.batch(self._schema)
                else:
                    self._check_end(reply, last)
                    request = page.following(reply)

    def _check_end(self, end: DirectEnd, last: int) -> None:
        if (end.found and end.last_sequence != last) or (not end.found and last):
            raise InterruptedReadError(f"{self._where}: cut off behind sequence {last}")

    def _check_gone(self, missing: set[str], up_to: int) -> None:
        """Check subjects without a message up to the sequence: a new message may have removed their last one."""
        if not missing:
            return
        if _keeps_all(_stream_info(self._target)):
            return
        for batch in self._last(DirectMultiLastRequest(self._target.stream, tuple(missing))):
            raise InterruptedReadError(
                f"{self._where}: {batch.column('subject')[0].as_py()} was written to after sequence {up_to}, and its "
                "message before that is gone"
            )
