"""Vectorised protocol: a whole buffer at a time, frames <-> Arrow columns. Needs the `arrow` extra."""

from __future__ import annotations

from jetspark.wire.vector.control_lines import ControlLineTable
from jetspark.wire.vector.decoder import decode
from jetspark.wire.vector.frame_runs import FrameRun
from jetspark.wire.vector.frame_table import FrameTable

__all__ = ["ControlLineTable", "FrameRun", "FrameTable", "decode"]
