"""Vectorised protocol: a whole buffer at a time, frames <-> Arrow columns. Needs the `arrow` extra."""

from __future__ import annotations

from jetspark.wire.vector.decoder import FrameTable, decode
from jetspark.wire.vector.lines import LineTable
from jetspark.wire.vector.runs import Run

__all__ = ["FrameTable", "LineTable", "Run", "decode"]
