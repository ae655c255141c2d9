"""Fetch as ADR-13 has it: what is there already, or else wait for something.

Unlike the `fetch` of ADR-37, which is one pull and waits until the batch is full, this one returns as soon as it has
anything: first it asks without waiting; only if there was nothing it waits, and then for the first message.

The generator yields what to do and is sent what happened. Messages are put into a list of the caller's, so that they
are not lost with a caller who is cancelled.
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
"""How long one pull of an endless wait stays open (R19)."""

_LULL: Final = 0.25
"""Seconds without anything, behind messages, after which a pull that does not wait is taken for served: where
`max_ack_pending` holds the rest back, the server does not say so."""

_MARGIN: Final = 0.1
"""Seconds, or share of the time-out if that is less, that the server's time is shorter than the caller's (PUL-02)."""


@dataclass(frozen=True, slots=True)
class Pull:
    """Send a pull, with a token of its own (PUL-04); the one before is over."""

    request: PullRequest
    """The pull."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for what comes; answered with an `Event`."""

    until: float | None
    """When to give up, on the caller's clock; None never."""


@dataclass(frozen=True, slots=True)
class Gather:
    """End the open pull, and take what the server had sent before it heard of that; answered with `Messages`."""

    until: float | None
    """When to give up waiting for the server's word that this was all."""


Action: TypeAlias = Pull | Wait | Gather


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages came."""

    messages: list[Message]
    """In order."""


@dataclass(frozen=True, slots=True)
class TimeUp:
    """Nothing came in time."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing can come any more: the session was lost, or the subscription has ended."""

    error: Error
    """Why."""


Event: TypeAlias = Messages | Status | TimeUp | Ended


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """What is asked for. Making one raises ConfigError for what makes no sense."""

    stream: str
    """Name of the stream."""
    consumer: str
    """Name of the consumer."""
    batch: int
    """Most messages."""
    timeout: float | None
    """Seconds; None waits for ever."""
    heartbeat: float | None = None
    """Seconds between the heartbeats of a waiting pull; None has none."""

    def __post_init__(self) -> None:
        """Check them all before anything is sent (PUL-01, PUL-11)."""
        if self.timeout is not None and self.timeout <= 0:
            raise ConfigError(f"the time-out of a fetch must be positive, not {self.timeout:g} s")
        self.waiting_pull(self.batch, self.timeout)

    def waiting_pull(self, batch: int, left: float | None) -> PullRequest:
        """The pull that waits; `left` are the seconds until the caller gives up, None when it does not."""
        expires = LONGEST_PULL if left is None else timedelta(seconds=max(left - min(_MARGIN, left / 10), 0.001))
        heartbeat = None if self.heartbeat is None else timedelta(seconds=self.heartbeat)
        return PullRequest(self.stream, self.consumer, batch, expires=expires, idle_heartbeat=heartbeat)

    @property
    def what(self) -> str:
        """Names the consumer in errors."""
        return f"consumer {self.consumer!r} of stream {self.stream!r}"


Fetch: TypeAlias = Generator[Action, "Event | None", Error | None]


def fetch(options: FetchOptions, got: list[Message], clock: Callable[[], float]) -> Fetch:
    """Fetch up to `batch` messages, those already in `got` included.

    Returns an error that came behind messages; the caller tells it after handing them out (PUL-08).

    Raises
    ------
    NoMessageError
        There was none in time.
    StatusError
        The consumer said why there is none.
    MissedHeartbeatError
        The server was silent for two heartbeats.
    Error
        As the front says that nothing can come any more.
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
"""The quiet end of a pull."""

_SILENCE: Final = Error("nothing more came")
"""Nothing came for a while, behind messages."""


def _gather(got: list[Message], deadline: float | None) -> Generator[Action, Event | None, None]:
    more = yield Gather(deadline)
    assert isinstance(more, Messages), f"gathering brings messages, not {more}"
    got += more.messages


def _take_what_comes(
    options: FetchOptions, got: list[Message], deadline: float | None, silence: float | None
) -> Generator[Action, Event | None, Error | None]:
    """Take one event. Returns None to go on, `_NOTHING` at the quiet end of a pull, else the error that ends the fetch
    behind its messages; raises where there are none."""
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
