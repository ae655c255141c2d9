"""Ordered readers (ADR-17, ADR-37): every message once and in order, also if consumers are lost.

Such a reader has temporary consumers, one after the other. Their deliveries have numbers without gaps, so a missing one
is detected. Then, and whenever the consumer is or may be gone, the next one is created under a new name, starting after
the last good message. `OrderedCursor` knows this position; `OrderedEngine` decides when to create.

`OrderedEngine` takes events and returns actions. The source of the messages is pulls (`jetspark.engine.pull`) or a push
subscription (`jetspark.engine.push`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jetspark.engine.catch_up import CatchUp
from jetspark.engine.ordered_actions import (
    CreateConsumer,
    DeleteConsumer,
    GetStreamInfo,
    OrderedAction,
    OrderedEnd,
    Report,
    StartReading,
    Warn,
)
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.engine.ordered_stream import StreamMatch
from jetspark.engine.retry import can_create_later, create_backoff
from jetspark.jetstream.errors import (
    ConsumerDeletedError,
    ConsumerIsPushError,
    Error,
    MissedHeartbeatError,
    NoConsumerResponseError,
    StreamNotFoundError,
)
from jetspark.jetstream.info import ConsumerInfo, StreamInfo
from jetspark.wire.events import ErrorOccurred, StreamRecreated
from jetspark.wire.messages import Message

__all__ = ["OrderedEngine"]

_CONSUMER_LOST_ERRORS: Final = (
    ConsumerDeletedError,
    ConsumerIsPushError,
    MissedHeartbeatError,
    NoConsumerResponseError,
)
"""Errors of pulls that mean that the consumer is gone, or may be gone (ORD-11)."""
_NEVER: Final = -1
_RESETS_AT_ONCE: Final = 3
_MAX_QUEUED_DELETES: Final = 32
"""Maximum number of former consumers that are remembered until they are known to be gone."""


class OrderedEngine:
    """State machine of the consumers of one ordered reader.

    Parameters
    ----------
    cursor
        Its position.
    max_reset_attempts
        Consecutive tries to create a consumer; None has no limit.
    catch_up
        Decides when to report `CaughtUp`; None never reports it.
    delay_after_idle
        Whether to wait before the next consumer if the last one brought no message (R14). Otherwise it waits after
        three of them in a row.
    """

    def __init__(
        self,
        cursor: OrderedCursor,
        *,
        max_reset_attempts: int | None = None,
        catch_up: CatchUp | None = None,
        delay_after_idle: bool = False,
    ) -> None:
        self.ended = False
        self.retry_at: float | None = None
        self._cursor = cursor
        self._backoff = create_backoff(max_reset_attempts)
        self._idle_resets = 0  # in a row, without a message between them
        self._resets_at_once = 0 if delay_after_idle else _RESETS_AT_ONCE
        self._idle_backoff = create_backoff()
        self._created_at: int | None = _NEVER  # last sequence when this engine created the current consumer
        self._catch_up = catch_up or CatchUp()
        self._consumer_exists = False  # the current consumer is known to exist
        self._unchecked: ConsumerInfo | None = None  # created, and its stream is not compared yet
        # Former consumers that may still exist, and whether a deletion was requested.
        self._queued_deletes: dict[str, bool] = {}
        self._online = True
        self._actions: list[OrderedAction] = []

    def poll_actions(self) -> list[OrderedAction]:
        """Return the new actions, in order; each is returned once."""
        actions, self._actions = self._actions, []
        return actions

    @property
    def resetting(self) -> bool:
        """Whether there is no consumer now, because the next one is not created yet."""
        return self._online and not self._consumer_exists and not self.ended

    @property
    def reading(self) -> bool:
        """Whether messages of the current consumer are accepted."""
        return self._consumer_exists

    def is_creating(self, name: str) -> bool:
        """Return whether the creation of this consumer is in progress and still wanted."""
        return self.resetting and name == self._cursor.name

    def start(self, *, online: bool = True, exists: bool = False) -> None:
        """Begin; without a session, the first consumer is created in the next session.

        With `exists`, the caller has created the first consumer and reads from it.
        """
        self._online = online
        if not exists:
            self._create_next_consumer()
        elif online:
            self._begin_reading()

    def created(self, info: ConsumerInfo) -> None:
        """Handle a created consumer."""
        if not self.is_creating(info.name):  # too late
            self._delete(info.name)
        elif self._cursor.stream.required:
            self._unchecked = info
            self._actions.append(GetStreamInfo(info.name))
        else:
            self._start_reading(info)

    def _start_reading(self, info: ConsumerInfo) -> None:
        self._unchecked = None
        self._backoff.reset()
        self._cursor.created(info)
        self._actions.append(StartReading(info))
        self._clean_up()  # the server answers again
        self._begin_reading()

    def _begin_reading(self) -> None:
        self._consumer_exists = True
        if self._cursor.stream.unknown:
            self._actions.append(GetStreamInfo(self._cursor.name))
        if self._catching_up:
            self._actions += self._catch_up.began()

    @property
    def _catching_up(self) -> bool:
        return not (self._catch_up.done or self.ended)

    def stream_received(self, now: float, name: str, stream: StreamInfo) -> None:
        """Handle the info of the stream, requested for the consumer `name`."""
        info = self._unchecked
        if info is None or info.name != name:
            if self._consumer_exists and name == self._cursor.name and self._cursor.stream.unknown:
                self._cursor.stream.begin_first(stream)
            return
        match self._cursor.compare(stream):
            case StreamMatch.SAME:
                self._start_reading(info)
            case StreamMatch.BEHIND if (delay := self._backoff.next_delay()) is not None:
                self._unchecked = None
                self._delete(name)
                self.retry_at = now + delay
            case _:
                self._handle_recreated(stream)

    def stream_failed(self, now: float, name: str, error: Error) -> None:
        """Handle a failed request for the stream's info."""
        info = self._unchecked
        if name != self._cursor.name or (info is None and not self._consumer_exists):
            return
        reads_on = self._cursor.stream.failed(error)
        if reads_on and (problem := self._cursor.stream.unchecked(error)) is not None:
            self._actions.append(Report(ErrorOccurred(problem)))
        if info is None:
            return  # it is being read
        if reads_on:
            self._start_reading(info)
        else:
            self._unchecked = None
            self._delete(name)
            self.failed(now, name, error)

    def _handle_recreated(self, stream: StreamInfo) -> None:
        error = self._cursor.recreated_error(stream)
        self._actions.append(Report(StreamRecreated(error.stream, error, self._cursor.restarts)))
        self._unchecked = None
        self._delete(self._cursor.name)
        if not self._cursor.restarts:
            self.stop(error)
            return
        self._actions.append(Warn(error))
        self._cursor.restart(stream)
        self._catch_up.restarted()
        self._create_next_consumer()

    def failed(self, now: float, name: str, error: Error) -> None:
        """Handle a failed creation of the consumer `name`, or one with an unknown result (ORD-07, ORD-08)."""
        if error.outcome_unknown:
            self._queue_delete(name)
            if self.ended:
                self._clean_up()
        if not self.is_creating(name):
            return
        awaited = isinstance(error, StreamNotFoundError) and self._cursor.awaits_stream
        delay = self._backoff.next_delay() if awaited or can_create_later(error) else None
        if delay is None:
            self.stop(error)
            return
        self._actions.append(Warn(error))
        self.retry_at = now + delay

    def tick(self, now: float) -> None:
        """Create the next consumer if `retry_at` has passed."""
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            self._create_next_consumer()

    def accept(self, messages: Sequence[Message], now: float = 0.0) -> int:
        """Handle messages; return how many are good. If some are not, the next consumer starts after the good ones.

        The time is needed for a delay before the next consumer.
        """
        if not self._consumer_exists:
            return 0  # late messages of a former consumer (ORD-09)
        good, last = self._cursor.accept(messages)
        if good < len(messages):
            self.reset(now)
        elif last is not None and self._catching_up:
            self._actions += self._catch_up.accepted(messages, last.num_pending)
        return good

    def heartbeat(self, last_consumer_sequence: int | None, now: float = 0.0) -> None:
        """Handle a heartbeat: the server has nothing to send."""
        if last_consumer_sequence is not None and self._cursor.heartbeat(last_consumer_sequence):
            self.reset(now)
        elif self._catching_up:
            self._actions += self._catch_up.silent()

    def info_received(self, info: ConsumerInfo) -> None:
        """Handle the consumer's info, requested while no messages come."""
        if info.name == self._cursor.name and self._catching_up:
            self._actions += self._catch_up.info_received(info)

    def last_sequence_received(self, last: int) -> None:
        """Handle the leader's answer: the last sequence of the subjects that are read; 0 for none."""
        if self._catching_up:
            self._actions += self._catch_up.last_sequence_received(last)

    def last_sequence_failed(self, error: Error) -> None:
        """Handle a failed request to the leader. The next heartbeat leads to another request."""
        if self._catching_up:
            self._actions += self._catch_up.last_sequence_failed(error)

    def pull_error(self, error: Error, *, final: bool, now: float = 0.0) -> None:
        """Handle a warning of the pulls or, with `final`, their end."""
        if isinstance(error, _CONSUMER_LOST_ERRORS):
            self._actions.append(Warn(error))
            self.reset(now)
        elif final:
            self.stop(error)
        else:
            self._actions.append(Warn(error))

    def reset(self, now: float = 0.0) -> None:
        """Delete the current consumer, and create the next one at once or after a delay."""
        if not self._consumer_exists or self.ended:
            return
        self._delete(self._cursor.name)
        self._idle_resets += 1
        if self._cursor.last_sequence != self._created_at:
            self._idle_resets = 0
            self._idle_backoff.reset()
        elif self._idle_resets > self._resets_at_once and (delay := self._idle_backoff.next_delay()) is not None:
            self._consumer_exists = False
            self.retry_at = now + delay
            return
        self._create_next_consumer()

    def suspend(self, dropped: Message | None = None) -> None:
        """Handle that nothing can be read now: the session is lost, or the program had no room for a message.

        The consumer may be lost too. The engine creates nothing until `resume` (ORD-05).
        """
        if dropped is not None:
            self._cursor.rewind(dropped)
        self._online = self._consumer_exists = False
        self._unchecked = None
        self.retry_at = None

    def resume(self) -> None:
        """Handle that reading is possible again: delete former consumers and create the next one."""
        if self.ended or self._online:
            return
        self._online = True
        if self._cursor.serial:
            self._queue_delete(self._cursor.name)
        self._queued_deletes = dict.fromkeys(self._queued_deletes, False)  # earlier requests get no answer any more
        self._clean_up()
        self._idle_resets = 0
        self._idle_backoff.reset()
        self._create_next_consumer()

    def stop(self, error: Error | None = None, *, delete: bool = True) -> None:
        """End: the user stopped it, the connection closed, or an error allows no retry.

        Without `delete`, the caller deletes the current consumer.
        """
        if self.ended:
            return
        self.ended = True
        self.retry_at = None
        if (self._consumer_exists or self._unchecked is not None) and delete:
            self._queue_delete(self._cursor.name)
        self._unchecked = None
        self._clean_up()
        self._actions.append(OrderedEnd(error))

    def deleted(self, name: str) -> None:
        """Forget a consumer that is gone. Until then, each new session and each new consumer deletes it again (R14)."""
        self._queued_deletes.pop(name, None)

    def delete_failed(self, name: str) -> None:
        """Handle a deletion with an unknown result."""
        if name in self._queued_deletes:
            self._queued_deletes[name] = False

    def _delete(self, name: str) -> None:
        self._queued_deletes.pop(name, None)
        self._queue_delete(name)
        self._request_delete(name)

    def _clean_up(self) -> None:
        """Request the deletion of all former consumers that may still exist."""
        for name in self._queued_deletes:
            self._request_delete(name)

    def _request_delete(self, name: str) -> None:
        """Request the deletion, unless it was already requested."""
        if self._online and not self._queued_deletes[name]:
            self._queued_deletes[name] = True
            self._actions.append(DeleteConsumer(name))

    def _queue_delete(self, name: str) -> None:
        self._queued_deletes.setdefault(name, False)
        if len(self._queued_deletes) > _MAX_QUEUED_DELETES:  # the server deletes an unused one by itself
            del self._queued_deletes[next(iter(self._queued_deletes))]

    def _create_next_consumer(self) -> None:
        self._consumer_exists = False
        self._unchecked = None
        if self._online and not self.ended:
            self.retry_at = None
            self._created_at = self._cursor.last_sequence
            self._actions.append(CreateConsumer(self._cursor.next_config()))
