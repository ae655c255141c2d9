"""Replies to a batched direct get as columns (ADR-31).

The server appends headers to each message: its sequence, and the sequence of the message before it. They are in a fixed
order at the end of the block, so one regular expression reads them for all rows at once. Rows that it does not match
are read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jetspark.bulk.columns import COLUMNS
from jetspark.engine.ranges import InterruptedReadError
from jetspark.jetstream import StoredMessage
from jetspark.jetstream.direct_get import DirectBatchEnd, read_batch_reply
from jetspark.jetstream.errors import ConfigError, Error, InvalidReplyError, NoDirectGetError, StatusError
from jetspark.wire.headers import encode_header_block, parse_header_block, parse_status
from jetspark.wire.vector import FrameTable
from jetspark.wire.vector.byte_spans import gather_spans
from jetspark.wire.vector.headers import decode_headers

__all__ = ["DirectMessages", "read_replies"]

_EMPTY_BLOCK: Final = b"NATS/1.0\r\n\r\n"
_TIME: Final = pa.timestamp("ns", tz="UTC")
_NUMBER: Final = r"[0-9]{1,18}"
_SERVER_HEADERS: Final = (
    r"Nats-Stream: [^\r]*\r\nNats-Subject: (?P<subject>[^\r\n\t ]+)\r\n"
    rf"Nats-Sequence: (?P<sequence>{_NUMBER})\r\n"
    r"Nats-Time-Stamp: (?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z)\r\n"
    rf"Nats-Num-Pending: (?P<pending>{_NUMBER})\r\nNats-Last-Sequence: (?P<before>{_NUMBER})\r\n\r\n$"
)
_WITHOUT_HEADERS: Final = r"^(?P<own>NATS/1\.0\r\n)" + _SERVER_HEADERS
# The first part is greedy: a message may have such headers of its own, and the last ones are the server's. This form is
# several times slower than the one for messages without headers, which needs no backtracking.
_WITH_HEADERS: Final = r"(?s)^(?P<own>NATS/1\.0\r\n(?:.*\r\n)?)" + _SERVER_HEADERS


@dataclass(eq=False)
class DirectMessages:
    """Replies to a direct get that are messages; see `jetspark.bulk.range_source.DecodedMessages`."""

    table: FrameTable
    stream: str
    header_blocks: pa.BinaryArray
    """Header blocks as they were published."""
    subject: pa.BinaryArray
    sequence: NDArray[np.int64]
    timestamp_ns: NDArray[np.int64]
    previous_sequence: NDArray[np.int64]
    """Sequence of the previous message for each message, 0 for the first of a batch."""
    pending: int
    """Number of matching messages after the last one."""

    def __len__(self) -> int:
        return len(self.sequence)

    def select(self, rows: NDArray[np.bool_]) -> DirectMessages:
        """Return the messages where `rows` is true."""
        mask = pa.array(rows)
        return DirectMessages(
            self.table.select(rows),
            self.stream,
            self.header_blocks.filter(mask),
            self.subject.filter(mask),
            self.sequence[rows],
            self.timestamp_ns[rows],
            self.previous_sequence[rows],
            self.pending,
        )

    def to_record_batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns of the schema."""
        return pa.record_batch([self._column(name) for name in schema.names], schema=schema)

    def _column(self, name: str) -> pa.Array:
        if name == "subject":
            return _text(self.subject)
        if name == "data":
            return self.table.payloads()
        if name == "headers":
            return decode_headers(
                self.header_blocks, np.asarray(pc.greater(pc.binary_length(self.header_blocks), len(_EMPTY_BLOCK)))
            )
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


