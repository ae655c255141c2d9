"""The ephemeral consumer that a range of a stream is read from, on the server and on our connection."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np

from jetspark.bulk.columns import Acks, read_acks
from jetspark.bulk.connection import Connection
from jetspark.flow.ranges import InterruptedReadError, RangeProgress, RangePulls, StatusEffect
from jetspark.jetstream import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy, Timestamp
from jetspark.jetstream.api import ConsumerCreateRequest, ConsumerDeleteRequest, ConsumerInfoRequest, PullRequest
from jetspark.jetstream.errors import Error, RequestTimeoutError
from jetspark.wire.headers import parse_status
from jetspark.wire.vector import FrameTable

__all__ = ["RangeConsumer", "ScanLimits", "consumer_config"]

_ENOUGH: Final = 1 << 19  # bytes to collect before decoding: what stays in the cache, and is worth the fixed cost
_EXPIRES: Final = timedelta(seconds=60)
_INACTIVE: Final = timedelta(seconds=30)
_QUIET_FIRST: Final = 0.25  # seconds without a message before the server is asked whether there is one
_QUIET_MOST: Final = 2.0
_COUNT_TRIES: Final = 3
_MESSAGE_OVERHEAD: Final = 100  # control line and ack subject, about


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Bounds of a scan: rows and bytes of a batch, bytes in flight, seconds for a request and for trying again."""

    rows: int
    bytes: int
    in_flight: int
    timeout: float
    retry_timeout: float


def consumer_config(
    subjects: Sequence[str], *, opt_start_seq: int | None = None, opt_start_time: Timestamp | None = None
) -> ConsumerConfig:
    return ConsumerConfig(
        name=f"jetspark-{secrets.token_hex(8)}",
        description="reads a range of the stream once",
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE if opt_start_time is None else DeliverPolicy.BY_START_TIME,
        opt_start_seq=opt_start_seq,
        opt_start_time=opt_start_time,
        ack_policy=AckPolicy.NONE,
        filter_subject=subjects[0] if len(subjects) == 1 else None,
        filter_subjects=list(subjects) if len(subjects) > 1 else None,
        inactive_threshold=_INACTIVE,
        mem_storage=True,
        num_replicas=1,
    )


