"""Reads the messages of one fetch into record batches, and gives back those that the caller did not get.

Nothing here refers to the iterator that the caller holds. So the end of the last reference to the iterator ends the
pull at once, without a run of the garbage collector.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from jetspark.bulk.columns import has_ack_subject, parse_ack_subjects
from jetspark.bulk.connection import Connection
from jetspark.bulk.consumer_source import TARGET_BYTES, ConsumerMessages
from jetspark.engine.pull import CheckConsumer, End, PullEngine, PullOptions, SendPull
from jetspark.jetstream.ack import nak_payload
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import Error, RequestTimeoutError
from jetspark.jetstream.header_names import PIN_ID
from jetspark.payload import RowDecoder
from jetspark.wire.frames import MsgFrame
from jetspark.wire.headers import parse_header_block, parse_status
from jetspark.wire.reply_tokens import NumberedTokens
from jetspark.wire.vector import FrameTable, decode
from jetspark.wire.vector.byte_spans import buffer_bytes, gather_spans
from jetspark.wire.vector.encoder import encode_publishes
from jetspark.wire.vector.reply_subjects import check_reply_subjects

__all__ = ["LeftMessages", "NakLeftMessages", "PullReading", "Wait", "send_acks"]

_MAX_WAIT: Final = 3600.0
_COLLECT_TIME: Final = 0.01
"""Seconds for which a caller that does not want to wait collects bytes."""
_CHECK_TIMEOUT: Final = 2.0
"""Seconds to wait for the answer whether a consumer exists."""
_END_TIMEOUT: Final = 2.0
"""Seconds to wait until the server has confirmed the end of a pull."""
_LEFT_SID: Final = 1


class Wait(NamedTuple):
    """Nothing has come: go on when the socket is readable, or at the deadline.

    Attributes
    ----------
    socket
        File descriptor of the socket.
    deadline
        Monotonic time.
    """

    socket: int
    deadline: float


class LeftMessages(Protocol):
    """Where messages go that a fetch received and its caller did not get, and where the next fetch finds them."""

    def take(self, options: PullOptions) -> tuple[Sequence[MsgFrame], PullOptions | None]:
        """Return messages that earlier calls left, and the options of a pull for the rest, None if it needs none."""

    def put(self, messages: Sequence[MsgFrame]) -> bool:
        """Keep messages for the next call; return False if there can be no next call."""


class NakLeftMessages:
    """Returns them to the server: the next call gets them first, whoever makes it."""

    def __init__(self, connection: Connection, state_request: ConsumerInfoRequest, prefix: str) -> None:
        self._connection = connection
        self._state_request = state_request
        self._prefix = prefix

    def take(self, options: PullOptions) -> tuple[Sequence[MsgFrame], PullOptions | None]:
        """Return the options: the server has all left messages."""
        return (), options

    def put(self, messages: Sequence[MsgFrame]) -> bool:
        """Ask the server to deliver them again, and wait until it has read that."""
        if self._connection.closed:
            return False
        with suppress(Error):
            # While it reports the state, the server drops pulls that nobody waits for. Else it would choose the first
            # message for such a pull, find nobody, and put the message after the others.
            self._connection.request(self._state_request, timeout=_END_TIMEOUT, prefix=self._prefix)
        subjects = pa.array([each.reply for each in messages], pa.binary())
        check_reply_subjects(subjects, self._connection.message_limits.subject)
        send_acks(self._connection, subjects, nak_payload(0))
        for _ in _read_until_pong(self._connection):
            pass
        return True


@dataclass(slots=True)
class _Held:
    """Messages of a batch that the caller does not have yet, and how many of them could not be decoded."""

    table: FrameTable
    bad_records: int = 0


class PullReading:
    """The pull of a fetch. After its end, another pull reads the rest.

    Attributes
    ----------
    received
        Messages returned so far.
    bad_records
        Those of them whose payload could not be decoded.
    unacked
        Ack subjects of the returned messages that are not acknowledged, one array for each batch.
    blocking
        Whether to wait for messages, instead of yielding a `Wait`.
    left
        Where messages go that were received and not returned.
    hold
        Whether each batch counts as returned only after `confirm`.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        consumer: str,
        options: PullOptions,
        schema: pa.Schema,
        prefix: str,
        rows: RowDecoder | None = None,
    ) -> None:
        self.received = 0
        self.bad_records = 0
        self.unacked: list[pa.BinaryArray] = []
        self.blocking = True
        self.hold = False
        self._size = 0  # of the returned messages, as the server counts
        self._held: list[_Held] = []
        self._rows = rows
        self._connection = connection
        self._stream, self._consumer = stream, consumer
        self._options = options
        self._schema = schema
        self._prefix = prefix
        self._state_request = ConsumerInfoRequest(stream, consumer)
        self._nak = NakLeftMessages(connection, self._state_request, prefix)
        self.left: LeftMessages = self._nak
        self._engine = PullEngine(stream, consumer, options)
        self._inbox = ""
        self._tokens = NumberedTokens()
        self._sid = 0

    @property
    def remaining(self) -> PullOptions | None:
        """Options of a pull for the messages that were not returned; None if it has all."""
        return self._options.remaining(self.received, self._size)

    def confirm(self) -> None:
        """Note that the caller has got the batches so far."""
        self._held.clear()

    def run(self) -> Generator[pa.RecordBatch | Wait]:
        """Yield the batches of one pull, first those of messages that earlier calls left."""
        wanted = self.remaining
        if wanted is None:
            return
        try:
            messages, rest = self.left.take(wanted)
            if messages:
                yield self._add(_decode_messages(messages))
            if rest is not None:
                yield from self._pull(rest)
        except BaseException:
            self.give_back()
            raise
        self._put(self._end_pull())

    def _pull(self, options: PullOptions) -> Generator[pa.RecordBatch | Wait]:
        self._engine = engine = PullEngine(self._stream, self._consumer, options, retry_503=True)
        self._inbox = self._connection.new_inbox()
        engine.start(time.monotonic())
        while not self._perform():
            now = time.monotonic()
            deadline = engine.deadline or now + _MAX_WAIT
            until = deadline if self.blocking else min(deadline, now + _COLLECT_TIME)
            table = self._connection.read(until, target_bytes=TARGET_BYTES)
            if table is None:
                if (now := time.monotonic()) >= deadline or self.blocking:
                    engine.tick(now)
                else:
                    yield Wait(self._connection.fileno(), deadline)
                continue
            data = self._process_table(table)
            if data is not None:
                yield self._add(data)
            else:
                engine.tick(time.monotonic())  # also while messages of others come

    def _perform(self) -> bool:
        """Perform the engine's actions; return whether it has ended."""
        actions = self._engine.poll_actions()
        for action in actions:
            if isinstance(action, SendPull):
                if not self._sid:
                    self._sid = self._connection.subscribe(f"{self._inbox}.*")
                self._connection.publish(
                    action.request.subject(self._prefix),
                    action.request.payload(),
                    reply=f"{self._inbox}.{self._tokens.token(action.token).decode()}",
                )
            elif isinstance(action, CheckConsumer):
                self._check_consumer()
                actions += self._engine.poll_actions()
            elif isinstance(action, End):
                if action.error is not None:
                    self._connection.note_error(action.error)
                    raise action.error
                if self._engine.pull_left_open:  # the server has not even ended the pull
                    self._connection.note_error(RequestTimeoutError("no status"), self._engine.options.timeout or 0.0)
                return True
        return False

    def _check_consumer(self) -> None:
        """Ask the server whether the consumer exists. Without a subscription, the connection may change its server."""
        self._connection.unsubscribe(self._sid)
        self._sid = 0
        now = time.monotonic()
        left = (self._engine.deadline or now + _MAX_WAIT) - now
        failure: Error | None = None
        try:
            timeout = min(max(left, 0.0), _CHECK_TIMEOUT)
            self._connection.request(self._state_request, timeout=timeout, prefix=self._prefix)
        except Error as error:
            if self._connection.closed:
                raise
            failure = error
        self._engine.consumer_checked(time.monotonic(), failure)

    def _process_table(self, table: FrameTable) -> FrameTable | None:
        """Pass the received messages to the engine: first the data, then the statuses; return the data."""
        lines, now = table.lines, time.monotonic()
        data = self._data_of(table)
        if data is not None:
            self._deliver(data, now)
        for row in np.flatnonzero((lines.sid == self._sid) & ~has_ack_subject(lines)):
            message = table.message(int(row))
            status = parse_status(message.header)
            token = self._tokens.number(message.subject.rpartition(b".")[2])
            self._connection.unmatched_replies += token is None
            if status is not None and token is not None and not message.payload:
                self._engine.status(now, token, status.code, status.description)
        return data

    def _data_of(self, table: FrameTable) -> FrameTable | None:
        lines = table.lines
        data = (lines.sid == self._sid) & has_ack_subject(lines)  # else a status, or no consumer delivered it
        if data.all():
            return table
        return table.select(data) if data.any() else None

    def _deliver(self, table: FrameTable, now: float) -> None:
        if table.header_size.any():
            pin_id = parse_header_block(table.message(0).header).get(PIN_ID)
            if pin_id is not None:
                self._engine.pinned(pin_id)
        self._connection.note_answer()
        self._engine.delivered(now, len(table), _size_of(table))
        self._engine.consumed(now, len(table), _size_of(table))

    def _add(self, table: FrameTable) -> pa.RecordBatch:
        """Return messages as a batch."""
        lines = table.lines
        batch = ConsumerMessages(table, parse_ack_subjects(lines), self._stream).to_record_batch(self._schema)
        ack_subjects = gather_spans(lines.buffer, lines.reply_start, lines.reply_end)
        check_reply_subjects(ack_subjects, self._connection.message_limits.subject)
        self.unacked.append(ack_subjects)
        self.received += len(table)
        self._size += _size_of(table)
        held = _Held(table.copy() if self.hold else table)
        self._held.append(held)
        if self._rows is not None:
            decoded = self._rows.decode(batch)  # if it fails, the messages are given back
            batch, held.bad_records = decoded.rows, len(decoded.bad)
            self.bad_records += held.bad_records
        if not self.hold:
            self._held.clear()
        return batch

    # -- the end -------------------------------------------------------------------------------------------------

    def give_back(self) -> None:
        """End the pull, and give back the messages that the caller did not get, or that still come."""
        held, self._held = self._held, []
        for each in held:
            self.received -= len(each.table)
            self.bad_records -= each.bad_records
            self._size -= _size_of(each.table)
            self.unacked.pop()
        messages = [each.table.message(row) for each in held for row in range(len(each.table))]
        self._put(messages + self._end_pull())

    def _end_pull(self) -> list[MsgFrame]:
        """End the pull, unless the server has done so; return the messages that still come."""
        messages: list[MsgFrame] = []
        if self._sid and not self._connection.closed:
            with suppress(Error):
                self._connection.unsubscribe(self._sid)
                if not self._engine.ended or self._engine.pull_left_open:
                    for table in _read_until_pong(self._connection):
                        if (data := self._data_of(table)) is not None:
                            messages += [data.message(row) for row in range(len(data))]
        self._sid = 0
        return messages

    def _put(self, messages: list[MsgFrame]) -> None:
        if messages:
            with suppress(Error):  # else the server delivers them again after `ack_wait`
                self.left.put(messages) or self._nak.put(messages)


