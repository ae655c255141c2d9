"""Deliveries of a consumer as Arrow columns.

The metadata of a delivery is in its reply, the ack subject: `$JS.ACK.<stream>.<consumer>.<delivered>.<stream
sequence>.<consumer sequence>.<timestamp>.<pending>`. The v2 form has two more tokens after `ACK`. The tokens of all
rows are found at once by their dots. If a row cannot be read that way, the scalar parser reads it and raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.jetstream.ack import ACK_PREFIX, AckMetadata, parse_ack_subject
from jetspark.jetstream.errors import ConfigError, InvalidAckError
from jetspark.jetstream.message_columns import READABLE, find_column
from jetspark.wire.vector import ControlLineTable, FrameRun, FrameTable
from jetspark.wire.vector.byte_spans import (
    Bytes,
    Index,
    Words,
    copy_padded,
    find_byte,
    gather_spans,
    parse_numbers,
    parse_numbers_of_length,
    sliding_words,
)
from jetspark.wire.vector.headers import HEADERS_TYPE, decode_headers

__all__ = ["COLUMNS", "AckMetadataColumns", "build_batch", "has_ack_subject", "parse_ack_subjects", "scan_schema"]

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
_PREFIX: Final = np.uint64(int.from_bytes(ACK_PREFIX, "little"))
_INT64_MAX: Final = (1 << 63) - 1
_CACHED_ROWS: Final = 4096  # the usual read of half a megabyte has fewer messages
_FEW_ROWS: Final = 256  # short columns are fast to build, and a shared one would be pickled whole
_CACHED_LENGTH: Final = 256


def scan_schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of the chosen columns, in the order given; None means all.

    Raises
    ------
    ConfigError
        A column is unknown, or `columns` is empty.
    """
    chosen = list(COLUMNS) if columns is None else list(columns)
    if not chosen:
        raise ConfigError("columns is empty; name at least one column, or give None for all columns")
    for name in chosen:
        find_column(name, READABLE, "read", any_case=False)
    return pa.schema([pa.field(name, COLUMNS[name]) for name in chosen])


_DELIVERED: Final = 0
_SEQUENCE: Final = 1
_CONSUMER_SEQUENCE: Final = 2
_TIME: Final = 3
_PENDING: Final = 4


class _Tokens(Protocol):
    """The five numbers in ack subjects."""

    def numbers(self, token: int) -> tuple[Words, NDArray[np.bool_]]: ...

    def head(self, rows: int) -> _Tokens: ...


@dataclass(slots=True)
class _Searched:
    """Numbers whose positions were searched."""

    data: Bytes
    dots: Sequence[Index]
    """Positions of the dots before each number, and of the end of the last one."""

    def numbers(self, token: int) -> tuple[Words, NDArray[np.bool_]]:
        return parse_numbers(sliding_words(self.data), self.dots[token] + 1, self.dots[token + 1])

    def head(self, rows: int) -> _Searched:
        return _Searched(self.data, [dots[:rows] for dots in self.dots])


@dataclass(slots=True)
class _EvenlySpaced:
    """Numbers of a run: the distance from each to the one in the next line is the same."""

    data: Bytes
    run: FrameRun

    def numbers(self, token: int) -> tuple[Words, NDArray[np.bool_]]:
        run = self.run
        before, after = [*run.dot_offsets[-5:], run.reply_end][token : token + 2]
        end = run.start + after

        def word(back: int) -> Words:
            return np.ndarray((run.count,), "<u8", self.data.data, end - back, (run.stride,))

        return parse_numbers_of_length(after - before - 1, word, run.count)

    def head(self, rows: int) -> _EvenlySpaced:
        return _EvenlySpaced(self.data, replace(self.run, count=rows))


@dataclass
class AckMetadataColumns:
    """The metadata in the ack subjects of deliveries. Numbers are read when first used; see `parse_ack_subjects`."""

    _data: Bytes
    _starts: Index
    _ends: Index
    _tokens: _Tokens

    def __len__(self) -> int:
        return len(self._starts)

    @cached_property
    def sequence(self) -> NDArray[np.int64]:
        """Sequences in the stream, int64 (n,)."""
        return self._numbers(_SEQUENCE)

    @cached_property
    def consumer_sequence(self) -> NDArray[np.int64]:
        """Consumer sequences of the deliveries, int64 (n,)."""
        return self._numbers(_CONSUMER_SEQUENCE)

    @cached_property
    def timestamp_ns(self) -> NDArray[np.int64]:
        """Times at which the messages were stored, nanoseconds since 1970 UTC, int64 (n,)."""
        return self._numbers(_TIME)

    def row(self, row: int) -> AckMetadata:
        """Return all metadata of one row."""
        subject = bytes(self._data[int(self._starts[row]) : int(self._ends[row])])
        return parse_ack_subject(subject.decode("utf-8", "replace"))

    def head(self, rows: int) -> AckMetadataColumns:
        """Return the first `rows` rows."""
        return AckMetadataColumns(self._data, self._starts[:rows], self._ends[:rows], self._tokens.head(rows))

    def _numbers(self, token: int) -> NDArray[np.int64]:
        values, good = self._tokens.numbers(token)
        signed = values.view(np.int64)
        good &= signed >= 0
        self.check(good)
        return signed

    def check_counts(self) -> None:
        """Check the numbers of deliveries and of pending messages, of which there are no columns."""
        for token in (_DELIVERED, _PENDING):
            self.check(self._tokens.numbers(token)[1])

    def check(self, good: NDArray[np.bool_]) -> None:
        """Raise the scalar parser's error for the first row that is not good."""
        if not good.all():
            subject = self.row(int(np.argmin(good)))
            raise InvalidAckError(f"cannot read the ack subject of {subject}")


