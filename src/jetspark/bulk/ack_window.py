"""The publish window: which rows are in flight, and which of them were answered. No I/O.

Each row has a reply subject of its own, which is never used again. So an answer belongs to one row, and a second answer
to that row settles no other one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.bulk.row_tokens import RowTokens
from jetspark.wire.vector.byte_spans import Index, Words

__all__ = ["MAX_PENDING", "AckWindow"]

MAX_PENDING: Final = 10_000
"""nats-server drops further messages while that many messages of a stream wait to be stored."""
_PENDING_SINGLE: Final = 4_000
_PENDING_CLUSTER: Final = 768
_MIN_PENDING: Final = 64  # with fewer, it would mostly wait for answers


class AckWindow:
    """A window whose rows `first_unanswered` to `sent - 1` are in flight; some of them may have been answered.

    Parameters
    ----------
    inbox
        Prefix of the reply subjects.
    max_pending
        Most rows in flight; None means 4,000 for a single server and 768 for a cluster.
    in_cluster
        Whether the server is in a cluster.
    origin
        Number of the first row; earlier rows are settled.
    """

    def __init__(self, inbox: str, max_pending: int | None, *, in_cluster: bool, origin: int = 0) -> None:
        self.size = max_pending or (_PENDING_CLUSTER if in_cluster else _PENDING_SINGLE)
        """Most rows in flight."""
        self.sent = origin
        """Number of the first row that is not sent yet."""
        self.answered = origin
        """Number of the answered rows, plus `origin`."""
        self.first_unanswered = origin
        """Number of the first row that is not answered."""
        self._tokens = RowTokens(inbox, origin)
        self._is_answered = np.zeros(self.size, np.bool_)  # row r is at r % size
        self._latest = np.zeros(self.size, np.int64)  # scratch space of `settle`

    @property
    def reduced_limit(self) -> int:
        """Most rows in flight of the next window, if this one was too large for the server."""
        return max(min(self.size, _PENDING_CLUSTER) // 2, min(self.size, _MIN_PENDING))

    @property
    def free_rows(self) -> int:
        """Number of rows that may be sent now."""
        return self.size - (self.sent - self.first_unanswered)

    @property
    def reply_length(self) -> int:
        """Bytes of each reply subject."""
        return self._tokens.reply_length

    def replies(self, first: int, count: int) -> pa.BinaryArray:
        """Return the reply subjects of rows that will be sent, binary (count,)."""
        return self._tokens.replies(first, count)

    def rows_of(self, words: Words, ends: Index) -> Index:
        """Return the sent rows to which answers belong, int64 (n,); -1 for unknown reply subjects."""
        first = self.first_unanswered
        if first + len(ends) <= self.sent and self._tokens.are_rows(first, words, ends):
            return np.arange(first, first + len(ends), dtype=np.int64)
        rows = self._tokens.rows_of(words, ends)
        return np.where(rows < self.sent, rows, -1)

    def count_sent(self, count: int) -> None:
        """Note that `count` more rows are in flight."""
        assert count <= self.free_rows
        self.sent += count

    def unanswered_rows(self) -> list[int]:
        """Return the rows in flight that were not answered."""
        rows = np.arange(self.first_unanswered, self.sent)
        return [int(row) for row in rows[~self._is_answered[rows % self.size]]]

    def is_open(self, row: int) -> bool:
        """Return whether a sent row is not answered."""
        return row >= self.first_unanswered and not self._is_answered[row % self.size]

    def settle(self, rows: Index) -> NDArray[np.bool_]:
        """Note answers to sent rows; return which of them are the first ones of their rows."""
        count = len(rows)
        if self.answered == self.first_unanswered and (rows == np.arange(self.answered, self.answered + count)).all():
            self.answered += count  # in order, as usual
            self.first_unanswered += count
            return np.ones(count, np.bool_)
        is_first = np.zeros(count, np.bool_)
        waiting = np.flatnonzero(rows >= self.first_unanswered)
        waiting = waiting[~self._is_answered[rows[waiting] % self.size]]
        places = rows[waiting] % self.size
        self._latest[places[::-1]] = waiting[::-1]  # of several answers to a row, the first one stays
        is_first[waiting[self._latest[places] == waiting]] = True
        self._is_answered[rows[is_first] % self.size] = True
        self.answered += int(np.count_nonzero(is_first))
        at = self.first_unanswered % self.size
        done = np.concatenate((self._is_answered[at:], self._is_answered[:at]))
        count = self.size if done.all() else int(np.argmin(done))
        self._is_answered[np.arange(at, at + count) % self.size] = False
        self.first_unanswered += count
        return is_first
