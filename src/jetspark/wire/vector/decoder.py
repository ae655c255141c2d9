"""Whole buffers of the NATS protocol at once: where each frame lies, without Python work per message.

1. Every line start is a byte after a line feed; those that read `MSG ` or `HMSG ` are candidates.
2. The sizes are the last one or two numbers of the candidate's line: parsed for all of them at once.
3. The chain must close: each frame's end is the next one's start. Where it does not, either control lines (PING, INFO)
   lie in between, or the candidate was a piece of a payload. Those places are walked one by one, by the scalar parser's
   own functions.

The scalar parser is the reference. For the same bytes, `decode` followed by `lines` gives the same frames and the same
rest, or raises `ProtocolError` where the scalar parser does; `decode` alone does not look at subjects, replies and
subscription ids. It gives all or nothing: the good frames before a fault, which the scalar parser gives one by one
before it raises, are not given.
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
from jetspark.wire.vector.lines import NO_LIMITS, LineTable, lines_of_run, read_lines
from jetspark.wire.vector.runs import Run, cut_off, find_runs
from jetspark.wire.vector.words import (
    Bytes,
    Index,
    contents,
    find_byte,
    gather_rows,
    gather_spans,
    sliding_words,
    trailing_numbers,
)

__all__ = ["FrameTable", "decode"]

_LF: Final = 10
_MSG: Final = np.uint64(int.from_bytes(b"MSG ", "little"))
_HMSG: Final = np.uint64(int.from_bytes(b"HMSG ", "little"))
_CRLF: Final = np.uint16(int.from_bytes(CRLF, "little"))
_SHORTEST: Final = 9  # `MSG a 1 0`
_NEAR: Final = 128  # bytes in which most control lines end
_MAX_BUFFER: Final = 2**31 - 1  # offsets of Arrow's binary arrays have 32 bits


@dataclass(slots=True)
class _Candidates:
    """Lines that look like a message's, in order, with what their last words say."""

    feeds: Index  # every line feed of the buffer
    start: Index
    line_end: Index
    header_size: Index
    end: Index  # of the frame, behind its last line feed
    good: NDArray[np.bool_]  # the fast reading holds


@dataclass(eq=False)
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
        Bytes up to the end of the last complete frame: where the next buffer begins.
    needed
        Bytes that the incomplete frame behind `consumed` takes in all; 0 when it is not known or there is none.
    run
        The run that all messages are of, if there is one.
    """

    buffer: pa.Buffer
    start: Index
    line_end: Index
    header_size: Index
    end: Index
    controls: list[tuple[int, Control]] = field(default_factory=list)
    consumed: int = 0
    needed: int = 0
    run: Run | None = None

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
        if self.run is not None:
            return lines_of_run(self.buffer, self.run)
        return read_lines(self.buffer, self.start, self.line_end)

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

    def head(self, rows: int) -> FrameTable:
        """The first messages."""
        start, line_end, header_size, end = (
            column[:rows] for column in (self.start, self.line_end, self.header_size, self.end)
        )
        return FrameTable(self.buffer, start, line_end, header_size, end, [], self.consumed)

    def copied(self) -> FrameTable:
        """The same messages in a buffer of their own."""
        raw = pa.py_buffer(bytes(contents(self.buffer)))
        return FrameTable(raw, self.start, self.line_end, self.header_size, self.end, [], self.consumed)

    def payloads(self) -> pa.BinaryArray:
        """Payload column, copied out of the buffer."""
        if (run := self.run) is not None:
            data = np.frombuffer(contents(self.buffer), np.uint8)
            return gather_rows(data, run.start + run.line_end + 2, run.end - run.line_end - 2, run.length, run.count)
        return gather_spans(self.buffer, self.payload, self.end)

    def message(self, row: int) -> Msg:
        """One message as the scalar parser gives it."""
        view = contents(self.buffer)
        line = parse_message_line(bytes(view[int(self.start[row]) : int(self.line_end[row])]), NO_LIMITS)
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
    ValueError
        The buffer is too large.
    """
    if buffer.size > _MAX_BUFFER:
        raise ValueError(f"a buffer of {buffer.size} bytes is over 2 GiB; decode it in pieces")
    data = np.frombuffer(contents(buffer), np.uint8)
    runs = find_runs(data, contents(buffer), limits)
    if not runs:
        return _search(buffer, data, limits)
    at = runs[-1].stop
    needed = cut_off(contents(buffer)[at:], limits)
    if needed is not None:
        return _table_of(runs, buffer, needed)
    return _joined(_table_of(runs, buffer, 0), _search(buffer.slice(at), data[at:], limits), at)


def _search(buffer: pa.Buffer, data: Bytes, limits: Limits) -> FrameTable:
    return _Chain(buffer, data, _find_candidates(data, limits), limits).follow()


def _table_of(runs: list[Run], buffer: pa.Buffer, needed: int) -> FrameTable:
    """The messages of runs that the buffer begins with."""
    start = _concatenated([run.starts() for run in runs])
    counts = [run.count for run in runs]
    if len(runs) == 1:
        line_end, end = start + runs[0].line_end, start + runs[0].end
    else:
        line_end = start + np.repeat([run.line_end for run in runs], counts)
        end = start + np.repeat([run.end for run in runs], counts)
    header_size = np.zeros(len(start), np.int64)
    run = runs[0] if len(runs) == 1 else None
    return FrameTable(buffer, start, line_end, header_size, end, [], runs[-1].stop, needed, run)


