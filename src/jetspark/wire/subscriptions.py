"""The state of subscriptions: where messages of an id go, and how to restore them after a reconnect.

A subscription has one counter for received bytes and one for taken bytes. Each counter has one writer, so a reader in
another thread needs no lock. A subscription ends when the server sends no more messages to it: at once after an UNSUB,
or after the last message with `max_msgs`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar

from jetspark.wire import frames
from jetspark.wire.errors import BadSubjectError, Error
from jetspark.wire.messages import Message
from jetspark.wire.subjects import check_filter_subject, check_queue

__all__ = ["NO_LIMIT", "Overflow", "SubscriptionState", "SubscriptionTable", "drop_all"]

NO_LIMIT: Final = 1 << 62
"""Limit of messages or bytes that is never reached."""

M = TypeVar("M", bound=Message)

Overflow = Literal["drop", "pause"]
"""Behaviour of a full subscription: drop new messages and report it, or stop reading from the server."""


def drop_all(messages: deque[M]) -> int:
    """Remove all messages; return how many. Another thread may take some meanwhile, which then do not count."""
    dropped = 0
    while messages:
        try:
            messages.popleft()
        except IndexError:
            break
        dropped += 1
    return dropped


class SubscriptionState:
    """One subscription.

    Attributes
    ----------
    sid, subject, queue
        As in the SUB.
    pending
        Messages not yet taken.
    received
        Number of messages that the server delivered, including dropped ones.
    received_bytes, taken_bytes
        Bytes of payload and headers put into `pending`, and taken from it.
    max_msgs
        Total number of messages after which it ends; 0 never ends.
    pending_msgs_limit, pending_bytes_limit, overflow
        Limits at which it is full, and its behaviour then.
    unlimited
        Whether it has no limits, because something else limits the messages, for example the pulls of a consumer.
    dropped
        Number of messages dropped because it was full.
    over_limit
        Whether it is full now; the event was reported.
    handler
        Gets each message instead of `pending`. Only for the library's own subscriptions, as it runs on the read path.
    on_following_frames
        Called after each message that `handler` took, with the buffer and the position after the message. It may take
        the next complete frames of this subscription. Returns the position after them and their number.
    on_status
        Called for each message with headers and no payload. If the message is a status, it takes it and returns True.
        Also only for the library's own subscriptions.
    reply_prefix
        Text with which the reply of every message must begin. Other messages go to `on_other_reply`, or are dropped.
    wake
        Called when messages or the end come while `waiting` is set; `waiting` is cleared before. Also called when
        pending messages were discarded.
    notify_on_take
        Whether somebody must know when messages are taken, because it is full or drains.
    draining
        Whether it drains: the server got an UNSUB. The next session does not restore it.
    ended
        Whether no more messages will come.
    error
        Reason why it ended, if the server ended it.
    connection
        The connection, which messages use to answer.
    """

    __slots__ = (
        "__weakref__",
        "connection",
        "draining",
        "dropped",
        "ended",
        "error",
        "handler",
        "max_msgs",
        "notify_on_take",
        "on_following_frames",
        "on_other_reply",
        "on_status",
        "over_limit",
        "overflow",
        "pending",
        "pending_bytes_limit",
        "pending_msgs_limit",
        "queue",
        "received",
        "received_bytes",
        "reply_prefix",
        "sid",
        "subject",
        "taken_bytes",
        "unlimited",
        "waiting",
        "wake",
    )

    def __init__(
        self,
        sid: int,
        subject: bytes,
        queue: bytes = b"",
        *,
        pending_msgs_limit: int = 512 << 10,
        pending_bytes_limit: int = 64 << 20,
        overflow: Overflow = "drop",
    ) -> None:
        self.sid = sid
        self.subject = subject
        self.queue = queue
        self.pending: deque[Message] = deque()
        self.received = 0
        self.received_bytes = 0
        self.taken_bytes = 0
        self.max_msgs = 0
        self.pending_msgs_limit = pending_msgs_limit
        self.pending_bytes_limit = pending_bytes_limit
        self.overflow = overflow
        self.unlimited = False
        self.dropped = 0
        self.over_limit = False
        self.handler: Callable[[Message], None] | None = None
        self.on_following_frames: Callable[[bytes, int], tuple[int, int]] | None = None
        self.on_status: Callable[[Message], bool] | None = None
        self.reply_prefix = b""
        self.on_other_reply: Callable[[Message], None] | None = None
        self.wake: Callable[[], None] | None = None
        self.waiting = False
        self.notify_on_take = False
        self.draining = False
        self.ended = False
        self.error: Error | None = None
        self.connection: object = None

    def __repr__(self) -> str:
        return (
            f"<SubscriptionState {self.sid} {self.subject.decode(errors='replace')!r}{' ended' if self.ended else ''}>"
        )

    @property
    def line(self) -> bytes:
        """Its SUB without the verb."""
        return b" ".join((self.subject, *((self.queue,) if self.queue else ()), b"%d" % self.sid))

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payload in `pending`."""
        return self.received_bytes - self.taken_bytes

    @property
    def full(self) -> bool:
        """Whether a limit is reached."""
        return len(self.pending) >= self.pending_msgs_limit or self.pending_bytes >= self.pending_bytes_limit

    @property
    def below_resume_level(self) -> bool:
        """Whether it is at most half full, so that reading can continue."""
        return 2 * len(self.pending) <= self.pending_msgs_limit and 2 * self.pending_bytes <= self.pending_bytes_limit

    def discard_pending(self) -> None:
        """Drop the pending messages."""
        self.pending.clear()
        self.taken_bytes = self.received_bytes
        if self.wake is not None:
            self.wake()

    def end(self, error: Error | None = None) -> None:
        """End the subscription; wakes a waiting reader."""
        if not self.ended:
            self.error = error
            self.ended = True  # set after `error`, which other threads read when they see it
            self.notify()

    def notify(self) -> None:
        """Call `wake` if `waiting` is set."""
        if self.waiting and self.wake is not None:
            self.waiting = False
            self.wake()


