"""Runs of equally long deliveries: nothing is searched for, because the first one tells where everything stands.

Messages of one size from one subject make frames of one length, until a number in them gets another digit. The first
frame of a run is read by the scalar parser's own functions and becomes a template; the frames that lie behind it, one
length apart, are compared with it a word at a time. What may differ is the digits of the last four numbers of the ack
subject, and the payload. The comparison says for every byte of the line what the search would have found there, so a
run is read as the general way reads it, at a third of the price. Where one ends, another is tried, or the general way
goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import Limits, parse_message_line
from jetspark.wire.vector.lines import LineTable
from jetspark.wire.vector.words import Bytes, Index, Words, contents, sliding_words

__all__ = ["Run", "find_runs", "read_run_lines"]

SHORTEST: Final = 64
"""Frames that make a run; fewer are not worth its fixed cost."""
_PROBED: Final = (1, SHORTEST // 2, SHORTEST - 1)
_LONGEST_LINE: Final = 1 << 10
_CRLF: Final = np.uint16(int.from_bytes(b"\r\n", "little"))
_PREFIX: Final = b"$JS.ACK."
_SUBJECT: Final = 4  # where it begins in a line
_DIGIT: Final = 0x10  # this bit is set in every digit, and neither in a space nor in a dot


@dataclass(slots=True)
class Run:
    """Frames `length` bytes apart, the first of which is at `start`.

    Attributes
    ----------
    line_end, end
        Where the control line and the payload end, counted from a frame's start.
    subject_end, reply_start, reply_end
        The words of the control line, counted likewise; the subject begins at 4.
    sid
        Subscription id.
    dots
        Dots of the reply.
    """

    start: int
    count: int
    length: int
    line_end: int
    end: int
    subject_end: int
    reply_start: int
    reply_end: int
    sid: int
    dots: list[int]

    @property
    def stop(self) -> int:
        """Where the run ends in the buffer."""
        return self.start + self.count * self.length

    def starts(self) -> Index:
        """Where the frames begin, int64 (count,)."""
        return np.arange(self.start, self.stop, self.length)


def find_runs(data: Bytes, view: memoryview, limits: Limits) -> list[Run]:
    """The runs that the buffer begins with, one behind the other."""
    runs: list[Run] = []
    at = 0
    while (run := _template(view, at, limits)) is not None and _measure(run, data, view):
        runs.append(run)
        at = run.stop
    return runs


def _template(view: memoryview, at: int, limits: Limits) -> Run | None:
    """What a run that begins with the frame at `at` would look like."""
    head = bytes(view[at : at + _LONGEST_LINE])
    line_end = head.find(b"\n") - 1
    if not head.startswith(b"MSG ") or head[line_end : line_end + 1] != b"\r" or line_end > limits.line:
        return None
    try:
        line = parse_message_line(head[:line_end], limits)
    except ProtocolError:
        return None  # the general way says what is wrong
    length = line_end + 4 + line.size
    count = (len(view) - at) // length
    subject_end = _SUBJECT + len(line.subject)
    reply_end = head.rfind(b" ", 0, line_end)
    reply_start = reply_end - len(line.reply)
    dots = [place for place in range(reply_start, reply_end) if head[place] == ord(".")]
    if count < SHORTEST or len(dots) not in {8, 10} or not line.reply.startswith(_PREFIX):
        return None
    same = head[: dots[-4] + 1]  # up to the first number that changes
    if any(view[at + row * length :][: len(same)] != same for row in _PROBED):
        return None  # a cheap look, so that frames of many lengths cost nothing
    return Run(at, count, length, line_end, length - 2, subject_end, reply_start, reply_end, line.sid, dots)


def _measure(run: Run, data: Bytes, view: memoryview) -> bool:
    """Cut the run to the frames that are like the first one; whether enough of them are left."""
    pattern, mask = _pattern(bytes(view[run.start : run.start + run.line_end + 2]), run)
    width = len(pattern)
    over = run.start + (run.count - 1) * run.length + 8 * width > len(data)
    run.count -= over  # the words of the last one would be read beyond the buffer
    words = np.ndarray((run.count, width), "<u8", data.data, run.start, (run.length, 8))
    differing = words ^ pattern
    differing &= mask
    ends = np.ndarray((run.count,), "<u2", data.data, run.start + run.end, (run.length,))
    unlike = ends != _CRLF
    if differing.any():
        unlike |= differing.any(axis=1)
    if unlike.any():
        run.count = int(np.argmax(unlike))
    return run.count >= SHORTEST


def _pattern(line: bytes, run: Run) -> tuple[Words, Words]:
    """The bits that each word of a line must have, and which bits are looked at."""
    size = -(-len(line) // 8) * 8
    pattern, mask = bytearray(size), bytearray(size)
    pattern[: len(line)] = line
    mask[: len(line)] = b"\xff" * len(line)
    for place in range(run.dots[-4] + 1, run.reply_end):
        if place not in run.dots:
            pattern[place] = mask[place] = _DIGIT
    return np.frombuffer(pattern, "<u8"), np.frombuffer(mask, "<u8")


def read_run_lines(buffer: pa.Buffer, runs: list[Run]) -> LineTable | None:
    """Words of the control lines, in the buffer that they lie in; None if they have not one shape."""
    if len({len(run.dots) for run in runs}) != 1:
        return None
    data = np.frombuffer(contents(buffer), np.uint8)
    starts = [run.starts() for run in runs]
    counts = [run.count for run in runs]

    def column(offsets: list[int]) -> Index:
        return np.concatenate([start + offset for start, offset in zip(starts, offsets, strict=True)])

    return LineTable(
        buffer,
        data,
        sliding_words(data),
        subject_start=column([_SUBJECT] * len(runs)),
        subject_end=column([run.subject_end for run in runs]),
        reply_start=column([run.reply_start for run in runs]),
        reply_end=column([run.reply_end for run in runs]),
        sid=np.repeat(np.array([run.sid for run in runs], np.uint64), counts),
        reply_dots=np.concatenate([start[:, None] + run.dots for start, run in zip(starts, runs, strict=True)]),
    )
