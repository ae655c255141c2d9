"""The messages of a buffer as columns of positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.wire.frames import Control, Frame, MsgFrame, parse_message_line
from jetspark.wire.vector.byte_spans import Index, buffer_bytes, gather_rows, gather_spans
from jetspark.wire.vector.control_lines import NO_LIMITS, ControlLineTable, read_lines, read_lines_of_run
from jetspark.wire.vector.frame_runs import FrameRun

__all__ = ["FrameTable", "concat_tables", "table_of_runs"]


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
        Bytes up to the end of the last complete frame; the next buffer must begin there.
    needed
        Total bytes of the incomplete frame that follows `consumed`; 0 if not known, or if there is none.
    run
        The run that contains all messages, if there is one.
    """

    buffer: pa.Buffer
    start: Index
    line_end: Index
    header_size: Index
    end: Index
    controls: list[tuple[int, Control]] = field(default_factory=list)
    consumed: int = 0
    needed: int = 0
    run: FrameRun | None = None

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def body(self) -> Index:
        return self.line_end + 2

    @cached_property
    def payload(self) -> Index:
        """Start positions of the payloads, int64 (n,)."""
        return self.body + self.header_size

    @cached_property
    def lines(self) -> ControlLineTable:
        """Words of the control lines.

        Raises
        ------
        ProtocolError
            A control line has words missing, empty or too many.
        """
        if self.run is not None:
            return read_lines_of_run(self.buffer, self.run)
        return read_lines(self.buffer, self.start, self.line_end)

    def select(self, rows: NDArray[np.bool_]) -> FrameTable:
        """Return the messages for which `rows` is true, without the controls."""
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
        """Return the first `rows` messages, without the controls."""
        start, line_end, header_size, end = (
            column[:rows] for column in (self.start, self.line_end, self.header_size, self.end)
        )
        return FrameTable(self.buffer, start, line_end, header_size, end, [], self.consumed)

    def copy(self) -> FrameTable:
        """Return the same messages in a copy of the buffer, without the controls."""
        raw = pa.py_buffer(bytes(buffer_bytes(self.buffer)))
        return FrameTable(raw, self.start, self.line_end, self.header_size, self.end, [], self.consumed)

    def payloads(self) -> pa.BinaryArray:
        """Return the payload column, copied from the buffer."""
        if (run := self.run) is not None:
            data = np.frombuffer(buffer_bytes(self.buffer), np.uint8)
            return gather_rows(data, run.start + run.line_end + 2, run.end - run.line_end - 2, run.stride, run.count)
        return gather_spans(self.buffer, self.payload, self.end)

    def message(self, row: int) -> MsgFrame:
        """Return one message as the scalar parser gives it."""
        view = buffer_bytes(self.buffer)
        line = parse_message_line(bytes(view[int(self.start[row]) : int(self.line_end[row])]), NO_LIMITS)
        body, payload, end = int(self.body[row]), int(self.payload[row]), int(self.end[row])
        return MsgFrame(line.subject, line.sid, line.reply, bytes(view[body:payload]), bytes(view[payload:end]))

    def frames(self) -> Iterator[Frame]:
        """Yield all frames in order, as the scalar parser gives them."""
        done = 0
        for before, control in self.controls:
            for row in range(done, before):
                yield self.message(row)
            done = before
            yield control
        for row in range(done, len(self)):
            yield self.message(row)


def table_of_runs(runs: list[FrameRun], buffer: pa.Buffer, needed: int) -> FrameTable:
    """Return the messages of the runs at the start of the buffer."""
    start = _concat_columns([run.starts() for run in runs])
    counts = [run.count for run in runs]
    if len(runs) == 1:
        line_end, end = start + runs[0].line_end, start + runs[0].end
    else:
        line_end = start + np.repeat([run.line_end for run in runs], counts)
        end = start + np.repeat([run.end for run in runs], counts)
    header_size = np.zeros(len(start), np.int64)
    run = runs[0] if len(runs) == 1 else None
    return FrameTable(buffer, start, line_end, header_size, end, [], runs[-1].stop, needed, run)


def concat_tables(front: FrameTable, rest: FrameTable, at: int) -> FrameTable:
    """Join two tables; the second one was found in the buffer from `at` on."""
    return FrameTable(
        front.buffer,
        _concat_columns([front.start, rest.start + at]),
        _concat_columns([front.line_end, rest.line_end + at]),
        _concat_columns([front.header_size, rest.header_size]),
        _concat_columns([front.end, rest.end + at]),
        [(before + len(front), control) for before, control in rest.controls],
        rest.consumed + at,
        rest.needed,
        front.run if not len(rest) else None,
    )


def _concat_columns(parts: list[Index]) -> Index:
    return parts[0] if len(parts) == 1 or not len(parts[1]) else np.concatenate(parts)
