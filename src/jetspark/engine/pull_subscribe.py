"""Fetch of ADR-13: return the available messages, or else wait for the first one.

The `fetch` of ADR-37 is one pull and waits until the batch is full. This fetch returns as soon as it has any message.
First it pulls without waiting. Only if there was no message, it waits for the first one. If nobody answers a pull
(503), it looks the consumer up, to say whether that is gone or JetStream is unavailable.

The generator yields actions and receives events. It appends messages to a list of the caller, so that they are not lost
if the caller is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from jetspark.engine.pull.unanswered import unanswered_error
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.api.pull import PullRequest
from jetspark.jetstream.errors import (
    ConfigError,
    Error,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NoMessageError,
)
from jetspark.jetstream.status import FetchEffect, StatusSeverity, classify
from jetspark.wire.headers import Status
from jetspark.wire.messages import Message

__all__ = [
    "Action",
    "DrainPull",
    "Ended",
    "Event",
    "FetchOptions",
    "FetchWorkflow",
    "LookUp",
    "LookedUp",
    "Messages",
    "Pull",
    "TimedOut",
    "Wait",
    "fetch",
]

MAX_PULL_EXPIRES: Final = timedelta(seconds=30)
"""How long one pull stays open in a fetch without a timeout (R19)."""

_IDLE_TIMEOUT: Final = 0.25
"""Seconds without an event, after messages, at which a pull that does not wait counts as served: if `max_ack_pending`
holds back the rest, the server sends no status."""

_MARGIN: Final = 0.1
"""Seconds by which the server's timeout is shorter than the caller's, but at most a tenth of it (PUL-02)."""


@dataclass(frozen=True, slots=True)
class Pull:
    """Send a pull with its own token (PUL-04); the pull before has ended."""

    request: PullRequest
    """The pull."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for an event; answered with an `Event`."""

    until: float | None
    """Deadline on the caller's clock; None for no deadline."""


@dataclass(frozen=True, slots=True)
class DrainPull:
    """End the open pull, and take messages that the server sent before it was informed; answered with `Messages`."""

    until: float | None
    """Deadline for the server's confirmation that the pull has ended."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the server for the consumer; a `LookedUp` event follows."""

    request: ConsumerInfoRequest
    """The request."""


Action: TypeAlias = Pull | Wait | DrainPull | LookUp


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages arrived."""

    messages: list[Message]
    """In order."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Nothing arrived before the deadline."""


@dataclass(frozen=True, slots=True)
class Ended:
    """No more messages can arrive: the session was lost, or the subscription has ended."""

    error: Error
    """The reason."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The consumer was looked up."""

    error: Error | None
    """Error of the look-up; None if the consumer exists."""


Event: TypeAlias = Messages | Status | TimedOut | Ended | LookedUp


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Options of a fetch. Raises ConfigError for values that are not valid."""

    stream: str
    """Name of the stream."""
    consumer: str
    """Name of the consumer."""
    batch: int
    """Maximum number of messages."""
    timeout: float | None
    """Seconds; None has no timeout."""
    heartbeat: float | None = None
    """Seconds between the heartbeats of a waiting pull; None for no heartbeats."""

    def __post_init__(self) -> None:
        """Check all options before anything is sent (PUL-01, PUL-11)."""
        if self.timeout is not None and self.timeout <= 0:
            raise ConfigError(f"the timeout of a fetch must be positive, not {self.timeout:g} s")
        self.waiting_pull(self.batch, self.timeout)

    def waiting_pull(self, batch: int, left: float | None) -> PullRequest:
        """Return the pull that waits; `left` are the seconds until the caller's timeout, None if it has none."""
        expires = MAX_PULL_EXPIRES if left is None else timedelta(seconds=max(left - min(_MARGIN, left / 10), 0.001))
        heartbeat = None if self.heartbeat is None else timedelta(seconds=self.heartbeat)
        return PullRequest(self.stream, self.consumer, batch, expires=expires, idle_heartbeat=heartbeat)

    @property
    def where(self) -> str:
        """Name of the consumer in error messages."""
        return f"consumer {self.consumer!r} of stream {self.stream!r}"


FetchWorkflow: TypeAlias = Generator[Action, "Event | None", Error | None]


