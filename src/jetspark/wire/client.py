"""A connection over its sessions, as a state machine: what is subscribed, what waits, what each frame means.

A front (asyncio) owns the sockets. It asks `servers` whom to try, opens a session with `greet` and `opened`, feeds it
what arrives, sends what `outbound` holds, and says `lost`. Everything that a session changes is done here, in one
place and in order, without a clock: subscriptions are restored before publishes that waited (REC-02), a permissions
violation ends the subscription it names (REC-09), and each change is told as an event.
"""

from __future__ import annotations

import enum
import re
import secrets
from collections import deque
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Final, Protocol
from weakref import WeakSet

from jetspark.wire import frames
from jetspark.wire.errors import (
    AuthenticationError,
    BadSubjectError,
    ConnectionClosedError,
    DisconnectedError,
    Error,
    PermissionsViolationError,
    SlowConsumerError,
)
from jetspark.wire.events import (
    Closed,
    Connected,
    Disconnected,
    ErrorOccurred,
    Event,
    LameDuck,
    Reconnected,
    ServersDiscovered,
    SlowConsumer,
)
from jetspark.wire.frames import PING, PONG, Control, Err, Info, Ping, Pong
from jetspark.wire.inbound import Inbound
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions
from jetspark.wire.outbound import Outbound
from jetspark.wire.pings import Answered, Pings
from jetspark.wire.requests import Requests
from jetspark.wire.routes import Overflow, Route, Routes
from jetspark.wire.servers import Server, ServerPool
from jetspark.wire.session import ServerInfo, parse_info, server_error
from jetspark.wire.subjects import check_filter_subject, check_queue

__all__ = ["Client", "Dependent", "SessionWatcher", "Status", "Timed"]

_QUEUE: Final = re.compile(r'using queue "([^"]*)"', re.IGNORECASE)