class RangeConsumer:
    """Makes the consumer at `progress.next_sequence`; `deliveries` reads from it, `close` gives it back.

    Parameters
    ----------
    message_bytes
        What a message of the stream takes on average.
    careful
        Let the server count the bytes of each pull.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        subjects: Sequence[str],
        progress: RangeProgress,
        limits: ScanLimits,
        prefix: str,
        *,
        message_bytes: int,
        careful: bool,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._subjects = subjects
        self._limits = limits
        self._prefix = prefix
        config = consumer_config(subjects, opt_start_seq=progress.next_sequence)
        self._info = self._request(config)
        self.name = self._info.name
        progress.new_consumer(self._info.num_pending)
        self._inbox = connection.new_inbox()
        self._sid = connection.subscribe(f"{self._inbox}.*")
        # Where the server counts bytes, a pull must be able to bring the largest message that it takes.
        largest = connection.server_info.max_payload + _MESSAGE_OVERHEAD
        self._pulls = RangePulls(
            progress.next_sequence,
            progress.end,
            bytes_in_flight=limits.in_flight,
            message_bytes=message_bytes + _MESSAGE_OVERHEAD,
            max_bytes=max(limits.in_flight // 2, largest) if careful else None,
        )

    def _request(self, config: ConsumerConfig) -> ConsumerInfo:
        return self._connection.request(
            ConsumerCreateRequest(self._stream, config), timeout=self._limits.timeout, prefix=self._prefix
        )

    def close(self) -> None:
        """Give everything back; nobody waits for the server's answer."""
        try:
            self._connection.unsubscribe(self._sid)
            self._connection.post(ConsumerDeleteRequest(self._stream, self.name), prefix=self._prefix)
        except Error:
            self._connection.close()  # the server forgets the consumer by its inactive threshold

    def count(self, end: int, last: int) -> int:
        """Messages before `end` that are pending now: what is pending here less what is pending from `end` on.

        Others may publish in between; a second look at the first number tells, and a few tries mostly find a moment of
        silence. Failing that, the number is too low by what was published within one of them.
        """
        pending = self._info.num_pending
        if end > last:
            return pending
        for _ in range(_COUNT_TRIES):
            behind = self._request(consumer_config(self._subjects, opt_start_seq=end))
            self._connection.post(ConsumerDeleteRequest(self._stream, behind.name), prefix=self._prefix)
            before, pending = pending, self._state().num_pending
            if before == pending:
                break
            before = pending
        return max(before - behind.num_pending, 0)

    def _state(self) -> ConsumerInfo:
        return self._connection.request(
            ConsumerInfoRequest(self._stream, self.name), timeout=self._limits.timeout, prefix=self._prefix
        )

    def deliveries(self, progress: RangeProgress) -> Iterator[tuple[FrameTable, Acks]]:
        """Consecutive deliveries until the range is read.

        Raises
        ------
        InterruptedReadError
            A delivery is missing, or the server says that the consumer is of no more use.
        """
        quiet = _QUIET_FIRST
        silent_since = time.monotonic()
        while not progress.done:
            self._send_pulls()
            now = time.monotonic()
            table = self._connection.read(now + quiet, enough=_ENOUGH)
            if table is None:
                self._look(progress)
                if now - silent_since > max(self._limits.timeout, 2 * quiet):
                    raise RequestTimeoutError(
                        f"consumer {self.name!r} of stream {self._stream!r} has messages and delivers none"
                    )
                quiet = min(2 * quiet, _QUIET_MOST)
                continue
            quiet, silent_since = _QUIET_FIRST, now
            deliveries, restart = self._sort(table)
            if deliveries is not None:
                acks = read_acks(deliveries.lines)
                whole = _consecutive(acks, progress.consumer_sequence)
                if whole < len(acks):
                    deliveries, acks = deliveries.head(whole), acks.head(whole)
                    restart = True
                if whole:
                    self._note(deliveries, acks, progress)
                    yield deliveries, acks
            if restart and not progress.done:
                raise InterruptedReadError(f"consumer {self.name!r} of stream {self._stream!r} is of no more use")

    def _send_pulls(self) -> None:
        for pull in self._pulls.due():
            request = PullRequest(self._stream, self.name, batch=pull.batch, max_bytes=pull.max_bytes, expires=_EXPIRES)
            self._connection.publish(
                request.subject(self._prefix), request.payload(), reply=f"{self._inbox}.{pull.token}"
            )

    def _look(self, progress: RangeProgress) -> None:
        """Nothing came for a while: perhaps what was pending has been deleted."""
        state = self._state()
        progress.idle(state.delivered.consumer_seq, state.num_pending)

    def _sort(self, table: FrameTable) -> tuple[FrameTable | None, bool]:
        """The deliveries of this consumer, and whether a status says that it is of no more use."""
        lines = table.lines
        ours = lines.sid == self._sid
        data = lines.reply_end > lines.reply_start
        restart = False
        for row in np.flatnonzero(ours & ~data):
            message = table.message(int(row))
            status = parse_status(message.header)
            if status is not None:
                token = int(message.subject.rpartition(b".")[2])
                effect = self._pulls.status(token, status.code, status.description, where=self._stream)
                restart = restart or effect is StatusEffect.RESTART
        chosen = ours & data
        if chosen.all():
            return table, restart
        return (table.select(chosen) if chosen.any() else None), restart

    def _note(self, table: FrameTable, acks: Acks, progress: RangeProgress) -> None:
        last = acks.row(len(acks) - 1)
        size = int(table.end[-1]) - int(table.start[0])
        self._pulls.delivered(len(acks), size, last.stream_sequence)
        progress.delivered(len(acks), last.consumer_sequence, last.stream_sequence, last.num_pending)


def _consecutive(acks: Acks, before: int) -> int:
    """How many deliveries follow on each other without a gap."""
    # Deliveries come in order, so the last one tells whether one is missing.
    if acks.row(len(acks) - 1).consumer_sequence == before + len(acks):
        return len(acks)
    follows = acks.consumer_sequence == np.arange(before + 1, before + 1 + len(acks))
    return int(np.argmin(follows)) if not follows.all() else len(acks)
