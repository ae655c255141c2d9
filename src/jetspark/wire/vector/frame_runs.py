"""Runs of messages of equal length: the first message gives all positions, so no search is necessary.

Deliveries of one size from one subject have frames of one length, until a number in them gets another digit. The same
holds for the acknowledgements of publishes. The scalar parser's functions read the first frame of a run, which becomes
the template. The following frames, at multiples of the length, are compared with it, 64 bits at a time. Only the
payload and some digits may differ: the digits of the last four numbers of the ack subject or, in an answer, which has
no reply, the digits of the number at the end of its subject. The comparison checks every byte of the line, so the
result is that of the general path, in a third of the time. After a run, another run is tried, or the general path
continues.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import FrameLimits, parse_message_line
from jetspark.wire.vector.byte_spans import Bytes, Index

__all__ = ["SUBJECT_START", "FrameRun", "find_frame_runs", "incomplete_frame_size"]

MIN_RUN_FRAMES: Final = 64
"""Minimum number of frames of a run; fewer are not worth its fixed cost."""
_FIRST_COMPARED: Final = 1024  # frames
_PROBED_ROWS: Final = (1, MIN_RUN_FRAMES // 2, MIN_RUN_FRAMES - 1)
_LONGEST_LINE: Final = 1 << 10
_CR: Final = 13
_CRLF: Final = np.uint16(int.from_bytes(b"\r\n", "little"))
_DOT: Final = re.compile(rb"\.")
_LAST_NUMBER: Final = re.compile(rb"(?<=\.)[0-9]+\Z")
SUBJECT_START: Final = 4
"""Position of the subject in the line of a MSG."""
_PREFIX: Final = b"$JS.ACK."
_DIGIT: Final = 0x10  # this bit is set in every digit, and neither in a space nor in a dot


@dataclass(slots=True)
class FrameRun:
    """Frames `stride` bytes apart, the first of which is at `start`.

    Attributes
    ----------
    line_end, end
        Ends of the control line and of the payload, as offsets from a frame's start.
    subject, sid
        The same in all lines; for answers, the subject of the first one.
    reply_start, reply_end, dot_offsets
        Offsets of the reply and of its dots from a frame's start. Answers have no reply.
    digit_offsets
        Offsets at which any digit is allowed.
    """

    start: int
    count: int
    stride: int
    line_end: int
    end: int
    subject: bytes
    sid: int
    reply_start: int
    reply_end: int
    dot_offsets: list[int]
    digit_offsets: list[int]

    @property
    def stop(self) -> int:
        """End position of the run in the buffer."""
        return self.start + self.count * self.stride

    def starts(self) -> Index:
        """Return the start positions of the frames, int64 (count,)."""
        return np.arange(self.start, self.stop, self.stride)


def find_frame_runs(data: Bytes, view: memoryview, limits: FrameLimits) -> list[FrameRun]:
    """Return the adjacent runs at the start of the buffer."""
    runs: list[FrameRun] = []
    at = 0
    while (run := _candidate_run(view, at, limits)) is not None and _shorten_to_matching(run, data, view):
        runs.append(run)
        at = run.stop
    return runs


def incomplete_frame_size(view: memoryview, limits: FrameLimits) -> int | None:
    """Return the total bytes of a frame if the buffer holds only its beginning, 0 if the size is not known yet.

    Return None if the buffer may hold more than that, or if it does not begin with a message.
    """
    head = bytes(view[:_LONGEST_LINE])
    feed = head.find(b"\n")
    if feed < 0:
        return 0 if len(view) <= min(limits.line, _LONGEST_LINE) else None
    if not head.startswith(b"MSG ") or head[feed - 1 : feed] != b"\r" or feed > limits.line:
        return None
    try:
        needed = feed + 3 + parse_message_line(head[: feed - 1], limits).size
    except ProtocolError:
        return None
    return needed if needed > len(view) else None


def _candidate_run(view: memoryview, at: int, limits: FrameLimits) -> FrameRun | None:
    """Return the possible run that begins with the frame at `at`, None if there can be no run."""
    head = bytes(view[at : at + _LONGEST_LINE])
    line_end = head.find(b"\n") - 1
    if line_end < 0 or not head.startswith(b"MSG ") or head[line_end] != _CR or line_end > limits.line:
        return None
    try:
        line = parse_message_line(head[:line_end], limits)
    except ProtocolError:
        return None  # the general path raises the error
    length = line_end + 4 + line.size
    count = (len(view) - at) // length
    if count < MIN_RUN_FRAMES:
        return None
    reply_end = head.rfind(b" ", 0, line_end)
    reply_start = reply_end - len(line.reply)
    dots = [dot.start() for dot in _DOT.finditer(head, reply_start, reply_end)]
    if line.reply.startswith(_PREFIX) and len(dots) in {8, 10}:
        digits = [place for place in range(dots[-4] + 1, reply_end) if place not in dots]
    elif not line.reply and (number := _LAST_NUMBER.search(line.subject)):
        digits = [SUBJECT_START + place for place in range(*number.span())]
    else:
        return None
    same = head[: digits[0]]
    if any(view[at + row * length :][: len(same)] != same for row in _PROBED_ROWS):
        return None  # a cheap check, so that buffers without runs cost little
    return FrameRun(
        at, count, length, line_end, length - 2, line.subject, line.sid, reply_start, reply_end, dots, digits
    )


def _shorten_to_matching(run: FrameRun, data: Bytes, view: memoryview) -> bool:
    """Shorten the run to the frames that match the first one; return whether enough are left."""
    pattern, mask = _pattern_and_mask(bytes(view[run.start : run.start + run.line_end + 2]), run)
    # Each step doubles the number of compared frames: the work for a short run must not grow with the buffer.
    at, count = 0, _FIRST_COMPARED
    while at < run.count:
        count = min(count, run.count - at)
        matching = _count_matching(run, data, at, count, pattern, mask)
        at += matching
        if matching < count:
            break
        count = at
    run.count = at
    return run.count >= MIN_RUN_FRAMES


def _count_matching(run: FrameRun, data: Bytes, at: int, count: int, pattern: bytes, mask: bytes) -> int:
    """Return how many of `count` frames, from number `at` on, match the pattern before the first that does not."""
    start, width = run.start + at * run.stride, len(pattern) // 8
    words = np.ndarray((count, width), "<u8", data.data, start, (run.stride, 8))
    differing = words ^ np.frombuffer(pattern, "<u8", width)
    differing &= np.frombuffer(mask, "<u8", width)
    ends = np.ndarray((count,), "<u2", data.data, start + run.end, (run.stride,))
    unlike = ends != _CRLF
    # The line's end after the last whole word: compared with the last 64 bits, some of them a second time.
    last = np.ndarray((count,), "<u8", data.data, start + len(pattern) - 8, (run.stride,))
    unlike |= ((last ^ np.frombuffer(pattern[-8:], "<u8")) & np.frombuffer(mask[-8:], "<u8")) != 0
    if differing.any():
        unlike |= differing.any(axis=1)
    return int(np.argmax(unlike)) if unlike.any() else count


def _pattern_and_mask(line: bytes, run: FrameRun) -> tuple[bytes, bytes]:
    """Return the bits that each byte of a line must have, and the mask of the bits to compare."""
    pattern, mask = bytearray(line), bytearray(b"\xff" * len(line))
    for place in run.digit_offsets:
        pattern[place] = mask[place] = _DIGIT
    return bytes(pattern), bytes(mask)
