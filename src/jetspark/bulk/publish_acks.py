"""Acknowledgements of many publishes at once.

Nearly all of them read `{"stream":"NAME", "seq":123}`. The text before the number is learned from the first one of each
stream; from then on, the numbers of all rows are read at once. Every other form (a duplicate, an error, a status) is
read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jetspark.bulk.ack_window import AckWindow
from jetspark.jetstream.errors import Error, ProtocolError, StatusError
from jetspark.jetstream.header_names import SUBJECT as NATS_SUBJECT
from jetspark.jetstream.publish import MAX_ACK_PREFIXES, no_stream_error, plain_ack_prefix, read_pub_ack
from jetspark.wire.frames import MsgFrame
from jetspark.wire.headers import parse_header_block, parse_status
from jetspark.wire.vector import FrameTable
from jetspark.wire.vector.byte_spans import Bytes, Index, buffer_bytes, parse_numbers, sliding_words

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
    first, nth
        First of the rows that share the reply subject, and the number of earlier answers on that subject.
    error
        Reason of the refusal.
    subject
        Subject that nobody takes, if the server names it (503). Such an answer may overtake earlier ones.
    """

    first: int
    nth: int
    error: Error
    subject: str | None


@dataclass(slots=True)
class PubAckReader:
    """Reads acknowledgements into `streams`, and refusals into `refusals`."""

    window: AckWindow
    streams: dict[str, StreamAcks] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    """Messages that were not stored."""
    _patterns: dict[bytes, StreamAcks] = field(default_factory=dict)

    def read(self, table: FrameTable) -> None:
        """Read the messages on the window's reply subjects."""
        lines, window = table.lines, self.window
        values, good = parse_numbers(lines.words, lines.subject_end - window.digits, lines.subject_end)
        slots = values.view(np.int64)
        good &= values < window.slots
        if not good.all():
            raise ProtocolError("a message arrived on an unknown reply subject")
        data = np.frombuffer(buffer_bytes(table.buffer), np.uint8)
        open_ones = table.header_size == 0
        for prefix, acks in list(self._patterns.items()):
            open_ones = _read_plain(prefix, acks, data, table.payload, table.end, open_ones)
        for at in np.flatnonzero(open_ones | (table.header_size > 0)).tolist():
            slot = int(slots[at])
            earlier = window.answer_count(slot) + int(np.count_nonzero(slots[:at] == slot))
            self._read_one(table.message(at), window.rows_in_slot(slot).start, earlier)
        window.count_answers(slots)

    def _read_one(self, message: MsgFrame, first: int, earlier: int) -> None:
        """Read an answer; `earlier` answers came before it on the slot of row `first`."""
        status = parse_status(message.header) if message.header and not message.payload else None
        try:
            if status is not None:
                raise status_error(status.code, status.description)
            ack = read_pub_ack(message.payload)
        except Error as error:
            subject = parse_header_block(message.header).get(NATS_SUBJECT) if status is not None else None
            self.refusals.append(Refusal(first, earlier, error, subject))
            return
        acks = self.streams.setdefault(ack.stream, StreamAcks())
        if ack.duplicate:
            acks.count += 1
            acks.duplicates += 1
        else:
            acks.add(ack.sequence, ack.sequence, 1)
            prefix = plain_ack_prefix(message.payload)
            if prefix is not None and len(self._patterns) < MAX_ACK_PREFIXES:
                self._patterns[prefix] = acks


def status_error(code: int, description: str, where: str = "publish") -> Error:
    """Return the error of a publish that was answered with a status only."""
    return no_stream_error() if code == _NO_RESPONDERS else StatusError(code, description, where=where)


def _read_plain(
    prefix: bytes, acks: StreamAcks, data: Bytes, starts: Index, ends: Index, open_ones: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Read acks that are the prefix, a number and `}`; return a mask of the messages that are left."""
    chosen = np.flatnonzero(open_ones & (ends - starts > len(prefix) + 1))
    starts, ends = starts[chosen], ends[chosen]
    words = sliding_words(data)
    fits = data[ends - 1] == ord("}")
    for at in (*range(0, len(prefix) - 8, 8), len(prefix) - 8):
        fits &= words[starts + at] == np.uint64(int.from_bytes(prefix[at : at + 8], "little"))
    values, good = parse_numbers(words, starts + len(prefix), ends - 1)
    fits &= good
    count = int(np.count_nonzero(fits))
    if count:
        stored = values[fits]
        acks.add(int(stored.min()), int(stored.max()), count)
    left = open_ones.copy()
    left[chosen[fits]] = False
    return left
