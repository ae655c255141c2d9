"""Deliveries of a consumer as Arrow columns.

What a delivery says of itself stands in its reply, the ack subject: `$JS.ACK.<stream>.<consumer>.<delivered>.<stream
sequence>.<consumer sequence>.<timestamp>.<pending>`, with two tokens more behind `ACK` in the v2 form. The tokens are
counted by their dots, for all rows at once; a row that the fast way does not read is read, or refused, by the scalar
parser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.jetstream.ack import parse_ack_subject
from jetspark.jetstream.errors import ConfigError, InvalidAckError
from jetspark.wire.vector import FrameTable, LineTable
from jetspark.wire.vector.headers import HEADERS_TYPE, decode_headers
from jetspark.wire.vector.words import Index, find_byte, gather_spans, numbers, padded, sliding_words

__all__ = ["COLUMNS", "Acks", "build_batch", "read_acks", "scan_schema"]

COLUMNS: Final[dict[str, pa.DataType]] = {
    "subject": pa.string(),
    "data": pa.binary(),
    "headers": HEADERS_TYPE,
    "stream": pa.string(),
    "sequence": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ns": pa.int64(),
}
"""Columns of a scan, in their order, with their Arrow types."""

_DOT: Final = 46
_PREFIX: Final = np.uint64(int.from_bytes(b"$JS.ACK.", "little"))
_INT64_MAX: Final = (1 << 63) - 1


@dataclass(slots=True)
class Acks:
    """What the ack subjects say, int64 arrays of shape (n,)."""

    sequence: NDArray[np.int64]
    consumer_sequence: NDArray[np.int64]
    timestamp_ns: NDArray[np.int64]
    pending: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sequence)


def scan_schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """Schema of the chosen columns, in the order given; all of them when None.

    Raises
    ------
    ConfigError
        A column that a scan does not have.
    """
    chosen = list(COLUMNS) if columns is None else list(columns)
    unknown = [name for name in chosen if name not in COLUMNS]
    if unknown:
        raise ConfigError(f"a scan has no column {unknown[0]!r}; it has {', '.join(COLUMNS)}")
    return pa.schema([pa.field(name, COLUMNS[name]) for name in chosen])


def read_acks(lines: LineTable) -> Acks:
    """Read the ack subjects that are the replies of messages.

    Raises
    ------
    InvalidAckError
        A reply that is no ack subject (JSA-03, JSA-04), or a number above 2^63 - 1, which Arrow's int64 cannot hold.
    """
    offsets, data = padded(gather_spans(lines.buffer, lines.reply_start, lines.reply_end))
    words = sliding_words(data)
    starts, ends = offsets[:-1], offsets[1:]
    dots = find_byte(data, _DOT)
    first = np.searchsorted(dots, offsets)
    count = np.diff(first)
    first = first[:-1]
    good = (words[starts] == _PREFIX) & ((count == 8) | (count >= 10))
    # Token 5 and those behind it; in the v2 form two further on. What is read for rows that are not good is not used.
    at = np.minimum(np.where(count >= 10, first + 2, first) + 4, max(len(dots) - 4, 0))
    dots = np.append(dots, np.full(max(9 - len(dots), 1), len(data)))
    columns = []
    for token in range(4):
        end = dots[at + token + 1]
        if token == 3:  # the last token, unless there are more behind it
            end = np.minimum(end, ends)
        value, fine = numbers(words, dots[at + token] + 1, end)
        good &= fine & (value <= _INT64_MAX)
        columns.append(value.astype(np.int64))
    acks = Acks(*columns)
    for row in np.flatnonzero(~good):
        _read_scalar(acks, int(row), bytes(data[starts[row] : ends[row]]))
    return acks


def _read_scalar(acks: Acks, row: int, reply: bytes) -> None:
    found = parse_ack_subject(reply.decode("utf-8", "replace"))
    values = (found.stream_sequence, found.consumer_sequence, found.timestamp_ns, found.num_pending)
    if max(values) > _INT64_MAX:
        raise InvalidAckError(f"ack subject {reply.decode('utf-8', 'replace')!r}: a number is above 2^63 - 1")
    acks.sequence[row], acks.consumer_sequence[row], acks.timestamp_ns[row], acks.pending[row] = values


def build_batch(table: FrameTable, acks: Acks, schema: pa.Schema, stream: str) -> pa.RecordBatch:
    """The columns of the schema for messages and what their ack subjects say."""
    return pa.record_batch([_column(name, table, acks, stream) for name in schema.names], schema=schema)


def _column(name: str, table: FrameTable, acks: Acks, stream: str) -> pa.Array:
    if name == "subject":
        return _text(table.lines.subjects())
    if name == "data":
        return table.payloads()
    if name == "headers":
        blocks = gather_spans(table.buffer, table.body, table.payload)
        return decode_headers(blocks, table.header_size > 0)
    if name == "stream":
        return pa.repeat(pa.scalar(stream), len(table))
    if name == "sequence":
        return _from_numpy(acks.sequence)
    if name == "timestamp":
        return _from_numpy(acks.timestamp_ns // 1000).view(COLUMNS["timestamp"])
    return _from_numpy(acks.timestamp_ns)


def _from_numpy(values: Index) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values).data)])


def _text(column: pa.BinaryArray) -> pa.StringArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: a subject may be any bytes
        return pa.array([value.decode("utf-8", "replace") for value in column.to_pylist()], pa.string())