def read_replies(table: FrameTable, stream: str, where: str) -> tuple[DirectMessages, DirectBatchEnd | None]:
    """Return the messages of a batch's replies, and the batch's end if it has come.

    Raises
    ------
    InterruptedReadError
        Nobody answers at the moment.
    ConfigError
        The server does not support batches.
    DirectGetRequestError, InvalidReplyError
        The server rejects the request as malformed, or its reply is not valid.
    """
    blocks = gather_spans(table.buffer, table.body, table.payload)
    fields = pc.extract_regex(blocks, _WITHOUT_HEADERS)
    others = np.flatnonzero(np.asarray(pc.is_null(fields)))
    if len(others) and blocks[int(others[0])].as_py().startswith(b"NATS/1.0\r\n"):  # not a status
        fields = pc.extract_regex(blocks, _WITH_HEADERS)
        others = np.flatnonzero(np.asarray(pc.is_null(fields)))
    if not len(others):
        return _from_fields(table, fields, stream, where), None
    row = int(others[0])
    reply = _read_one(table, row, where)
    if isinstance(reply, StoredMessage):
        return _read_one_by_one(table, stream, where)
    return _from_fields(table.head(row), fields.slice(0, row), stream, where), reply


def _from_fields(table: FrameTable, fields: pa.StructArray, stream: str, where: str) -> DirectMessages:
    own, subject, sequence, stamp, pending, before = fields.flatten()
    own = pc.binary_join_element_wise(own, pa.scalar(b"\r\n", pa.binary()), pa.scalar(b"", pa.binary()))
    try:
        times = stamp.cast(pa.string()).cast(_TIME).view(pa.int64())
        numbers = [column.cast(pa.string()).cast(pa.int64()) for column in (sequence, before)]
        left = int(pending[len(pending) - 1].as_py()) if len(pending) else 0  # the pattern allows 18 digits
    except pa.ArrowInvalid as problem:
        raise InvalidReplyError(f"{where}: {problem}") from problem
    return DirectMessages(
        table,
        stream,
        own,
        subject,
        np.asarray(numbers[0]),
        np.asarray(times),
        np.asarray(numbers[1]),
        left,
    )


def _read_one(table: FrameTable, row: int, where: str) -> StoredMessage | DirectBatchEnd:
    message = table.message(row)
    status = parse_status(message.header) if message.header and not message.payload else None
    try:
        return read_batch_reply(status, parse_header_block(message.header), message.payload, where)
    except NoDirectGetError as error:
        text = f"{where}: nobody answers (503): the stream has no leader at the moment, or was deleted"
        raise InterruptedReadError(text) from error
    except StatusError as error:
        if error.code == 429:
            raise InterruptedReadError(str(error)) from error
        raise


def _read_one_by_one(table: FrameTable, stream: str, where: str) -> tuple[DirectMessages, DirectBatchEnd | None]:
    """As `read_replies`, for replies whose headers are in another order."""
    found: list[tuple[StoredMessage, int, int, bytes]] = []
    end: DirectBatchEnd | None = None
    for row in range(len(table)):
        reply = _read_one(table, row, where)
        if isinstance(reply, DirectBatchEnd):
            end = reply
            break
        if reply.num_pending is None or reply.last_sequence is None:
            raise ConfigError(
                f"{where}: the server does not support batched direct gets, which need 2.11 or newer; if the stream "
                "may have another consumer, set read_method='consumer'"
            )
        found.append((reply, reply.num_pending, reply.last_sequence, _header_block(reply)))
    run = DirectMessages(
        table.head(len(found)),
        stream,
        pa.array([own for *_, own in found], pa.binary()),
        pa.array([message.subject.encode("utf-8", "surrogateescape") for message, *_ in found], pa.binary()),
        np.array([message.sequence for message, *_ in found], np.int64),
        np.array([message.timestamp_ns for message, *_ in found], np.int64),
        np.array([before for _, _, before, _ in found], np.int64),
        found[-1][1] if found else 0,
    )
    return run, end


def _header_block(message: StoredMessage) -> bytes:
    try:
        return encode_header_block(message.headers)
    except Error:  # the server may send headers that `encode` refuses
        return _EMPTY_BLOCK
