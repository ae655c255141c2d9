"""The blocking connection: the asyncio connection on an event loop in a thread of its own.

All behaviour is in the asyncio front: this module only runs calls on the loop and waits. Two frequent paths are
shorter. The caller's thread encodes and checks a publish, and appends it to a list that the loop takes over in one
step. The reader's thread takes messages out of the subscription's queue. Meanwhile PINGs are answered and sessions are
restored in the background.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Final, Self, cast

from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.sync.callback_thread import CALLBACK_THREAD_PREFIX, in_callback_thread
from jetspark.sync.core import ConnectionCore, EventHandler, snapshot
from jetspark.sync.jetstream.context import JetStream
from jetspark.sync.message import Msg
from jetspark.sync.subscription import Callback, Subscription
from jetspark.wire.errors import ConnectionClosedError, DrainTimeoutError
from jetspark.wire.headers import HeadersLike
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Payload
from jetspark.wire.session import ServerInfo
from jetspark.wire.subscriptions import Overflow

__all__ = ["Connection", "EventHandler", "connect"]

_JOIN_TIMEOUT: Final = 5.0


class Connection(ConnectionCore):
    """A connection, opened by `jetspark.sync.connect`. As a context manager it drains at the end of the block."""

    @property
    def server_info(self) -> ServerInfo:
        """Information from the present server, or the last one."""
        return self._inner.server_info

    @property
    def servers(self) -> list[ServerAddress]:
        """The servers that a reconnect tries, discovered ones included."""
        return self._inner.servers

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
        ConnectionClosedError
            The connection is closed.
        """
        self._send_frame(self._outbound.encode(subject, payload, reply, headers))

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
        self._loop_thread.run_coroutine(self._inner.flush(timeout))

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
        answer = self._inner.request(subject, payload, timeout=timeout, headers=headers, own_inbox=own_inbox)
        return cast("Msg", self._loop_thread.run_coroutine(answer))

    def new_inbox(self) -> str:
        """Return a new reply subject below the inbox prefix; nobody listens to it yet."""
        return self._inner.new_inbox()

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
        if publishing is not None and publishing.on_error is not None:
            publishing = replace(publishing, on_error=in_callback_thread(self, publishing.on_error))
        return JetStream(
            self, self._inner.jetstream(domain=domain, prefix=prefix, timeout=timeout, publishing=publishing)
        )

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
        pending_msgs_limit, pending_bytes
            Limits of the messages that wait here; None takes the connection's options.
        overflow
            When a limit is reached: `drop` drops new messages and reports `SlowConsumer`; `pause` stops reading from
            the server, for the whole connection, until half of the waiting messages were taken.

        Raises
        ------
        BadSubjectError, ConnectionClosedError
        """
        limits = (pending_msgs_limit, pending_bytes_limit, overflow)
        return self._loop_thread.run_coroutine(self._subscribe(subject, queue, callback, max_msgs, limits))

    async def _subscribe(
        self,
        subject: str,
        queue: str,
        callback: Callback | None,
        max_msgs: int,
        limits: tuple[int | None, int | None, Overflow],
    ) -> Subscription:
        messages, size, overflow = limits
        sub = self._inner._client.subscribe(
            subject, queue, max_msgs=max_msgs, pending_msgs_limit=messages, pending_bytes_limit=size, overflow=overflow
        )
        self._inner._flush_soon()
        subscription = Subscription(self, sub, callback)
        self._drainables.add(subscription)  # added here, before a following drain can run on the loop
        return subscription

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
        """
        self._check_open()
        seconds = self.options.drain_timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        answered = False
        wait = True
        try:
            self._run(self._inner._client.drain)
            subscriptions = snapshot(self._drainables)
            for subscription in subscriptions:
                subscription._stop_receiving()
            self._ping_roundtrip(seconds)
            answered = True
            late = [each for each in subscriptions if not each._wait_drained(deadline)]
            if late:
                left = sum(each.pending[0] for each in late)
                raise DrainTimeoutError(f"not drained within {seconds:g} s; {left} messages dropped")
            self._ping_roundtrip(max(deadline - time.monotonic(), 0.001))
            self._loop_thread.run_coroutine(self._inner._wait_publish_acks(max(deadline - time.monotonic(), 0.001)))
        except TimeoutError as error:
            wait = answered  # without an answer the whole timeout has passed already
            if isinstance(error, DrainTimeoutError):
                raise
            raise DrainTimeoutError(f"not drained within {seconds:g} s: {error}") from error
        finally:
            self._close(wait=wait)

    def close(self) -> None:
        """Close at once: queued messages are sent, messages that wait in subscriptions are dropped. May be repeated.

        Waits until the server has answered a last PING, for two seconds at most. May be called from a callback or from
        the event handler; it does not wait for its caller.
        """
        self._close()

    def _close(self, *, wait: bool = True) -> None:
        """As `close`; with `wait` false, without waiting for the server."""
        if self._in_own_thread():
            end = partial(self._close_and_join, wait=wait)
            threading.Thread(target=end, name="jetspark close", daemon=True).start()
        else:
            self._close_and_join(wait=wait)

    def _close_and_join(self, *, wait: bool) -> None:
        with self._closing:
            try:
                self._loop_thread.run_coroutine(self._inner._close(wait=wait))
            except ConnectionClosedError:
                return  # already closed
            for subscription in snapshot(self._drainables):
                subscription._join(_JOIN_TIMEOUT)
            for thread in snapshot(self._callback_threads):
                thread.stop(_JOIN_TIMEOUT)
            self._stop_threads()

    def _in_own_thread(self) -> bool:
        name = threading.current_thread().name
        return name.startswith(("jetspark events", "jetspark subscription", CALLBACK_THREAD_PREFIX))


def connect(
    where: ConnectOptions | str | Sequence[str] | None = None,
    *,
    on_event: EventHandler | None = None,
    **changes: object,
) -> Connection:
    """Open a blocking connection; parameters and errors are those of `jetspark.connect`.

        with jetspark.sync.connect("nats://localhost:4222") as connection:
            connection.publish("greetings", b"hello")

    `on_event` is called in a thread of its own. The connection may be used from any thread of one process.
    """
    return Connection(ConnectOptions.of(where, **changes), on_event)
