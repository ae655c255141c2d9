"""Window of publishes that wait for their acknowledgements. No I/O; the caller passes the time.

Each publish has its own reply subject below one inbox. The last token of the subject of an answer identifies its
publish. Reply subjects are never used again, so a late or duplicate answer cannot match another publish.

Nearly every answer has the form `{"stream":"ORDERS", "seq":17}`. The window learns the text before the number from the
first answer of each stream. An answer that begins with this text is stored unread, and decoded when the caller asks for
it. All other answers, such as errors and statuses, are read at once. Runs of plain answers are read from the receive
buffer together.
"""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from jetspark.engine.ack_runs import AckRunMatcher
from jetspark.engine.retry import RetryPolicy
from jetspark.jetstream.errors import ConfigError, Error, PublishTimeoutError, StatusError
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import (
    MAX_ACK_PREFIXES,
    OTHER_STREAM_WAIT,
    PING_AT,
    is_refusal_of_other_stream,
    no_stream_error,
    not_stored_hint,
    plain_ack_prefix,
    read_pub_ack,
)
from jetspark.wire.argument_types import check_fields
from jetspark.wire.messages import Message
from jetspark.wire.reply_tokens import new_tokens

__all__ = ["AsyncPublishOptions", "PendingPublish", "PublishStats", "PublishWindow"]

_NO_RESPONDERS: Final = 503
_INFINITE: Final = float("inf")

P = TypeVar("P", bound="PendingPublish")


@dataclass(frozen=True, slots=True)
class AsyncPublishOptions:
    """Settings of `publish_async`.

    Attributes
    ----------
    max_pending
        Maximum number of publishes without an acknowledgement (PUB-11).
    stall_wait
        Seconds that a publish waits for room while `max_pending` is reached.
    ack_timeout
        Seconds until a publish without an acknowledgement fails; None waits until the connection is lost.
    retry
        Retries if no stream captures the subject.
    on_error
        Function or coroutine function, called with each failed publish; not on the read path.
    """

    max_pending: int = 4000
    stall_wait: float = 0.2
    ack_timeout: float | None = 30.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    on_error: Callable[[Any], Awaitable[None] | None] | None = None

    def __post_init__(self) -> None:
        """Check types and numbers. Raises ConfigError."""
        check_fields(self)
        if self.max_pending < 1:
            raise ConfigError(f"max_pending must be 1 or more, not {self.max_pending}")
        if self.ack_timeout is not None and self.ack_timeout <= 0:
            raise ConfigError(f"ack_timeout must be more than 0 s, not {self.ack_timeout:g}")


class PendingPublish(msgspec.Struct, gc=False, eq=False):
    """A publish that waits for its acknowledgement, and later its result. Fronts add how to wait for it.

    The garbage collector does not track these objects, so they raise copies of the error. A raised exception refers to
    the frames of its traceback, which refer to this object: that cycle would never be freed.

    Attributes
    ----------
    subject
        Subject that it was published to.
    """

    subject: str
    _token: bytes  # last token of its reply subject
    _frame: bytes  # the sent frame, kept for a retry; empty once it is settled
    _deadline: float  # when it fails, on the clock of the caller
    _owner: object  # kept alive until it is settled
    _expected_stream: str | None = None  # the only stream whose answer counts
    _reply: bytes | None = None  # its acknowledgement, not decoded
    _error: Error | None = None  # why it failed
    _refused_by_other: Error | None = None  # refusal of another stream, if the expected one does not answer
    _retries: int = 0  # number of retries
    _waiter: object = None  # set while somebody waits for it

    def __repr__(self) -> str:  # not the payload
        state = "pending" if not self.done() else "acknowledged" if self._error is None else f"failed: {self._error}"
        return f"<{type(self).__name__} {self.subject!r} {state}>"

    def done(self) -> bool:
        """Return whether it is acknowledged or has failed."""
        return self._reply is not None or self._error is not None

    def _wake(self) -> None:
        """Wake the waiter, as the publish is settled."""

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
    """Numbers of publishes of a window, by result.

    Attributes
    ----------
    published
        All publishes so far.
    pending
        Publishes without an answer yet.
    failed
        Publishes that were refused, timed out or lost with the session.
    retried
        Retries of all publishes.
    unmatched_acks
        Answers without a pending publish: late or duplicate.
    """

    published: int
    pending: int
    failed: int
    retried: int
    unmatched_acks: int

    @property
    def acknowledged(self) -> int:
        """Publishes that a stream has stored, duplicates included."""
        return self.published - self.pending - self.failed


