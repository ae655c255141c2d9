"""Publishes that wait for their acknowledgements, many at a time. No I/O; time is passed in.

Each publish has a reply subject of its own below one inbox; its last token leads an answer back to its publish. The
reply subjects are not used again: an answer that comes late, or twice, can never be taken for another publish's.

Nearly every answer reads `{"stream":"ORDERS", "seq":17}`. What stands before the number is learned from the first one
of each stream; an answer that begins with it is kept as it came, and read when somebody asks for it. All others, errors
and statuses among them, are read at once. Runs of such answers are taken off the receive buffer all together.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from jetspark.flow.ack_runs import AckRuns
from jetspark.jetstream.errors import ConfigError, Error, PublishTimeoutError, StatusError
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import (
    MOST_PREFIXES,
    RETRY_ATTEMPTS,
    RETRY_WAIT,
    before_sequence,
    no_stream,
    read_pub_ack,
)
from jetspark.wire.messages import Message

__all__ = ["PendingPublish", "PublishSettings", "PublishStats", "PublishWindow", "RetryPlan"]

_NO_RESPONDERS: Final = 503

P = TypeVar("P", bound="PendingPublish")


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """How often a publish that no stream answers (503) is sent again: the stream may just be made, or elect its leader.

    Attributes
    ----------
    attempts
        Most retries (PUB-03).
    wait
        Seconds before each of them.
    """

    attempts: int = RETRY_ATTEMPTS
    wait: float = RETRY_WAIT

    def delay(self, tries: int, left: float | None) -> float | None:
        """Seconds until the next retry after so many of them, with so many seconds left; None gives up."""
        if tries >= self.attempts or (left is not None and left <= self.wait):
            return None
        return self.wait


@dataclass(frozen=True, slots=True)
class PublishSettings:
    """How a context publishes with `publish_async`.

    Attributes
    ----------
    max_pending
        Most publishes without an acknowledgement (PUB-11).
    stall_wait
        Seconds that a publish waits for room when so many are under way.
    ack_timeout
        Seconds until a publish without an acknowledgement fails; None waits until the connection is lost.
    retry
        What to do when no stream takes the subject.
    on_error
        Told each publish that failed, a coroutine function or a plain one; not on the read path.
    """

    max_pending: int = 4000
    stall_wait: float = 0.2
    ack_timeout: float | None = 30.0
    retry: RetryPlan = RetryPlan()
    on_error: Callable[[Any], Awaitable[None] | None] | None = None

    def __post_init__(self) -> None:
        """Check the numbers. Raises ConfigError."""
        if self.max_pending < 1:
            raise ConfigError(f"max_pending must be 1 or more, not {self.max_pending}")
        if self.ack_timeout is not None and self.ack_timeout <= 0:
            raise ConfigError(f"ack_timeout must be more than 0 s, not {self.ack_timeout:g}")


class PendingPublish(msgspec.Struct, gc=False, eq=False):
    """A publish that is under way, and later what became of it. Fronts add how to wait for it.

    The garbage collector does not look at these, so errors are handed out as copies: one that was raised holds the
    frames it came through, and those hold what was awaited.

    Attributes
    ----------
    subject
        What it was published to.
    """

    subject: str
    _token: bytes  # the last one of its reply subject
    _frame: bytes  # what was sent, for another try; empty once it is settled
    _deadline: float  # when it is given up, on the clock of the caller
    _owner: object  # who has to live for it to be settled
    _reply: bytes | None = None  # its acknowledgement as it came
    _error: Error | None = None  # why it failed
    _tries: int = 0  # how often it was sent again
    _waiter: object = None  # set while somebody waits, who is then woken

    def __repr__(self) -> str:  # not the payload
        state = "pending" if not self.done() else "acknowledged" if self._error is None else f"failed: {self._error}"
        return f"<{type(self).__name__} {self.subject!r} {state}>"

    def done(self) -> bool:
        """Whether it is acknowledged, or has failed."""
        return self._reply is not None or self._error is not None

    def _wake(self) -> None:
        """It is settled: wake who waits."""

    def _outcome(self) -> PubAck:
        if self._error is not None:
            raise copy.copy(self._error)
        assert self._reply is not None
        return read_pub_ack(self._reply, self.subject)

    def _failure(self) -> Error | None:
        try:
            self._outcome()
        except Error as error:
            return error.with_traceback(None)
        return None


@dataclass(frozen=True, slots=True)
class PublishStats:
    """What became of the publishes of a window.

    Attributes
    ----------
    published
        All of them so far.
    pending
        Those not answered yet.
    failed
        Those refused, given up or cut off.
    retried
        How often one was sent again.
    strays
        Answers that nobody waited for: too late, or one too many.
    """

    published: int
    pending: int
    failed: int
    retried: int
    strays: int

    @property
    def acknowledged(self) -> int:
        """Those that a stream has stored, or had stored before."""
        return self.published - self.pending - self.failed


class PublishWindow(Generic[P]):
    """The publishes under way below one inbox.

    `deliver` is the handler of the inbox's subscription, and `deliver_run` takes what stands behind its messages. They
    may run in another thread than `add`.

    Parameters
    ----------
    inbox
        Subject below which the reply subjects lie.
    make
        Class of the publishes.
    settings
        Limits and times.

    Attributes
    ----------
    limit
        Most publishes under way (PUB-11); the caller looks at `full` before it adds one.
    prefix
        The reply subjects without their tokens.
    pending
        The publishes under way by their tokens.
    wake_at
        `on_relaxed` is called once when so few are under way; -1 does not call it.
    on_unusual
        Takes an answer that is no plain acknowledgement, with its publish, which is pending still; it calls `read`.
    on_relaxed
        See `wake_at`.
    """

    def __init__(self, inbox: str, make: type[P], settings: PublishSettings) -> None:
        self.prefix = inbox.encode() + b"."
        self.limit = settings.max_pending
        self.pending: dict[bytes, P] = {}
        self.wake_at = -1
        self.on_unusual: Callable[[P, Message], None] = _ignore
        self.on_relaxed: Callable[[], None] = _ignore
        self._make = make
        self._patience = float("inf") if settings.ack_timeout is None else settings.ack_timeout
        self._retry = settings.retry
        self._cut = len(self.prefix)
        self._runs: AckRuns | None = None
        self._plain: tuple[bytes, ...] = ()
        self._again: deque[tuple[float, bytes]] = deque()
        self._published = self._failed = self._retried = self._strays = 0

    @property
    def full(self) -> bool:
        """No more may be sent for now."""
        return len(self.pending) >= self.limit

    @property
    def stats(self) -> PublishStats:
        """Counts up to now."""
        return PublishStats(self._published, len(self.pending), self._failed, self._retried, self._strays)

    def token(self) -> bytes:
        """The token of the publish that is added next."""
        return b"%d" % (self._published + 1)

    def add(self, subject: str, token: bytes, frame: bytes, now: float, owner: object) -> P:
        """The frame with this token is about to be sent."""
        publish = self._make(subject, token, frame, now + self._patience, owner)
        self.pending[token] = publish
        self._published += 1
        return publish

    # -- answers -------------------------------------------------------------------------------------------------

    def listen(self, sid: int) -> None:
        """The inbox is heard on a subscription of that id, so that `deliver_run` may take runs of its frames."""
        self._runs = AckRuns(self.prefix, sid)

    def deliver_run(self, data: bytes, at: int) -> tuple[int, int]:
        """Take the acknowledgements that stand at a place of the receive buffer; see `Route.on_run`."""
        assert self._runs is not None
        end, found = self._runs.find(data, at)
        take = self.pending.pop
        for token, payload in found:
            publish = take(token, None)
            if publish is None:
                self._strays += 1
                continue
            publish._frame = b""
            publish._reply = payload
            if publish._waiter is not None:
                publish._wake()
        if len(self.pending) <= self.wake_at:
            self._relax()
        return end, len(found)

    def deliver(self, message: Message) -> None:
        """A message on the inbox."""
        token = message.raw_subject[self._cut :]
        publish = self.pending.get(token)
        if publish is None:
            self._strays += 1
        elif message.payload.startswith(self._plain):
            del self.pending[token]
            publish._frame = b""
            publish._reply = message.payload
            if publish._waiter is not None:
                publish._wake()
            if self._runs is not None:
                self._runs.learn(message.payload)
            if len(self.pending) <= self.wake_at:
                self._relax()
        else:
            self.on_unusual(publish, message)

    def read(self, publish: P, message: Message, now: float) -> bool:
        """Take an answer that is no plain acknowledgement. False: it has failed."""
        status = message.status
        if status is None:
            return self._read_ack(publish, message.payload)
        if status.code != _NO_RESPONDERS:
            return self._fail(publish, StatusError(status.code, status.description, where=publish.subject))
        delay = self._retry.delay(publish._tries, publish._deadline - now)
        if delay is None:
            return self._fail(publish, no_stream(publish.subject, publish._tries))
        publish._tries += 1
        self._retried += 1
        self._again.append((now + delay, publish._token))
        return True

    def _read_ack(self, publish: P, payload: bytes) -> bool:
        try:
            read_pub_ack(payload, publish.subject)
        except Error as error:
            return self._fail(publish, error)
        prefix = before_sequence(payload)
        if prefix is not None and len(self._plain) < MOST_PREFIXES:
            self._plain = (*self._plain, prefix)
        publish._reply = payload
        self._settle(publish)
        return True

    # -- time ----------------------------------------------------------------------------------------------------

    def next_wakeup(self) -> float | None:
        """When `again` or `expire` has something to do at the earliest; None for as long as nothing is sent."""
        times = [publish._deadline for publish in list(self.pending.values())]
        if self._again:
            times.append(self._again[0][0])
        earliest = min(times, default=float("inf"))
        return None if earliest == float("inf") else earliest

    def again(self, now: float) -> Iterator[bytes]:
        """Frames to send once more now."""
        while self._again and self._again[0][0] <= now:
            publish = self.pending.get(self._again.popleft()[1])
            if publish is not None:
                yield publish._frame

    def expire(self, now: float) -> list[tuple[P, bytes]]:
        """Give up those whose time has passed; returns them with their frames, which must not be sent any more."""
        late = [publish for publish in list(self.pending.values()) if publish._deadline <= now]
        return [(publish, self._cut_off(publish, self._late(publish))) for publish in late]

    def fail(self, error: Error, subject: str | None = None) -> list[tuple[P, bytes]]:
        """All publishes (those to the subject) fail: the session was lost (PUB-13), or forbids them. As `expire`."""
        lost = [publish for publish in list(self.pending.values()) if subject is None or publish.subject == subject]
        return [(publish, self._cut_off(publish, error)) for publish in lost]

    def _late(self, publish: P) -> Error:
        return PublishTimeoutError(
            f"{publish.subject}: no acknowledgement within {self._patience:g} s; whether it is stored is not known"
        )

    def _cut_off(self, publish: P, error: Error) -> bytes:
        frame = publish._frame
        self._fail(publish, error)
        return frame

    def _fail(self, publish: P, error: Error) -> bool:
        self._failed += 1
        publish._error = error
        self._settle(publish)
        return False

    def _settle(self, publish: P) -> None:
        self.pending.pop(publish._token, None)
        publish._frame = b""
        if publish._waiter is not None:
            publish._wake()
        if len(self.pending) <= self.wake_at:
            self._relax()

    def _relax(self) -> None:
        self.wake_at = -1
        self.on_relaxed()


def _ignore(*_: object) -> None:
    """Until a front says what it wants to be told."""
