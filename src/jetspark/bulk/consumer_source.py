"""The ephemeral consumer for reading a range of a stream: on the server, and on the connection."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jetspark.bulk.columns import AckMetadataColumns, build_batch, has_ack_subject, parse_ack_subjects
from jetspark.bulk.range_source import ReadTarget
from jetspark.engine.ranges import InterruptedReadError, RangeEffect, RangeProgress, RangePulls
from jetspark.jetstream import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy, Timestamp
from jetspark.jetstream.api import ConsumerCreateRequest, ConsumerDeleteRequest, ConsumerInfoRequest, PullRequest
from jetspark.jetstream.errors import Error, InvalidReplyError, RequestTimeoutError
from jetspark.jetstream.names import new_name
from jetspark.wire.headers import parse_status
from jetspark.wire.reply_tokens import NumberedTokens
from jetspark.wire.vector import FrameTable

__all__ = [
    "TARGET_BYTES",
    "ConsumerMessages",
    "ConsumerSource",
    "consumer_config",
    "delete_consumer_nowait",
    "probe_consumer",
]

TARGET_BYTES: Final = 1 << 19  # bytes to collect before decoding: they fit in the cache, and make the fixed cost small
_EXPIRES: Final = timedelta(seconds=60)
_INACTIVE_THRESHOLD: Final = timedelta(seconds=30)
_FIRST_CHECK_AFTER: Final = 0.25  # seconds without a message before the server is asked for the consumer's state
_MAX_CHECK_INTERVAL: Final = 2.0
_MAX_COUNT_TRIES: Final = 3
_MESSAGE_OVERHEAD: Final = 100  # approximate size of control line and ack subject


def consumer_config(
    name: str,
    subjects: Sequence[str] = (),
    *,
    opt_start_seq: int | None = None,
    opt_start_time: Timestamp | None = None,
) -> ConsumerConfig:
    """Return the configuration of an ephemeral in-memory consumer without acks; without pulls the server deletes it."""
    return ConsumerConfig(
        name=name,
        description="reads a range of the stream once",
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE if opt_start_time is None else DeliverPolicy.BY_START_TIME,
        opt_start_seq=opt_start_seq,
        opt_start_time=opt_start_time,
        ack_policy=AckPolicy.NONE,
        filter_subject=subjects[0] if len(subjects) == 1 else None,
        filter_subjects=list(subjects) if len(subjects) > 1 else None,
        inactive_threshold=_INACTIVE_THRESHOLD,
        mem_storage=True,
        num_replicas=1,
    )


def probe_consumer(
    target: ReadTarget, *, opt_start_seq: int | None = None, opt_start_time: Timestamp | None = None
) -> ConsumerInfo:
    """Create a consumer that starts there, delete it, and return the server's info of it."""
    name = new_name(target.consumer_prefix)
    config = consumer_config(name, target.subjects, opt_start_seq=opt_start_seq, opt_start_time=opt_start_time)
    request = ConsumerCreateRequest(target.stream, config)
    try:
        return target.connection.request(request, timeout=target.limits.timeout, prefix=target.prefix)
    finally:
        delete_consumer_nowait(target, name)


def delete_consumer_nowait(target: ReadTarget, name: str) -> None:
    """Delete a consumer, whether it was created or not, without waiting for the answer."""
    if not target.connection.closed:
        target.connection.request_nowait(ConsumerDeleteRequest(target.stream, name), prefix=target.prefix)