def parse_ack_subjects(lines: ControlLineTable) -> AckMetadataColumns:
    """Find the tokens of the ack subjects, which are the replies of the messages.

    Raises
    ------
    InvalidAckError
        A reply is not an ack subject (JSA-03), or a number that is read is not valid (JSA-04) or above 2^63 - 1.
    """
    if lines.run is not None:
        tokens = _EvenlySpaced(lines.bytes, lines.run)
        acks = AckMetadataColumns(lines.bytes, lines.reply_start, lines.reply_end, tokens)
    elif lines.reply_dots is not None and _is_ack(lines.reply_dots.shape[1]):
        acks = _cut_acks(lines, lines.reply_dots)
        acks.check(lines.words[lines.reply_start] == _PREFIX)
    else:
        acks = _search_acks(lines)
    acks.check_counts()
    return acks


def has_ack_subject(lines: ControlLineTable) -> NDArray[np.bool_]:
    """Return which messages were delivered by a consumer: their replies begin as ack subjects do."""
    if not len(lines.words):
        return np.zeros(len(lines.reply_start), np.bool_)
    first = lines.words[np.minimum(lines.reply_start, len(lines.words) - 1)]
    found: NDArray[np.bool_] = (first == _PREFIX) & (lines.reply_end - lines.reply_start >= len(ACK_PREFIX))
    return found


def _is_ack(dots: int) -> bool:
    return dots == 8 or dots >= 10


def _cut_acks(lines: ControlLineTable, reply_dots: Index) -> AckMetadataColumns:
    """As `parse_ack_subjects`, for replies of one shape."""
    count = reply_dots.shape[1]
    first = 5 if count >= 10 else 3  # the dot before the first number, which is token 4, or token 6 in the v2 form
    ends = reply_dots[:, 10] if count > 10 else lines.reply_end
    dots = [*(reply_dots[:, first + at] for at in range(5)), ends]
    return AckMetadataColumns(lines.bytes, lines.reply_start, lines.reply_end, _Searched(lines.bytes, dots))


def _search_acks(lines: ControlLineTable) -> AckMetadataColumns:
    """As `parse_ack_subjects`, for replies of several shapes."""
    offsets, data = copy_padded(gather_spans(lines.buffer, lines.reply_start, lines.reply_end))
    starts, ends = offsets[:-1], offsets[1:]
    dots = find_byte(data, _DOT)
    first = np.searchsorted(dots, offsets)
    count = np.diff(first)
    good = (sliding_words(data)[starts] == _PREFIX) & ((count == 8) | (count >= 10))
    AckMetadataColumns(data, starts, ends, _Searched(data, ())).check(good)
    at = first[:-1] + np.where(count >= 10, 5, 3)
    dots = np.append(dots, 0)  # the end of the last number may be that of the reply
    last = np.where(count > 10, dots[np.minimum(at + 5, len(dots) - 1)], ends)
    return AckMetadataColumns(data, starts, ends, _Searched(data, [*(dots[at + token] for token in range(5)), last]))


def build_batch(table: FrameTable, acks: AckMetadataColumns, schema: pa.Schema, stream: str) -> pa.RecordBatch:
    """Return the columns of the schema for messages and their ack subjects."""
    return pa.record_batch([_column(name, table, acks, stream) for name in schema.names], schema=schema)


def _column(name: str, table: FrameTable, acks: AckMetadataColumns, stream: str) -> pa.Array:
    if name == "subject":
        run = table.lines.run
        return _text(table.lines.subjects()) if run is None else _constant_column(_decoded(run.subject), run.count)
    if name == "data":
        return table.payloads()
    if name == "headers":
        if not table.header_size.any():
            return pa.nulls(len(table), HEADERS_TYPE)
        blocks = gather_spans(table.buffer, table.body, table.payload)
        return decode_headers(blocks, table.header_size > 0)
    if name == "stream":
        return _constant_column(stream, len(table))
    if name == "sequence":
        return _from_numpy(acks.sequence)
    if name == "timestamp":
        microseconds = acks.timestamp_ns.view(np.uint64) // np.uint64(1000)  # none is negative
        return _from_numpy(microseconds.view(np.int64)).view(COLUMNS["timestamp"])
    return _from_numpy(acks.timestamp_ns)


def _from_numpy(values: Index) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values).data)])


def _text(column: pa.BinaryArray) -> pa.StringArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: a subject may be any bytes
        return pa.array([_decoded(value) for value in column.to_pylist()], pa.string())


def _decoded(subject: bytes) -> str:
    return subject.decode("utf-8", "replace")


def _constant_column(text: str, count: int) -> pa.StringArray:
    """Return a column of one text. Successive batches usually need the same column and share it."""
    if len(text) > _CACHED_LENGTH or not _FEW_ROWS <= count <= _CACHED_ROWS:
        return pa.repeat(pa.scalar(text), count)
    return _cached_column(text).slice(0, count)


@lru_cache(maxsize=8)
def _cached_column(text: str) -> pa.StringArray:
    return pa.repeat(pa.scalar(text), _CACHED_ROWS)
