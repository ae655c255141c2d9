"""Whole buffers of the NATS protocol at once: where each frame lies, without Python work per message.

1. Every line start is a byte after a line feed; those that read `MSG ` or `HMSG ` are candidates.
2. The sizes are the last one or two numbers of the candidate's line: parsed for all of them at once.
3. The chain must close: each frame's end is the next one's start. Where it does not, either control lines (PING, INFO)
   lie in between, or the candidate was a piece of a payload. Those places are walked one by one, by the scalar parser's
   own functions, so that both give the same frames, or the same `ProtocolError`, for the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import CRLF, Control, Frame, Limits, Msg, parse_control, parse_message_line
from jetspark.wire.vector.words import (
    Bytes,
    Index,
    Words,
    contents,
    find_byte,
    gather_spans,
    numbers,
    padded,
    sliding_words,
    trailing_numbers,
)

__all__ = ["FrameTable", "LineTable", "decode"]

_LF: Final = 10
_SPACE: Final = 32
_MSG: Final = np.uint64(int.from_bytes(b"MSG ", "little"))
_HMSG: Final = np.uint64(int.from_bytes(b"HMSG ", "little"))
_CRLF: Final = np.uint16(int.from_bytes(CRLF, "little"))
_SHORTEST: Final = 9  # `MSG a 1 0`


@dataclass(slots=True)
class _Candidates:
    """Lines that look like a message's, in order, with what their last words say."""

    start: Index
    line_end: Index
    header_size: Index
    end: Index  # of the frame, behind its last line feed
    good: NDArray[np.bool_]  # the fast reading holds


@dataclass
class FrameTable:
    """Messages of a buffer as columns of positions.

    A message's control line is `[start, line_end)`, its header block `[body, body + header_size)`, its payload
    `[body + header_size, end)`.

    Attributes
    ----------
    buffer
        The bytes that were decoded.
    start, line_end, body, header_size, end
        int64 arrays of shape (n,).
    controls
        Other frames, each with the number of messages before it.
    consumed
        Bytes up to the end of the last complete frame.
    """

    buffer: pa.Buffer
    start: Index
    line_end: Index
    header_size: Index
    end: Index
    controls: list[tuple[int, Control]] = field(default_factory=list)
    consumed: int = 0

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def body(self) -> Index:
        return self.line_end + 2

    @cached_property
    def payload(self) -> Index:
        """Where the payloads begin, int64 (n,)."""
        return self.body + self.header_size

    @cached_property
    def lines(self) -> LineTable:
        """Words of the control lines.

        Raises
        ------
        ProtocolError
            A control line has words missing, empty or too many.
        """
        return _read_lines(self)

    def select(self, rows: NDArray[np.bool_]) -> FrameTable:
        """The messages where `rows` is true; the controls are left behind."""
        return FrameTable(
            self.buffer,
            self.start[rows],
            self.line_end[rows],
            self.header_size[rows],
            self.end[rows],
            [],
            self.consumed,
        )

    def payloads(self) -> pa.BinaryArray:
        """Payload column, copied out of the buffer."""
        return gather_spans(self.buffer, self.payload, self.end)

    def message(self, row: int) -> Msg:
        """One message as the scalar parser gives it."""
        view = contents(self.buffer)
        line = parse_message_line(bytes(view[int(self.start[row]) : int(self.line_end[row])]))
        body, payload, end = int(self.body[row]), int(self.payload[row]), int(self.end[row])
        return Msg(line.subject, line.sid, line.reply, bytes(view[body:payload]), bytes(view[payload:end]))

    def frames(self) -> Iterator[Frame]:
        """All frames in order, as the scalar parser gives them."""
        done = 0
        for before, control in self.controls:
            for row in range(done, before):
                yield self.message(row)
            done = before
            yield control
        for row in range(done, len(self)):
            yield self.message(row)


@dataclass(slots=True)
class LineTable:
    """Words of the control lines, as spans in a buffer of their own.

    Attributes
    ----------
    bytes
        The lines one behind the other, with a few bytes in front: uint8.
    words
        The same as 64-bit words from every byte.
    subject_start, subject_end, reply_start, reply_end
        int64 arrays of shape (n,). An empty reply has start == end.
    sid
        Subscription ids, uint64 (n,).
    """

    buffer: pa.Buffer
    bytes: Bytes
    words: Words
    subject_start: Index
    subject_end: Index
    reply_start: Index
    reply_end: Index
    sid: NDArray[np.uint64]

    def subjects(self) -> pa.BinaryArray:
        """Subject column."""
        return gather_spans(self.buffer, self.subject_start, self.subject_end)


