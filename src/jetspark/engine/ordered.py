"""Ordered pull consumers (ADR-17, ADR-37): every message once and in order, also if consumers are lost.

Such a consumer is temporary: no acknowledgement, one replica, in memory. Its deliveries have numbers without gaps, so a
missing one is detected. Then, and whenever the consumer is or may be gone, the next one is created under a new name,
starting after the last good message. `OrderedCursor` knows this position; `OrderedEngine` decides when to create.

`OrderedEngine` takes events and returns `actions`, like the pull engine; the pulls themselves are that engine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypedDict

from jetspark.engine.consumer_series import ConsumerSeries
from jetspark.engine.ordered_actions import (
    CreateConsumer,
    DeleteConsumer,
    GetConsumerInfo,
    GetLastSequence,
    OrderedAction,
    OrderedEnd,
    StartPulling,
    Warn,
)
from jetspark.engine.push.gaps import GapDetector
from jetspark.engine.retry import CREATE_TIMEOUT, can_create_later, create_backoff
from jetspark.jetstream.ack import AckMetadata, parse_ack_subject
from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.errors import (
    ConfigError,
    ConsumerDeletedError,
    ConsumerIsPushError,
    DisconnectedError,
    Error,
    InvalidAckError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    PermissionsViolationError,
)
from jetspark.jetstream.info import ConsumerInfo
from jetspark.jetstream.names import check_consumer_name, new_name
from jetspark.wire.messages import Message

__all__ = [
    "CREATE_TIMEOUT",
    "CreateConsumer",
    "DeleteConsumer",
    "GetConsumerInfo",
    "GetLastSequence",
    "OrderedAction",
    "OrderedCursor",
    "OrderedEnd",
    "OrderedEngine",
    "OrderedFields",
    "StartPulling",
    "Warn",
    "ordered_config",
    "ordered_heartbeat",
]

_INACTIVE: Final = timedelta(minutes=5)
_HEARTBEAT: Final = 5.0
_EXPIRES_FOR_HEARTBEAT: Final = 10.0
_CONSUMER_LOST_ERRORS: Final = (
    ConsumerDeletedError,
    ConsumerIsPushError,
    MissedHeartbeatError,
    NoConsumerResponseError,
)
"""Errors of pulls that mean that the consumer is gone, or may be gone (ORD-11)."""
_MAX_QUEUED_DELETES: Final = 32
"""Maximum number of former consumers that are remembered until they are known to be gone."""
_MAX_UNANSWERED_REQUESTS: Final = 3
"""Number of unanswered requests to the stream's leader after which the consumer's own state is used."""


class OrderedFields(TypedDict, total=False):
    """Fields of `ConsumerConfig` that the user of an ordered consumer may set; all others are fixed (ORD-10)."""

    filter_subject: str | None
    filter_subjects: list[str] | None
    deliver_policy: DeliverPolicy | str | None
    opt_start_seq: int | None
    opt_start_time: datetime | None
    replay_policy: ReplayPolicy | str | None
    headers_only: bool | None
    inactive_threshold: timedelta | None
    metadata: dict[str, str] | None


def ordered_config(fields: Mapping[str, object]) -> ConsumerConfig:
    """Return the part of the configuration that the user sets.

    Raises
    ------
    ConfigError
        A field is fixed for ordered consumers, does not exist, or has a value of the wrong type.
    """
    for name in fields.keys() - OrderedFields.__annotations__.keys():
        raise ConfigError(
            f"{name} cannot be set on an ordered consumer; allowed are: {', '.join(OrderedFields.__annotations__)}"
        )
    return make_config(ConsumerConfig, None, fields)


def ordered_heartbeat(expires: float) -> float:
    """Return the default heartbeat of an ordered consume (ORD-11), in seconds: 5, but at most half of `expires`."""
    return _HEARTBEAT if expires >= _EXPIRES_FOR_HEARTBEAT else expires / 2


class OrderedCursor(ConsumerSeries):
    """Position of an ordered consumer: its consumers, and the numbers of their deliveries.

    Parameters
    ----------
    config
        Fields that the user set.
    prefix
        Prefix of the consumers' names; None creates a random one.
    """

    def __init__(self, config: ConsumerConfig, prefix: str | None = None) -> None:
        every = config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT
        if every and not (config.filter_subject or config.filter_subjects):
            config = config.replace(filter_subject=">")  # else the server refuses it (10094)
        config = config.replace(
            ack_policy=AckPolicy.NONE,
            num_replicas=1,
            mem_storage=True,
            inactive_threshold=config.inactive_threshold or _INACTIVE,
        )
        super().__init__(config, new_name() if prefix is None else check_consumer_name(prefix))
        self._gaps = GapDetector(0)

    def next_config(self, deliver_subject: str | None = None) -> ConsumerConfig:
        """Return the next configuration; the numbers of deliveries start again."""
        self._gaps = GapDetector(0)
        return super().next_config(deliver_subject)

    def accept(self, messages: Sequence[Message]) -> tuple[int, AckMetadata | None]:
        """Check a series of deliveries; return how many are good, and the metadata of the last good one.

        Deliveries come in the order of their numbers, so the number of the last one shows whether one is missing. Only
        then the method checks each of them.
        """
        last = _metadata(messages[-1])
        expected = (self._gaps.last or 0) + len(messages)
        if last is not None and last.consumer_sequence == expected:
            self._gaps.last = expected
            good = len(messages)
        else:
            good = self._gaps.scan(list(messages))
            last = _metadata(messages[good - 1]) if good else None
        if last is not None:
            self.last_sequence = last.stream_sequence
        return good, last

    def heartbeat(self, last_consumer_sequence: int) -> bool:
        """Return whether a heartbeat reports deliveries that did not arrive (ORD-04)."""
        return self._gaps.heartbeat(last_consumer_sequence)

    @property
    def subjects(self) -> tuple[str, ...]:
        """Subjects that it reads; `>` for all."""
        filters = self._config.filter_subjects or [self._config.filter_subject or ">"]
        return tuple(filters)

    @property
    def delivered(self) -> int:
        """Number of deliveries received from the current consumer."""
        return self._gaps.last or 0


class OrderedEngine:
    """State machine of the consumers of one ordered consume.

    With `until_caught_up` it ends when the consumer has nothing pending and the stream's leader has no later message.
    The leader must be asked because the consumer may be on a replica that is not up to date.

    Parameters
    ----------
    cursor
        Its position.
    max_reset_attempts
        Consecutive tries to create a consumer; None has no limit.
    until_caught_up
        Whether to end when nothing is pending.
    """

    def __init__(
        self, cursor: OrderedCursor, *, max_reset_attempts: int | None = None, until_caught_up: bool = False
    ) -> None:
        if max_reset_attempts is not None and max_reset_attempts < 1:
            raise ConfigError(f"max_reset_attempts must be positive, not {max_reset_attempts}")
        self.ended = False
        self.retry_at: float | None = None
        self._cursor = cursor
        self._backoff = create_backoff(max_reset_attempts)
        self._until_caught_up = until_caught_up
        self._expected = 0  # messages pending when the current consumer was created
        self._begin = 0  # the current consumer starts after this sequence
        self._last: int | None = None  # last sequence that the leader reported
        self._awaiting_last_sequence = False  # a request to the leader waits for its answer
        self._unanswered_requests = 0  # consecutive requests to the leader without an answer
        self._consumer_exists = False  # the current consumer is known to exist
        self._queued_deletes: dict[
            str, bool
        ] = {}  # former consumers that may still exist -> whether a deletion was requested
        self._online = True
        self._actions: list[OrderedAction] = []

    def poll_actions(self) -> list[OrderedAction]:
        """Return the new actions, in order; each is returned once."""
        actions, self._actions = self._actions, []
        return actions

    @property
    def resetting(self) -> bool:
        """Whether there is no consumer now, because the next one is not created yet."""
        return not self._consumer_exists and not self.ended

    def start(self, *, online: bool = True) -> None:
        """Begin; without a session, the first consumer is created in the next session."""
        self._online = online
        self._create_next_consumer()

    def created(self, info: ConsumerInfo) -> None:
        """Handle a created consumer."""
        if self.ended or not self._online or info.name != self._cursor.name:  # too late
            self._delete(info.name)
            return
        self._consumer_exists = True
        self._backoff.reset()
        self._cursor.created(info)
        self._expected = info.num_pending
        self._begin = info.delivered.stream_seq
        self._actions.append(StartPulling(info.name))
        self._clean_up()  # the server answers again
        if self._until_caught_up and not info.num_pending:
            self._request_last_sequence()

    def failed(self, now: float, name: str, error: Error) -> None:
        """Handle a failed creation of the consumer `name`, or one with an unknown result (ORD-07, ORD-08)."""
        if error.outcome_unknown:
            self._queue_delete(name)
            if self.ended:
                self._clean_up()
        if self.ended or not self._online or name != self._cursor.name:
            return
        delay = self._backoff.next_delay() if can_create_later(error) else None
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

    def accept(self, messages: Sequence[Message]) -> int:
        """Handle messages; return how many are good. If some are not, the next consumer starts after the good ones."""
        good, last = self._cursor.accept(messages)
        if good < len(messages):
            self.reset()
        elif self._until_caught_up and last is not None:
            if self._last is not None:
                self._end_if_caught_up()
            elif not last.num_pending:
                # The pending number in a delivery may be out of date.
                if self._cursor.delivered >= self._expected:
                    self._request_last_sequence()
                else:
                    self._actions.append(GetConsumerInfo(self._cursor.name))
        return good

    def heartbeat(self, last_consumer_sequence: int | None) -> None:
        """Handle a heartbeat: the server has nothing to send."""
        if last_consumer_sequence is not None and self._cursor.heartbeat(last_consumer_sequence):
            self.reset()
        elif self._until_caught_up:
            self._actions.append(GetConsumerInfo(self._cursor.name))

    def info_received(self, info: ConsumerInfo) -> None:
        """Handle the consumer's info, requested while no messages come."""
        if info.name == self._cursor.name and not info.num_pending:
            if info.delivered.consumer_seq <= self._cursor.delivered:
                self._request_last_sequence()
            self._expected = 0

    def last_sequence_received(self, last: int) -> None:
        """Handle the leader's answer: the last sequence of the subjects that are read; 0 for none."""
        self._last = last
        self._awaiting_last_sequence = False
        self._unanswered_requests = 0
        self._end_if_caught_up()

    def last_sequence_failed(self, error: Error) -> None:
        """Handle a failed request to the leader. The next heartbeat leads to another request."""
        self._awaiting_last_sequence = False
        self._unanswered_requests += not isinstance(error, DisconnectedError)
        if self._unanswered_requests >= _MAX_UNANSWERED_REQUESTS or isinstance(error, PermissionsViolationError):
            self._actions.append(Warn(error))
            self.stop()

    def _request_last_sequence(self) -> None:
        if not (self._awaiting_last_sequence or self.ended):
            self._awaiting_last_sequence = True
            self._actions.append(GetLastSequence(self._cursor.subjects))

    def _end_if_caught_up(self) -> None:
        place = self._cursor.last_sequence
        if self._last is not None and self._last <= (self._begin if place is None else place):
            self.stop()

    def pull_error(self, error: Error, *, final: bool) -> None:
        """Handle a warning of the pulls or, with `final`, their end."""
        if isinstance(error, _CONSUMER_LOST_ERRORS):
            self._actions.append(Warn(error))
            self.reset()
        elif final:
            self.stop(error)
        else:
            self._actions.append(Warn(error))

    def reset(self) -> None:
        """Delete the current consumer and create the next one."""
        if self._consumer_exists and not self.ended:
            self._delete(self._cursor.name)
            self._create_next_consumer()

    def disconnected(self) -> None:
        """Handle the loss of the session. The consumer may be lost too. Create nothing without a session (ORD-05)."""
        self._online = self._consumer_exists = False
        self.retry_at = None

    def reconnected(self) -> None:
        """Handle a new session: delete former consumers and create the next one."""
        if not self.ended:
            self._online = True
            if self._cursor.serial:
                self._queue_delete(self._cursor.name)
            self._queued_deletes = dict.fromkeys(self._queued_deletes, False)  # earlier requests get no answer any more
            self._clean_up()
            self._create_next_consumer()

    def stop(self, error: Error | None = None) -> None:
        """End: the user stopped it, the connection closed, or an error allows no retry."""
        if self.ended:
            return
        self.ended = True
        self.retry_at = None
        if self._consumer_exists:
            self._queue_delete(self._cursor.name)
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
        if self._online and not self.ended:
            self.retry_at = None
            self._actions.append(CreateConsumer(self._cursor.next_config()))


def _metadata(message: Message) -> AckMetadata | None:
    try:
        return parse_ack_subject(message.reply)
    except InvalidAckError:
        return None
