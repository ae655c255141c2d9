"""The last message of every subject of a stream, at one moment, while others go on writing.

It is read from an ephemeral consumer that begins with the last message of each subject and goes on with what is new.
Batched direct get with `multi_last` (ADR-31) would do the same at one sequence, but takes 1,024 subjects a request and
needs their names: measured at 100,000 subjects it took five times as long, at 500,000 fifteen times. It is used where a
second consumer is refused or changes what the stream keeps.

*At which moment.* In a stream that keeps all messages, everything up to its end just after the consumer was made is
there: the table is the stream as it was at that sequence. Where new messages push out old ones (key-value buckets keep
one of each key), what was the last message may be gone before it is read; its successor comes later. So reading goes on
until nothing is pending: then every message that the stream holds was seen, and the table is the stream as it was at
the sequence that was seen last.
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
"""Subjects of a `multi_last`; the server refuses more (413)."""


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
        When the stream was made.
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

    A message that marks a deletion is a message: a key-value bucket's has the header `KV-Operation` (`DEL`, `PURGE`),
    one that the server left has `Nats-Marker-Reason`. Subjects without any message have no row.

    Parameters
    ----------
    connection
        From `connect`; the call has it for itself.
    stream
        Name of the stream; a key-value bucket's is `KV_<bucket>`.
    subjects
        Filters, with wildcards; they must not overlap. None takes all subjects.
    columns
        As in `scan`; None gives all.
    max_bytes_in_flight
        About what the server may have sent without our having read it.
    timeout
        Seconds for a request to the server. Making the consumer takes a second or so for a million subjects.
    retry_timeout
        Seconds to go on trying when the server goes away, or while others write faster than we can read.
    prefix
        Prefix of the API's subjects.
    read_by
        `consumer`, `direct` (`multi_last`; the stream must set `allow_direct`), or `auto`: direct on streams with
        retention `workqueue` or `interest`.

    Raises
    ------
    StreamNotFoundError, JetStreamNotEnabledError, APIError
        The server refuses.
    ConfigError
        The stream does not allow direct get, and a consumer would change what it keeps.
    RequestTimeoutError
        There was no moment at which all was read.
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
    """Rows in the order of their sequences, in which a subject may come again, and the stream's last sequence."""
    kept = info.config.retention in {None, RetentionPolicy.LIMITS}
    if way is ReadBy.DIRECT or (way is ReadBy.AUTO and not kept):
        check_direct(info.config, target.subjects)
        table, head = _DirectSnapshot(target, schema).read(info.state.last_seq), info.state.last_seq
        last = table.column("sequence")[-1].as_py() if len(table) else 0
        _check_end(target, info, last + 1, head)
        return table, head
    return _read_by_consumer(target, info, schema)


def _keeps_all(info: StreamInfo) -> bool:
    """Whether new messages leave the old ones of their subject where they are."""
    return (info.config.max_msgs_per_subject or 0) <= 0 and not info.config.allow_rollup_hdrs


def _last_of_each(table: pa.Table) -> pa.Table:
    """Of several rows of a subject, the last one."""
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
    """See that the server that gave what is before a sequence had everything up to the head. Raises if not."""
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
        """The last messages as of a sequence (DIR-09).

        Raises
        ------
        InterruptedReadError
            A reply is missing, or what was the last message of a subject was pushed out by a new one.
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
        """The subjects that the stream has; there may be new ones among them."""
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
        """All pages of a request."""
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
        """Subjects without a message up to the sequence are new or gone, unless a new message pushed out the last."""
        if not missing:
            return
        if _keeps_all(_stream_info(self._target)):
            return
        for batch in self._last(DirectMultiLastRequest(self._target.stream, tuple(missing))):
            raise InterruptedReadError(
                f"{self._where}: {batch.column('subject')[0].as_py()} was written to after sequence {up_to}, and its "
                "message before that is gone"
            )
