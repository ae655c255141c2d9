"""A flight of publishes: rows that are sent without waiting for one another, until all are answered or one is refused.

It tries nothing twice. What stays open when it ends early (rows refused for the moment, rows whose answers got lost) is
for `publisher` to send again, in another flight.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from jetspark.bulk.acks import AckReader, Refusal, StreamAcks
from jetspark.bulk.connection import Connection
from jetspark.bulk.publishing import BulkSettings, may_pass
from jetspark.bulk.rows import Rows
from jetspark.bulk.window import Window
from jetspark.jetstream.errors import Error, PublishTimeoutError, TooManyRequestsError
from jetspark.wire.vector.encoder import encode_publishes, row_offsets
from jetspark.wire.vector.words import contents

__all__ = ["Flight", "OpenRows", "RefusedError"]

_ACK_BYTES: Final = 64  # about what one acknowledgement takes
_ROWS_AT_ONCE: Final = 500  # worth a write; twice as many leave the server without work now and then


class RefusedError(Error, RuntimeError):
    """Rows were refused. Everything that was sent is answered.

    Attributes
    ----------
    row, subject
        Of the first one.
    error
        What the server said of it.
    passing
        All may be refused for the moment only.
    known
        It is known which rows were refused; else one of them is likely `row`.
    flooded
        More was under way than the server can keep.
    """

    def __init__(self, row: int, subject: str, refusals: list[Refusal], error: Error, *, known: bool) -> None:
        super().__init__(str(error))
        self.row = row
        self.subject = subject
        self.error = error
        self.passing = all(may_pass(one.error) for one in refusals)
        self.known = known
        self.flooded = any(isinstance(one.error, TooManyRequestsError) for one in refusals)


@dataclass(frozen=True, slots=True)
class OpenRows:
    """What a flight that ended early leaves open.

    Attributes
    ----------
    rows
        Those that were sent and are neither stored nor refused for good, as far as is known. Where rows share a reply
        subject and it is not known which of them were acknowledged, it is all of them.
    acknowledged
        How many of them were acknowledged.
    """

    rows: list[int]
    acknowledged: int = 0


class Flight:
    """Sends rows in their order.

    Parameters
    ----------
    streams
        Takes in what is acknowledged.
    origin
        Number of the first row.
    shared
        Rows may share a reply subject; in a cluster they never do.
    """

    def __init__(
        self,
        connection: Connection,
        settings: BulkSettings,
        streams: dict[str, StreamAcks],
        origin: int = 0,
        *,
        shared: bool = True,
    ) -> None:
        self._connection = connection
        self._settings = settings
        inbox = connection.new_inbox()
        shared = shared and not connection.server_info.cluster
        self._window = Window(inbox, settings.max_pending, shared=shared, origin=origin)
        self._acks = AckReader(self._window, streams)
        self._sid = connection.subscribe(f"{inbox}.*")
        self.bytes = 0
        """Bytes written."""
        self.recent: deque[Rows] = deque()
        """The rows under way, and some more around them."""

    @property
    def sent(self) -> int:
        """First row that was not sent."""
        return self._window.sent

    @property
    def narrower(self) -> int:
        """Most rows under way of the next flight, where the server was flooded by this one."""
        return self._window.narrower

    @property
    def reply_length(self) -> int:
        """Bytes of every reply subject."""
        return self._window.reply_length

    def close(self) -> None:
        """Stop listening."""
        if not self._connection.closed:
            self._connection.unsubscribe(self._sid)

    def send(self, rows: Rows) -> None:
        """Send rows, as the window lets them; the last ones are still under way afterwards.

        Raises
        ------
        RefusedError
            Rows were refused.
        PublishTimeoutError, DisconnectedError, ...
            What became of the rows under way is not known.
        """
        self.recent.append(rows)
        if self._window.span > 1 and len(self._acks.streams) > 1:  # their answers may overtake one another
            self.finish()
            self._window.separate()
        replies = self._window.replies(rows.first, len(rows))
        frames = encode_publishes(rows.subjects, replies, rows.payloads, rows.headers)
        offsets = row_offsets(frames)
        data = contents(frames.buffers()[2])
        # A part of the window, so that it never runs dry while we encode.
        block = max(min(_ROWS_AT_ONCE, self._window.size // 4), 1)
        at = 0
        while at < len(rows):
            wanted = min(block, len(rows) - at)
            self._wait_for_room(wanted)
            first, stop = int(offsets[at]), int(offsets[at + wanted])
            self._window.send(wanted)
            self._connection.send(data[first:stop], time.monotonic() + self._settings.ack_timeout)
            self.bytes += stop - first
            at += wanted
            self._settle()

    def finish(self) -> None:
        """Wait for the last acknowledgements. Raises as `send` does."""
        self._wait_for_all()
        self._settle()

    def open_rows(self) -> OpenRows:
        """What it leaves open."""
        rows: set[int] = set()
        acknowledged = 0
        refused = self._refused()
        for sharing, answers in self._window.unanswered():
            rows.update(sharing)
            acknowledged += answers - len(refused.pop(sharing.start, ()))
        for first, group in refused.items():
            known = self._known(first, group)
            rows.update(self._window.sharing(first) if known is None else known)
            if known is None:
                acknowledged += len(self._window.sharing(first)) - len(group)
        return OpenRows(sorted(rows), acknowledged)

    def _wait_for_room(self, wanted: int) -> None:
        """Read acknowledgements until the window has room for so many rows."""
        while self._window.room < wanted:
            self._await_acks(wanted - self._window.room)

    def _wait_for_all(self) -> None:
        while self._window.answered < self._window.sent:
            self._await_acks(self._window.sent - self._window.answered)

    def _await_acks(self, missing: int) -> None:
        """Read acknowledgements, so many if they come soon."""
        window, answered = self._window, self._window.answered
        deadline = time.monotonic() + self._settings.ack_timeout
        while window.answered == answered:
            table = self._connection.read(deadline, enough=missing * _ACK_BYTES)
            if table is not None:
                ours = table.lines.sid == self._sid
                self._acks.read(table if ours.all() else table.select(ours))
            if window.answered == answered and time.monotonic() >= deadline:
                raise PublishTimeoutError(
                    f"no acknowledgement within {self._settings.ack_timeout:g} s for {window.sent - answered} messages"
                )

    def _settle(self) -> None:
        """Raise when rows were refused, after what is under way has been answered; else forget what is done."""
        if self._acks.refusals:
            self._wait_for_all()
            refused = self._refused()
            pairs = [(self._row_of(one, group), one.error) for group in refused.values() for one in group]
            row, error = min(pairs, key=lambda pair: pair[0])
            known = all(self._known(first, group) is not None for first, group in refused.items())
            raise RefusedError(row, self._subject_of(row), self._acks.refusals, error, known=known) from error
        while self.recent and self.recent[0].first + len(self.recent[0]) <= self._window.floor:
            self.recent.popleft()

    def _refused(self) -> dict[int, list[Refusal]]:
        """The refusals, by the first of the rows that share the reply subject."""
        groups: dict[int, list[Refusal]] = {}
        for one in self._acks.refusals:
            groups.setdefault(one.first, []).append(one)
        return groups

    def _known(self, first: int, group: list[Refusal]) -> list[int] | None:
        """The rows that were refused, of those that share a reply subject and are answered; None: it is not known.

        The order of the answers does not tell, see `window`.
        """
        sharing = self._window.sharing(first)
        if len(group) >= len(sharing):
            return list(sharing)
        nobodys = {one.subject for one in group}
        rows = [row for row in sharing if self._subject_of(row) in nobodys]
        return rows if None not in nobodys and len(rows) == len(group) else None

    def _row_of(self, refusal: Refusal, group: list[Refusal]) -> int:
        """The row of a refusal, one of those on a reply subject: the likeliest one where it is not known."""
        sharing = self._window.sharing(refusal.first)
        if refusal.subject is not None:
            # The n-th of those that nobody takes is the n-th row of that subject.
            same = [one for one in group if one.subject == refusal.subject]
            rows = [row for row in sharing if self._subject_of(row) == refusal.subject]
            if len(same) <= len(rows):
                return rows[same.index(refusal)]
        # Answers that nobody takes a subject overtake the others, so both they and their rows are left out.
        ahead = [one for one in group if one.subject]
        nobodys = {one.subject for one in ahead}
        rows = [row for row in sharing if self._subject_of(row) not in nobodys] or list(sharing)
        nth = refusal.nth - sum(one.nth < refusal.nth for one in ahead)
        return rows[min(nth, len(rows) - 1)]

    def _subject_of(self, row: int) -> str:
        rows = next(rows for rows in self.recent if row < rows.first + len(rows))
        subject: bytes = rows.subjects[row - rows.first].as_py()
        return subject.decode("utf-8", "replace")
