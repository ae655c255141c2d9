"""Acknowledgements of many publishes at once.

Nearly all of them read `{"stream":"NAME", "seq":123}`. The text before the number is learned from the first one of each
stream; from then on, the numbers of all rows are read at once. Every other form (a duplicate, an error, a status) is
read one by one.

The reply subject says to which row an answer belongs. The first answer settles the row. Further ones come if more than
one stream takes the subject, for instance one at a hub and one at a leaf node. They settle no other row, and they are
not counted as rows; but a refusal among them is kept. If the stream is known by name, only its answers count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jetspark.bulk.ack_window import AckWindow
from jetspark.jetstream.errors import Error, StatusError
from jetspark.jetstream.publish import (
    MAX_ACK_PREFIXES,
    is_refusal_of_other_stream,
    no_stream_error,
    plain_ack_prefix,
    read_pub_ack,
)
from jetspark.wire.frames import MsgFrame
from jetspark.wire.headers import parse_status
from jetspark.wire.vector import FrameTable
from jetspark.wire.vector.byte_spans import Bytes, Index, Words, buffer_bytes, parse_numbers, sliding_words

__all__ = ["PubAckReader", "Refusal", "StreamAcks", "status_error"]

_NO_RESPONDERS: Final = 503


@dataclass(slots=True)
class StreamAcks:
    """The acknowledgements of one stream.

    Attributes
    ----------
    count
        Rows stored, including duplicates.
    duplicates
        Rows that the stream had already, by message id; their sequences are those of the first copies.
    first_sequence, last_sequence
        Lowest and highest sequence of the newly stored rows; None if there are none.
    """

    count: int = 0
    duplicates: int = 0
    first_sequence: int | None = None
    last_sequence: int | None = None

    def add(self, lowest: int, highest: int, count: int) -> None:
        """Count `count` rows that were stored with sequences from `lowest` to `highest`."""
        self.count += count
        self.first_sequence = lowest if self.first_sequence is None else min(self.first_sequence, lowest)
        self.last_sequence = highest if self.last_sequence is None else max(self.last_sequence, highest)

    def merge(self, other: StreamAcks) -> None:
        """Add acknowledgements of the same stream from elsewhere."""
        if other.first_sequence is not None and other.last_sequence is not None:
            self.add(other.first_sequence, other.last_sequence, other.count)
        else:
            self.count += other.count
        self.duplicates += other.duplicates


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that was not stored.

    Attributes
    ----------
    row
        Number of the row.
    error
        Reason of the refusal.
    stored_elsewhere
        Whether another stream has stored the row.
    """

    row: int
    error: Error
    stored_elsewhere: bool


