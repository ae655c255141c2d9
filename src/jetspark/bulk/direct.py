"""A range read by batched direct get (ADR-31), without a consumer.

A work-queue stream takes no second consumer for the same messages, and on an interest stream another consumer changes
what is kept. Direct get reads the store beside them. One request brings many messages and ends with `204 EOB`, or with
`404` where nothing follows; the next one goes on behind the last sequence.

Each message says in headers, which the server appends to its own, which one it is and which one came before it. They
stand in a fixed order at the block's end, so one regular expression reads them for all rows at once; whatever it does
not match is read one by one. A message that got lost breaks the chain of "the one before", a lost end shows as silence.

Any replica may answer, and one that lags behind ends early. So the end of a range is believed only when its last
sequence was seen, or when the stream's leader has nothing more in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.bulk.columns import COLUMNS
from jetspark.bulk.consumer import ENOUGH
from jetspark.bulk.source import Target
from jetspark.flow.ranges import InterruptedReadError, RangeProgress
from jetspark.jetstream import StreamConfig, Timestamp
from jetspark.jetstream import header_names as names
from jetspark.jetstream.api import MessageGetRequest
from jetspark.jetstream.direct import DirectBatchRequest, DirectEnd, DirectMessage, read_batch_reply
from jetspark.jetstream.errors import (
    ConfigError,
    Error,
    InvalidReplyError,
    MessageNotFoundError,
    NoDirectGetError,
    RequestTimeoutError,
    StatusError,
)
from jetspark.jetstream.names import subject_matches
from jetspark.wire.headers import encode, parse, parse_status
from jetspark.wire.vector import FrameTable
from jetspark.wire.vector.headers import decode_headers
from jetspark.wire.vector.words import gather_spans

__all__ = ["DirectSource", "check_direct", "first_at"]

_MAX_BATCH: Final = 1_000_000
_EMPTY_BLOCK: Final = b"NATS/1.0\r\n\r\n"
_TIME: Final = pa.timestamp("ns", tz="UTC")
_TAIL: Final = (
    r"Nats-Stream: [^\r]*\r\nNats-Subject: (?P<subject>[^\r]*)\r\n"
    r"Nats-Sequence: (?P<sequence>[0-9]+)\r\nNats-Time-Stamp: (?P<time>[^\r]*)\r\n"
    r"Nats-Num-Pending: (?P<pending>[0-9]+)\r\nNats-Last-Sequence: (?P<before>[0-9]+)\r\n\r\n$"
)
_BARE: Final = r"^(?P<own>NATS/1\.0\r\n)" + _TAIL
# The first part is greedy: a message may carry such headers of its own, and the last ones are the server's. It costs
# several times as much as the form for messages without headers, which never has to look back.
_WITH_HEADERS: Final = r"(?s)^(?P<own>.*\r\n)" + _TAIL
_ADDED: Final = (
    names.STREAM,
    names.SUBJECT,
    names.SEQUENCE,
    names.TIME_STAMP,
    names.NUM_PENDING,
    names.LAST_SEQUENCE,
)


def check_direct(config: StreamConfig, subjects: Sequence[str]) -> None:
    """See that a stream can be read by direct get.

    Raises
    ------
    ConfigError
        It does not set `allow_direct`, or filters overlap.
    """
    if not config.allow_direct:
        retention = "" if config.retention is None else f" (retention {config.retention.value})"
        raise ConfigError(
            f"stream {config.name!r}{retention} is to be read by direct get, which it does not allow: set allow_direct "
            f"(nats stream edit {config.name} --allow-direct), or read it by a consumer (read_by='consumer') where one "
            "more does no harm"
        )
    for at, one in enumerate(subjects):
        for other in subjects[at + 1 :]:
            if _overlap(one, other):
                raise ConfigError(f"subjects {one!r} and {other!r} overlap; leave out the narrower one")


def _overlap(one: str, other: str) -> bool:
    """Whether a subject can fall under both filters."""
    left, right = one.split("."), other.split(".")
    for have, want in zip(left, right, strict=False):
        if ">" in {have, want}:
            return True
        if have != want and "*" not in {have, want}:
            return False
    return len(left) == len(right)


def first_at(target: Target, ns: int) -> int | None:
    """Sequence of the first message stored at or after a time, as the leader knows it; None when there is none."""
    request = MessageGetRequest(target.stream, start_time=Timestamp.from_ns(ns), no_headers=True)
    try:
        return target.connection.request(request, timeout=target.limits.timeout, prefix=target.prefix).seq
    except MessageNotFoundError:
        return None


@dataclass(eq=False)
class DirectRun:
    """Replies to a direct get that are messages; see `jetspark.bulk.source.Run`."""

    table: FrameTable
    stream: str
    own: pa.BinaryArray
    """Header blocks as they were published."""
    subject: pa.BinaryArray
    sequence: NDArray[np.int64]
    timestamp_ns: NDArray[np.int64]
    before: NDArray[np.int64]
    """Sequence of the message before each, 0 for the first of a batch."""
    pending: int
    """Messages that match and follow the last one."""

    def __len__(self) -> int:
        return len(self.sequence)

    def select(self, rows: NDArray[np.bool_]) -> DirectRun:
        """The messages where `rows` is true."""
        mask = pa.array(rows)
        return DirectRun(
            self.table.select(rows),
            self.stream,
            self.own.filter(mask),
            self.subject.filter(mask),
            self.sequence[rows],
            self.timestamp_ns[rows],
            self.before[rows],
            self.pending,
        )

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The columns of the schema."""
        return pa.record_batch([self._column(name) for name in schema.names], schema=schema)

    def _column(self, name: str) -> pa.Array:
        if name == "subject":
            return _text(self.subject)
        if name == "data":
            return self.table.payloads()
        if name == "headers":
            return decode_headers(self.own, np.asarray(pc.greater(pc.binary_length(self.own), len(_EMPTY_BLOCK))))
        if name == "stream":
            return pa.repeat(pa.scalar(self.stream), len(self))
        if name == "sequence":
            return pa.array(self.sequence)
        if name == "timestamp":
            return pa.array(self.timestamp_ns // 1000).view(COLUMNS["timestamp"])
        return pa.array(self.timestamp_ns)


def _text(column: pa.BinaryArray) -> pa.StringArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: a subject may be any bytes
        return pa.array([value.decode("utf-8", "replace") for value in column.to_pylist()], pa.string())


class DirectSource:
    """Reads what is in the range by one request after the other; see `jetspark.bulk.source.RangeSource`."""

    name: Final = ""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection = target.connection
        # A request takes one filter; several are applied here, which costs the messages between them.
        self._filter = target.subjects[0] if len(target.subjects) == 1 else None
        self._inbox = target.connection.new_inbox()
        self._sid: int | None = None
        self._start = 1
        self._where = f"direct get from stream {target.stream!r}"

    def open(self, progress: RangeProgress) -> None:
        """Listen for replies."""
        self._start = progress.next_sequence
        self._sid = self._connection.subscribe(self._inbox)

    def close(self) -> None:
        """Stop listening."""
        if self._sid is not None:
            self._connection.unsubscribe(self._sid)

    def count(self, end: int) -> int:
        """Messages before `end` that the server has now, filters applied: what is pending, less what is behind `end`.

        It is too low by what others publish between the two questions.
        """
        filters: Sequence[str | None] = self._target.subjects or (None,)
        return sum(max(self._pending(self._start, each) - self._pending(end, each), 0) for each in filters)

    def _pending(self, sequence: int, subject: str | None) -> int:
        """Messages from a sequence on."""
        found = 0
        for reply in self._ask(DirectBatchRequest(self._target.stream, 1, seq=sequence, next_by_subj=subject)):
            if isinstance(reply, DirectRun):
                found = reply.pending + len(reply)
        return found

    def deliveries(self, progress: RangeProgress) -> Iterator[DirectRun]:
        """Messages until the range is read.

        Raises
        ------
        InterruptedReadError
            A message is missing, or the answer ended before the range did.
        RequestTimeoutError
            The answer stopped.
        """
        while not progress.done:
            batch = min(progress.end - progress.next_sequence, _MAX_BATCH)
            request = DirectBatchRequest(
                self._target.stream,
                batch,
                seq=progress.next_sequence,
                next_by_subj=self._filter,
                max_bytes=self._target.limits.in_flight,
            )
            last = 0
            for reply in self._ask(request):
                if isinstance(reply, DirectRun):
                    whole = _chained(reply, last)
                    last = self._note(reply, whole, progress, last)
                    chosen = self._matching(reply, whole)
                    if len(chosen):
                        yield chosen
                    if progress.next_sequence >= progress.end:
                        break
                    if whole < len(reply):
                        raise InterruptedReadError(f"{self._where}: a message behind sequence {last} is missing")
                else:
                    self._end(reply, last, progress)

    def _note(self, run: DirectRun, whole: int, progress: RangeProgress, last: int) -> int:
        if not whole:
            return last
        last = int(run.sequence[whole - 1])
        progress.read(last)
        return last

    def _matching(self, run: DirectRun, whole: int) -> DirectRun:
        subjects = self._target.subjects
        if whole == len(run) and len(subjects) < 2:
            return run
        chosen = np.arange(len(run)) < whole
        if len(subjects) > 1:
            each = run.subject.dictionary_encode()
            wanted = [
                any(subject_matches(pattern, subject.decode("utf-8", "replace")) for pattern in subjects)
                for subject in each.dictionary.to_pylist()
            ]
            chosen &= np.array(wanted, np.bool_)[np.asarray(each.indices)]
        return run.select(chosen)

    def _end(self, end: DirectEnd, last: int, progress: RangeProgress) -> None:
        """A batch ended: see that it is whole, and whether anything follows."""
        if end.found and end.last_sequence != last:
            raise InterruptedReadError(
                f"{self._where}: it ends behind sequence {end.last_sequence}, and what came ends behind {last}"
            )
        if not end.found and last:
            raise InterruptedReadError(f"{self._where}: cut off behind sequence {last}")
        if end.num_pending:
            return
        following = self._ask_leader(progress.next_sequence)
        if following is not None and following < progress.end:
            raise InterruptedReadError(f"{self._where}: the server that answered does not know of sequence {following}")
        progress.finish()

    def _ask_leader(self, sequence: int) -> int | None:
        """First sequence from one on that the stream's leader would have given."""
        target = self._target
        request = MessageGetRequest(target.stream, seq=sequence, next_by_subj=self._filter or ">", no_headers=True)
        try:
            return self._connection.request(request, timeout=target.limits.timeout, prefix=target.prefix).seq
        except MessageNotFoundError:
            return None

    def _ask(self, request: DirectBatchRequest) -> Iterator[DirectRun | DirectEnd]:
        """Send a request; its replies to the end, which comes last."""
        self._connection.publish(request.subject(self._target.prefix), request.payload(), reply=self._inbox)
        while True:
            table = self._connection.read(time.monotonic() + self._target.limits.timeout, enough=ENOUGH)
            if table is None:
                raise RequestTimeoutError(f"{self._where}: the answer stopped")
            ours = table.lines.sid == self._sid
            if not ours.all():
                table = table.select(ours)
            if not len(table):
                continue
            run, end = self._read(table)
            if len(run):
                yield run
            if end is not None:
                yield end
                return

    def _read(self, table: FrameTable) -> tuple[DirectRun, DirectEnd | None]:
        blocks = gather_spans(table.buffer, table.body, table.payload)
        fields = pc.extract_regex(blocks, _BARE)
        others = np.flatnonzero(np.asarray(pc.is_null(fields)))
        if len(others) and blocks[int(others[0])].as_py().startswith(b"NATS/1.0\r\n"):  # not a status
            fields = pc.extract_regex(blocks, _WITH_HEADERS)
            others = np.flatnonzero(np.asarray(pc.is_null(fields)))
        if not len(others):
            return self._run(table, fields), None
        row = int(others[0])
        reply = self._read_one(table, row)
        if isinstance(reply, DirectMessage):
            return self._read_slowly(table)
        return self._run(table.head(row), fields.slice(0, row)), reply

    def _run(self, table: FrameTable, fields: pa.StructArray) -> DirectRun:
        own, subject, sequence, stamp, pending, before = fields.flatten()
        own = pc.binary_join_element_wise(own, pa.scalar(b"\r\n", pa.binary()), pa.scalar(b"", pa.binary()))
        try:
            times = stamp.cast(pa.string()).cast(_TIME).view(pa.int64())
            numbers = [column.cast(pa.string()).cast(pa.int64()) for column in (sequence, before)]
            left = int(pending[len(pending) - 1].as_py()) if len(pending) else 0
        except pa.ArrowInvalid as problem:
            raise InvalidReplyError(f"{self._where}: {problem}") from problem
        return DirectRun(
            table,
            self._target.stream,
            own,
            subject,
            np.asarray(numbers[0]),
            np.asarray(times),
            np.asarray(numbers[1]),
            left,
        )

    def _read_one(self, table: FrameTable, row: int) -> DirectMessage | DirectEnd:
        message = table.message(row)
        status = parse_status(message.header) if message.header and not message.payload else None
        try:
            return read_batch_reply(status, parse(message.header), message.payload, self._where)
        except NoDirectGetError as error:
            raise InterruptedReadError(f"{error}: the stream has no leader at the moment, or is gone") from error
        except StatusError as error:
            if error.code == 429:
                raise InterruptedReadError(str(error)) from error
            raise

    def _read_slowly(self, table: FrameTable) -> tuple[DirectRun, DirectEnd | None]:
        """The same for replies whose headers stand in another order."""
        found: list[tuple[DirectMessage, int, int, bytes]] = []
        end: DirectEnd | None = None
        for row in range(len(table)):
            reply = self._read_one(table, row)
            if isinstance(reply, DirectEnd):
                end = reply
                break
            if reply.num_pending is None or reply.last_sequence is None:
                raise ConfigError(
                    f"{self._where}: the server does not answer in batches, which takes 2.11 or newer; read by a "
                    "consumer (read_by='consumer') where one more does no harm"
                )
            found.append((reply, reply.num_pending, reply.last_sequence, _own_block(reply)))
        run = DirectRun(
            table.head(len(found)),
            self._target.stream,
            pa.array([own for *_, own in found], pa.binary()),
            pa.array([message.subject.encode("utf-8", "surrogateescape") for message, *_ in found], pa.binary()),
            np.array([message.sequence for message, *_ in found], np.int64),
            np.array([message.timestamp_ns for message, *_ in found], np.int64),
            np.array([before for _, _, before, _ in found], np.int64),
            found[-1][1] if found else 0,
        )
        return run, end


def _own_block(message: DirectMessage) -> bytes:
    """The headers without the server's, which are the last ones of their names."""
    headers = message.headers.copy()
    for name in _ADDED:
        values = headers.values(name)[:-1]
        if name in headers:
            del headers[name]
        for value in values:
            headers.add(name, value)
    try:
        return encode(headers)
    except Error:  # what a server sent need not be what we would send
        return _EMPTY_BLOCK


def _chained(run: DirectRun, last: int) -> int:
    """How many messages follow on each other without a gap."""
    expected = np.empty(len(run), np.int64)
    expected[0] = last
    expected[1:] = run.sequence[:-1]
    follows = run.before == expected
    return len(run) if follows.all() else int(np.argmin(follows))
