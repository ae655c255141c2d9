"""A pipeline of publishes: rows sent without waiting for each other, until all are answered or one is refused.

It sends nothing twice. If it ends early, some rows stay open: rows refused for the moment, and rows whose answers got
lost. `retrying_publisher` sends them again in another pipeline.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from jetspark.bulk.ack_window import AckWindow
from jetspark.bulk.connection import Connection
from jetspark.bulk.ping_probe import PingProbe
from jetspark.bulk.publish_acks import PubAckReader, Refusal, StreamAcks
from jetspark.bulk.publish_report import BulkPublishOptions
from jetspark.bulk.rows import Rows
from jetspark.jetstream.errors import Error, NoStreamResponseError, PublishTimeoutError, TooManyRequestsError
from jetspark.jetstream.publish import OTHER_STREAM_WAIT, not_stored_hint
from jetspark.wire.vector.byte_spans import buffer_bytes
from jetspark.wire.vector.encoder import encode_publishes, row_offsets

__all__ = ["PublishPipeline", "RowsRefusedError"]

_ACK_BYTES: Final = 64  # approximate size of one acknowledgement
_FURTHER_ANSWERS_WAIT: Final = 0.5  # seconds without one, after which no more are expected
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
    stored_elsewhere
        Whether another stream has stored one of the refused rows.
    several_streams
        Whether several streams answer for the same rows.
    too_many_requests
        Whether more messages were in flight than the server can keep.
    """

    def __init__(self, refused: Refusal, subject: str, refusals: Iterable[Refusal], *, several_streams: bool) -> None:
        super().__init__(str(refused.error))
        self.row = refused.row
        self.subject = subject
        self.error = refused.error
        self.transient = all(one.error.transient for one in refusals)
        self.stored_elsewhere = any(one.stored_elsewhere for one in refusals)
        self.several_streams = several_streams
        self.too_many_requests = any(isinstance(one.error, TooManyRequestsError) for one in refusals)


class PublishPipeline:
    """Sends rows in order.

    Parameters
    ----------
    streams
        Receives the acknowledgements.
    origin
        Number of the first row.
    """

    def __init__(
        self,
        connection: Connection,
        settings: BulkPublishOptions,
        streams: dict[str, StreamAcks],
        origin: int = 0,
    ) -> None:
        self._connection = connection
        self._settings = settings
        inbox = connection.new_inbox()
        self._origin = origin
        in_cluster = bool(connection.server_info.cluster)
        self._window = AckWindow(inbox, settings.max_pending, in_cluster=in_cluster, origin=origin)
        self._acks = PubAckReader(self._window, streams, settings.expected_stream, settings.is_collected)
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
    def further_answers(self) -> int:
        """Number of answers to rows that were answered before."""
        return self._acks.further_answers

    @property
    def unmatched_answers(self) -> int:
        """Number of answers on reply subjects that were not handed out."""
        return self._acks.unmatched_answers

    @property
    def collected(self) -> dict[int, Error]:
        """The refused rows that the settings let it collect."""
        return self._acks.collected

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
        self._wait_for_further_answers()
        self._check_refusals()

    def unsettled_rows(self) -> list[int]:
        """Return the rows that were sent and, as far as is known, are neither stored nor refused for good."""
        return sorted({*self._window.unanswered_rows(), *self._acks.refusals})

    def unanswered_subjects(self) -> dict[int, str]:
        """Return the rows that nobody answered (503), with their subjects."""
        return {
            row: self._subject_of(row)
            for row, refusal in self._acks.refusals.items()
            if isinstance(refusal.error, NoStreamResponseError) and not refusal.stored_elsewhere
        }

    def collect(self, row: int) -> None:
        """Take a refusal as final, and let the other rows go on."""
        self._acks.collected[row] = self._acks.refusals.pop(row).error

    def _wait_for_window(self, wanted: int) -> None:
        """Read acknowledgements until the window has room for `wanted` rows."""
        while self._window.free_rows < wanted:
            self._await_acks(wanted - self._window.free_rows)

    def _wait_for_all(self) -> None:
        while self._window.answered < self._window.sent:
            self._await_acks(self._window.sent - self._window.answered)

    def _wait_for_further_answers(self) -> None:
        """If several streams answer for the same rows, read on: one of them may still refuse a row."""
        acks, window = self._acks, self._window
        if not acks.further_answers or self._settings.expected_stream is not None:
            return
        latest = time.monotonic() + self._settings.ack_timeout
        while acks.further_answers < window.answered - self._origin:
            found = acks.further_answers
            self._read(min(time.monotonic() + _FURTHER_ANSWERS_WAIT, latest))
            if acks.further_answers == found:
                break

    def _await_acks(self, missing: int) -> None:
        """Read acknowledgements: at least one, and up to `missing` if they come soon."""
        window, acks, answered = self._window, self._acks, self._window.answered
        probe = PingProbe(self._connection, self._settings.ack_timeout)
        others_until = min(time.monotonic() + OTHER_STREAM_WAIT, probe.deadline)
        while window.answered == answered:
            deadline = probe.next_wait()
            self._read(min(deadline, others_until) if acks.awaits_expected_stream else deadline, missing * _ACK_BYTES)
            if window.answered > answered:
                if not acks.refusals:
                    self._connection.note_answer()
            elif acks.awaits_expected_stream and time.monotonic() >= others_until:
                acks.refuse_open_rows()
            elif time.monotonic() >= probe.deadline:
                raise PublishTimeoutError(
                    f"no acknowledgement within {self._settings.ack_timeout:g} s for {window.sent - answered} messages"
                    + not_stored_hint(ping_answered=probe.answered)
                )

    def _read(self, deadline: float, target_bytes: int = 1) -> None:
        """Read the answers that come until the deadline."""
        table = self._connection.read(deadline, target_bytes=target_bytes)
        if table is not None:
            ours = table.lines.sid == self._sid
            self._acks.read(table if ours.all() else table.select(ours))

    def _check_refusals(self) -> None:
        """Raise if rows were refused, after all rows in flight are answered; otherwise forget the settled rows."""
        refusals = self._acks.refusals
        if refusals:
            self._wait_for_all()
            error = self.refused_error()
            raise error from error.error
        while (
            self.recent_rows and self.recent_rows[0].first + len(self.recent_rows[0]) <= self._window.first_unanswered
        ):
            self.recent_rows.popleft()
            self._sent_at.popleft()

    def refusal_of_stored_row(self) -> RowsRefusedError | None:
        """Return the error if a row was refused that another stream has stored."""
        elsewhere = any(one.stored_elsewhere for one in self._acks.refusals.values())
        return self.refused_error() if elsewhere else None

    def refused_error(self) -> RowsRefusedError:
        """Return the error of the refused rows; there must be one."""
        refusals = self._acks.refusals
        refused = refusals[min(refusals)]
        several = self._acks.further_answers > 0
        return RowsRefusedError(refused, self._subject_of(refused.row), refusals.values(), several_streams=several)

    def _subject_of(self, row: int) -> str:
        """Return the subject of a row; empty if the row was settled long ago and another stream has refused it now."""
        for rows in self.recent_rows:
            if rows.first <= row < rows.first + len(rows):
                subject: bytes = rows.subjects[row - rows.first].as_py()
                return subject.decode("utf-8", "replace")
        return ""