@dataclass(slots=True)
class PubAckReader:
    """Reads acknowledgements into `streams`, and refusals into `refusals`.

    Attributes
    ----------
    expected_stream
        Name of the stream whose answers count; None for any.
    refusals
        Messages that were not stored, by their rows.
    collected
        Messages whose refusal `is_collected` accepts, by their rows. They are not among the refusals.
    further_answers
        Number of answers to rows that were answered before.
    unmatched_answers
        Number of answers on reply subjects that were not handed out, or long ago. They are dropped.
    """

    window: AckWindow
    streams: dict[str, StreamAcks] = field(default_factory=dict)
    expected_stream: str | None = None
    is_collected: Callable[[Error], bool] | None = None
    refusals: dict[int, Refusal] = field(default_factory=dict)
    collected: dict[int, Error] = field(default_factory=dict)
    further_answers: int = 0
    unmatched_answers: int = 0
    _patterns: dict[bytes, str] = field(default_factory=dict)
    _refused_by_others: dict[int, Error] = field(default_factory=dict)  # rows that the expected stream has not answered

    @property
    def awaits_expected_stream(self) -> bool:
        """Whether other streams have refused rows that the expected one has not answered."""
        return bool(self._refused_by_others)

    def read(self, table: FrameTable) -> None:
        """Read the messages on the window's reply subjects."""
        lines = table.lines
        rows = self.window.rows_of(lines.words, lines.subject_end)
        known = rows >= 0
        self.unmatched_answers += len(rows) - int(np.count_nonzero(known))
        data = np.frombuffer(buffer_bytes(table.buffer), np.uint8)
        open_ones = known & (table.header_size == 0)
        for prefix, stream in list(self._patterns.items()):
            fits, sequences = _read_plain(prefix, data, table.payload, table.end, open_ones)
            if len(fits):
                self._count(stream, rows[fits], sequences)
                open_ones[fits] = False
        for at in np.flatnonzero(open_ones | (known & (table.header_size > 0))).tolist():
            self._read_one(int(rows[at]), table.message(at))

    def refuse_open_rows(self) -> None:
        """Take the refusals of other streams as final for the rows that the expected stream did not answer."""
        for row, error in self._refused_by_others.items():
            self._refuse(row, error)
        self._refused_by_others.clear()

    def _count(self, stream: str, rows: Index, sequences: Words, *, duplicate: bool = False) -> None:
        """Count acknowledgements of rows by one stream, except of rows that were answered before."""
        first = self.window.settle(rows)
        count = int(np.count_nonzero(first))
        self.further_answers += len(rows) - count
        if count:
            acks = self.streams.setdefault(stream, StreamAcks())
            if duplicate:
                acks.count += count
                acks.duplicates += count
            else:
                acks.add(int(sequences[first].min()), int(sequences[first].max()), count)
        if self._refused_by_others:
            for row in rows.tolist():
                self._refused_by_others.pop(row, None)

    def _read_one(self, row: int, message: MsgFrame) -> None:
        status = parse_status(message.header) if message.header and not message.payload else None
        try:
            if status is not None:
                raise status_error(status.code, status.description)
            ack = read_pub_ack(message.payload, expected_stream=self.expected_stream)
        except Error as error:
            if not is_refusal_of_other_stream(error, message.payload, self.expected_stream):
                self._refuse(row, error)
            elif self.window.is_open(row):
                self._refused_by_others.setdefault(row, error)
            else:
                self.further_answers += 1
            return
        self._count(ack.stream, np.array([row]), np.array([ack.sequence], np.uint64), duplicate=ack.duplicate)
        prefix = None if ack.duplicate else plain_ack_prefix(message.payload)
        if prefix is not None and len(self._patterns) < MAX_ACK_PREFIXES:
            self._patterns[prefix] = ack.stream

    def _refuse(self, row: int, error: Error) -> None:
        first = bool(self.window.settle(np.array([row]))[0])
        self.further_answers += not first
        if first and self.is_collected is not None and self.is_collected(error):
            self.collected[row] = error
            return
        if row not in self.refusals:
            self.refusals[row] = Refusal(row, error, stored_elsewhere=not first)


def status_error(code: int, description: str, where: str = "publish") -> Error:
    """Return the error of a publish that was answered with a status only."""
    return no_stream_error() if code == _NO_RESPONDERS else StatusError(code, description, where=where)


def _read_plain(
    prefix: bytes, data: Bytes, starts: Index, ends: Index, open_ones: NDArray[np.bool_]
) -> tuple[Index, Words]:
    """Read acks that are the prefix, a number above 0 and `}`; return which messages these are, and the numbers."""
    chosen = np.flatnonzero(open_ones & (ends - starts > len(prefix) + 1))
    starts, ends = starts[chosen], ends[chosen]
    words = sliding_words(data)
    fits = (data[ends - 1] == ord("}")) & (data[starts + len(prefix)] != ord("0"))
    for at in (*range(0, len(prefix) - 8, 8), len(prefix) - 8):
        fits &= words[starts + at] == np.uint64(int.from_bytes(prefix[at : at + 8], "little"))
    values, good = parse_numbers(words, starts + len(prefix), ends - 1)
    fits &= good
    return chosen[fits], values[fits]
