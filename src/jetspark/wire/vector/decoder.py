"""Decode a whole buffer of the NATS protocol: find the positions of all frames, without Python work per message.

1. Each line starts after a line feed. Lines that begin with `MSG ` or `HMSG ` are candidates.
2. The sizes are the last one or two numbers of a candidate's line. They are parsed for all candidates at once.
3. The frames must form a chain: the end of each frame is the start of the next. If a candidate does not start there,
   there are other control lines (PING, INFO) between, or the candidate is part of a payload. The functions of the
   scalar parser read these positions one by one.

The scalar parser is the reference. For the same bytes, `decode` followed by `lines` gives the same frames and the same
rest, or raises `ProtocolError` where the scalar parser does. `decode` alone does not check subjects, replies and
subscription ids. It gives all frames or none: unlike the scalar parser, it does not give the good frames before a
fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import CRLF, Control, FrameLimits, parse_control, parse_message_line
from jetspark.wire.vector.byte_spans import (
    Bytes,
    Index,
    buffer_bytes,
    find_byte,
    parse_trailing_numbers,
    sliding_words,
)
from jetspark.wire.vector.frame_runs import find_frame_runs, incomplete_frame_size
from jetspark.wire.vector.frame_table import FrameTable, concat_tables, table_of_runs

__all__ = ["decode"]

_LF: Final = 10
_MSG: Final = np.uint64(int.from_bytes(b"MSG ", "little"))
_HMSG: Final = np.uint64(int.from_bytes(b"HMSG ", "little"))
_CRLF: Final = np.uint16(int.from_bytes(CRLF, "little"))
_MIN_MESSAGE_LINE: Final = 9  # `MSG a 1 0`
_USUAL_LINE_BYTES: Final = 128  # bytes in which most control lines end
_MAX_BUFFER: Final = 2**31 - 1  # offsets of Arrow's binary arrays have 32 bits


@dataclass(slots=True)
class _Candidates:
    """Lines that look like control lines of messages, in order, with the sizes in their last words."""

    feeds: Index  # every line feed of the buffer
    start: Index
    line_end: Index
    header_size: Index
    end: Index  # of the frame, after its last line feed
    good: NDArray[np.bool_]  # the sizes were parsed and are valid


def decode(buffer: pa.Buffer, limits: FrameLimits = FrameLimits()) -> FrameTable:  # noqa: B008 (immutable)
    """Find the complete frames of a buffer that begins at a frame's start.

    Parameters
    ----------
    buffer
        At most 2 GiB. The table keeps it alive; it must not change while the table is used.
    limits
        Largest line and frame; a larger one is a ProtocolError.

    Raises
    ------
    ProtocolError
        The bytes are not the NATS protocol.
    ValueError
        The buffer is too large.
    """
    if buffer.size > _MAX_BUFFER:
        raise ValueError(f"a buffer of {buffer.size} bytes exceeds 2 GiB; decode it in pieces")
    data = np.frombuffer(buffer_bytes(buffer), np.uint8)
    runs = find_frame_runs(data, buffer_bytes(buffer), limits)
    if not runs:
        return _decode_without_runs(buffer, data, limits)
    at = runs[-1].stop
    needed = incomplete_frame_size(buffer_bytes(buffer)[at:], limits)
    if needed is not None:
        return table_of_runs(runs, buffer, needed)
    return concat_tables(table_of_runs(runs, buffer, 0), _decode_without_runs(buffer.slice(at), data[at:], limits), at)


def _decode_without_runs(buffer: pa.Buffer, data: Bytes, limits: FrameLimits) -> FrameTable:
    return _FrameChain(buffer, data, _find_candidates(data, limits), limits).build_table()


def _find_candidates(data: Bytes, limits: FrameLimits) -> _Candidates:
    feeds = find_byte(data, _LF)
    words = sliding_words(data)
    starts = np.empty(len(feeds), np.int64)
    if len(feeds):
        starts[0] = 0
        starts[1:] = feeds[:-1] + 1
    # A shorter line is not a message. In longer lines, a 64-bit word can be read at the start.
    long_enough = feeds - starts > _MIN_MESSAGE_LINE
    starts, ends = starts[long_enough], feeds[long_enough] - 1
    head = words[starts]
    with_header = (head & np.uint64(0xFFFFFFFFFF)) == _HMSG
    chosen = with_header | ((head & np.uint64(0xFFFFFFFF)) == _MSG)
    starts, ends, with_header = starts[chosen], ends[chosen], with_header[chosen]

    size, digits, good = parse_trailing_numbers(words[ends - 8])
    header_size = np.zeros(len(starts), np.int64)
    if with_header.any():
        rows = np.flatnonzero(with_header)
        before = np.maximum(ends[rows] - 9 - digits[rows].astype(np.int64), 0)
        number, _, fine = parse_trailing_numbers(words[before])
        header_size[rows] = number
        good[rows] &= fine
    size_signed = size.astype(np.int64)
    good &= (header_size <= size_signed) & (size_signed <= limits.size) & (ends - starts <= limits.line)
    good &= data[ends] == CRLF[0]
    return _Candidates(feeds, starts, ends, header_size, ends + 4 + size_signed, good)


class _FrameChain:
    """Walk from frame to frame; takes a series of adjacent candidates in one step."""

    def __init__(self, buffer: pa.Buffer, data: Bytes, candidates: _Candidates, limits: FrameLimits) -> None:
        self._buffer = buffer
        self._data = data
        self._view = buffer_bytes(buffer)
        self._limits = limits
        self._candidates = candidates
        self._firsts: list[int] = []
        self._stops: list[int] = []
        self._count = 0
        self._needed = 0
        self._controls: list[tuple[int, Control]] = []

    def build_table(self) -> FrameTable:
        at = self._walk()
        found, rows = self._candidates, self._rows()
        start, line_end = found.start[rows], found.line_end[rows]
        header_size, end = found.header_size[rows], found.end[rows] - 2
        self._check_line_ends(start, line_end, end)
        return FrameTable(self._buffer, start, line_end, header_size, end, self._controls, at, self._needed)

    def _rows(self) -> NDArray[np.bool_] | slice:
        """Return the candidates that are on the chain."""
        if len(self._firsts) < 2:
            return slice(self._firsts[0], self._stops[0]) if self._firsts else slice(0, 0)
        steps = np.zeros(len(self._candidates.start) + 1, np.int8)
        steps[self._firsts] = 1
        steps[self._stops] -= 1  # 0 where one run ends and the next one begins
        return np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)

    def _walk(self) -> int:
        """Collect the runs on the chain; return where the last complete frame ends."""
        found, size, count = self._candidates, len(self._data), len(self._candidates.start)
        # A run is a series of candidates, each of which starts at the end of the one before. Computed for each run:
        # its last row, the first row that may follow, the start of this row, and the run of this row.
        joined = (found.end[:-1] == found.start[1:]) & found.good[:-1] & found.good[1:]
        last_rows = np.append(np.flatnonzero(~joined), max(count - 1, 0))
        following = np.searchsorted(found.start, found.end[last_rows]) if count else last_rows
        lasts, nexts = last_rows.tolist(), following.tolist()
        next_runs = np.searchsorted(last_rows, following).tolist()
        starts = np.append(found.start, size)
        next_starts = starts[following].tolist()

        at = row = run = 0
        row_start = int(starts[0])
        while at < size:
            while at < row_start:
                step = self._read_control_frame(at)
                if step == at:
                    return at
                at = step
            if row == count:
                break
            # The row starts exactly at `at`, because the loop above passed only whole lines.
            last = lasts[run]
            if not found.good[row]:
                self._read_with_scalar_parser(row)
                nexts[run] = int(np.searchsorted(found.start, found.end[row]))
                next_runs[run] = int(np.searchsorted(last_rows, nexts[run]))
                next_starts[run] = int(starts[nexts[run]])
            # Only the last frame of a run can be incomplete: the others end where the next one starts.
            stop = last + (found.end[last] <= size)
            if stop > row:
                self._firsts.append(row)
                self._stops.append(stop)
                self._count += stop - row
                at = int(found.end[stop - 1])
            if stop <= last:
                self._note_incomplete_frame(last)
                break
            row, row_start, run = nexts[run], next_starts[run], next_runs[run]
        return at

    def _read_with_scalar_parser(self, row: int) -> None:
        """Read a candidate on the chain with the scalar parser, as the fast path could not read it."""
        found = self._candidates
        start, line_end = int(found.start[row]), int(found.line_end[row])
        line = parse_message_line(self._line(start, line_end + 1), self._limits)
        found.header_size[row] = line.header_size
        found.end[row] = line_end + 4 + line.size
        found.good[row] = True

    def _note_incomplete_frame(self, row: int) -> None:
        """Handle an incomplete frame: check its control line now, before the payload has arrived."""
        found = self._candidates
        start = int(found.start[row])
        parse_message_line(bytes(self._view[start : int(found.line_end[row])]), self._limits)
        self._needed = int(found.end[row]) - start

    def _read_control_frame(self, at: int) -> int:
        """Read the control line at a position; return where it ends, or the position itself if it is incomplete."""
        feed = self._find_feed(at)
        if feed < 0:
            if len(self._data) - at > self._limits.line + 1:  # one may be the carriage return
                raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")
            return at
        line = self._line(at, feed)
        if line.startswith((b"MSG ", b"HMSG ")):  # too short for a candidate
            parse_message_line(line, self._limits)
            raise ProtocolError(f"the control line is too short for a message: {line!r}")
        self._controls.append((self._count, parse_control(line)))
        return feed + 1

    def _find_feed(self, at: int) -> int:
        near = bytes(self._view[at : at + _USUAL_LINE_BYTES]).find(b"\n")
        if near >= 0:
            return at + near
        position = int(np.searchsorted(self._candidates.feeds, at))
        return int(self._candidates.feeds[position]) if position < len(self._candidates.feeds) else -1

    def _line(self, at: int, feed: int) -> bytes:
        """Return the control line between its start and its line feed."""
        line = bytes(self._view[at:feed])
        if not line.endswith(b"\r"):
            raise ProtocolError(f"a line ends with LF instead of CR LF: {line[:120]!r}")
        if len(line) - 1 > self._limits.line:
            raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")
        return line[:-1]

    def _check_line_ends(self, start: Index, line_end: Index, end: Index) -> None:
        """Check that a line end follows each payload."""
        if not len(end):
            return
        pairs = np.ndarray((len(self._data) - 1,), dtype="<u2", buffer=self._data.data, strides=(1,))
        wrong = np.flatnonzero(pairs[end] != _CRLF)
        if len(wrong):
            row = int(wrong[0])
            line = bytes(self._view[int(start[row]) : int(line_end[row])])
            raise ProtocolError(f"no CR LF after the payload of {line[:120]!r}")
