"""Ordered consumers in the pull form (ADR-17, ADR-37): every message once and in order, whatever happens to consumers.

A consumer of this kind is made to be thrown away: no acknowledgement, one replica, in memory. Its deliveries are
numbered without gaps, so one that is missing shows. Then, and whenever the consumer is or may be gone, the next one is
made under a new name behind the last good message. `OrderedCursor` says where that is, `OrderedFlow` when.

`OrderedFlow` takes events and leaves `actions`, as the pull engine does; the pulls themselves are that engine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypedDict

from jetspark.flow.consumer_series import ConsumerSeries
from jetspark.flow.ordered_actions import (
    AskLeader,
    Create,
    Delete,
    LookUp,
    OrderedAction,
    OrderedEnd,
    Read,
    Warn,
)
from jetspark.flow.push.gaps import GapDetector
from jetspark.flow.push.resetting import TRY_TIMEOUT, ResetBackoff, is_passing
from jetspark.jetstream.ack import AckMetadata, parse_ack_subject
from jetspark.jetstream.config import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
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
    RequestTimeoutError,
)
from jetspark.jetstream.info import ConsumerInfo
from jetspark.jetstream.making import make_config
from jetspark.jetstream.names import check_consumer_name, new_name
from jetspark.wire.messages import Message

__all__ = [
    "TRY_TIMEOUT",
    "AskLeader",
    "Create",
    "Delete",
    "LookUp",
    "OrderedAction",
    "OrderedCursor",
    "OrderedEnd",
    "OrderedFields",
    "OrderedFlow",
    "Read",
    "Warn",
    "ordered_config",
    "ordered_heartbeat",
]

_INACTIVE: Final = timedelta(minutes=5)
_HEARTBEAT: Final = 5.0
_EXPIRES_FOR_HEARTBEAT: Final = 10.0
_REASONS: Final = (ConsumerDeletedError, ConsumerIsPushError, MissedHeartbeatError, NoConsumerResponseError)
"""What the pulls say when the consumer is, or may be, gone (ORD-11)."""
_DOOMED: Final = 32
"""So many former consumers are remembered until they are known to be gone."""
_UNKNOWN: Final = (RequestTimeoutError, DisconnectedError)
"""What a creation ends with that the server may have carried out, or may still carry out."""
_QUESTIONS: Final = 3
"""So often the stream's leader is asked without an answer before the consumer is believed."""


class OrderedFields(TypedDict, total=False):
    """What the user may set of an ordered consumer; the rest is fixed (ORD-10)."""

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
    """The part of the configuration that the user sets.

    Raises
    ------
    ConfigError
        A field is fixed for ordered consumers, is none at all, or has a value of another kind.
    """
    for name in fields.keys() - OrderedFields.__annotations__.keys():
        raise ConfigError(
            f"{name} cannot be set on an ordered consumer; these can: {', '.join(OrderedFields.__annotations__)}"
        )
    return make_config(ConsumerConfig, None, fields)


def ordered_heartbeat(expires: float) -> float:
    """Heartbeat of an ordered consume that names none (ORD-11): 5 s where that is at most half of `expires`."""
    return _HEARTBEAT if expires >= _EXPIRES_FOR_HEARTBEAT else expires / 2


class OrderedCursor(ConsumerSeries):
    """Where an ordered consumer is: its consumers, and their numbering.

    Parameters
    ----------
    config
        What the user set.
    prefix
        Start of the consumers' names; made up when None.
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
        """The next consumer, which numbers its deliveries anew."""
        self._gaps = GapDetector(0)
        return super().next_config(deliver_subject)

    def accept(self, messages: Sequence[Message]) -> tuple[int, AckMetadata | None]:
        """Follow a run of deliveries; returns how many of them are good, and what the last good one tells.

        Deliveries come in the order of their numbers, so the last one tells whether one is missing. Only then all of
        them are looked at.
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
        """Whether a heartbeat tells of deliveries that did not come (ORD-04)."""
        return self._gaps.heartbeat(last_consumer_sequence)

    @property
    def subjects(self) -> tuple[str, ...]:
        """What it reads; `>` for all."""
        filters = self._config.filter_subjects or [self._config.filter_subject or ">"]
        return tuple(filters)

    @property
    def delivered(self) -> int:
        """Deliveries of the present consumer that were seen."""
        return self._gaps.last or 0


