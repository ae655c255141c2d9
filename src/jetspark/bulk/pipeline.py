"""A pipeline of publishes: rows sent without waiting for each other, until all are answered or one is refused.

It sends nothing twice. If it ends early, some rows stay open: rows refused for the moment, and rows whose answers got
lost. `retrying_publisher` sends them again in another pipeline.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from jetspark.bulk.ack_window import AckWindow
from jetspark.bulk.connection import Connection
from jetspark.bulk.ping_probe import PingProbe
from jetspark.bulk.publish_acks import PubAckReader, Refusal, StreamAcks
from jetspark.bulk.publish_report import BulkPublishOptions
from jetspark.bulk.rows import Rows
from jetspark.jetstream.errors import Error, PublishTimeoutError, TooManyRequestsError
from jetspark.jetstream.publish import not_stored_hint
from jetspark.wire.vector.byte_spans import buffer_bytes
from jetspark.wire.vector.encoder import encode_publishes, row_offsets

__all__ = ["PublishPipeline", "RowsRefusedError", "UnsettledRows"]

_ACK_BYTES: Final = 64  # approximate size of one acknowledgement
_MAX_ROWS_PER_WRITE: Final = 500  # enough for a write; with twice as many the server is idle now and then


class RowsRefusedError(Error, RuntimeError):
    """Rows were refused. All rows that were sent are answered.

    Attributes
    ----------
    row, subject
        Number and subject of the first refused row.
    error
        Error of the server for that row.
    transient
        Whether all refusals may be temporary.
    rows_known
        Whether it is known which rows were refused; otherwise `row` is only the most likely one.
    too_many_requests
        Whether more messages were in flight than the server can keep.
    """

    def __init__(self, row: int, subject: str, refusals: list[Refusal], error: Error, *, rows_known: bool) -> None:
        super().__init__(str(error))
        self.row = row
        self.subject = subject
        self.error = error
        self.transient = all(one.error.transient for one in refusals)
        self.rows_known = rows_known
        self.too_many_requests = any(isinstance(one.error, TooManyRequestsError) for one in refusals)


@dataclass(frozen=True, slots=True)
class UnsettledRows:
    """Rows that are open after a pipeline that ended early.

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