def send_acks(connection: Connection, subjects: pa.BinaryArray, payload: bytes, timeout: float = _END_TIMEOUT) -> None:
    """Send the same acknowledgement to each subject."""
    count = len(subjects)
    frames = encode_publishes(subjects, pa.repeat(pa.scalar(b""), count), pa.repeat(pa.scalar(payload), count))
    connection.send(buffer_bytes(frames.buffers()[2]), time.monotonic() + timeout)


def _read_until_pong(connection: Connection) -> Generator[FrameTable]:
    """Yield what comes until the server has read all that was sent, at most for `_END_TIMEOUT`."""
    deadline = time.monotonic() + _END_TIMEOUT
    before = connection.pongs
    connection.ping()
    while connection.pongs == before and time.monotonic() < deadline:
        if (table := connection.read(min(deadline, time.monotonic() + _COLLECT_TIME))) is not None:
            yield table


def _size_of(table: FrameTable) -> int:
    """Return the size of messages as the server counts it (SIZ-01)."""
    lines = table.lines
    texts = (lines.subject_end - lines.subject_start) + (lines.reply_end - lines.reply_start)
    return int((texts + table.end - table.body).sum())


def _decode_messages(messages: Sequence[MsgFrame]) -> FrameTable:
    """Return messages as a table, by way of their frames."""
    frames = []
    for subject, _, reply, header, payload in messages:
        size = b"%d %d" % (len(header), len(header) + len(payload)) if header else b"%d" % len(payload)
        verb = b"HMSG" if header else b"MSG"
        frames.append(b"%b %b %d %b %b\r\n%b%b\r\n" % (verb, subject, _LEFT_SID, reply, size, header, payload))
    return decode(pa.py_buffer(b"".join(frames)))
