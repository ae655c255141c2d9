"""The asyncio connection: what the user calls. The sessions below it are the supervisor's business.

A publish is encoded, checked and queued in one step; the queue goes to the socket once for each turn of the event loop,
or as soon as enough has come together. Callers wait only where the server is slower than they are.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from types import TracebackType
from typing import Final, Self

from jetspark.aio.core import SEND_AT, ConnectionCore, EventHandler
from jetspark.aio.jetstream.context import JetStream
from jetspark.aio.message import Msg
from jetspark.aio.subscription import Callback, Subscription
from jetspark.flow.publish_window import PublishSettings
from jetspark.jetstream.names import api_prefix
from jetspark.wire.errors import (
    DisconnectedError,
    DrainTimeoutError,
)
from jetspark.wire.headers import HeadersLike
from jetspark.wire.options import ServerAddress
from jetspark.wire.outbound import Payload
from jetspark.wire.routes import Overflow
from jetspark.wire.session import ServerInfo

__all__ = ["Connection", "EventHandler"]

_CLOSE_PATIENCE: Final = 2.0


class Connection(ConnectionCore):
    """Opened by `jetspark.connect`. For the event loop it was opened in; a context manager that drains at its end."""

    @property
    def server_info(self) -> ServerInfo:
        """What the present server, or the last one, says of itself."""
        return self._client.info

    @property
    def servers(self) -> list[ServerAddress]:
        """The servers that a reconnect tries, discovered ones included."""
        return [server.address for server in self._client.servers.servers]

    @property
    def buffered(self) -> int:
        """Bytes that wait to be handed to a socket."""
        return self._outbound.size

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self.closed:
            await self.drain()
        else:
            await self.close()

    # -- publishing ----------------------------------------------------------------------------------------------

    async def publish(
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
        if get_running_loop() is not self._loop:
            raise self._foreign()
        outbound = self._outbound
        if outbound.publish(outbound.encode(subject, payload, reply, headers)) >= SEND_AT:
            await self._send()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send_scheduled)

    async def flush(self, timeout: float | None = 10.0) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
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
        self._check_loop()
        if self._client.unconfirmed:
            self._client.unconfirmed = False
            raise DisconnectedError("a session was lost; what was published shortly before may not have arrived")
        await self._confirm(timeout)

    # -- requests ------------------------------------------------------------------------------------------------

    async def request(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        timeout: float = 5.0,  # noqa: ASYNC109 (the deadline is part of the call)
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
        return await self._ask(subject, payload, timeout, headers, own_inbox=own_inbox)

    def new_inbox(self) -> str:
        """A fresh reply subject below the inbox prefix; nobody listens to it yet."""
        return self._client.new_inbox()

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
            Limits and times of `publish_async`. Its `on_error` is called on a task of its own.

        Raises
        ------
        BadSubjectError
            Domain or prefix cannot stand in a subject.
        """
        return JetStream(self, api_prefix(domain, prefix), timeout, publishing)

    # -- subscriptions -------------------------------------------------------------------------------------------

    async def subscribe(
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
            Called with each message, one after the other, on a task of its own. What it raises is told as an event.
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
        self._check_loop()
        route = self._client.subscribe(
            subject,
            queue,
            max_msgs=max_msgs,
            limit_msgs=pending_messages,
            limit_bytes=pending_bytes,
            overflow=overflow,
        )
        self._send_soon()
        subscription = Subscription(self, route, callback)
        self._subscriptions.add(subscription)
        return subscription

    # -- the end -------------------------------------------------------------------------------------------------

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
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
        self._check_loop()
        seconds = self.options.drain_timeout if timeout is None else timeout
        self._client.drain()
        subscriptions = list(self._subscriptions)
        answered = False
        wait = True
        try:
            async with asyncio.timeout(seconds):
                for subscription in subscriptions:
                    subscription._retire()
                await self._confirm(None)
                answered = True
                await asyncio.gather(*(subscription._emptied(confirm=False) for subscription in subscriptions))
                await self._confirm(None)
                await self._acknowledged(None)
        except TimeoutError:
            wait = answered  # else it has had all of the time for that
            left = sum(subscription.pending[0] for subscription in subscriptions)
            asked = sum(publisher.pending for publisher in self._publishers)
            raise DrainTimeoutError(
                f"not drained within {seconds:g} s; {left} messages dropped, {asked} publishes not acknowledged"
            ) from None
        finally:
            await self._close(wait=wait)

    async def close(self) -> None:
        """Close at once: what was published is still sent, what waits in subscriptions is dropped. May be repeated.

        It ends when the server has answered a last PING; one that does not is waited for two seconds at most.
        It may be called from a callback and from the event handler, for whose own end it does not wait.
        """
        self._check_loop()
        await self._close()

    async def _close(self, *, wait: bool = True) -> None:
        """As `close`, but perhaps without waiting for the server."""
        if self._supervisor.link is not None:
            self._supervisor.link.hand_over()
        self._client.close()
        self._supervisor.release()
        self._closers += 1
        try:
            try:
                await asyncio.sleep(0)  # callbacks' tasks that wait for a message end by themselves now
            finally:
                others = [task for task in self._callbacks if task is not asyncio.current_task()]
                for task in others:
                    task.cancel()
            await self._supervisor.finish(others, _CLOSE_PATIENCE, for_server=_CLOSE_PATIENCE if wait else 0)
        except BaseException:
            if self._closers == 1:  # cancelled: nobody else would close the socket of a server that does not answer
                self._supervisor.abandon()
            raise
        finally:
            self._closers -= 1