class Status(enum.Enum):
    """State of a connection."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    DRAINING = "draining"
    CLOSED = "closed"


class Dependent(Protocol):
    """Somebody who waits for answers on a subscription of their own, and has to know when none can come."""

    def fail(self, error: Error, subject: str | None = None) -> None:
        """The session is over; or with a subject, the user may not publish to that one."""


class Timed(Protocol):
    """Somebody whose frames must not be sent once their time has passed."""

    def give_up_late(self) -> None:
        """Something is about to be sent: withdraw those whose time has passed."""


class SessionWatcher(Protocol):
    """Somebody who has to send something anew in each session."""

    def session_restored(self) -> None:
        """Another session is open, and its subscriptions are restored. What is sent now goes out at once."""


class Client:
    """See the module.

    Attributes
    ----------
    status
        State of the connection.
    info
        What the present server, or the last one, says of itself.
    server
        The present server, or the last one; None before the first.
    failure
        Set when the session must end, by what came in; the front then gives it up.
    congested
        Subscriptions for which reading has to pause.
    unconfirmed
        A session was lost, and with it perhaps publishes that no PONG had confirmed; who flushes has to know.
    owner
        The front's connection, for the messages' answers.
    dependents
        Told when answers cannot come any more, as `requests` are. They are forgotten with their last reference.
    timed
        Asked before anything is handed to a socket. They are forgotten with their last reference, too.
    greeting
        Frames of a session that is being opened; None once it is open.
    watchers
        Told when a session was lost and another one is open. They are forgotten with their last reference, too.
    """

    def __init__(
        self,
        options: ConnectOptions,
        tell: Callable[[Event], None],
        *,
        message_type: type[Message] = Message,
        rng: Random | None = None,
    ) -> None:
        self.options = options
        self.status = Status.CONNECTING
        self.info = ServerInfo()
        self.server: Server | None = None
        self.servers = ServerPool(options, rng or SystemRandom())
        self.routes = Routes()
        self.outbound = Outbound(options.buffer_limit)
        self.pings = Pings(options.max_pings)
        self.requests = Requests(self.new_inbox())
        self.failure: Error | None = None
        self.congested: set[Route] = set()
        self.greeting: deque[Control] | None = None
        self.unconfirmed = False
        self.owner: object = None
        self.dependents: WeakSet[Dependent] = WeakSet()
        self.timed: WeakSet[Timed] = WeakSet()
        self.watchers: WeakSet[SessionWatcher] = WeakSet()
        self._complaint: Error | None = None  # the latest -ERR, which tells why the server closes
        self._tell = tell
        self._message_type = message_type
        self._mux: Route | None = None
        self._was_open = False

    @property
    def closed(self) -> bool:
        """The connection is closed for good."""
        return self.status is Status.CLOSED

    # -- sessions ------------------------------------------------------------------------------------------------

    def greet(self) -> Inbound:
        """A session is being opened; returns what reads it. Control frames go to `greeting` until `opened`."""
        self.failure = self._complaint = None
        self.greeting = deque()
        return Inbound(
            self.routes.by_sid,
            on_control=self._control,
            on_full=self.full,
            on_last=self._last,
            message_type=self._message_type,
        )

    def opened(self, server: Server, info: ServerInfo) -> None:
        """The server took us: restore what was, and let what waits go out."""
        self.server = server
        self.servers.succeeded(server)
        self.outbound.begin(self.routes.restore())
        if self.status is not Status.DRAINING:
            self.status = Status.CONNECTED
        self._tell(Reconnected(server.address) if self._was_open else Connected(server.address))
        self._was_open = True
        self._learn(info)
        early, self.greeting = self.greeting or deque(), None
        for frame in early:
            self._control(frame)
        for watcher in list(self.watchers):
            watcher.session_restored()

    def refused(self, server: Server, error: Error) -> None:
        """The session could not be opened."""
        self.greeting = None
        self.servers.failed(server, error)
        if self._was_open:
            self._tell(ErrorOccurred(error))

    def lost(self, error: Error) -> None:
        """The open session is over; the server's own complaint, if there was one, is the better reason."""
        reason = self._complaint or error
        self.outbound.offline()
        self.congested.clear()
        if self.outbound.handed > self.pings.confirmed:
            self.unconfirmed = True
        self.pings.confirmed = self.outbound.handed
        if self.status is not Status.DRAINING:
            self.status = Status.RECONNECTING
        if self.server is not None and isinstance(reason, AuthenticationError):
            self.servers.failed(self.server, reason)
        self.servers.begin()
        lost = DisconnectedError(f"the connection was lost: {reason}")
        self.pings.lost(lost)
        self._fail_answers(lost)
        self._tell(Disconnected(reason))

    def drain(self) -> None:
        """Take no more subscriptions. Raises ConnectionClosedError."""
        self.check_open()
        self.status = Status.DRAINING

    def close(self, error: Error | None = None) -> None:
        """The end, for the caller (None) or for an error. Does nothing the second time."""
        if self.status is Status.CLOSED:
            return
        was_online = self.outbound.online
        self.status = Status.CLOSED
        reason = ConnectionClosedError(f"the connection is closed: {error}" if error else "the connection is closed")
        self.outbound.close(reason)
        self.pings.close(reason)
        for route in self.routes:
            self.routes.remove(route, reason if error else None)
            route.discard()
            route.owner = None
        self._fail_answers(reason)
        self.congested.clear()
        self._mux = self.owner = None
        if was_online:
            self._tell(Disconnected(error))
        self._tell(Closed(error))
        self._tell = _tell_nobody  # who was told may own us: no cycle is to stay

    def _fail_answers(self, error: Error, subject: str | None = None) -> None:
        self.requests.fail(error, subject)
        for dependent in list(self.dependents):
            dependent.fail(error, subject)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def new_inbox(self) -> str:
        """A fresh subject below the inbox prefix."""
        return f"{self.options.inbox_prefix}.{secrets.token_hex(11)}"

    def subscribe(
        self,
        subject: str,
        queue: str = "",
        *,
        max_msgs: int = 0,
        limit_msgs: int | None = None,
        limit_bytes: int | None = None,
        overflow: Overflow = "drop",
    ) -> Route:
        """Register a subscription and let its SUB go out.

        Raises
        ------
        BadSubjectError, ConnectionClosedError
        """
        self.check_open()
        if self.status is Status.DRAINING:
            raise ConnectionClosedError("the connection drains; it takes no more subscriptions")
        try:
            words = check_filter_subject(subject).encode(), check_queue(queue).encode() if queue else b""
        except UnicodeEncodeError as error:
            raise BadSubjectError(f"subject {subject!r}: half of a surrogate pair cannot be sent") from error
        route = Route(
            self.routes.next_sid(),
            *words,
            limit_msgs=limit_msgs or self.options.pending_messages,
            limit_bytes=limit_bytes or self.options.pending_bytes,
            overflow=overflow,
        )
        route.owner = self.owner
        self.outbound.command(self.routes.add(route))
        if max_msgs:
            self.outbound.command(self.routes.limit(route, max_msgs))
        return route

    def limit(self, route: Route, max_msgs: int) -> None:
        """End a subscription after so many messages in all."""
        if not route.ended:
            self.outbound.command(self.routes.limit(route, max_msgs))

    def unsubscribe(self, route: Route, error: Error | None = None) -> None:
        """End a subscription now."""
        self.outbound.command(self.routes.remove(route, error))
        route.discard()
        self.congested.discard(route)

    def retire(self, route: Route) -> bool:
        """Begin to drain: the server is to send nothing more, what is under way still comes. False if it has ended."""
        if route.ended:
            return False
        if not route.retired:
            route.retired = True
            self.outbound.command(frames.unsub(route.sid))
        return True

    def mux(self) -> Requests:
        """The shared inbox of the requests, subscribed."""
        if self._mux is None or self._mux.ended:
            self._mux = self.subscribe(f"{self.requests.inbox}.*")
            self._mux.handler = self.requests.deliver
            self._mux.wake = self._mux_ended
            self._mux.waiting = True
        return self.requests

    def _mux_ended(self) -> None:
        if self._mux is not None and self._mux.error is not None:
            self.requests.fail(self._mux.error)

    def relax(self, route: Route) -> None:
        """Messages were taken from a subscription that was full."""
        if route.slow and route.relaxed:
            route.slow = route.watched = False
            self.congested.discard(route)

    def check_open(self) -> None:
        """Raise ConnectionClosedError when the connection is closed."""
        if self.outbound.closed is not None:
            raise ConnectionClosedError(str(self.outbound.closed))

    # -- frames --------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """A ping interval passed; sends a PING, or tells (False) that the session is dead."""
        if self.congested:  # we do not read, so no PONG can be seen
            return True
        if not self.pings.tick(self.outbound.published):
            return False
        self.outbound.command(PING)
        return True

    def ping(self, answered: Answered) -> None:
        """Send a PING of somebody who waits for its answer. Only while there is a session."""
        mark = self.outbound.published
        self.outbound.command(PING)
        self.pings.sent(mark, answered)

    def farewell(self) -> bytes:
        """The last bytes of a connection that was closed: a PING. No `pings` are left when the server has read all."""
        self.pings.sent(self.outbound.published)
        return PING

    def _control(self, frame: Control) -> None:
        if self.greeting is not None:
            self.greeting.append(frame)
        elif isinstance(frame, Ping):
            self.outbound.command(PONG)
        elif isinstance(frame, Pong):
            self.pings.pong()
        elif isinstance(frame, Info):
            self._learn(parse_info(frame))
        elif isinstance(frame, Err):
            self._complain(frame.text)

    def _learn(self, info: ServerInfo) -> None:
        assert self.server is not None
        leaving = info.lame_duck and not (self.info.lame_duck and self.info.server_id == info.server_id)
        self.info = info
        self.outbound.max_payload = info.max_payload
        fresh = self.servers.discovered(info.connect_urls, self.server) if info.connect_urls else []
        if fresh:
            self._tell(ServersDiscovered(tuple(fresh)))
        if leaving:
            self._tell(LameDuck(self.server.address))

    def _complain(self, text: str) -> None:
        assert self.server is not None
        error = server_error(text, str(self.server.address))
        self._tell(ErrorOccurred(error))
        if isinstance(error, PermissionsViolationError):
            self._forbid(error, text)
            return
        self._complaint = error
        if isinstance(error, AuthenticationError):
            self.failure = error  # fresh credentials may do; no need to wait until the server closes

    def _forbid(self, error: PermissionsViolationError, text: str) -> None:
        if error.subject is None:
            return
        if error.operation == "publish":
            self._fail_answers(error, error.subject)
            return
        queue = _QUEUE.search(text)
        for route in self.routes.find(error.subject.encode(), queue[1].encode() if queue else b""):
            self.routes.remove(route, error)

    def full(self, route: Route) -> bool:
        """A message came for a subscription that is full; whether to keep it (`overflow`)."""
        if route.overflow == "pause":
            route.slow = route.watched = True
            self.congested.add(route)
            return True
        if not route.slow:
            route.slow = route.watched = True
            subject = route.subject.decode(errors="replace")
            error = SlowConsumerError(
                f"subscription to {subject!r} is full with {len(route.pending)} messages of {route.pending_bytes} "
                "bytes; what comes now is dropped",
                dropped=route.dropped + 1,
            )
            self._tell(SlowConsumer(subject, error))
        return False

    def _last(self, route: Route) -> None:
        self.routes.remove(route)


def _tell_nobody(event: Event) -> None:
    """After the last event."""
