"""Find the words of many control lines at once: subjects, subscription ids, replies.

The lines are concatenated, and one pass finds all spaces; the words are between the spaces. Usually all lines of a
buffer have one shape: the same spaces and dots in the same order. Then the positions form a matrix whose columns are
the words and the tokens of the reply, and no search is necessary. For a line that cannot be read, the scalar parser
raises the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import FrameLimits, parse_message_line
from jetspark.wire.vector.byte_spans import (
    Bytes,
    Index,
    Words,
    buffer_bytes,
    copy_padded,
    find_byte,
    gather_spans,
    parse_numbers,
    sliding_words,
)
from jetspark.wire.vector.frame_runs import SUBJECT_START, FrameRun

__all__ = ["NO_LIMITS", "ControlLineTable", "read_lines", "read_lines_of_run"]

NO_LIMITS: Final = FrameLimits(2**63, 2**63)
"""Limits for lines that were checked before."""

_SPACE: Final = 32
_DOT: Final = 46


@dataclass(slots=True)
class ControlLineTable:
    """Words of the control lines, as spans in a buffer.

    Attributes
    ----------
    buffer, bytes
        The concatenated lines with padding before them; for a run, the buffer in which it was found. uint8.
    words
        The same bytes as a 64-bit word that begins at every byte.
    subject_start, subject_end, reply_start, reply_end
        int64 arrays of shape (n,). An empty reply has start == end.
    sid
        Subscription ids, uint64 (n,).
    reply_dots
        Positions of the dots of the replies, int64 (n, dots), if all lines have the same shape; else None.
    run
        The run of deliveries that contains all lines, with positions in the buffer in which it was found; else None.
    """

    buffer: pa.Buffer
    bytes: Bytes
    words: Words
    subject_start: Index
    subject_end: Index
    reply_start: Index
    reply_end: Index
    sid: NDArray[np.uint64]
    reply_dots: Index | None = None
    run: FrameRun | None = None

    def subjects(self) -> pa.BinaryArray:
        """Return the subject column."""
        if self.run is not None:
            return pa.repeat(pa.scalar(self.run.subject), self.run.count)
        return gather_spans(self.buffer, self.subject_start, self.subject_end)


def read_lines(buffer: pa.Buffer, start: Index, line_end: Index) -> ControlLineTable:
    """Find the words of the control lines `[start, line_end)`, whose sizes are known to be valid.

    Raises
    ------
    ProtocolError
        In a control line, words are missing, empty (except the reply) or too many, or the subscription id is not a
        64-bit number.
    """
    lines = gather_spans(buffer, start, line_end)
    offsets, data = copy_padded(lines)
    words = sliding_words(data)
    with_header = data[offsets[:-1]] == ord("H")
    table = _read_one_shape(data, words, offsets, with_header)
    if table is not None:
        return table

    spaces = find_byte(data, _SPACE)
    first = np.searchsorted(spaces, offsets)
    count = np.diff(first) - with_header
    first = first[:-1]
    has_reply = count == 4
    good = has_reply | (count == 3)
    if not good.all():
        _raise_first(lines, good)
    # The words are between the spaces: subject, sid, then the reply or a size.
    subject_start, subject_end = spaces[first] + 1, spaces[first + 1]
    sid_end = spaces[first + 2]
    reply_start = sid_end + 1
    reply_end = np.where(has_reply, spaces[np.where(has_reply, first + 3, first)], reply_start)
    sid, good = parse_numbers(words, subject_end + 1, sid_end)
    good &= subject_start < subject_end
    if not good.all():
        _raise_first(lines, good)
    return ControlLineTable(
        pa.py_buffer(data.data), data, words, subject_start, subject_end, reply_start, reply_end, sid
    )


def read_lines_of_run(buffer: pa.Buffer, run: FrameRun) -> ControlLineTable:
    """Find the words of the lines of a run, in the original buffer."""
    data = np.frombuffer(buffer_bytes(buffer), np.uint8)
    starts = run.starts()
    return ControlLineTable(
        buffer,
        data,
        sliding_words(data),
        subject_start=starts + SUBJECT_START,
        subject_end=starts + (SUBJECT_START + len(run.subject)),
        reply_start=starts + run.reply_start,
        reply_end=starts + run.reply_end,
        sid=np.full(run.count, run.sid, np.uint64),
        run=run if run.dot_offsets else None,
    )


def _read_one_shape(
    data: Bytes, words: Words, offsets: Index, with_header: NDArray[np.bool_]
) -> ControlLineTable | None:
    """Find the words if all lines have the same spaces and dots in the same order; else return None."""
    count = len(offsets) - 1
    marks = find_byte(data, _SPACE, _DOT)
    if not count or len(marks) % count or with_header.any() != with_header.all():
        return None
    places = marks.reshape(count, -1)
    kinds = data[places]
    if (places[:, 0] < offsets[:-1]).any() or (places[:, -1] >= offsets[1:]).any() or (kinds != kinds[0]).any():
        return None
    spaces = np.flatnonzero(kinds[0] == _SPACE)
    sizes = 2 if with_header[0] else 1
    if len(spaces) not in {2 + sizes, 3 + sizes}:
        return None
    # Two adjacent spaces mean an empty word. It may be an empty reply, which the general path reads.
    if (np.diff(places[:, spaces], axis=1) == 1).any():
        return None
    subject, sid_start, sid_end = (places[:, spaces[word]] for word in range(3))
    sid, good = parse_numbers(words, sid_start + 1, sid_end)
    if not good.all():
        return None
    reply_start = sid_end + 1
    if len(spaces) == 2 + sizes:
        return ControlLineTable(
            pa.py_buffer(data.data), data, words, subject + 1, sid_start, reply_start, reply_start, sid
        )
    reply_end = places[:, spaces[3]]
    dots = places[:, spaces[2] + 1 : spaces[3]]
    return ControlLineTable(
        pa.py_buffer(data.data), data, words, subject + 1, sid_start, reply_start, reply_end, sid, dots
    )


def _raise_first(lines: pa.BinaryArray, good: NDArray[np.bool_]) -> NoReturn:
    """Raise the scalar parser's error for the first line that cannot be read."""
    line = lines[int(np.flatnonzero(~good)[0])].as_py()
    parse_message_line(line, NO_LIMITS)
    raise ProtocolError(f"cannot read the control line {line[:120]!r}")