class SubscriptionTable:
    """The live subscriptions of a connection, by their id as text of the control line."""

    def __init__(self) -> None:
        self.by_sid: dict[bytes, SubscriptionState] = {}
        self._last_sid = 0

    def __iter__(self) -> Iterator[SubscriptionState]:
        return iter(list(self.by_sid.values()))

    def __len__(self) -> int:
        return len(self.by_sid)

    def next_sid(self) -> int:
        """Return a new id. Ids are never used twice, so that late messages cannot reach another subscription."""
        self._last_sid += 1
        return self._last_sid

    def create(
        self,
        subject: str,
        queue: str = "",
        *,
        pending_msgs_limit: int,
        pending_bytes_limit: int,
        overflow: Overflow = "drop",
    ) -> SubscriptionState:
        """Return a new subscription, which is not registered yet. Raises BadSubjectError."""
        try:
            words = check_filter_subject(subject).encode(), check_queue(queue).encode() if queue else b""
        except UnicodeEncodeError as error:
            raise BadSubjectError(f"subject {subject!r}: a lone surrogate cannot be encoded as UTF-8") from error
        return SubscriptionState(
            self.next_sid(),
            *words,
            pending_msgs_limit=pending_msgs_limit,
            pending_bytes_limit=pending_bytes_limit,
            overflow=overflow,
        )

    def add(self, sub: SubscriptionState) -> bytes:
        """Register a subscription; return the SUB to send."""
        self.by_sid[b"%d" % sub.sid] = sub
        return frames.sub(sub.subject, sub.sid, queue=sub.queue)

    def auto_unsubscribe(self, sub: SubscriptionState, max_msgs: int) -> bytes:
        """End the subscription after `max_msgs` messages in total; return the UNSUB to send.

        If the subscription already received so many, it ends now.
        """
        if sub.received >= max_msgs:
            return self.remove(sub)
        sub.max_msgs = max_msgs
        return frames.unsub(sub.sid, max_msgs)

    def remove(self, sub: SubscriptionState, error: Error | None = None) -> bytes:
        """End the subscription; return the UNSUB to send, empty if it was not live."""
        live = self.by_sid.pop(b"%d" % sub.sid, None)
        sub.end(error)
        return frames.unsub(sub.sid) if live is not None else b""

    def find(self, subject: bytes, queue: bytes) -> list[SubscriptionState]:
        """Return the live subscriptions with that subject and queue group."""
        return [sub for sub in self if sub.subject == subject and sub.queue == queue]

    def restore(self) -> bytes:
        """Return the SUBs for a new session (REC-02). Subscriptions with `max_msgs` also get an UNSUB with the rest."""
        commands = bytearray()
        for sub in self:
            if sub.draining:
                continue
            commands += frames.sub(sub.subject, sub.sid, queue=sub.queue)
            if sub.max_msgs:
                commands += frames.unsub(sub.sid, sub.max_msgs - sub.received)
        return bytes(commands)
