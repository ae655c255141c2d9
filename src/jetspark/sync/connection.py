"""The blocking connection: the asyncio one, on an event loop in a thread of its own.

There is one source of behaviour: this module only carries calls over to the loop and waits. Two paths are shorter,
because they are the busy ones: a publish is encoded and checked by the caller and left in a list that the loop takes
over in one go, and messages are taken out of a subscription's queue by the thread that wants them. PINGs are answered
and sessions are restored while the program does something else.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Final, Self, cast

from jetspark.flow.publish_window import PublishSettings
from jetspark.sync.callbacks import CALLBACK_THREADS, on_thread
from jetspark.sync.core import ConnectionCore, EventHandler, listed
from jetspark.sync.jetstream.context import JetStream
from jetspark.sync.message import Msg
from jetspark.sync.subscription import Callback, Subscription
from jetspark.wire.errors import ConnectionClosedError, DrainTimeoutError
from jetspark.wire.headers import HeadersLike
from jetspark.wire.options import ServerAddress
from jetspark.wire.outbound import Payload
from jetspark.wire.routes import Overflow
from jetspark.wire.session import ServerInfo

__all__ = ["Connection", "EventHandler"]

_JOIN_PATIENCE: Final = 5.0


class Connection(ConnectionCore):
    """Opened by `jetspark.sync.connect`. A context manager that drains at its end."""

    @property
    def server_info(self) -> ServerInfo:
        """What the present server, or the last one, says of itself."""
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
        """Send a message. It is queued when this returns; `flush` tells when the server has it.

        Without a session it waits in a buffer of `buffer_limit` bytes, and is sent after the reconnect.

        Raises
        ------
        BadSubjectError, BadHeadersError, MaxPayloadError, TypeError
            It cannot be sent; nothing was.
        OutboundBufferLimitError
            There is no session, and the buffer is full.
        ConnectionClosedError
            The connection is closed.
        """
        self._stage(self._outbound.encode(subject, payload, reply, headers))

    def flush(self, timeout: float | None = 10.0) -> None:
        """Wait until the server has confirmed that it has all that was sent before.

        Without a session it waits for the next one, and for what waited in the buffer to be confirmed.

        Parameters
        ----------
        timeout
            Seconds; None waits for ever.

        Raises
        ------
        FlushTimeoutError
            Not confirmed in time.
        DisconnectedError
            A session was lost meanwhile, or before it with publishes that nothing had confirmed: they may not have
            arrived. Each loss is told to one flush, so a second call confirms what was sent after it.
        ConnectionClosedError
            The connection is, or was meanwhile, closed.
        """
        self._runner.call(self._inner.flush(timeout))

    def request(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        timeout: float = 5.0,
        headers: HeadersLike | None = None,
        own_inbox: bool = False,
    ) -> Msg:
        """Send a message and wait for the answer to it.

        Parameters
        ----------
        timeout
            Seconds.
        own_inbox
            Listen on an inbox of its own instead of the connection's shared one. Needed where the answer does not
            carry the reply subject, as the messages of a JetStream consumer do not.

        Raises
        ------
        RequestTimeoutError
            No answer in time; whether somebody got the request is not known.
        NoRespondersError
            Nobody listens on the subject (at once, not by time-out).
        DisconnectedError
            The session was lost meanwhile.
        PermissionsViolationError
            The user may not publish to the subject, or not subscribe to the inbox.
        """
        answer = self._inner.request(subject, payload, timeout=timeout, headers=headers, own_inbox=own_inbox)
        return cast("Msg", self._runner.call(answer))

    def new_inbox(self) -> str:
        """A fresh reply subject below the inbox prefix; nobody listens to it yet."""
        return self._inner.new_inbox()

    def jetstream(
        self,
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float = 5.0,
        publishing: PublishSettings | None = None,
    ) -> JetStream:
        """JetStream over this connection.

        Parameters
        ----------
        domain
            JetStream domain: requests go to `$JS.<domain>.API.` instead of `$JS.API.`.
        prefix
            Prefix of an API that was imported under another name. Not together with `domain`.
        timeout
            Seconds that a call waits for its answer, unless it says otherwise.
        publishing
            Limits and times of `publish_async`. Its `on_error` is called on a thread of its own.

        Raises
        ------
        BadSubjectError
            Domain or prefix cannot stand in a subject.
        """
        if publishing is not None and publishing.on_error is not None:
            publishing = replace(publishing, on_error=on_thread(self, publishing.on_error))
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
        pending_messages: int | None = None,
        pending_bytes: int | None = None,
        overflow: Overflow = "drop",
    ) -> Subscription:
        """Listen to a subject.

        Parameters
        ----------
        subject
            May have the wildcards `*` and `>`.
        queue
            Queue group: each message goes to one of its members.
        callback
            Called with each message, one after the other, on a thread of its own. What it raises is told as an event.
            Without it, iterate the subscription or call `next_msg`.
        max_msgs
            End after that many messages; 0 does not end.
        pending_messages, pending_bytes
            What may wait here; None takes the connection's options.
        overflow
            When more comes: `drop` drops it and tells `SlowConsumer`, `pause` reads nothing more from the server until
            half of it was taken, for the whole connection.

        Raises
        ------
        BadSubjectError, ConnectionClosedError
        """
        limits = (pending_messages, pending_bytes, overflow)
        return self._runner.call(self._subscribe(subject, queue, callback, max_msgs, limits))

    async def _subscribe(
        self,
        subject: str,
        queue: str,
        callback: Callback | None,
        max_msgs: int,
        limits: tuple[int | None, int | None, Overflow],
    ) -> Subscription:
        messages, size, overflow = limits
        route = self._inner._client.subscribe(
            subject, queue, max_msgs=max_msgs, limit_msgs=messages, limit_bytes=size, overflow=overflow
        )
        self._inner._send_soon()
        subscription = Subscription(self, route, callback)
        self._subscriptions.add(subscription)  # before a drain that comes next has its turn on the loop
        return subscription

    # -- the end -------------------------------------------------------------------------------------------------

    def drain(self, timeout: float | None = None) -> None:
        """End all subscriptions without losing a message, send what waits, let streams acknowledge it, close.

        Parameters
        ----------
        timeout
            Seconds for all of it; None is `drain_timeout` of the options.

        Raises
        ------
        DrainTimeoutError
            The rest was dropped. The connection is closed all the same.
        """
        self._check_open()
        seconds = self.options.drain_timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        answered = False
        wait = True
        try:
            self._run(self._inner._client.drain)
            subscriptions = listed(self._subscriptions)
            for subscription in subscriptions:
                subscription._retire()
            self._confirm(seconds)
            answered = True
            late = [each for each in subscriptions if not each._emptied(deadline)]
            if late:
                left = sum(each.pending[0] for each in late)
                raise DrainTimeoutError(f"not drained within {seconds:g} s; {left} messages dropped")
            self._confirm(max(deadline - time.monotonic(), 0.001))
            self._runner.call(self._inner._acknowledged(max(deadline - time.monotonic(), 0.001)))
        except TimeoutError as error:
            wait = answered  # else it has had all of the time for that
            if isinstance(error, DrainTimeoutError):
                raise
            raise DrainTimeoutError(f"not drained within {seconds:g} s: {error}") from error
        finally:
            self._close(wait=wait)

    def close(self) -> None:
        """Close at once: what was published is still sent, what waits in subscriptions is dropped. May be repeated.

        It ends when the server has answered a last PING; one that does not is waited for two seconds at most.
        It may be called from a callback and from the event handler, for whose own end it does not wait.
        """
        self._close()

    def _close(self, *, wait: bool = True) -> None:
        """As `close`, but perhaps without waiting for the server."""
        if self._is_inside():
            end = partial(self._end, wait=wait)
            threading.Thread(target=end, name="jetspark close", daemon=True).start()
        else:
            self._end(wait=wait)

    def _end(self, *, wait: bool) -> None:
        with self._closing:
            try:
                self._runner.call(self._inner._close(wait=wait))
            except ConnectionClosedError:
                return  # closed before
            for subscription in listed(self._subscriptions):
                subscription._join(_JOIN_PATIENCE)
            for thread in listed(self._callback_threads):
                thread.stop(_JOIN_PATIENCE)
            self._stop_threads()

    def _is_inside(self) -> bool:
        name = threading.current_thread().name
        return name.startswith(("jetspark events", "jetspark subscription", CALLBACK_THREADS))
