"""The publish window: which rows are under way, and which of them were answered. No I/O.

The server keeps what it knows of a subject's listeners in a cache of 1,024 subjects. A reply subject for each message
would empty it again and again, and costs a fifth of the speed. So there are only `slots` reply subjects, in a ring, and
`span` consecutive rows share one: row `r` has slot `r // span % slots`.

A single server stores what one connection sends to one stream in its order, so the n-th answer on a slot is most likely
for the n-th of its rows. It is not certain: a server that is flooded refuses a message before it has answered the ones
before it, and the stream may lie in a cluster that is connected as a leaf node. So the order may help to name a row in
an error, but nothing that is sent again depends on it. A cluster refuses out of order quite usually, and several
streams do not wait for one another; there a span is 1, and each row has a reply subject of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["MOST_PENDING", "Window"]

MOST_PENDING: Final = 10_000
"""nats-server drops what comes while so many messages of a stream wait to be stored."""
_SLOTS: Final = 500
_PENDING_SINGLE: Final = 4_000
_PENDING_CLUSTER: Final = 768
_FEWEST_PENDING: Final = 64  # less would only wait for answers


class Window:
    """Rows `floor` to `sent - 1` are under way; some of them may have been answered.

    Parameters
    ----------
    inbox
        Subject below which the ring's reply subjects lie.
    max_pending
        Most rows under way; None takes 4,000 for a single server and 768 for a cluster.
    shared
        Rows may share a reply subject.
    origin
        Number of the first row; those before it are settled.
    """

    def __init__(self, inbox: str, max_pending: int | None, *, shared: bool, origin: int = 0) -> None:
        wanted = max_pending or (_PENDING_SINGLE if shared else _PENDING_CLUSTER)
        self._inbox = inbox
        self._make_ring(wanted, -(-wanted // _SLOTS) if shared else 1)
        self._origin = origin
        self.sent = origin
        """First row that is not sent yet."""
        self.answered = origin
        """How many rows were answered."""
        self._floor_group = 0

    def _make_ring(self, wanted: int, span: int) -> None:
        self.span = span
        self.slots = max(wanted // span, 1)
        self.size = self.slots * span
        self.digits = len(str(self.slots - 1))
        replies = [f"{self._inbox}.{slot:0{self.digits}d}".encode() for slot in range(self.slots)]
        self._replies = pa.array(replies, pa.binary())
        self._answers = np.zeros(self.slots, np.int64)

    def separate(self) -> None:
        """Give each row a reply subject of its own from here on. Nothing may be under way."""
        assert self.answered == self.sent
        self._make_ring(min(self.size, _PENDING_CLUSTER), 1)
        self._floor_group = self.sent - self._origin

    @property
    def narrower(self) -> int:
        """Most rows under way of a window for a server that this one was too wide for."""
        return max(min(self.size, _PENDING_CLUSTER) // 2, min(self.size, _FEWEST_PENDING))

    @property
    def floor(self) -> int:
        """Every row before this one was answered."""
        return self._origin + self._floor_group * self.span

    @property
    def room(self) -> int:
        """How many rows may be sent now."""
        return self.size - (self.sent - self.floor)

    @property
    def reply_length(self) -> int:
        """Bytes of every reply subject."""
        return len(self._replies[0].as_py())

    def replies(self, first: int, count: int) -> pa.BinaryArray:
        """Reply subjects of rows, binary (count,)."""
        first -= self._origin
        slots = np.arange(first, first + count, dtype=np.int64) // self.span % self.slots
        return self._replies.take(pa.array(slots, pa.int64()))

    def send(self, count: int) -> None:
        """So many rows more are under way."""
        assert count <= self.room
        self.sent += count

    def rows_of(self, slot: int) -> range:
        """The rows under way that share a slot."""
        first = self._origin + (self._floor_group + (slot - self._floor_group) % self.slots) * self.span
        return self.sharing(min(first, self.sent))

    def sharing(self, first: int) -> range:
        """The rows sent that share a reply subject, by the first of them."""
        return range(first, min(first + self.span, self.sent))

    def answers_of(self, slot: int) -> int:
        """How many of these rows were answered."""
        return int(self._answers[slot])

    def unanswered(self) -> Iterator[tuple[range, int]]:
        """Rows that share a reply subject and were not all answered, and how many of them were."""
        for group in range(self._floor_group, -((self._origin - self.sent) // self.span)):
            slot = group % self.slots
            sharing, answers = self.rows_of(slot), self.answers_of(slot)
            if answers < len(sharing):
                yield sharing, answers

    def answer(self, slots: NDArray[np.int64]) -> None:
        """Answers came on these slots, each below `self.slots`."""
        self._answers += np.bincount(slots, minlength=self.slots)
        self.answered += len(slots)
        order = (self._floor_group + np.arange(self.slots)) % self.slots
        full = self._answers[order] >= self.span
        groups = self.slots if full.all() else int(np.argmin(full))
        self._answers[order[:groups]] = 0
        self._floor_group += groups
