"""Vectorised protocol: a whole buffer at a time, frames <-> Arrow columns. Needs the `arrow` extra."""

from __future__ import annotations

from jetspark.wire.vector.decoder import FrameTable, LineTable, decode

__all__ = ["FrameTable", "LineTable", "decode"]