class PublishWindow(Generic[P]):
    """The pending publishes of one inbox.

    `deliver` is the handler of the inbox's subscription; `deliver_ack_run` reads the frames after its messages. They
    may run in another thread than `add`.

    Parameters
    ----------
    inbox
        Prefix of the reply subjects, without the last dot.
    publish_type
        Class of the publishes.
    options
        Limits and times.

    Attributes
    ----------
    limit
        Maximum number of pending publishes (PUB-11); the caller checks `full` before it adds one.
    prefix
        The reply subjects without their last tokens.
    pending
        The pending publishes by their tokens.
    next_token
        Returns the token of the next publish to add. It cannot be guessed from others.
    notify_at
        Number of pending publishes at or below which `on_below_limit` is called once; -1 does not call it.
    on_other_reply
        Gets each answer that is not a plain acknowledgement, with its publish, which is still pending; calls
        `handle_reply`.
    on_below_limit
        See `notify_at`.
    """

    def __init__(self, inbox: str, publish_type: type[P], options: AsyncPublishOptions) -> None:
        self.prefix = inbox.encode() + b"."
        self.limit = options.max_pending
        self.pending: dict[bytes, P] = {}
        self.notify_at = -1
        self.on_other_reply: Callable[[P, Message], None] = _ignore
        self.on_below_limit: Callable[[], None] = _ignore
        self.next_token = new_tokens()
        self._publish_type = publish_type
        self._ack_timeout = _INFINITE if options.ack_timeout is None else options.ack_timeout
        self._retry = options.retry
        self._prefix_length = len(self.prefix)
        self._runs: AckRunMatcher | None = None
        self._plain: tuple[bytes, ...] = ()  # texts before the sequence
        self._is_plain: Callable[[bytes], object] = _ignore
        self._retry_queue: deque[tuple[float, bytes]] = deque()
        self._ping_lead = (1 - PING_AT) * self._ack_timeout  # time before a deadline at which a PING is sent
        self._pinged = self._answered_ping = -_INFINITE  # times of the last PING, and of the last answered one
        self._published = self._failed = self._retried = self._unmatched_acks = 0

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return len(self.pending) >= self.limit

    @property
    def stats(self) -> PublishStats:
        """The current counts."""
        return PublishStats(self._published, len(self.pending), self._failed, self._retried, self._unmatched_acks)

    @property
    def settled(self) -> int:
        """Publishes that were answered or have failed so far."""
        return self._published - len(self.pending)

    def add(
        self, subject: str, token: bytes, frame: bytes, now: float, owner: object, expected_stream: str | None = None
    ) -> P:
        """Add a publish whose frame will be sent now."""
        publish = self._publish_type(subject, token, frame, now + self._ack_timeout, owner, expected_stream)
        self.pending[token] = publish
        self._published += 1
        return publish

    # -- answers -------------------------------------------------------------------------------------------------

    def set_sid(self, sid: int) -> None:
        """Set the id of the inbox's subscription, which `deliver_ack_run` needs."""
        self._runs = AckRunMatcher(self.prefix, sid)

    def deliver_ack_run(self, data: bytes, at: int) -> tuple[int, int]:
        """Read acknowledgements at position `at` of the receive buffer; see `SubscriptionState.on_following_frames`."""
        assert self._runs is not None
        end, found = self._runs.find(data, at)
        take = self.pending.pop
        for token, payload in found:
            publish = take(token, None)
            if publish is None:
                self._unmatched_acks += 1
                continue
            if publish._expected_stream is not None:
                self.pending[token] = publish
                self.on_other_reply(publish, Message(self.prefix + token, b"", b"", payload, None))
                continue
            publish._frame = b""
            publish._reply = payload
            if publish._waiter is not None:
                publish._wake()
        if len(self.pending) <= self.notify_at:
            self._notify_below_limit()
        return end, len(found)

    def deliver(self, message: Message) -> None:
        """Handle a message on the inbox."""
        token = message.raw_subject[self._prefix_length :]
        publish = self.pending.get(token)
        if publish is None:
            self._unmatched_acks += 1
        elif publish._expected_stream is None and self._is_plain(message.payload) and not message.raw_header:
            del self.pending[token]
            publish._frame = b""
            publish._reply = message.payload
            if publish._waiter is not None:
                publish._wake()
            if self._runs is not None:
                self._runs.add_form(message.payload)
            if len(self.pending) <= self.notify_at:
                self._notify_below_limit()
        else:
            self.on_other_reply(publish, message)

    def handle_reply(self, publish: P, message: Message, now: float) -> bool:
        """Read an answer that is not a plain acknowledgement. Return False if the publish has failed."""
        status = message.status
        if status is None:
            return self._read_ack(publish, message.payload, now)
        if status.code != _NO_RESPONDERS:
            return self._fail(publish, StatusError(status.code, status.description, where=publish.subject))
        delay = self._retry.delay(publish._retries, publish._deadline - now)
        if delay is None:
            return self._fail(publish, no_stream_error(publish.subject, publish._retries))
        publish._retries += 1
        self._retried += 1
        self._retry_queue.append((now + delay, publish._token))
        return True

    def _read_ack(self, publish: P, payload: bytes, now: float) -> bool:
        try:
            read_pub_ack(payload, publish.subject, publish._expected_stream)
        except Error as error:
            if not is_refusal_of_other_stream(error, payload, publish._expected_stream):
                return self._fail(publish, error)
            if publish._refused_by_other is None:
                publish._refused_by_other = error
                publish._deadline = min(publish._deadline, now + OTHER_STREAM_WAIT)
            return True
        prefix = plain_ack_prefix(payload)
        if prefix is not None and prefix not in self._plain and len(self._plain) < MAX_ACK_PREFIXES:
            self._plain = (*self._plain, prefix)
            texts = b"|".join(re.escape(text) for text in self._plain)
            self._is_plain = re.compile(rb"(?:%b)[1-9]\d{0,18}\}" % texts).fullmatch
        publish._reply = payload
        self._settle(publish)
        return True

    # -- time ----------------------------------------------------------------------------------------------------

    def next_wakeup(self) -> float | None:
        """Return the earliest time at which `due_retries`, `ping_due` or `expire` has work; None if there is none."""
        earliest = min((publish._deadline for publish in list(self.pending.values())), default=_INFINITE)
        if earliest != _INFINITE and self._pinged < earliest - self._ping_lead:
            earliest -= self._ping_lead
        if self._retry_queue:
            earliest = min(earliest, self._retry_queue[0][0])
        return None if earliest == _INFINITE else earliest

    def ping_due(self, now: float) -> bool:
        """Return whether to send a PING now: a publish is about to expire. Its answer goes to `ping_answered`."""
        earliest = min((publish._deadline for publish in list(self.pending.values())), default=_INFINITE)
        if earliest == _INFINITE or not self._pinged < earliest - self._ping_lead <= now:
            return False
        self._pinged = now
        return True

    def ping_answered(self, sent: float) -> None:
        """Note that the server has answered the PING of that time."""
        self._answered_ping = sent

    def due_retries(self, now: float) -> Iterator[bytes]:
        """Yield the frames whose retry is due."""
        while self._retry_queue and self._retry_queue[0][0] <= now:
            publish = self.pending.get(self._retry_queue.popleft()[1])
            if publish is not None:
                yield publish._frame

    def expire(self, now: float) -> list[tuple[P, bytes]]:
        """Fail the publishes whose timeout has passed; return them with their frames, which must not be sent later."""
        late = [publish for publish in list(self.pending.values()) if publish._deadline <= now]
        return [
            (publish, self._fail_and_get_frame(publish, publish._refused_by_other or self._timeout_error(publish)))
            for publish in late
        ]

    def fail(self, error: Error, subject: str | None = None) -> list[tuple[P, bytes]]:
        """Fail all publishes, or those to `subject`: the session was lost (PUB-13) or forbids them. See `expire`."""
        lost = [publish for publish in list(self.pending.values()) if subject is None or publish.subject == subject]
        return [(publish, self._fail_and_get_frame(publish, error)) for publish in lost]

    def _timeout_error(self, publish: P) -> Error:
        return PublishTimeoutError(
            f"{publish.subject}: no acknowledgement within {self._ack_timeout:g} s; it is unknown whether "
            "the message is stored; with a message id, it can be published again without a duplicate"
            + not_stored_hint(ping_answered=self._answered_ping >= publish._deadline - self._ack_timeout)
        )

    def _fail_and_get_frame(self, publish: P, error: Error) -> bytes:
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
        if len(self.pending) <= self.notify_at:
            self._notify_below_limit()

    def _notify_below_limit(self) -> None:
        self.notify_at = -1
        self.on_below_limit()


def _ignore(*_: object) -> None:
    """Do nothing; the default callback."""