def decode(buffer: pa.Buffer, limits: Limits = Limits()) -> FrameTable:  # noqa: B008 (immutable)
    """Find the complete frames of a buffer that begins at a frame's start.

    Parameters
    ----------
    buffer
        At most 2 GiB. The table keeps it alive; it must not change while the table is used.
    limits
        What is taken for possible.

    Raises
    ------
    ProtocolError
        The bytes are not the NATS protocol.
    """
    data = np.frombuffer(contents(buffer), np.uint8)
    return _Chain(buffer, data, _find_candidates(data, limits), limits).follow()


def _find_candidates(data: Bytes, limits: Limits) -> _Candidates:
    feeds = find_byte(data, _LF)
    words = sliding_words(data)
    starts = np.empty(len(feeds), np.int64)
    if len(feeds):
        starts[0] = 0
        starts[1:] = feeds[:-1] + 1
    # A shorter line is no message; and a word may be read from each start that is left.
    long_enough = feeds - starts > _SHORTEST
    starts, ends = starts[long_enough], feeds[long_enough] - 1
    head = words[starts]
    with_header = (head & np.uint64(0xFFFFFFFFFF)) == _HMSG
    chosen = with_header | ((head & np.uint64(0xFFFFFFFF)) == _MSG)
    starts, ends, with_header = starts[chosen], ends[chosen], with_header[chosen]

    size, digits, good = trailing_numbers(words[ends - 8])
    header_size = np.zeros(len(starts), np.int64)
    if with_header.any():
        rows = np.flatnonzero(with_header)
        before = np.maximum(ends[rows] - 9 - digits[rows].astype(np.int64), 0)
        number, _, fine = trailing_numbers(words[before])
        header_size[rows] = number
        good[rows] &= fine
    size_signed = size.astype(np.int64)
    good &= (header_size <= size_signed) & (size_signed <= limits.size) & (ends - starts <= limits.line)
    good &= data[ends] == CRLF[0]
    return _Candidates(starts, ends, header_size, ends + 4 + size_signed, good)


