"""State machine of a connection and its sessions: subscriptions, waiting publishes, and the handling of each frame.

A front (asyncio) owns the sockets. It asks `server_pool` which server to try, does the handshake of `session`, calls
`begin_session` and `on_session_opened`, feeds the received bytes, sends the bytes in `outbound`, and calls
`on_session_lost`. This module makes all changes of state, in order and without a clock: it restores subscriptions
before it sends publishes that waited (REC-02), it ends the subscription that a permissions violation names (REC-09),
and it reports each change as an event.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from random import Random, SystemRandom
from weakref import WeakSet

from jetspark.wire import frames
from jetspark.wire.connection_listeners import ReplyListener, SessionListener, TimedSender
from jetspark.wire.connection_status import ConnectionStatus
from jetspark.wire.errors import (
    AuthenticationError,
    ConnectionClosedError,
    CredentialsCallbackError,
    DisconnectedError,
    Error,
    MaxControlLineError,
    MaxSubscriptionsError,
    PermissionsViolationError,
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
)
from jetspark.wire.frames import PING, Control, Err, Info, Ping, Pong
from jetspark.wire.full_subscriptions import FullSubscriptions
from jetspark.wire.inbound import Inbound
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions
from jetspark.wire.outbound import Outbound
from jetspark.wire.pings import PingCallback, PingTracker
from jetspark.wire.refused_subscriptions import RefusedSubscriptions
from jetspark.wire.reply_mux import ReplyMux
from jetspark.wire.server_pool import LASTING_SESSION, Server, ServerPool
from jetspark.wire.session import ServerInfo, parse_err, parse_info
from jetspark.wire.subscriptions import Overflow, SubscriptionState, SubscriptionTable

__all__ = ["ConnectionState"]


class ConnectionState:
    """The state machine; see the module.

    Attributes
    ----------
    status
        State of the connection.
    info
        INFO of the current server, or of the last one.
    server
        The current server, or the last one; None before the first.
    fatal_error
        Error of a received frame that must end the session; the front then closes the session.
    full_subscriptions
        Subscriptions that are full, and those for which reading must pause.
    has_unconfirmed_publishes
        Whether a session was lost before a PONG confirmed all of its publishes. Some may be lost: flush must know it.
    connection
        The front's connection, which messages use to answer.
    message_type
        The front's class of messages.
    reply_listeners, timed_senders, session_listeners
        Objects to call when no answer can come any more, before anything is handed to a socket, and when another
        session is open after a loss. The sets hold weak references.
    reconnect_requested
        Whether `request_reconnect` was called, and no session has opened since.
    on_minority
        Called when the server reports that it has lost at least half of its cluster.
    """

    def __init__(
        self,
        options: ConnectOptions,
        emit: Callable[[Event], None],
        *,
        message_type: type[Message] = Message,
        rng: Random | None = None,
    ) -> None:
        self.options = options
        self.status = ConnectionStatus.CONNECTING
        self.info = ServerInfo()
        self.server: Server | None = None
        self.servers = ServerPool(options, rng or SystemRandom())
        self.subscriptions = SubscriptionTable()
        self.outbound = Outbound(options.reconnect_buffer_size, options.max_control_line)
        self.pings = PingTracker(options.max_outstanding_pings)
        self.reply_mux = ReplyMux(self.new_inbox())
        self.fatal_error: Error | None = None
        self.full_subscriptions = FullSubscriptions()
        self.has_unconfirmed_publishes = False
        self.connection: object = None
        self.reply_listeners: WeakSet[ReplyListener] = WeakSet()
        self.timed_senders: WeakSet[TimedSender] = WeakSet()
        self.session_listeners: WeakSet[SessionListener] = WeakSet()
        self.reconnect_requested = False
        self.on_minority: Callable[[], None] = _do_nothing
        self._last_server_error: Error | None = None  # the latest -ERR: the reason why the server closes
        self._emit = emit
        self._refused = RefusedSubscriptions(self.subscriptions, self.outbound, self.pings, emit)
        self._sessions = 0
        self._cause_removed = False  # the server will not close the next session for the reason of this one
        self.message_type = message_type

    @property
    def closed(self) -> bool:
        """Whether the connection is closed and will not reconnect."""
        return self.status is ConnectionStatus.CLOSED

    # -- sessions ------------------------------------------------------------------------------------------------

    def begin_session(self) -> Inbound:
        """Return the reader of a session that a server has accepted. Call `on_session_opened` before it reads."""
        self.fatal_error = self._last_server_error = None
        return Inbound(
            self.subscriptions.by_sid,
            on_control=self._on_control,
            on_full=self.on_subscription_full,
            on_last_message=self.subscriptions.remove,
            message_type=self.message_type,
        )

    def on_session_opened(self, server: Server, info: ServerInfo) -> None:
        """Handle an accepted session: restore the subscriptions, then send the publishes that wait."""
        self.server = server
        self.reconnect_requested = False
        self.servers.begin_session()
        self._fit_to(info)
        self.outbound.begin_session(self.subscriptions.restore())
        if self.status is not ConnectionStatus.DRAINING:
            self.status = ConnectionStatus.CONNECTED
        self._emit(Reconnected(server.address) if self._sessions else Connected(server.address))
        self._sessions += 1
        self._cause_removed = False
        self._on_info(info)
        for listener in list(self.session_listeners):
            listener.on_session_restored()

    def request_reconnect(self, reason: str = "the program called reconnect") -> Error:
        """Prepare to leave the session, or to end the wait for one; return the error. All servers are tried at once.

        Raises ConnectionClosedError if the connection is closed or draining.
        """
        self._check_not_draining("does not reconnect on request")
        self.reconnect_requested = True
        self.servers.restart_rounds()
        return DisconnectedError(reason)

    def on_session_refused(self, server: Server, error: Error) -> None:
        """Handle a session that could not be opened."""
        self.servers.count_failure(server, error)
        if self._sessions:
            callback = error.callback if isinstance(error, CredentialsCallbackError) else None
            self._emit(ErrorOccurred(error, callback))

    def _fit_to(self, info: ServerInfo) -> None:
        """Drop what this server would refuse, and close the session for: long control lines, large messages."""
        if info.server_id != self.info.server_id:
            self.outbound.max_control_line = self.options.max_control_line
        self.outbound.max_payload = info.max_payload
        self._refused.end_unfit()
        for subject, error in self.outbound.withdraw_unfit():
            self._fail_replies(error, subject)
            self._emit(ErrorOccurred(error))

    def on_session_lost(self, error: Error, lived: float = math.inf) -> None:
        """Handle the end of an open session that has lived for so many seconds.

        An `-ERR` of the server, if there was one, replaces `error` as reason.
        """
        reason = self._last_server_error or error
        self.outbound.end_session()
        self.full_subscriptions.paused.clear()
        if self.outbound.taken_publishes > self.pings.confirmed_publishes:
            self.has_unconfirmed_publishes = True
        self.pings.confirmed_publishes = self.outbound.taken_publishes
        if self.status is not ConnectionStatus.DRAINING:
            self.status = ConnectionStatus.RECONNECTING
        if lived >= LASTING_SESSION or self._sessions == 1 or self.reconnect_requested or self._cause_removed:
            self.servers.restart_rounds()
            lasted = True
        else:
            self.servers.continue_rounds()
            lasted = False
        if self.server is not None:
            if lasted:
                self.servers.reset_failures(self.server)
            if not lasted or isinstance(reason, AuthenticationError):
                self.servers.count_failure(self.server, reason)
        lost = DisconnectedError(f"the connection was lost: {reason}")
        self.pings.on_session_lost(lost)
        self._fail_replies(lost)
        self._emit(Disconnected(reason))

    def drain(self) -> None:
        """Refuse new subscriptions from now on. Raises ConnectionClosedError if the connection is closed."""
        self.check_open()
        self.status = ConnectionStatus.DRAINING

    def close(self, error: Error | None = None) -> None:
        """Close the connection, for the caller (None) or because of an error. A second call does nothing."""
        if self.status is ConnectionStatus.CLOSED:
            return
        was_online = self.outbound.online
        unsent = self.outbound.unsent_error(self.reply_mux.inbox, with_acks=True)
        self.status = ConnectionStatus.CLOSED
        reason = ConnectionClosedError(f"the connection is closed: {error}" if error else "the connection is closed")
        self.outbound.close(reason)
        self.pings.close(reason)
        for sub in self.subscriptions:
            self.subscriptions.remove(sub, reason if error else None)
            sub.discard_pending()
            sub.connection = None
        self._fail_replies(reason)
        self.full_subscriptions.paused.clear()
        self.connection = None
        self.reply_mux.end_subscription()
        if was_online:
            self._emit(Disconnected(error))
        if unsent is not None:
            self._emit(ErrorOccurred(unsent))
        self._emit(Closed(error))
        self.on_minority = _do_nothing
        self._emit = self._refused.emit = (
            _ignore_event  # the receiver of events may own this object: leave no reference cycle
        )

    def _fail_replies(self, error: Error, subject: str | None = None) -> None:
        self.reply_mux.fail(error, subject)
        for listener in list(self.reply_listeners):
            listener.fail(error, subject)

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
        pending_msgs_limit: int | None = None,
        pending_bytes_limit: int | None = None,
        overflow: Overflow = "drop",
    ) -> SubscriptionState:
        """Register a subscription and queue its SUB.

        Raises
        ------
        BadSubjectError, ConnectionClosedError
        """
        self._check_not_draining("accepts no new subscriptions")
        sub = self.subscriptions.create(
            subject,
            queue,
            pending_msgs_limit=pending_msgs_limit or self.options.pending_msgs_limit,
            pending_bytes_limit=pending_bytes_limit or self.options.pending_bytes_limit,
            overflow=overflow,
        )
        self.outbound.check_line(sub.line)
        sub.connection = self.connection
        self.outbound.queue_command(self.subscriptions.add(sub))
        if max_msgs:
            self.outbound.queue_command(self.subscriptions.auto_unsubscribe(sub, max_msgs))
        return sub

    def auto_unsubscribe(self, subscription: SubscriptionState, max_msgs: int) -> None:
        """End a subscription after `max_msgs` messages in total."""
        if not subscription.ended:
            self.outbound.queue_command(self.subscriptions.auto_unsubscribe(subscription, max_msgs))

    def unsubscribe(self, subscription: SubscriptionState, error: Error | None = None) -> None:
        """End a subscription now."""
        self.outbound.queue_command(self.subscriptions.remove(subscription, error))
        subscription.discard_pending()
        self.full_subscriptions.paused.discard(subscription)

    def stop_delivery(self, subscription: SubscriptionState) -> bool:
        """Begin to drain: UNSUB, but keep the subscription for messages in transit. Return False if it has ended."""
        if subscription.ended:
            return False
        if not subscription.draining:
            subscription.draining = True
            self.outbound.queue_command(frames.unsub(subscription.sid))
        return True

    def check_open(self) -> None:
        """Raise ConnectionClosedError when the connection is closed."""
        if self.outbound.close_reason is not None:
            raise ConnectionClosedError(str(self.outbound.close_reason))

    def _check_not_draining(self, refusal: str) -> None:
        self.check_open()
        if self.status is ConnectionStatus.DRAINING:
            raise ConnectionClosedError(f"the connection is draining and {refusal}")

    # -- frames --------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Handle the end of a ping interval: send a PING, or return False if the session is dead."""
        if self.full_subscriptions.paused:  # reading is paused, so no PONG can be seen
            return True
        if not self.pings.tick(self.outbound.publish_count):
            return False
        self.outbound.queue_command(PING)
        return True

    def ping(self, on_answer: PingCallback) -> None:
        """Send a PING and call `on_answer` with the result. Only while there is a session."""
        mark = self.outbound.publish_count
        self.outbound.queue_command(PING)
        self.pings.add_ping(mark, on_answer)

    def final_ping(self) -> bytes:
        """Return the last bytes of a closed connection: a PING. `pings` is empty when the server has read all bytes."""
        self.pings.add_ping(self.outbound.publish_count)
        return PING

    def _on_control(self, frame: Control) -> None:
        if isinstance(frame, Ping):
            self.outbound.queue_pong()
        elif isinstance(frame, Pong):
            self.pings.on_pong()
        elif isinstance(frame, Info):
            self._on_info(parse_info(frame))
        elif isinstance(frame, Err):
            self._on_server_error(frame.text)

    def _on_info(self, info: ServerInfo) -> None:
        assert self.server is not None
        leaving = info.lame_duck and not (self.info.lame_duck and self.info.server_id == info.server_id)
        self.info = info
        self.outbound.max_payload = info.max_payload
        if info.tls_required:
            self.servers.note_tls(self.server, encrypted=False)
        fresh = self.servers.update_discovered(info.connect_urls, self.server) if info.connect_urls else []
        if fresh:
            self._emit(ServersDiscovered(tuple(fresh)))
        if info.connect_urls and self.servers.in_minority:
            self.on_minority()
        if leaving:
            self._emit(LameDuck(self.server.address))

    def _on_server_error(self, text: str) -> None:
        assert self.server is not None
        error = parse_err(text, str(self.server.address))
        if isinstance(error, MaxSubscriptionsError):
            self._refused.on_too_many(error)
            return
        if isinstance(error, MaxControlLineError):
            before = len(self.subscriptions)
            error = self._refused.on_line_too_long(str(self.server.address)) or error
            self._cause_removed = len(self.subscriptions) < before
        self._emit(ErrorOccurred(error))
        if not isinstance(error, PermissionsViolationError):
            self._last_server_error = error
            if isinstance(error, AuthenticationError):
                self.fatal_error = error  # new credentials may be accepted; do not wait until the server closes
        elif error.subject is not None and error.operation == "publish":
            self._fail_replies(error, error.subject)
        elif error.subject is not None:
            self._refused.on_forbidden(error, error.subject, text)

    def on_subscription_full(
        self, subscription: SubscriptionState, then: str = "new messages are dropped until the program reads some"
    ) -> bool:
        """Handle a message for a full subscription; return whether to keep it. An event reports the first one."""
        if (event := self.full_subscriptions.add(subscription, then)) is not None:
            self._emit(event)
        return subscription.overflow == "pause"


def _do_nothing() -> None:
    """Do nothing; the default callback."""


def _ignore_event(event: Event) -> None:
    """Ignore an event; used after the last one."""