class OrderedFlow:
    """The consumers behind one ordered consume.

    With `until_drained` it ends when a consumer has nothing pending and the stream's leader, asked then, had nothing
    more either: the consumer may be with a replica that is still catching up.

    Parameters
    ----------
    cursor
        Where it is.
    max_reset_attempts
        Tries in a row to make a consumer; None goes on for ever.
    until_drained
        End when nothing is pending.
    """

    def __init__(
        self, cursor: OrderedCursor, *, max_reset_attempts: int | None = None, until_drained: bool = False
    ) -> None:
        if max_reset_attempts is not None and max_reset_attempts < 1:
            raise ConfigError(f"max_reset_attempts must be positive, not {max_reset_attempts}")
        self.ended = False
        self.retry_at: float | None = None
        self._cursor = cursor
        self._backoff = ResetBackoff(max_reset_attempts)
        self._until_drained = until_drained
        self._expected = 0  # what the present consumer had before it at first
        self._begin = 0  # the sequence behind which the present consumer began
        self._last: int | None = None  # what the leader had last when it was asked
        self._asking = False  # a question to the leader is on its way
        self._silent = 0  # of them in a row had no answer
        self._made = False  # the present consumer is known to exist
        self._doomed: dict[str, bool] = {}  # former consumers that may still exist; whether one is being deleted now
        self._online = True
        self._actions: list[OrderedAction] = []

    def take(self) -> list[OrderedAction]:
        """What is to be done, in order; each is returned once."""
        actions, self._actions = self._actions, []
        return actions

    @property
    def resetting(self) -> bool:
        """It is between two consumers."""
        return not self._made and not self.ended

    def start(self, *, online: bool = True) -> None:
        """Begin; without a session, with the next one."""
        self._online = online
        self._renew()

    def created(self, info: ConsumerInfo) -> None:
        """A consumer was made."""
        if self.ended or not self._online or info.name != self._cursor.name:  # too late
            self._delete(info.name)
            return
        self._made = True
        self._backoff.succeeded()
        self._cursor.created(info)
        self._expected = info.num_pending
        self._begin = info.delivered.stream_seq
        self._actions.append(Read(info.name))
        self._clean_up()  # the server answers again
        if self._until_drained and not info.num_pending:
            self._ask_leader()

    def failed(self, now: float, name: str, error: Error) -> None:
        """The consumer of that name could not be made, or nobody knows whether it was (ORD-07, ORD-08)."""
        if isinstance(error, _UNKNOWN):
            self._doom(name)
            if self.ended:
                self._clean_up()
        if self.ended or not self._online or name != self._cursor.name:
            return
        delay = self._backoff.failed() if is_passing(error) else None
        if delay is None:
            self.stop(error)
            return
        self._actions.append(Warn(error))
        self.retry_at = now + delay

    def tick(self, now: float) -> None:
        """A time may have come."""
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            self._renew()

    def accept(self, messages: Sequence[Message]) -> int:
        """Messages came; returns how many of them are good. Behind the rest, the next consumer starts."""
        good, last = self._cursor.accept(messages)
        if good < len(messages):
            self.reset()
        elif self._until_drained and last is not None:
            if self._last is not None:
                self._end_if_drained()
            elif not last.num_pending:
                # What a server says of pending messages may be a little behind.
                if self._cursor.delivered >= self._expected:
                    self._ask_leader()
                else:
                    self._actions.append(LookUp(self._cursor.name))
        return good

    def heartbeat(self, last_consumer_sequence: int | None) -> None:
        """The server has nothing to send."""
        if last_consumer_sequence is not None and self._cursor.heartbeat(last_consumer_sequence):
            self.reset()
        elif self._until_drained:
            self._actions.append(LookUp(self._cursor.name))

    def looked_up(self, info: ConsumerInfo) -> None:
        """What the consumer says of itself while nothing comes."""
        if info.name == self._cursor.name and not info.num_pending:
            if info.delivered.consumer_seq <= self._cursor.delivered:
                self._ask_leader()
            self._expected = 0

    def leader_has(self, last: int) -> None:
        """The leader's last message of what is read has that sequence; 0 for none."""
        self._last = last
        self._asking = False
        self._silent = 0
        self._end_if_drained()

    def leader_failed(self, error: Error) -> None:
        """The leader could not be asked. The next heartbeat leads to the next question."""
        self._asking = False
        self._silent += not isinstance(error, DisconnectedError)
        if self._silent >= _QUESTIONS or isinstance(error, PermissionsViolationError):
            self._actions.append(Warn(error))
            self.stop()

    def _ask_leader(self) -> None:
        if not (self._asking or self.ended):
            self._asking = True
            self._actions.append(AskLeader(self._cursor.subjects))

    def _end_if_drained(self) -> None:
        place = self._cursor.last_sequence
        if self._last is not None and self._last <= (self._begin if place is None else place):
            self.stop()

    def problem(self, error: Error, *, final: bool) -> None:
        """The pulls have a warning or, with `final`, an end."""
        if isinstance(error, _REASONS):
            self._actions.append(Warn(error))
            self.reset()
        elif final:
            self.stop(error)
        else:
            self._actions.append(Warn(error))

    def reset(self) -> None:
        """The consumer is of no more use."""
        if self._made and not self.ended:
            self._delete(self._cursor.name)
            self._renew()

    def disconnected(self) -> None:
        """The session is lost, and the consumer perhaps with it. Nothing is made meanwhile (ORD-05)."""
        self._online = self._made = False
        self.retry_at = None

    def reconnected(self) -> None:
        """Another session is open."""
        if not self.ended:
            self._online = True
            if self._cursor.serial:
                self._doom(self._cursor.name)
            self._doomed = dict.fromkeys(self._doomed, False)  # whoever was asked before gives no answer any more
            self._clean_up()
            self._renew()

    def stop(self, error: Error | None = None) -> None:
        """The end: the user's, that of the connection, or one that nothing can be done about."""
        if self.ended:
            return
        self.ended = True
        self.retry_at = None
        if self._made:
            self._doom(self._cursor.name)
        self._clean_up()
        self._actions.append(OrderedEnd(error))

    def deleted(self, name: str) -> None:
        """A consumer is gone. Until that is known, it is deleted anew with each session, and each consumer (R14)."""
        self._doomed.pop(name, None)

    def undeleted(self, name: str) -> None:
        """Whether a consumer is gone is not known."""
        if name in self._doomed:
            self._doomed[name] = False

    def _delete(self, name: str) -> None:
        self._doomed.pop(name, None)
        self._doom(name)
        self._ask_to_delete(name)

    def _clean_up(self) -> None:
        """Ask for the deletion of all that may still exist."""
        for name in self._doomed:
            self._ask_to_delete(name)

    def _ask_to_delete(self, name: str) -> None:
        """Ask for it, unless that is under way."""
        if self._online and not self._doomed[name]:
            self._doomed[name] = True
            self._actions.append(Delete(name))

    def _doom(self, name: str) -> None:
        self._doomed.setdefault(name, False)
        if len(self._doomed) > _DOOMED:  # an unused one goes by itself
            del self._doomed[next(iter(self._doomed))]

    def _renew(self) -> None:
        self._made = False
        if self._online and not self.ended:
            self.retry_at = None
            self._actions.append(Create(self._cursor.next_config()))


def _metadata(message: Message) -> AckMetadata | None:
    try:
        return parse_ack_subject(message.reply)
    except InvalidAckError:
        return None
