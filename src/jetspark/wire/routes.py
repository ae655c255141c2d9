"""Routes, the wire's part of subscriptions: where messages of an id go, and how to restore them after a reconnect.

A route has one counter for received bytes and one for taken bytes. Each counter has one writer, so a reader in another
thread needs no lock. A subscription ends when the server sends no more messages to it: at once after an UNSUB, or after
the last message with `max_msgs`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Literal

from jetspark.wire import frames
from jetspark.wire.errors import Error
from jetspark.wire.messages import Message

__all__ = ["NO_LIMIT", "Overflow", "Route", "Routes"]

NO_LIMIT: Final = 1 << 62
"""Limit of messages or bytes that is never reached."""

Overflow = Literal["drop", "pause"]
"""Behaviour of a full subscription: drop new messages and report it, or stop reading from the server."""


class Route:
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
    limit_msgs, limit_bytes, overflow
        Limits at which it is full, and its behaviour then.
    unlimited
        Whether it has no limits, because something else limits the messages, for example the pulls of a consumer.
    dropped
        Number of messages dropped because it was full.
    slow
        Whether it is full now; the event was reported.
    handler
        Gets each message instead of `pending`. Only for the library's own subscriptions, as it runs on the read path.
    on_run
        Called after each message that `handler` took, with the buffer and the position after the message. It may take
        the next complete frames of this subscription. Returns the position after them and their number.
    on_status
        Called for each message with headers and no payload. If the message is a status, it takes it and returns True.
        Also only for the library's own subscriptions.
    wake
        Called when messages or the end come while `waiting` is set; `waiting` is cleared before. Also called when
        pending messages were discarded.
    watched
        Whether somebody must know when messages are taken, because it is full or drains.
    retired
        Whether it drains: the server got an UNSUB. The next session does not restore it.
    ended
        Whether no more messages will come.
    error
        Reason why it ended, if the server ended it.
    owner
        The connection, which messages use to answer.
    """

    __slots__ = (
        "__weakref__",
        "dropped",
        "ended",
        "error",
        "handler",
        "limit_bytes",
        "limit_msgs",
        "max_msgs",
        "on_run",
        "on_status",
        "overflow",
        "owner",
        "pending",
        "queue",
        "received",
        "received_bytes",
        "retired",
        "sid",
        "slow",
        "subject",
        "taken_bytes",
        "unlimited",
        "waiting",
        "wake",
        "watched",
    )

    def __init__(
        self,
        sid: int,
        subject: bytes,
        queue: bytes = b"",
        *,
        limit_msgs: int = 512 << 10,
        limit_bytes: int = 64 << 20,
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
        self.limit_msgs = limit_msgs
        self.limit_bytes = limit_bytes
        self.overflow = overflow
        self.unlimited = False
        self.dropped = 0
        self.slow = False
        self.handler: Callable[[Message], None] | None = None
        self.on_run: Callable[[bytes, int], tuple[int, int]] | None = None
        self.on_status: Callable[[Message], bool] | None = None
        self.wake: Callable[[], None] | None = None
        self.waiting = False
        self.watched = False
        self.retired = False
        self.ended = False
        self.error: Error | None = None
        self.owner: object = None

    def __repr__(self) -> str:
        return f"<Route {self.sid} {self.subject.decode(errors='replace')!r}{' ended' if self.ended else ''}>"

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payload in `pending`."""
        return self.received_bytes - self.taken_bytes

    @property
    def full(self) -> bool:
        """Whether a limit is reached."""
        return len(self.pending) >= self.limit_msgs or self.pending_bytes >= self.limit_bytes

    @property
    def relaxed(self) -> bool:
        """Whether it is at most half full, so that reading can continue."""
        return 2 * len(self.pending) <= self.limit_msgs and 2 * self.pending_bytes <= self.limit_bytes

    def discard(self) -> None:
        """Drop the pending messages."""
        self.pending.clear()
        self.taken_bytes = self.received_bytes
        if self.wake is not None:
            self.wake()

    def end(self, error: Error | None = None) -> None:
        """End the route; wakes a waiting reader."""
        if not self.ended:
            self.error = error
            self.ended = True  # set after `error`, which other threads read when they see it
            self.alarm()

    def alarm(self) -> None:
        """Call `wake` if `waiting` is set."""
        if self.waiting and self.wake is not None:
            self.waiting = False
            self.wake()


class Routes:
    """The live subscriptions of a connection, by their id as text of the control line."""

    def __init__(self) -> None:
        self.by_sid: dict[bytes, Route] = {}
        self._last_sid = 0

    def __iter__(self) -> Iterator[Route]:
        return iter(list(self.by_sid.values()))

    def __len__(self) -> int:
        return len(self.by_sid)

    def next_sid(self) -> int:
        """Return a new id. Ids are never used twice, so that late messages cannot reach another subscription."""
        self._last_sid += 1
        return self._last_sid

    def add(self, route: Route) -> bytes:
        """Register a route; return the SUB to send."""
        self.by_sid[b"%d" % route.sid] = route
        return frames.sub(route.subject, route.sid, queue=route.queue)

    def limit(self, route: Route, max_msgs: int) -> bytes:
        """End the route after `max_msgs` messages in total; return the UNSUB to send.

        If the route already received so many, it ends now.
        """
        if route.received >= max_msgs:
            return self.remove(route)
        route.max_msgs = max_msgs
        return frames.unsub(route.sid, max_msgs)

    def remove(self, route: Route, error: Error | None = None) -> bytes:
        """End the route; return the UNSUB to send, empty if it was not live."""
        live = self.by_sid.pop(b"%d" % route.sid, None)
        route.end(error)
        return frames.unsub(route.sid) if live is not None else b""

    def find(self, subject: bytes, queue: bytes) -> list[Route]:
        """Return the live routes with that subject and queue group."""
        return [route for route in self if route.subject == subject and route.queue == queue]

    def restore(self) -> bytes:
        """Return the SUBs for a new session (REC-02). Routes with `max_msgs` also get an UNSUB with the rest."""
        commands = bytearray()
        for route in self:
            if route.retired:
                continue
            commands += frames.sub(route.subject, route.sid, queue=route.queue)
            if route.max_msgs:
                commands += frames.unsub(route.sid, route.max_msgs - route.received)
        return bytes(commands)
