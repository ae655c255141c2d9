"""The blocking connection: the calls for users. `jetspark.sync.core` does the work.

Made by `tools/make_sync.py` from `jetspark.aio.connection`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.jetstream.names import api_prefix
from jetspark.sync._interfaces import HasCore
from jetspark.sync.core import ConnectionCore, EventHandler
from jetspark.sync.jetstream.context import JetStream
from jetspark.sync.message import Msg
from jetspark.sync.open_context import open_context
from jetspark.sync.subscription import Subscription
from jetspark.sync.subscription_core import Callback, open_subscription
from jetspark.wire.argument_types import checks_arguments, wrong_type
from jetspark.wire.connect_keywords import ConnectFields
from jetspark.wire.connection_status import ConnectionStatus
from jetspark.wire.headers import HeadersLike
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Payload
from jetspark.wire.session import ServerInfo
from jetspark.wire.subscriptions import Overflow

__all__ = ["Connection", "EventHandler", "connect"]


@checks_arguments(unchecked=("publish",))
class Connection(HasCore[ConnectionCore]):
    """A connection, opened by `jetspark.sync.connect`.

    Any thread of the process may use it. As a context manager it drains at the end of the block.

    Without a close, it ends with the last reference to it and to the objects that it returned,
    and gives a `ResourceWarning`. An active callback keeps it.
    """

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def options(self) -> ConnectOptions:
        """The options that it was opened with."""
        return self._core.options

    @property
    def status(self) -> ConnectionStatus:
        """State of the connection."""
        return self._core.status

    @property
    def connected(self) -> bool:
        """Whether there is a session now."""
        return self._core.connected

    @property
    def closed(self) -> bool:
        """Whether the connection is closed for good."""
        return self._core.closed

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""
        return self._core.address

    @property
    def server_info(self) -> ServerInfo:
        """Information from the present server, or the last one."""
        return self._core.client.info

    @property
    def servers(self) -> list[ServerAddress]:
        """The servers that a reconnect tries, discovered ones included."""
        return [server.address for server in self._core.client.servers.servers]

    @property
    def buffered(self) -> int:
        """Bytes that were not handed to a socket yet."""
        return self._core.buffered

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self.closed:
            self.drain()
        else:
            self.close()

    # -- publishing ----------------------------------------------------------------------------------------------

    def publish(
        self, subject: str, payload: Payload = b"", *, reply: str = "", headers: HeadersLike | None = None
    ) -> None:
        """Send a message. It is queued when this returns; `flush` waits until the server has it.

        Without a session the message waits in a buffer of `reconnect_buffer_size` bytes and is sent after the
        reconnect.

        Raises
        ------
        BadSubjectError, BadHeadersError, MaxPayloadError, TypeError
            The message cannot be sent. Nothing was sent.
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        FlushTimeoutError
            The server has read nothing for 10 seconds. The message is queued and may still be sent.
        ConnectionClosedError
            The connection is closed.
        """
        if self._core.queue_publish(subject, payload, reply, headers):
            self._core.wait_writable()

    def flush(self, timeout: float | None = 10.0) -> None:
        """Wait until the server has confirmed that it has everything that was sent before.

        Without a session, wait for the next session, and until it has confirmed the buffered messages.

        Parameters
        ----------
        timeout
            Seconds; None means no limit.

        Raises
        ------
        FlushTimeoutError
            The server did not confirm in time.
        DisconnectedError
            A session was lost during the call, or earlier with publishes that were not confirmed: they may not have
            arrived. Each loss is reported by one flush only; a second call confirms the messages sent after the loss.
        ConnectionClosedError
            The connection is closed, or was closed during the call.
        """
        self._core.flush(timeout)

    def reconnect(self, timeout: float | None = 10.0) -> None:
        """Leave the present server and open a session with the next one, also with `reconnect=False`.

        The present server comes last, after all other known servers. Without a session, the wait for the next try
        ends, and all servers are tried at once. Requests that wait for an answer raise DisconnectedError, as at each
        loss of a session. Subscriptions are restored. Call `flush` before, so that no published message is lost.

        Parameters
        ----------
        timeout
            Seconds to wait for the new session; None means no limit.

        Raises
        ------
        ConnectError
            No server has accepted a new session in time. The connection keeps trying.
        ConnectionClosedError
            The connection is closed or draining, or was closed during the call.
        """
        self._core.reconnect(timeout)

    # -- requests ------------------------------------------------------------------------------------------------

    def request(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        timeout: float = 5.0,
        headers: HeadersLike | None = None,
        own_inbox: bool = False,
    ) -> Msg:
        """Send a message and wait for its answer.

        Parameters
        ----------
        timeout
            Seconds.
        own_inbox
            Use an inbox of its own instead of the connection's shared one. Needed if the answer does not carry the
            reply subject; messages of a JetStream consumer do not carry it.

        Raises
        ------
        RequestTimeoutError
            No answer came in time. Whether somebody received the request is not known.
        NoRespondersError
            Nobody listens on the subject. Raised at once, not after the timeout.
        DisconnectedError
            The session was lost during the call.
        PermissionsViolationError
            The user may not publish to the subject, or not subscribe to the inbox.
        """
        return self._core.request(subject, payload, timeout, headers, own_inbox=own_inbox)

    def new_inbox(self) -> str:
        """Return a new reply subject below the inbox prefix; nobody listens to it yet."""
        return self._core.new_inbox()

    def jetstream(
        self,
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float = 5.0,
        publishing: AsyncPublishOptions | None = None,
    ) -> JetStream:
        """Return a JetStream context over this connection.

        Parameters
        ----------
        domain
            JetStream domain: requests go to `$JS.<domain>.API.` instead of `$JS.API.`.
        prefix
            Prefix of an API that was imported under another name. Not together with `domain`.
        timeout
            Default timeout of the context's calls, in seconds.
        publishing
            Limits and times of `publish_async`. Its `on_error` runs in a thread of its own.

        Raises
        ------
        BadSubjectError
            `domain` or `prefix` is not valid in a subject.
        """
        return open_context(self._core, api_prefix(domain, prefix), timeout, publishing)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: Callback | None = None,
        max_msgs: int = 0,
        pending_msgs_limit: int | None = None,
        pending_bytes_limit: int | None = None,
        overflow: Overflow = "drop",
    ) -> Subscription:
        """Subscribe to a subject.

        Parameters
        ----------
        subject
            May have the wildcards `*` and `>`.
        queue
            Queue group: each message goes to one of its members.
        callback
            Called with each message, one after the other, in a thread of its own. An exception from it is reported as
            an event. Without a callback, iterate the subscription or call `next_msg`.
        max_msgs
            End after that many messages; 0 means no end.
        pending_msgs_limit, pending_bytes_limit
            Limits of the messages that wait here; None takes the connection's options.
        overflow
            When a limit is reached: `drop` drops new messages and reports `SlowConsumer`; `pause` stops reading from
            the server, for the whole connection, until half of the waiting messages were taken.

        Raises
        ------
        BadSubjectError, ConnectionClosedError
        """
        return Subscription(
            open_subscription(
                self._core,
                callback,
                subject,
                queue,
                max_msgs,
                pending_msgs_limit,
                pending_bytes_limit,
                overflow,
            )
        )

    # -- the end -------------------------------------------------------------------------------------------------

    def drain(self, timeout: float | None = None) -> None:
        """End all subscriptions without losing a message, send queued messages, wait for stream acks, close.

        Parameters
        ----------
        timeout
            Seconds for all of it; None takes `drain_timeout` of the options.

        Raises
        ------
        DrainTimeoutError
            It took too long; the remaining messages were dropped. The connection is closed anyway.
        DisconnectedError
            The server went down during the drain, or it was down and messages were not sent. The drain does not wait
            for a server that is down: it only hands out the messages that were received. The connection is closed.
        """
        self._core.drain(timeout)

    def close(self) -> None:
        """Close at once: queued messages are sent, messages that wait in subscriptions are dropped. May be repeated.

        Waits until the server has answered a last PING, for two seconds at most. May be called from a callback or from
        the event handler; it does not wait for its caller. If the server is down, messages that were not sent are
        reported as an event.
        """
        self._core.close()


def connect(
    where: ConnectOptions | str | Sequence[str] | None = None,
    *,
    on_event: EventHandler | None = None,
    **changes: Unpack[ConnectFields],
) -> Connection:
    """Open a connection.

        with jetspark.sync.connect("nats://localhost:4222") as connection:
            connection.publish("greetings", b"hello")

    Parameters
    ----------
    where
        Options, a URL, a comma-separated list or a sequence of URLs. None takes the URLs of the environment variable
        `NATS_URL`, else `nats://localhost:4222`.
    on_event
        Called with each event of the connection (see `jetspark.wire.events`), in order, in a thread of its own.
    changes
        Fields of `ConnectOptions` that replace those of `where`.

    Raises
    ------
    ConnectError
        A server cannot be reached; the message has its address. With several servers `NoServersError` lists them.
        With `retry_connect=True` it keeps trying instead.
    AuthenticationError, TLSError
        The server rejects the client.
    """
    if on_event is not None and not callable(on_event):
        raise wrong_type("connect", "on_event", "a function or None", on_event)
    try:
        options = ConnectOptions.of(where, **changes)
    finally:
        del where, changes  # a traceback with local variables must not show secrets
    core = ConnectionCore(options, on_event)
    core.open()
    return Connection(core)