class _Chain:
    """Walks from frame to frame; runs of candidates that follow on each other are taken as a whole."""

    def __init__(self, buffer: pa.Buffer, data: Bytes, candidates: _Candidates, limits: Limits) -> None:
        self._buffer = buffer
        self._data = data
        self._view = contents(buffer)
        self._limits = limits
        self._all = candidates
        # Candidate i hands over to i + 1: runs end where it does not.
        joined = (candidates.end[:-1] == candidates.start[1:]) & candidates.good[:-1] & candidates.good[1:]
        self._breaks = np.flatnonzero(~joined)
        self._runs: list[tuple[int, int]] = []
        self._count = 0
        self._controls: list[tuple[int, Control]] = []

    def follow(self) -> FrameTable:
        at = self._walk()
        found = self._all
        rows: Index | slice = slice(0, 0)
        if len(self._runs) == 1:
            rows = slice(*self._runs[0])
        elif self._runs:
            rows = np.concatenate([np.arange(first, stop) for first, stop in self._runs])
        start, line_end = found.start[rows], found.line_end[rows]
        header_size, end = found.header_size[rows], found.end[rows] - 2
        self._check_line_ends(start, line_end, end)
        return FrameTable(self._buffer, start, line_end, header_size, end, self._controls, at)

    def _walk(self) -> int:
        """Collect the runs on the chain; returns where the last complete frame ends."""
        found, size, at = self._all, len(self._data), 0
        while at < size:
            row = int(np.searchsorted(found.start, at))
            if row == len(found.start) or found.start[row] != at:
                step = self._other_line(at)
                if step == at:
                    break
                at = step
                continue
            if not found.good[row]:
                self._read_one(row)
            last = self._run_end(row)
            # Only the last of a run can be cut off: the others end where a later one starts.
            if found.end[last] > size:
                last -= 1
            if last >= row:
                self._runs.append((row, last + 1))
                self._count += last + 1 - row
                at = int(found.end[last])
            if last < row or at != found.end[self._run_end(row)]:
                break
        return at

    def _run_end(self, row: int) -> int:
        position = int(np.searchsorted(self._breaks, row))
        return int(self._breaks[position]) if position < len(self._breaks) else len(self._all.start) - 1

    def _read_one(self, row: int) -> None:
        """A candidate that the fast way could not read and that lies on the chain: the scalar parser's reading."""
        found = self._all
        start, line_end = int(found.start[row]), int(found.line_end[row])
        # The scalar parser's line ends at the first CRLF, which may lie behind this line feed.
        stop = self._find_crlf(start)
        if stop != line_end:
            if stop >= 0:
                parse_message_line(bytes(self._view[start:stop]), self._limits)
            raise ProtocolError("a control line with a line feed inside")
        if line_end - start > self._limits.line:
            raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")
        line = parse_message_line(bytes(self._view[start:line_end]), self._limits)
        found.header_size[row] = line.header_size
        found.end[row] = line_end + 4 + line.size
        found.good[row] = True

    def _other_line(self, at: int) -> int:
        """Read the control line at a position; returns where it ends, or the position itself when it is cut off."""
        eol = self._find_crlf(at)
        if (eol if eol >= 0 else len(self._data)) - at > self._limits.line:
            raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")
        if eol < 0:
            return at
        line = bytes(self._view[at:eol])
        if line.startswith((b"MSG ", b"HMSG ")):  # too short for a candidate, or with a line feed inside
            parse_message_line(line, self._limits)
            raise ProtocolError("a control line with a line feed inside")
        self._controls.append((self._count, parse_control(line)))
        return eol + 2

    def _find_crlf(self, at: int) -> int:
        for feed in find_byte(self._data[at : at + self._limits.line + 2], _LF):
            if feed and self._data[at + feed - 1] == CRLF[0]:
                return at + int(feed) - 1
        return -1

    def _check_line_ends(self, start: Index, line_end: Index, end: Index) -> None:
        """Behind each payload stands a line end."""
        if not len(end):
            return
        pairs = np.ndarray((len(self._data) - 1,), dtype="<u2", buffer=self._data.data, strides=(1,))
        wrong = np.flatnonzero(pairs[end] != _CRLF)
        if len(wrong):
            row = int(wrong[0])
            line = bytes(self._view[int(start[row]) : int(line_end[row])])
            raise ProtocolError(f"no line end behind the payload of {line[:120]!r}")


def _read_lines(table: FrameTable) -> LineTable:
    lines = gather_spans(table.buffer, table.start, table.line_end)
    offsets, data = padded(lines)
    words = sliding_words(data)
    with_header = data[offsets[:-1]] == ord("H")

    spaces = find_byte(data, _SPACE)
    first = np.searchsorted(spaces, offsets)
    count = np.diff(first) - with_header
    first = first[:-1]
    has_reply = count == 4
    good = has_reply | (count == 3)
    if not good.all():
        _raise_first(table, good)
    # The words stand between the spaces: subject, sid, then the reply or a size.
    subject_start, subject_end = spaces[first] + 1, spaces[first + 1]
    sid_end = spaces[first + 2]
    reply_start = sid_end + 1
    reply_end = np.where(has_reply, spaces[np.where(has_reply, first + 3, first)], reply_start)
    sid, good = numbers(words, subject_end + 1, sid_end)
    good &= (subject_start < subject_end) & (~has_reply | (reply_start < reply_end))
    if with_header.any():  # `HMSG a 1 2 2` and `HMSG a 1 r  2` have as many spaces: no word may be empty
        good &= _no_double_space(data, spaces, offsets)
    if not good.all():
        _raise_first(table, good)
    return LineTable(pa.py_buffer(data.data), data, words, subject_start, subject_end, reply_start, reply_end, sid)


def _no_double_space(data: Bytes, spaces: Index, offsets: Index) -> NDArray[np.bool_]:
    good = np.ones(len(offsets) - 1, np.bool_)
    doubles = spaces[data[spaces + 1] == _SPACE]
    good[np.searchsorted(offsets, doubles, side="right") - 1] = False
    return good


def _raise_first(table: FrameTable, good: NDArray[np.bool_]) -> None:
    """Let the scalar parser judge the first line that the fast way did not read."""
    view = contents(table.buffer)
    for row in np.flatnonzero(~good):
        line = bytes(view[int(table.start[row]) : int(table.line_end[row])])
        parse_message_line(line)
        raise ProtocolError(f"numbers out of range in the control line {line[:120]!r}")