def fetch(options: FetchOptions, received: list[Message], clock: Callable[[], float]) -> FetchWorkflow:
    """Fetch up to `batch` messages, including those already in `received`.

    Returns an error that came after messages; the caller reports it after it has handed them out (PUL-08).

    Raises
    ------
    NoMessageError
        No message came in time.
    StatusError
        The consumer reported why there is no message.
    MissedHeartbeatError
        The server sent nothing for two heartbeat intervals.
    Error
        The error of an `Ended` event.
    """
    deadline = None if options.timeout is None else clock() + options.timeout
    if options.batch > 1 and len(received) < options.batch:
        yield Pull(PullRequest(options.stream, options.consumer, options.batch - len(received), no_wait=True))
        while len(received) < options.batch:
            lull = clock() + _IDLE_TIMEOUT if received else None
            problem = yield from _handle_event(options, received, deadline, lull)
            if problem is _PULL_IDLE:
                yield from _drain_pull(received, deadline)
            if problem is _PULL_ENDED or problem is _PULL_IDLE:
                break
            if problem is not None:
                return problem
    while not received:
        left = None if deadline is None else deadline - clock()
        if left is not None and left <= 0:
            raise _none_in_time(options)
        yield Pull(options.waiting_pull(options.batch, left))
        pulled_at, problem = clock(), None
        while not received and problem is None:
            silence = None if options.heartbeat is None else clock() + 2 * options.heartbeat
            problem = yield from _handle_event(options, received, deadline, silence)
        if problem is not None and problem is not _PULL_ENDED:
            return problem
        if deadline is not None and not received:
            raise _none_in_time(options)
        if not received and clock() < pulled_at + _SOON:
            yield from _wait_before_pull(received, clock() + _PULL_AGAIN_AFTER)
        if 0 < len(received) < options.batch and problem is None:
            yield from _drain_pull(received, deadline)
    return None


def _wait_before_pull(received: list[Message], until: float) -> Generator[Action, Event | None, None]:
    """Wait before the next pull, as the server does not serve pulls now."""
    event = yield Wait(until)
    if isinstance(event, Ended):
        raise event.error
    if isinstance(event, Messages):
        received += event.messages


_SOON: Final = 0.05
"""Seconds in which a pull ends without messages only if the server does not serve it."""
_PULL_AGAIN_AFTER: Final = 0.5
"""Seconds before the next pull in that case."""
_PULL_ENDED: Final = Error("the pull has ended")
"""The end of a pull without an error."""

_PULL_IDLE: Final = Error("no more messages arrived")
"""Messages came, and then nothing for a while."""


def _drain_pull(received: list[Message], deadline: float | None) -> Generator[Action, Event | None, None]:
    more = yield DrainPull(deadline)
    assert isinstance(more, Messages), f"the answer to DrainPull must be messages, not {more}"
    received += more.messages


def _handle_event(
    options: FetchOptions, received: list[Message], deadline: float | None, idle_deadline: float | None
) -> Generator[Action, Event | None, Error | None]:
    """Handle one event. Return None to continue, `_PULL_ENDED` if the pull ended without an error, `_PULL_IDLE` if
    messages stopped coming. Otherwise return the error that ends the fetch after its messages; raise it if there are
    none.
    """
    until = min((each for each in (deadline, idle_deadline) if each is not None), default=None)
    event = yield Wait(until)
    problem: Error | None = None
    match event:
        case Messages(messages):
            received += messages
        case Status(code=code, description=description):
            rule = classify(code, description)
            if rule.fetch is FetchEffect.END_WITH_ERROR:
                problem = rule.make_error(code, description, where=options.where)
            elif rule.fetch is FetchEffect.END or rule.severity is not StatusSeverity.CONTROL:
                return _PULL_ENDED
        case TimedOut() if idle_deadline is not None and (deadline is None or idle_deadline < deadline):
            if received:
                return _PULL_IDLE
            raise MissedHeartbeatError(f"{options.where}: no message and no heartbeat for 2 x {options.heartbeat:g} s")
        case TimedOut():
            if received:
                return _PULL_ENDED
            raise _none_in_time(options)
        case Ended(error):
            if received:
                return _PULL_ENDED
            raise error
    if isinstance(problem, NoConsumerResponseError) and not received:
        problem = yield from _look_up(options, received, deadline)
    if problem is not None and not received:
        raise problem
    return problem


def _look_up(
    options: FetchOptions, received: list[Message], deadline: float | None
) -> Generator[Action, Event | None, Error]:
    """Ask for the consumer, because nobody answers a pull. Return the error that says why, or `_PULL_ENDED`."""
    yield LookUp(ConsumerInfoRequest(options.stream, options.consumer))
    match (yield Wait(deadline)):
        case Messages(messages):  # of an earlier fetch
            received += messages
            return _PULL_ENDED
        case Ended(error):
            return error
        case LookedUp(error):
            return unanswered_error(options.where, error)
        case _:
            return unanswered_error(options.where, None)


def _none_in_time(options: FetchOptions) -> NoMessageError:
    return NoMessageError(f"{options.where}: no message within {options.timeout or 0:g} s")