@dataclass(eq=False)
class ConsumerMessages:
    """Consecutive deliveries; see `jetspark.bulk.range_source.DecodedMessages`."""

    table: FrameTable
    acks: AckMetadataColumns
    stream: str

    @property
    def sequence(self) -> NDArray[np.int64]:
        """Sequences in the stream."""
        return self.acks.sequence

    def to_record_batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns of the schema."""
        return build_batch(self.table, self.acks, schema, self.stream)


class ConsumerSource:
    """A consumer that starts at `progress.next_sequence`; see `jetspark.bulk.range_source.RangeSource`.

    Parameters
    ----------
    message_bytes
        Average size of the stream's messages, in bytes.
    server_counts_bytes
        Whether the server must limit the bytes of each pull.
    """

    _info: ConsumerInfo
    _sid: int
    _pulls: RangePulls

    def __init__(self, target: ReadTarget, *, message_bytes: int, server_counts_bytes: bool) -> None:
        self.name = new_name(target.consumer_prefix)
        self._target = target
        self._connection = target.connection
        self._stream = target.stream
        self._limits = target.limits
        self._prefix = target.prefix
        self._message_bytes = message_bytes
        self._server_counts_bytes = server_counts_bytes
        self._inbox = target.connection.new_inbox()
        self._tokens = NumberedTokens()
        self._subscribed = False

    def open(self, progress: RangeProgress) -> None:
        """Create the consumer and subscribe."""
        self._info = self._connection.request(
            ConsumerCreateRequest(self._stream, self._config(progress)),
            timeout=self._limits.timeout,
            prefix=self._prefix,
        )
        progress.consumer_created(self._info.num_pending)
        self._sid = self._connection.subscribe(f"{self._inbox}.*", time.monotonic() + self._limits.timeout)
        self._subscribed = True
        # If the server limits the bytes, a pull must allow the largest message that the server accepts.
        largest = self._connection.server_info.max_payload + _MESSAGE_OVERHEAD
        self._pulls = RangePulls(
            progress.next_sequence,
            progress.end,
            bytes_in_flight=self._limits.max_bytes_in_flight,
            message_bytes=self._message_bytes + _MESSAGE_OVERHEAD,
            max_bytes=max(self._limits.max_bytes_in_flight // 2, largest) if self._server_counts_bytes else None,
        )

    def _config(self, progress: RangeProgress) -> ConsumerConfig:
        return consumer_config(self.name, self._target.subjects, opt_start_seq=progress.next_sequence)

    def close(self) -> None:
        """End the subscription and delete the consumer, without waiting for the server's answer."""
        try:
            if self._subscribed:
                self._connection.unsubscribe(self._sid)
            delete_consumer_nowait(self._target, self.name)
        except Error:
            self._connection.close()  # the server deletes the consumer after its inactive threshold

    def count(self, end: int) -> int:
        """Count pending messages before `end`: all that are pending, less those that are pending from `end` on.

        Others may publish between the two requests. A repeat of the first request shows that; a few tries usually find
        a moment without publishes. Otherwise, the number is too low by the messages published during one try.
        """
        pending, most = self._info.num_pending, 0
        for _ in range(_MAX_COUNT_TRIES):
            before = pending
            from_end = probe_consumer(self._target, opt_start_seq=end).num_pending
            most = max(most, before - from_end)
            pending = self._consumer_info().num_pending
            if before == pending:
                break
        return most

    def _consumer_info(self) -> ConsumerInfo:
        return self._connection.request(
            ConsumerInfoRequest(self._stream, self.name), timeout=self._limits.timeout, prefix=self._prefix
        )

    def read_messages(self, progress: RangeProgress) -> Iterator[ConsumerMessages]:
        """Yield consecutive deliveries until the range is read.

        Raises
        ------
        InterruptedReadError
            A delivery is missing, or a status says that the consumer is unusable.
        """
        quiet, delivered = _FIRST_CHECK_AFTER, 0
        silent_since = time.monotonic()
        check_at = silent_since + quiet
        while not progress.done:
            self._send_pulls()
            table = self._connection.read(check_at, target_bytes=TARGET_BYTES)
            deliveries, restart = (None, False) if table is None else self._split_deliveries(table)
            if deliveries is not None:
                acks = parse_ack_subjects(deliveries.lines)
                whole = _consecutive_count(acks, progress.consumer_sequence)
                if whole < len(acks):
                    deliveries, acks = deliveries.head(whole), acks.head(whole)
                    restart = True
                if whole:
                    self._record_deliveries(deliveries, acks, progress)
                    yield ConsumerMessages(deliveries, acks, self._stream)
                    quiet, delivered = _FIRST_CHECK_AFTER, 0
                    silent_since = time.monotonic()  # after the yield: the caller's time is no silence
                    check_at = silent_since + quiet
            if restart and not progress.done:
                raise InterruptedReadError(
                    f"consumer {self.name!r} of stream {self._stream!r}: deliveries are missing, or the consumer ended"
                )
            now = time.monotonic()
            if now >= check_at and not progress.done:  # only deliveries are progress, statuses are not
                overdue = now - silent_since > max(self._limits.timeout, 2 * quiet)
                delivered = self._check_consumer(progress, delivered, overdue=overdue)
                quiet = min(2 * quiet, _MAX_CHECK_INTERVAL)
                check_at = time.monotonic() + quiet

    def _send_pulls(self) -> None:
        for pull in self._pulls.due():
            request = PullRequest(self._stream, self.name, batch=pull.batch, max_bytes=pull.max_bytes, expires=_EXPIRES)
            reply = f"{self._inbox}.{self._tokens.token(pull.token).decode()}"
            deadline = time.monotonic() + self._limits.timeout
            self._connection.publish(request.subject(self._prefix), request.payload(), reply=reply, deadline=deadline)

    def _check_consumer(self, progress: RangeProgress, before: int, *, overdue: bool) -> int:
        """Check the consumer after silence: pending messages may have been deleted, or deliveries may be lost.

        Returns the number of messages that the server says it has delivered. `before` is that number from the last
        check, if nothing came since. With `overdue`, the silence was so long that it raises if messages are still
        pending.
        """
        state = self._consumer_info()
        delivered = state.delivered.consumer_sequence
        progress.info_received(delivered, state.num_pending)
        if not progress.done and before == delivered > progress.consumer_sequence:
            raise InterruptedReadError(
                f"consumer {self.name!r} of stream {self._stream!r} delivered messages that did not arrive"
            )
        if not progress.done and overdue:
            raise RequestTimeoutError(
                f"consumer {self.name!r} of stream {self._stream!r} has pending messages, but delivers none"
            )
        return delivered

    def _split_deliveries(self, table: FrameTable) -> tuple[FrameTable | None, bool]:
        """Return the deliveries of this consumer, and whether a status says that the consumer is unusable."""
        lines = table.lines
        ours = lines.sid == self._sid
        data = has_ack_subject(lines)  # other messages are statuses, or no consumer delivered them
        restart = False
        for row in np.flatnonzero(ours & ~data):
            message = table.message(int(row))
            status = parse_status(message.header)
            token = self._tokens.number(message.subject.rpartition(b".")[2])
            self._connection.unmatched_replies += token is None
            if status is not None and token is not None and not message.payload:
                effect = self._pulls.status(token, status.code, status.description, where=self._stream)
                restart = restart or effect is RangeEffect.RECREATE_CONSUMER
        chosen = ours & data
        if chosen.all():
            return table, restart
        return (table.select(chosen) if chosen.any() else None), restart

    def _record_deliveries(self, table: FrameTable, acks: AckMetadataColumns, progress: RangeProgress) -> None:
        first, last = acks.row(0), acks.row(len(acks) - 1)
        least = max(first.stream_sequence, progress.next_sequence) + len(acks) - 1
        if first.stream_sequence < progress.next_sequence or last.stream_sequence < least:
            raise InvalidReplyError(
                f"consumer {self.name!r} of stream {self._stream!r}: the sequences go back: {len(acks)} messages after "
                f"{progress.next_sequence - 1} are from {first.stream_sequence} to {last.stream_sequence}"
            )
        size = int(table.end[-1]) - int(table.start[0])
        self._pulls.delivered(len(acks), size, last.stream_sequence)
        progress.delivered(len(acks), last.consumer_sequence, last.stream_sequence, last.num_pending)


def _consecutive_count(acks: AckMetadataColumns, before: int) -> int:
    """Return how many deliveries follow each other without a gap."""
    # Deliveries come in order, so the last one shows whether one is missing.
    if acks.row(len(acks) - 1).consumer_sequence == before + len(acks):
        return len(acks)
    follows = acks.consumer_sequence == np.arange(before + 1, before + 1 + len(acks))
    return int(np.argmin(follows)) if not follows.all() else len(acks)