def _joined(front: FrameTable, rest: FrameTable, at: int) -> FrameTable:
    """One table of two, the second of which was found in the buffer from `at` on."""
    return FrameTable(
        front.buffer,
        _concatenated([front.start, rest.start + at]),
        _concatenated([front.line_end, rest.line_end + at]),
        _concatenated([front.header_size, rest.header_size]),
        _concatenated([front.end, rest.end + at]),
        [(before + len(front), control) for before, control in rest.controls],
        rest.consumed + at,
        rest.needed,
        front.run if not len(rest) else None,
    )


def _concatenated(parts: list[Index]) -> Index:
    return parts[0] if len(parts) == 1 or not len(parts[1]) else np.concatenate(parts)


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
    return _Candidates(feeds, starts, ends, header_size, ends + 4 + size_signed, good)


class _Chain:
    """Walks from frame to frame; runs of candidates that follow on each other are taken as a whole."""

    def __init__(self, buffer: pa.Buffer, data: Bytes, candidates: _Candidates, limits: Limits) -> None:
        self._buffer = buffer
        self._data = data
        self._view = contents(buffer)
        self._limits = limits
        self._all = candidates
        self._firsts: list[int] = []
        self._stops: list[int] = []
        self._count = 0
        self._needed = 0
        self._controls: list[tuple[int, Control]] = []

    def follow(self) -> FrameTable:
        at = self._walk()
        found, rows = self._all, self._rows()
        start, line_end = found.start[rows], found.line_end[rows]
        header_size, end = found.header_size[rows], found.end[rows] - 2
        self._check_line_ends(start, line_end, end)
        return FrameTable(self._buffer, start, line_end, header_size, end, self._controls, at, self._needed)

    def _rows(self) -> NDArray[np.bool_] | slice:
        """The candidates that lie on the chain."""
        if len(self._firsts) < 2:
            return slice(self._firsts[0], self._stops[0]) if self._firsts else slice(0, 0)
        steps = np.zeros(len(self._all.start) + 1, np.int8)
        steps[self._firsts] = 1
        steps[self._stops] -= 1  # 0 where one run ends and the next one begins
        return np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)

    def _walk(self) -> int:
        """Collect the runs on the chain; returns where the last complete frame ends."""
        found, size, count = self._all, len(self._data), len(self._all.start)
        # Candidate i hands over to i + 1; runs end where it does not. For each run: its last row, the first row that
        # may follow, where that stands, and its run.
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
                step = self._other_line(at)
                if step == at:
                    return at
                at = step
            if row == count:
                break
            # A line begins at `at`, and so does the row's: nothing but lines was passed.
            last = lasts[run]
            if not found.good[row]:
                self._read_one(row)
                nexts[run] = int(np.searchsorted(found.start, found.end[row]))
                next_runs[run] = int(np.searchsorted(last_rows, nexts[run]))
                next_starts[run] = int(starts[nexts[run]])
            # Only the last of a run can be cut off: the others end where a later one starts.
            stop = last + (found.end[last] <= size)
            if stop > row:
                self._firsts.append(row)
                self._stops.append(stop)
                self._count += stop - row
                at = int(found.end[stop - 1])
            if stop <= last:
                self._await(last)
                break
            row, row_start, run = nexts[run], next_starts[run], next_runs[run]
        return at

    def _read_one(self, row: int) -> None:
        """A candidate that the fast way could not read and that lies on the chain: the scalar parser's reading."""
        found = self._all
        start, line_end = int(found.start[row]), int(found.line_end[row])
        line = parse_message_line(self._line(start, line_end + 1), self._limits)
        found.header_size[row] = line.header_size
        found.end[row] = line_end + 4 + line.size
        found.good[row] = True

    def _await(self, row: int) -> None:
        """A frame that is not complete: a wrong control line is refused before its payload has come."""
        found = self._all
        start = int(found.start[row])
        parse_message_line(bytes(self._view[start : int(found.line_end[row])]), self._limits)
        self._needed = int(found.end[row]) - start

    def _other_line(self, at: int) -> int:
        """Read the control line at a position; returns where it ends, or the position itself when it is cut off."""
        feed = self._find_feed(at)
        if feed < 0:
            if len(self._data) - at > self._limits.line + 1:  # one may be the carriage return
                raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")
            return at
        line = self._line(at, feed)
        if line.startswith((b"MSG ", b"HMSG ")):  # too short for a candidate
            parse_message_line(line, self._limits)
            raise ProtocolError(f"too short for a message: {line!r}")
        self._controls.append((self._count, parse_control(line)))
        return feed + 1

    def _find_feed(self, at: int) -> int:
        near = bytes(self._view[at : at + _NEAR]).find(b"\n")
        if near >= 0:
            return at + near
        position = int(np.searchsorted(self._all.feeds, at))
        return int(self._all.feeds[position]) if position < len(self._all.feeds) else -1

    def _line(self, at: int, feed: int) -> bytes:
        """The control line between its start and its line feed."""
        line = bytes(self._view[at:feed])
        if not line.endswith(b"\r"):
            raise ProtocolError(f"a line feed without a carriage return behind {line[:120]!r}")
        if len(line) - 1 > self._limits.line:
            raise ProtocolError(f"a control line is longer than {self._limits.line} bytes")
        return line[:-1]

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
