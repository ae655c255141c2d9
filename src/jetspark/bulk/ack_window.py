"""The publish window: which rows are in flight, and which of them were answered. No I/O.

The server caches the subscribers of 1,024 subjects. A reply subject for each message would flush that cache again and
again, which reduces the speed by a fifth. So there are only `slots` reply subjects, in a ring, and `span` consecutive
rows share one: row `r` has slot `r // span % slots`.

A single server stores messages from one connection to one stream in order, so the n-th answer on a slot is most likely
for the n-th of its rows. It is not certain: a flooded server refuses a message before it has answered earlier ones, and
the stream may be in a cluster that is connected as a leaf node. So the order may help to name a row in an error, but it
never decides which rows are sent again. A cluster often refuses out of order, and several streams do not wait for each
other; then `span` is 1, and each row has a reply subject of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["MAX_PENDING", "AckWindow"]

MAX_PENDING: Final = 10_000
"""nats-server drops further messages while that many messages of a stream wait to be stored."""
_SLOTS: Final = 500
_PENDING_SINGLE: Final = 4_000
_PENDING_CLUSTER: Final = 768
_MIN_PENDING: Final = 64  # with fewer, it would mostly wait for answers


class AckWindow:
    """A window whose rows `first_unanswered` to `sent - 1` are in flight; some of them may have been answered.

    Parameters
    ----------
    inbox
        Prefix of the reply subjects in the ring.
    max_pending
        Most rows in flight; None means 4,000 for a single server and 768 for a cluster.
    shared_replies
        Whether rows may share a reply subject.
    origin
        Number of the first row; earlier rows are settled.
    """

    def __init__(self, inbox: str, max_pending: int | None, *, shared_replies: bool, origin: int = 0) -> None:
        wanted = max_pending or (_PENDING_SINGLE if shared_replies else _PENDING_CLUSTER)
        self._inbox = inbox
        self._make_ring(wanted, -(-wanted // _SLOTS) if shared_replies else 1)
        self._origin = origin
        self.sent = origin
        """Number of the first row that is not sent yet."""
        self.answered = origin
        """Number of the answered rows, plus `origin`."""
        self._floor_group = 0

    def _make_ring(self, wanted: int, span: int) -> None:
        self.rows_per_reply = span
        self.slots = max(wanted // span, 1)
        self.size = self.slots * span
        self.digits = len(str(self.slots - 1))
        replies = [f"{self._inbox}.{slot:0{self.digits}d}".encode() for slot in range(self.slots)]
        self._replies = pa.array(replies, pa.binary())
        self._answers = np.zeros(self.slots, np.int64)

    def one_reply_per_row(self) -> None:
        """Give each row a reply subject of its own from now on. No row may be in flight."""
        assert self.answered == self.sent
        self._make_ring(min(self.size, _PENDING_CLUSTER), 1)
        self._floor_group = self.sent - self._origin

    @property
    def reduced_limit(self) -> int:
        """Most rows in flight of the next window, if this one was too large for the server."""
        return max(min(self.size, _PENDING_CLUSTER) // 2, min(self.size, _MIN_PENDING))

    @property
    def first_unanswered(self) -> int:
        """Number of the first row that may not be answered: every earlier row was answered."""
        return self._origin + self._floor_group * self.rows_per_reply

    @property
    def free_rows(self) -> int:
        """Number of rows that may be sent now."""
        return self.size - (self.sent - self.first_unanswered)

    @property
    def reply_length(self) -> int:
        """Bytes of each reply subject."""
        return len(self._replies[0].as_py())

    def replies(self, first: int, count: int) -> pa.BinaryArray:
        """Return the reply subjects of rows, binary (count,)."""
        first -= self._origin
        slots = np.arange(first, first + count, dtype=np.int64) // self.rows_per_reply % self.slots
        return self._replies.take(pa.array(slots, pa.int64()))

    def count_sent(self, count: int) -> None:
        """Note that `count` more rows are in flight."""
        assert count <= self.free_rows
        self.sent += count

    def rows_in_slot(self, slot: int) -> range:
        """Return the rows in flight that share a slot."""
        first = self._origin + (self._floor_group + (slot - self._floor_group) % self.slots) * self.rows_per_reply
        return self.rows_sharing_reply(min(first, self.sent))

    def rows_sharing_reply(self, first: int) -> range:
        """Return the sent rows that share a reply subject, given the first of them."""
        return range(first, min(first + self.rows_per_reply, self.sent))

    def answer_count(self, slot: int) -> int:
        """Return how many rows of the slot were answered."""
        return int(self._answers[slot])

    def unanswered_groups(self) -> Iterator[tuple[range, int]]:
        """Yield the rows that share a reply subject and were not all answered, and the number of their answers."""
        for group in range(self._floor_group, -((self._origin - self.sent) // self.rows_per_reply)):
            slot = group % self.slots
            sharing, answers = self.rows_in_slot(slot), self.answer_count(slot)
            if answers < len(sharing):
                yield sharing, answers

    def count_answers(self, slots: NDArray[np.int64]) -> None:
        """Count answers on these slots, each below `self.slots`."""
        self._answers += np.bincount(slots, minlength=self.slots)
        self.answered += len(slots)
        order = (self._floor_group + np.arange(self.slots)) % self.slots
        full = self._answers[order] >= self.rows_per_reply
        groups = self.slots if full.all() else int(np.argmin(full))
        self._answers[order[:groups]] = 0
        self._floor_group += groups
