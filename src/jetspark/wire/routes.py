"""Subscriptions as the wire sees them: where messages of an id go, and how they come back after a reconnect.

A route counts what it was given and what was taken from it in two numbers, each with one writer, so that a reader in
another thread needs no lock for them. A subscription lives until the server has nothing more to send to it: after an
UNSUB that is at once, after `max_msgs` it is the last message.
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
"""As many messages, or bytes, as come."""

Overflow = Literal["drop", "pause"]
"""What to do when a subscription is full: drop what comes and say so, or stop reading from the server."""


class Route:
    """One subscription.

    Attributes
    ----------
    sid, subject, queue
        As in the SUB.
    pending
        Messages not yet taken.
    received
        Messages that the server delivered, those dropped included.
    received_bytes, taken_bytes
        Payload and headers put into `pending` and taken out of it.
    max_msgs
        Ends after that many in all; 0 never.
    limit_msgs, limit_bytes, overflow
        When it is full, and what happens then.
    unlimited
        It is never full: what may come is limited elsewhere, as by the pulls of a consumer.
    dropped
        Messages dropped because it was full.
    slow
        It is full now, which was said once.
    handler
        Takes each message instead of `pending`; for the library's own subscriptions, as it runs on the read path.
    on_run
        Offered the buffer and the place in it behind each message that `handler` took. It may take more whole frames of
        this subscription, one behind the other; returns where it ended, and how many there were.
    on_status
        Asked for each message with headers and no payload whether it is a status, and takes it then. Also for the
        library's own.
    wake
        Called when messages or the end came while `waiting` was set, which is cleared before; and when what waited was
        discarded.
    watched
        Somebody wants to know when messages are taken: it is full, or drains.
    retired
        It drains: the server was told to send nothing more. The next session does without it.
    ended
        Nothing more will come.
    error
        Why it ended, if the server ended it.
    owner
        The connection, for the messages' answers.
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
        """Whether it is far enough from its limits for reading to go on."""
        return 2 * len(self.pending) <= self.limit_msgs and 2 * self.pending_bytes <= self.limit_bytes

    def discard(self) -> None:
        """Drop what was not taken."""
        self.pending.clear()
        self.taken_bytes = self.received_bytes
        if self.wake is not None:
            self.wake()

    def end(self, error: Error | None = None) -> None:
        """Nothing more will come; wakes who waits."""
        if not self.ended:
            self.error = error
            self.ended = True  # behind the reason, for which other threads look then
            self.alarm()

    def alarm(self) -> None:
        """Call `wake`, if somebody waits."""
        if self.waiting and self.wake is not None:
            self.waiting = False
            self.wake()


class Routes:
    """The live subscriptions of a connection by their id, as it stands on the control line."""

    def __init__(self) -> None:
        self.by_sid: dict[bytes, Route] = {}
        self._last_sid = 0

    def __iter__(self) -> Iterator[Route]:
        return iter(list(self.by_sid.values()))

    def __len__(self) -> int:
        return len(self.by_sid)

    def next_sid(self) -> int:
        """A fresh id; ids are never used twice, so that late messages cannot reach another subscription."""
        self._last_sid += 1
        return self._last_sid

    def add(self, route: Route) -> bytes:
        """Register; returns the SUB to send."""
        self.by_sid[b"%d" % route.sid] = route
        return frames.sub(route.subject, route.sid, queue=route.queue)

    def limit(self, route: Route, max_msgs: int) -> bytes:
        """End the route after that many messages in all; returns the UNSUB to send, empty if it has ended by that."""
        if route.received >= max_msgs:
            return self.remove(route)
        route.max_msgs = max_msgs
        return frames.unsub(route.sid, max_msgs)

    def remove(self, route: Route, error: Error | None = None) -> bytes:
        """End the route; returns the UNSUB to send, empty if it was not live."""
        live = self.by_sid.pop(b"%d" % route.sid, None)
        route.end(error)
        return frames.unsub(route.sid) if live is not None else b""

    def find(self, subject: bytes, queue: bytes) -> list[Route]:
        """The live routes with that subject and queue group."""
        return [route for route in self if route.subject == subject and route.queue == queue]

    def restore(self) -> bytes:
        """SUBs for a new session (REC-02). Those with a maximum are told how many are left."""
        commands = bytearray()
        for route in self:
            if route.retired:
                continue
            commands += frames.sub(route.subject, route.sid, queue=route.queue)
            if route.max_msgs:
                commands += frames.unsub(route.sid, route.max_msgs - route.received)
        return bytes(commands)
