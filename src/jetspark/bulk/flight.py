"""A flight of publishes: rows sent without waiting for each other, until all are answered or one is refused.

It sends nothing twice. If it ends early, some rows stay open: rows refused for the moment, and rows whose answers got
lost. `publisher` sends them again in another flight.
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

_ACK_BYTES: Final = 64  # approximate size of one acknowledgement
_ROWS_AT_ONCE: Final = 500  # enough for a write; with twice as many the server is idle now and then


class RefusedError(Error, RuntimeError):
    """Rows were refused. All rows that were sent are answered.

    Attributes
    ----------
    row, subject
        Number and subject of the first refused row.
    error
        Error of the server for that row.
    passing
        Whether all refusals may be temporary.
    known
        Whether it is known which rows were refused; otherwise `row` is only the most likely one.
    flooded
        Whether more messages were in flight than the server can keep.
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
    """Rows that are open after a flight that ended early.

    Attributes
    ----------
    rows
        Rows that were sent and, as far as is known, are neither stored nor refused for good. If rows share a reply
        subject and it is not known which of them were acknowledged, all of them are included.
    acknowledged
        How many of them were acknowledged.
    """

    rows: list[int]
    acknowledged: int = 0


class Flight:
    """Sends rows in order.

    Parameters
    ----------
    streams
        Receives the acknowledgements.
    origin
        Number of the first row.
    shared
        Whether rows may share a reply subject; in a cluster they never do.
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
        """The rows in flight, and some rows around them."""

    @property
    def sent(self) -> int:
        """Number of the first row that was not sent."""
        return self._window.sent

    @property
    def narrower(self) -> int:
        """Most rows in flight for the next flight, if this one flooded the server."""
        return self._window.narrower

    @property
    def reply_length(self) -> int:
        """Bytes of each reply subject."""
        return self._window.reply_length

    def close(self) -> None:
        """End the subscription."""
        if not self._connection.closed:
            self._connection.unsubscribe(self._sid)

    def send(self, rows: Rows) -> None:
        """Send rows, as the window allows; afterwards the last ones are still in flight.

        Raises
        ------
        RefusedError
            Rows were refused.
        PublishTimeoutError, DisconnectedError, ...
            Whether the rows in flight are stored is not known.
        """
        self.recent.append(rows)
        if self._window.span > 1 and len(self._acks.streams) > 1:  # answers of several streams may overtake each other
            self.finish()
            self._window.separate()
        replies = self._window.replies(rows.first, len(rows))
        frames = encode_publishes(rows.subjects, replies, rows.payloads, rows.headers)
        offsets = row_offsets(frames)
        data = contents(frames.buffers()[2])
        # A part of the window, so that there are always rows in flight while we encode.
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
        """Return the rows that this flight leaves open."""
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
        """Read acknowledgements until the window has room for `wanted` rows."""
        while self._window.room < wanted:
            self._await_acks(wanted - self._window.room)

    def _wait_for_all(self) -> None:
        while self._window.answered < self._window.sent:
            self._await_acks(self._window.sent - self._window.answered)

    def _await_acks(self, missing: int) -> None:
        """Read acknowledgements: at least one, and up to `missing` if they come soon."""
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
        """Raise if rows were refused, after all rows in flight are answered; otherwise forget the settled rows."""
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
        """Return the refusals, by the first of the rows that share the reply subject."""
        groups: dict[int, list[Refusal]] = {}
        for one in self._acks.refusals:
            groups.setdefault(one.first, []).append(one)
        return groups

    def _known(self, first: int, group: list[Refusal]) -> list[int] | None:
        """Return the refused rows among answered rows that share a reply subject; None if that is not known.

        The order of the answers does not show it, see `window`.
        """
        sharing = self._window.sharing(first)
        if len(group) >= len(sharing):
            return list(sharing)
        nobodys = {one.subject for one in group}
        rows = [row for row in sharing if self._subject_of(row) in nobodys]
        return rows if None not in nobodys and len(rows) == len(group) else None

    def _row_of(self, refusal: Refusal, group: list[Refusal]) -> int:
        """Return the row of a refusal on a shared reply subject; if it is not known, the most likely row."""
        sharing = self._window.sharing(refusal.first)
        if refusal.subject is not None:
            # The n-th refusal of a subject that nobody takes belongs to the n-th row of that subject.
            same = [one for one in group if one.subject == refusal.subject]
            rows = [row for row in sharing if self._subject_of(row) == refusal.subject]
            if len(same) <= len(rows):
                return rows[same.index(refusal)]
        # "No responders" answers overtake the others, so both they and their rows are left out.
        ahead = [one for one in group if one.subject]
        nobodys = {one.subject for one in ahead}
        rows = [row for row in sharing if self._subject_of(row) not in nobodys] or list(sharing)
        nth = refusal.nth - sum(one.nth < refusal.nth for one in ahead)
        return rows[min(nth, len(rows) - 1)]

    def _subject_of(self, row: int) -> str:
        rows = next(rows for rows in self.recent if row < rows.first + len(rows))
        subject: bytes = rows.subjects[row - rows.first].as_py()
        return subject.decode("utf-8", "replace")
