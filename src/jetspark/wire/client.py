"""State machine of a connection and its sessions: subscriptions, waiting publishes, and the handling of each frame.

A front (asyncio) owns the sockets. It asks `servers` which server to try, opens a session with `greet` and `opened`,
feeds the received bytes, sends the bytes in `outbound`, and calls `lost`. This module makes all changes of state, in
order and without a clock: it restores subscriptions before it sends publishes that waited (REC-02), it ends the
subscription that a permissions violation names (REC-09), and it reports each change as an event.
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
    """An object that waits for answers on its own subscription and must know when no answer can come."""

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Handle the end of the session; or, with a subject, that the user may not publish to this subject."""


class Timed(Protocol):
    """An object whose frames must not be sent after their timeout."""

    def give_up_late(self) -> None:
        """Withdraw the frames whose timeout has passed. Called before each send."""


class SessionWatcher(Protocol):
    """An object that must send something again in each session."""

    def session_restored(self) -> None:
        """Send again. Another session is open, its subscriptions are restored, and frames go out at once."""


class Client:
    """The state machine; see the module.

    Attributes
    ----------
    status
        State of the connection.
    info
        INFO of the current server, or of the last one.
    server
        The current server, or the last one; None before the first.
    failure
        Error of a received frame that must end the session; the front then closes the session.
    congested
        Subscriptions for which reading must pause.
    unconfirmed
        Whether a session was lost before a PONG confirmed all of its publishes. Some may be lost: flush must know it.
    owner
        The front's connection, which messages use to answer.
    dependents
        Objects to call when no answer can come any more. The set holds weak references.
    timed
        Objects to call before anything is handed to a socket. The set holds weak references.
    greeting
        Frames of a session that is being opened; None once it is open.
    watchers
        Objects to call when another session is open after a loss. The set holds weak references.
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
        self._complaint: Error | None = None  # the latest -ERR: the reason why the server closes
        self._tell = tell
        self._message_type = message_type
        self._mux: Route | None = None
        self._was_open = False

    @property
    def closed(self) -> bool:
        """Whether the connection is closed and will not reconnect."""
        return self.status is Status.CLOSED

    # -- sessions ------------------------------------------------------------------------------------------------

    def greet(self) -> Inbound:
        """Begin to open a session and return its reader. Control frames go to `greeting` until `opened`."""
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
        """Handle an accepted session: restore the subscriptions, then send the publishes that wait."""
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
        """Handle a session that could not be opened."""
        self.greeting = None
        self.servers.failed(server, error)
        if self._was_open:
            self._tell(ErrorOccurred(error))

    def lost(self, error: Error) -> None:
        """Handle the end of an open session. An `-ERR` of the server, if there was one, replaces `error` as reason."""
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
        """Refuse new subscriptions from now on. Raises ConnectionClosedError if the connection is closed."""
        self.check_open()
        self.status = Status.DRAINING

    def close(self, error: Error | None = None) -> None:
        """Close the connection, for the caller (None) or because of an error. A second call does nothing."""
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
        self._tell = _tell_nobody  # the receiver of events may own this object: leave no reference cycle

    def _fail_answers(self, error: Error, subject: str | None = None) -> None:
        self.requests.fail(error, subject)
        for dependent in list(self.dependents):
            dependent.fail(error, subject)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def new_inbox(self) -> str:
        """Return a new unique subject below the inbox prefix."""
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
        """Register a subscription and queue its SUB.

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
        """End a subscription after `max_msgs` messages in total."""
        if not route.ended:
            self.outbound.command(self.routes.limit(route, max_msgs))

    def unsubscribe(self, route: Route, error: Error | None = None) -> None:
        """End a subscription now."""
        self.outbound.command(self.routes.remove(route, error))
        route.discard()
        self.congested.discard(route)

    def retire(self, route: Route) -> bool:
        """Begin to drain: UNSUB, but keep the route for messages in transit. Return False if it has ended."""
        if route.ended:
            return False
        if not route.retired:
            route.retired = True
            self.outbound.command(frames.unsub(route.sid))
        return True

    def mux(self) -> Requests:
        """Return the shared inbox of the requests; subscribe to it if necessary."""
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
        """Resume a subscription that was full, if the program took enough of its messages."""
        if route.slow and route.relaxed:
            route.slow = route.watched = False
            self.congested.discard(route)

    def check_open(self) -> None:
        """Raise ConnectionClosedError when the connection is closed."""
        if self.outbound.closed is not None:
            raise ConnectionClosedError(str(self.outbound.closed))

    # -- frames --------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Handle the end of a ping interval: send a PING, or return False if the session is dead."""
        if self.congested:  # reading is paused, so no PONG can be seen
            return True
        if not self.pings.tick(self.outbound.published):
            return False
        self.outbound.command(PING)
        return True

    def ping(self, answered: Answered) -> None:
        """Send a PING and call `answered` with the result. Only while there is a session."""
        mark = self.outbound.published
        self.outbound.command(PING)
        self.pings.sent(mark, answered)

    def farewell(self) -> bytes:
        """Return the last bytes of a closed connection: a PING. `pings` is empty when the server has read all bytes."""
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
            self.failure = error  # new credentials may be accepted; do not wait until the server closes

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
        """Handle a message for a full subscription; return whether to keep it (`overflow`)."""
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
    """Ignore an event; used after the last one."""
