"""Fetch from a consumer into Arrow record batches, and acknowledge all of them at once.

The pull uses the same engine as the APIs for single messages (`jetspark.engine.pull`); only the messages are columns.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Final, Unpack

import numpy as np
import pyarrow as pa

from jetspark.bulk.columns import has_ack_subject, parse_ack_subjects, scan_schema
from jetspark.bulk.connection import Connection
from jetspark.bulk.consumer_source import TARGET_BYTES, ConsumerMessages
from jetspark.bulk.record_batch_iterator import RecordBatchIterator
from jetspark.engine.pull import End, PriorityFields, PullEngine, SendPull, fetch_options
from jetspark.jetstream import AckPolicy
from jetspark.jetstream.ack import ACK
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import DisconnectedError, NoRespondersError, RequestTimeoutError
from jetspark.jetstream.errors.hints import CONSUMER_GONE
from jetspark.jetstream.header_names import PIN_ID
from jetspark.jetstream.names import API_PREFIX
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import parse_header_block, parse_status
from jetspark.wire.reply_tokens import NumberedTokens
from jetspark.wire.vector import FrameTable
from jetspark.wire.vector.byte_spans import buffer_bytes, gather_spans
from jetspark.wire.vector.encoder import encode_publishes
from jetspark.wire.vector.reply_subjects import check_reply_subjects

__all__ = ["ConsumerFetch", "fetch"]

_MAX_WAIT: Final = 3600.0


@checks_arguments()
def fetch(
    connection: Connection,
    stream: str,
    consumer: str,
    *,
    max_messages: int | None = None,
    max_bytes: int | None = None,
    timeout: float | None = 30.0,
    no_wait: bool = False,
    idle_heartbeat: float | None = None,
    columns: Sequence[str] | None = None,
    request_timeout: float = 5.0,
    prefix: str = API_PREFIX,
    **priority: Unpack[PriorityFields],
) -> ConsumerFetch:
    """Fetch messages from a pull consumer as Arrow record batches (ADR-37, FET-01 to FET-09).

    Parameters
    ----------
    connection
        From `connect`; only the fetch may use it until it is closed.
    stream, consumer
        Names of the stream and of an existing consumer.
    max_messages, max_bytes
        Most messages, and most bytes as the server counts them; at least one of the two.
    timeout
        Seconds to wait for them; None means no limit.
    no_wait
        Take only messages that are available now.
    idle_heartbeat
        Seconds of silence after which the server sends a heartbeat; the fetch fails if none comes in twice that time.
    columns
        As for `scan`.
    request_timeout
        Seconds for a request to the server.
    prefix
        Prefix of the API's subjects, see `jetspark.jetstream.names.api_prefix`.
    group, min_pending, min_ack_pending, priority
        Priority group, and the priority within it; see `jetspark.engine.pull.Priority`.

    Returns
    -------
    Fetch
        An iterator of record batches, and a context manager; `ack` acknowledges the returned messages.

    Raises
    ------
    ConfigError
        The options are not valid or contradict each other.
    StatusError, MissedHeartbeatError, DisconnectedError, InvalidAckError, BadSubjectError
        While reading: the pull ended with an error; the batches before it were returned.
    """
    options = fetch_options(
        max_messages,
        max_bytes=max_bytes,
        timeout=timeout,
        no_wait=no_wait,
        idle_heartbeat=idle_heartbeat,
        **priority,
    )
    engine = PullEngine(stream, consumer, options)
    return ConsumerFetch(connection, stream, consumer, engine, scan_schema(columns), request_timeout, prefix)


class ConsumerFetch(RecordBatchIterator):
    """Iterator of record batches; see `fetch`. Messages that are not acknowledged come again after `ack_wait`.

    Attributes
    ----------
    received
        Messages returned so far.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        consumer: str,
        engine: PullEngine,
        schema: pa.Schema,
        request_timeout: float,
        prefix: str,
    ) -> None:
        self._schema = schema
        self.received = 0
        self._connection = connection
        self._stream, self._consumer = stream, consumer
        self._engine = engine
        self._request_timeout = request_timeout
        self._prefix = prefix
        self._inbox = connection.new_inbox()
        self._tokens = NumberedTokens()
        self._sid = 0
        self._unacked_subjects: list[pa.BinaryArray] = []
        self._cached_ack_policy: AckPolicy | None = None
        self._batches = self._run()

    def ack(self) -> None:
        """Acknowledge all returned messages that are not acknowledged yet, and wait until the server has confirmed.

        With ack policy `all`, one acknowledgement is sent for all messages; with `none`, nothing is sent.

        Raises
        ------
        RequestTimeoutError, DisconnectedError
            Not confirmed; the messages may be delivered again.
        ConsumerNotFoundError, NoRespondersError
            The consumer does not exist any more.
        """
        if not self._unacked_subjects:
            return
        subjects = pa.concat_arrays(self._unacked_subjects)
        policy = self._ack_policy()
        if policy is not AckPolicy.NONE:
            if policy is AckPolicy.EXPLICIT and len(subjects) > 1:
                self._send_acks(subjects[:-1])
            # The server processes acknowledgements in order, so the answer to the last one is valid for all.
            self._ack_last(subjects[-1].as_py().decode(), len(subjects))
        self._unacked_subjects.clear()

    def _ack_policy(self) -> AckPolicy:
        if self._cached_ack_policy is None:
            request = ConsumerInfoRequest(self._stream, self._consumer)
            info = self._connection.request(request, timeout=self._request_timeout, prefix=self._prefix)
            self._cached_ack_policy = info.config.ack_policy or AckPolicy.NONE
        return self._cached_ack_policy

    def _ack_last(self, subject: str, count: int) -> None:
        answer = self._connection.request_message(subject, ACK, self._request_timeout)
        where = f"consumer {self._consumer!r} of stream {self._stream!r}"
        if answer is None:
            self._connection.note_error(RequestTimeoutError("no answer"), self._request_timeout)
            raise RequestTimeoutError(
                f"{where}: no answer to the acknowledgement of {count} messages within {self._request_timeout:g} s"
            )
        if answer.header:  # 503
            raise NoRespondersError(
                f"{where}: nobody takes the acknowledgement of {count} messages (503): {CONSUMER_GONE}"
            )

    def _send_acks(self, subjects: pa.BinaryArray) -> None:
        count = len(subjects)
        frames = encode_publishes(subjects, pa.repeat(pa.scalar(b""), count), pa.repeat(pa.scalar(ACK), count))
        self._connection.send(buffer_bytes(frames.buffers()[2]), time.monotonic() + self._request_timeout)

    # -- the pull ------------------------------------------------------------------------------------------------

    def _run(self) -> Generator[pa.RecordBatch]:
        engine = self._engine
        self._sid = self._connection.subscribe(f"{self._inbox}.*")
        try:
            engine.start(time.monotonic())
            while not self._perform():
                deadline = engine.deadline
                table = self._connection.read(deadline or time.monotonic() + _MAX_WAIT, target_bytes=TARGET_BYTES)
                run = None if table is None else self._process_table(table)
                if run is not None:
                    self.received += len(run.table)
                    yield run.to_record_batch(self.schema)
                else:
                    engine.tick(time.monotonic())  # also while messages of others come
        finally:
            if not self._connection.closed:
                with suppress(DisconnectedError):
                    self._connection.unsubscribe(self._sid)

    def _perform(self) -> bool:
        """Perform the engine's actions; return whether it has ended."""
        for action in self._engine.poll_actions():
            if isinstance(action, SendPull):
                self._connection.publish(
                    action.request.subject(self._prefix),
                    action.request.payload(),
                    reply=f"{self._inbox}.{self._tokens.token(action.token).decode()}",
                )
            elif isinstance(action, End):
                if action.error is not None:
                    self._connection.note_error(action.error)
                    raise action.error
                if self._engine.pull_left_open:  # the server has not even ended the pull
                    self._connection.note_error(RequestTimeoutError("no status"), self._engine.options.timeout or 0.0)
                return True
        return False

    def _process_table(self, table: FrameTable) -> ConsumerMessages | None:
        """Pass the received messages to the engine: first the data, then the statuses; return the data."""
        lines, now = table.lines, time.monotonic()
        ours = lines.sid == self._sid
        data = ours & has_ack_subject(lines)  # other messages are statuses, or no consumer delivered them
        run = None
        if data.any():
            chosen = table if data.all() else table.select(data)
            run = ConsumerMessages(chosen, parse_ack_subjects(chosen.lines), self._stream)
            self._deliver(chosen, now)
        for row in np.flatnonzero(ours & ~data):
            message = table.message(int(row))
            status = parse_status(message.header)
            token = self._tokens.number(message.subject.rpartition(b".")[2])
            self._connection.unmatched_replies += token is None
            if status is not None and token is not None and not message.payload:
                self._engine.status(now, token, status.code, status.description)
        return run

    def _deliver(self, table: FrameTable, now: float) -> None:
        lines = table.lines
        ack_subjects = gather_spans(lines.buffer, lines.reply_start, lines.reply_end)
        check_reply_subjects(ack_subjects, self._connection.message_limits.subject)
        texts = (lines.subject_end - lines.subject_start) + (lines.reply_end - lines.reply_start)
        size = int((texts + table.end - table.body).sum())  # SIZ-01
        if table.header_size.any():
            pin_id = parse_header_block(table.message(0).header).get(PIN_ID)
            if pin_id is not None:
                self._engine.pinned(pin_id)
        self._connection.note_answer()
        self._engine.delivered(now, len(table), size)
        self._engine.consumed(now, len(table), size)
        self._unacked_subjects.append(ack_subjects)