class PublishPipeline:
    """Sends rows in order.

    Parameters
    ----------
    streams
        Receives the acknowledgements.
    origin
        Number of the first row.
    shared_replies
        Whether rows may share a reply subject; in a cluster they never do.
    """

    def __init__(
        self,
        connection: Connection,
        settings: BulkPublishOptions,
        streams: dict[str, StreamAcks],
        origin: int = 0,
        *,
        shared_replies: bool = True,
    ) -> None:
        self._connection = connection
        self._settings = settings
        inbox = connection.new_inbox()
        shared_replies = shared_replies and not connection.server_info.cluster
        self._window = AckWindow(inbox, settings.max_pending, shared_replies=shared_replies, origin=origin)
        self._acks = PubAckReader(self._window, streams)
        self._sid = connection.subscribe(f"{inbox}.*")
        self.bytes = 0
        """Bytes written."""
        self.recent_rows: deque[Rows] = deque()
        """The rows in flight, and some rows around them."""
        self._sent_at: deque[float] = deque()  # when the first of each of these was sent

    @property
    def sent(self) -> int:
        """Number of the first row that was not sent."""
        return self._window.sent

    @property
    def reduced_limit(self) -> int:
        """Most rows in flight for the next pipeline, if this one flooded the server."""
        return self._window.reduced_limit

    @property
    def reply_length(self) -> int:
        """Bytes of each reply subject."""
        return self._window.reply_length

    @property
    def oldest_sent_at(self) -> float:
        """Time of the monotonic clock before the first row in flight was sent."""
        return self._sent_at[0] if self._sent_at else time.monotonic()

    def close(self) -> None:
        """End the subscription."""
        if not self._connection.closed:
            self._connection.unsubscribe(self._sid)

    def send(self, rows: Rows) -> None:
        """Send rows, as the window allows; afterwards the last ones are still in flight.

        Raises
        ------
        RowsRefusedError
            Rows were refused.
        PublishTimeoutError, DisconnectedError, ...
            Whether the rows in flight are stored is not known.
        """
        self.recent_rows.append(rows)
        self._sent_at.append(time.monotonic())
        if (
            self._window.rows_per_reply > 1 and len(self._acks.streams) > 1
        ):  # answers of several streams may overtake each other
            self.finish()
            self._window.one_reply_per_row()
        replies = self._window.replies(rows.first, len(rows))
        frames = encode_publishes(rows.subjects, replies, rows.payloads, rows.headers)
        offsets = row_offsets(frames)
        data = buffer_bytes(frames.buffers()[2])
        # A part of the window, so that there are always rows in flight while we encode.
        block = max(min(_MAX_ROWS_PER_WRITE, self._window.size // 4), 1)
        at = 0
        while at < len(rows):
            wanted = min(block, len(rows) - at)
            self._wait_for_window(wanted)
            first, stop = int(offsets[at]), int(offsets[at + wanted])
            self._window.count_sent(wanted)
            self._connection.send(data[first:stop], time.monotonic() + self._settings.ack_timeout)
            self.bytes += stop - first
            at += wanted
            self._check_refusals()

    def finish(self) -> None:
        """Wait for the last acknowledgements. Raises as `send` does."""
        self._wait_for_all()
        self._check_refusals()

    def unsettled_rows(self) -> UnsettledRows:
        """Return the rows that this flight leaves open."""
        rows: set[int] = set()
        acknowledged = 0
        refused = self._refusals_by_reply()
        for sharing, answers in self._window.unanswered_groups():
            rows.update(sharing)
            acknowledged += answers - len(refused.pop(sharing.start, ()))
        for first, group in refused.items():
            known = self._refused_rows(first, group)
            rows.update(self._window.rows_sharing_reply(first) if known is None else known)
            if known is None:
                acknowledged += len(self._window.rows_sharing_reply(first)) - len(group)
        return UnsettledRows(sorted(rows), acknowledged)

    def _wait_for_window(self, wanted: int) -> None:
        """Read acknowledgements until the window has room for `wanted` rows."""
        while self._window.free_rows < wanted:
            self._await_acks(wanted - self._window.free_rows)

    def _wait_for_all(self) -> None:
        while self._window.answered < self._window.sent:
            self._await_acks(self._window.sent - self._window.answered)

    def _await_acks(self, missing: int) -> None:
        """Read acknowledgements: at least one, and up to `missing` if they come soon."""
        window, answered = self._window, self._window.answered
        probe = PingProbe(self._connection, self._settings.ack_timeout)
        while window.answered == answered:
            table = self._connection.read(probe.next_wait(), target_bytes=missing * _ACK_BYTES)
            if table is not None:
                ours = table.lines.sid == self._sid
                self._acks.read(table if ours.all() else table.select(ours))
            if window.answered > answered and not self._acks.refusals:
                self._connection.note_answer()
            if window.answered == answered and time.monotonic() >= probe.deadline:
                raise PublishTimeoutError(
                    f"no acknowledgement within {self._settings.ack_timeout:g} s for {window.sent - answered} messages"
                    + not_stored_hint(ping_answered=probe.answered)
                )

    def _check_refusals(self) -> None:
        """Raise if rows were refused, after all rows in flight are answered; otherwise forget the settled rows."""
        if self._acks.refusals:
            self._wait_for_all()
            refused = self._refusals_by_reply()
            pairs = [(self._likely_row(one, group), one.error) for group in refused.values() for one in group]
            row, error = min(pairs, key=lambda pair: pair[0])
            known = all(self._refused_rows(first, group) is not None for first, group in refused.items())
            raise RowsRefusedError(row, self._subject_of(row), self._acks.refusals, error, rows_known=known) from error
        while (
            self.recent_rows and self.recent_rows[0].first + len(self.recent_rows[0]) <= self._window.first_unanswered
        ):
            self.recent_rows.popleft()
            self._sent_at.popleft()

    def _refusals_by_reply(self) -> dict[int, list[Refusal]]:
        """Return the refusals, by the first of the rows that share the reply subject."""
        groups: dict[int, list[Refusal]] = {}
        for one in self._acks.refusals:
            groups.setdefault(one.first, []).append(one)
        return groups

    def _refused_rows(self, first: int, group: list[Refusal]) -> list[int] | None:
        """Return the refused rows among answered rows that share a reply subject; None if that is not known.

        The order of the answers does not show it, see `window`.
        """
        sharing = self._window.rows_sharing_reply(first)
        if len(group) >= len(sharing):
            return list(sharing)
        nobodys = {one.subject for one in group}
        rows = [row for row in sharing if self._subject_of(row) in nobodys]
        return rows if None not in nobodys and len(rows) == len(group) else None

    def _likely_row(self, refusal: Refusal, group: list[Refusal]) -> int:
        """Return the row of a refusal on a shared reply subject; if it is not known, the most likely row."""
        sharing = self._window.rows_sharing_reply(refusal.first)
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
        rows = next(rows for rows in self.recent_rows if row < rows.first + len(rows))
        subject: bytes = rows.subjects[row - rows.first].as_py()
        return subject.decode("utf-8", "replace")
