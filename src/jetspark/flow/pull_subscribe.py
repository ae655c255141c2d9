"""Fetch of ADR-13: return the available messages, or else wait for the first one.

The `fetch` of ADR-37 is one pull and waits until the batch is full. This fetch returns as soon as it has any message.
First it pulls without waiting. Only if there was no message, it waits for the first one.

The generator yields actions and receives events. It appends messages to a list of the caller, so that they are not lost
if the caller is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from jetspark.jetstream.api.pull import PullRequest
from jetspark.jetstream.errors import ConfigError, Error, MissedHeartbeatError, NoMessageError
from jetspark.jetstream.status import FetchEffect, StatusClass, classify
from jetspark.wire.headers import Status
from jetspark.wire.messages import Message

__all__ = ["Action", "Ended", "Event", "Fetch", "FetchOptions", "Gather", "Messages", "Pull", "TimeUp", "Wait", "fetch"]

LONGEST_PULL: Final = timedelta(seconds=30)
"""How long one pull stays open in a fetch without a timeout (R19)."""

_LULL: Final = 0.25
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
class Gather:
    """End the open pull, and take messages that the server sent before it was informed; answered with `Messages`."""

    until: float | None
    """Deadline for the server's confirmation that the pull has ended."""


Action: TypeAlias = Pull | Wait | Gather


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages arrived."""

    messages: list[Message]
    """In order."""


@dataclass(frozen=True, slots=True)
class TimeUp:
    """Nothing arrived before the deadline."""


@dataclass(frozen=True, slots=True)
class Ended:
    """No more messages can arrive: the session was lost, or the subscription has ended."""

    error: Error
    """The reason."""


Event: TypeAlias = Messages | Status | TimeUp | Ended


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
            raise ConfigError(f"the time-out of a fetch must be positive, not {self.timeout:g} s")
        self.waiting_pull(self.batch, self.timeout)

    def waiting_pull(self, batch: int, left: float | None) -> PullRequest:
        """Return the pull that waits; `left` are the seconds until the caller's timeout, None if it has none."""
        expires = LONGEST_PULL if left is None else timedelta(seconds=max(left - min(_MARGIN, left / 10), 0.001))
        heartbeat = None if self.heartbeat is None else timedelta(seconds=self.heartbeat)
        return PullRequest(self.stream, self.consumer, batch, expires=expires, idle_heartbeat=heartbeat)

    @property
    def what(self) -> str:
        """Name of the consumer in error messages."""
        return f"consumer {self.consumer!r} of stream {self.stream!r}"


Fetch: TypeAlias = Generator[Action, "Event | None", Error | None]


def fetch(options: FetchOptions, got: list[Message], clock: Callable[[], float]) -> Fetch:
    """Fetch up to `batch` messages, including those already in `got`.

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
    if options.batch > 1 and len(got) < options.batch:
        yield Pull(PullRequest(options.stream, options.consumer, options.batch - len(got), no_wait=True))
        while len(got) < options.batch:
            lull = clock() + _LULL if got else None
            problem = yield from _take_what_comes(options, got, deadline, lull)
            if problem is _SILENCE:
                yield from _gather(got, deadline)
            if problem is _NOTHING or problem is _SILENCE:
                break
            if problem is not None:
                return problem
    while not got:
        left = None if deadline is None else deadline - clock()
        if left is not None and left <= 0:
            raise _none_in_time(options)
        yield Pull(options.waiting_pull(options.batch, left))
        problem = None
        while not got and problem is None:
            silence = None if options.heartbeat is None else clock() + 2 * options.heartbeat
            problem = yield from _take_what_comes(options, got, deadline, silence)
        if problem is not None and problem is not _NOTHING:
            return problem
        if deadline is not None and not got:
            raise _none_in_time(options)
        if 0 < len(got) < options.batch and problem is None:
            yield from _gather(got, deadline)
    return None


_NOTHING: Final = Error("the pull is over")
"""The end of a pull without an error."""

_SILENCE: Final = Error("nothing more came")
"""Messages came, and then nothing for a while."""


def _gather(got: list[Message], deadline: float | None) -> Generator[Action, Event | None, None]:
    more = yield Gather(deadline)
    assert isinstance(more, Messages), f"gathering brings messages, not {more}"
    got += more.messages


def _take_what_comes(
    options: FetchOptions, got: list[Message], deadline: float | None, silence: float | None
) -> Generator[Action, Event | None, Error | None]:
    """Handle one event. Return None to continue, `_NOTHING` if the pull ended without an error, `_SILENCE` if messages
    stopped coming. Otherwise return the error that ends the fetch after its messages; raise it if there are none."""
    until = min((each for each in (deadline, silence) if each is not None), default=None)
    event = yield Wait(until)
    problem: Error | None = None
    match event:
        case Messages(messages):
            got += messages
        case Status(code=code, description=description):
            rule = classify(code, description)
            if rule.fetch is FetchEffect.END_WITH_ERROR:
                problem = rule.make_error(code, description, where=options.what)
            elif rule.fetch is FetchEffect.END or rule.kind is not StatusClass.CONTROL:
                return _NOTHING
        case TimeUp() if silence is not None and (deadline is None or silence < deadline):
            if got:
                return _SILENCE
            raise MissedHeartbeatError(f"{options.what}: no message and no heartbeat for 2 x {options.heartbeat:g} s")
        case TimeUp():
            if got:
                return _NOTHING
            raise _none_in_time(options)
        case Ended(error):
            if got:
                return _NOTHING
            raise error
    if problem is not None and not got:
        raise problem
    return problem


def _none_in_time(options: FetchOptions) -> NoMessageError:
    return NoMessageError(f"{options.what}: no message within {options.timeout or 0:g} s")
