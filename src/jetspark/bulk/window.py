"""The publish window: which rows are under way, and which of them were acknowledged. No I/O.

Every row under way has a reply subject of its own, taken from a ring: the slot in it says which row an acknowledgement
is for, whatever their order. The ring is small on purpose: the server keeps what it knows of a subject's listeners in a
cache of 1,024 subjects, and one reply subject for each message would empty it again and again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Window"]


class Window:
    """Rows `floor` to `sent - 1` are under way.

    Parameters
    ----------
    inbox
        Subject below which the ring's reply subjects lie.
    size
        Most rows under way.
    """

    def __init__(self, inbox: str, size: int) -> None:
        self.size = size
        self.digits = len(str(size - 1))
        self.floor = 0
        """First row that is not acknowledged yet."""
        self.sent = 0
        """First row that is not sent yet."""
        self._acked = np.zeros(size, np.bool_)
        self._replies = pa.array([f"{inbox}.{slot:0{self.digits}d}".encode() for slot in range(size)], pa.binary())

    @property
    def reply_length(self) -> int:
        """Bytes of every reply subject."""
        return len(self._replies[0].as_py())

    @property
    def room(self) -> int:
        """How many rows may be sent now."""
        return self.size - (self.sent - self.floor)

    def replies(self, first: int, count: int) -> pa.BinaryArray:
        """Reply subjects of rows, binary (count,)."""
        slots = np.arange(first, first + count, dtype=np.int64) % self.size
        return self._replies.take(pa.array(slots, pa.int64()))

    def send(self, count: int) -> None:
        """So many rows more are under way."""
        assert count <= self.room
        self._acked[np.arange(self.sent, self.sent + count) % self.size] = False
        self.sent += count

    def acknowledge(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Acknowledgements came for these slots; returns their rows, -1 for one that is not under way."""
        rows = self.floor + (slots - self.floor) % self.size
        rows[(slots >= self.size) | (rows >= self.sent)] = -1
        self._acked[slots[rows >= 0]] = True
        under_way = np.arange(self.floor, self.sent) % self.size
        waiting = np.flatnonzero(~self._acked[under_way])
        self.floor = self.floor + int(waiting[0]) if len(waiting) else self.sent
        return rows
