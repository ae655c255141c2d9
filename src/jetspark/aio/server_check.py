"""Checks whether JetStream serves on the present server, and leaves the server if not (`engine.server_health`).

JetStream's calls report signs of trouble. Nothing here runs while there are none, or without JetStream.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Protocol
from weakref import WeakSet

from jetspark.aio.connection_tasks import ConnectionTasks
from jetspark.aio.weak_calls import weakly
from jetspark.engine.server_health import (
    PROBE_TIMEOUT,
    SUSPECT_AFTER,
    EndCheck,
    LeaveServer,
    ProbeResult,
    ServerHealth,
    is_sign_of_trouble,
    result_of_error,
    worst_result,
)
from jetspark.jetstream.api import AccountInfoRequest
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.connection_status import ConnectionStatus
from jetspark.wire.errors import ConnectionClosedError, DisconnectedError, Error
from jetspark.wire.events import Event, ServerLeft
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions, ServerAddress

__all__ = ["ApiPrefix", "CallWatch", "CheckedConnection", "ServerCheck"]

_PROBE: Final = AccountInfoRequest()
_MAX_PREFIXES: Final = 16
"""Number of prefixes that are remembered."""
_USED_FOR: Final = 60.0
"""Seconds for which a prefix counts as used after the end of its last context."""


class CheckedConnection(Protocol):
    """The core of a connection, as the check uses it."""

    options: ConnectOptions
    loop: asyncio.AbstractEventLoop
    client: ConnectionState

    @property
    def connected(self) -> bool:
        """Whether there is a session now."""

    @property
    def address(self) -> ServerAddress | None:
        """The present server, or the last one."""

    @property
    def write_buffer_full(self) -> bool:
        """Whether much data waits to be sent."""

    def api_request(self, subject: str, payload: bytes, *, timeout: float) -> Coroutine[Any, Any, Message]:
        """Send a request and wait for its answer."""

    def emit(self, event: Event) -> None:
        """Report an event."""

    def leave_session(self, reason: str) -> Coroutine[Any, Any, None]:
        """Leave the session and wait for the next one."""

    @property
    def tasks(self) -> ConnectionTasks:
        """The tasks that end with the connection."""


class ApiPrefix:
    """A prefix of the JetStream API that the program uses.

    Attributes
    ----------
    text
        The prefix, with its final dot.
    answered
        Whether JetStream has answered to it on this connection.
    refused
        Whether a probe of it says nothing about a server.
    """

    __slots__ = ("answered", "contexts", "refused", "text", "used_at")

    def __init__(self, text: str) -> None:
        self.text = text
        self.answered = self.refused = False
        self.contexts: WeakSet[object] = WeakSet()
        self.used_at = 0.0


class CallWatch:
    """A context manager for a call of JetStream: check the server if it takes long, or fails as if JetStream was away.

    All calls of a connection share one timer, which is for the oldest of them. It is not cancelled when a call ends,
    because that costs time. `prefix` is the one to which an answer belongs, if that is known.
    """

    __slots__ = ("_check", "_prefix", "began")

    began: float

    def __init__(self, check: ServerCheck, prefix: ApiPrefix | None = None) -> None:
        self._check = check
        self._prefix = prefix

    def __enter__(self) -> None:
        check = self._check
        self.began = check.loop.time()
        check.calls[self] = None
        if check.timer is None:
            check.start_timer(self.began)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        check = self._check
        check.calls.pop(self, None)
        if error is None:
            if self._prefix is not None:
                self._prefix.answered = True
        elif isinstance(error, Error) and is_sign_of_trouble(error):
            check.suspect(self.began)


class ServerCheck:
    """The checks of one connection.

    Attributes
    ----------
    loop
        The event loop of the connection.
    calls
        The watched calls in progress, the oldest first, without those that took long already.
    timer
        For the oldest call; it may run when no call is in progress any more.
    """

    def __init__(self, connection: CheckedConnection) -> None:
        self._prefixes: dict[str, ApiPrefix] = {}  # the one that was used last comes last
        self._connection: CheckedConnection = weakref.proxy(connection)  # the connection owns this object
        self.loop = connection.loop
        self.calls: dict[CallWatch, None] = {}
        self.timer: asyncio.TimerHandle | None = None
        self._client = connection.client
        self._health = ServerHealth()
        self._enabled = connection.options.leave_unavailable_server and connection.options.reconnect
        self._client.on_minority = self._on_minority

    def use(self, prefix: str, context: object = None) -> ApiPrefix:
        """Return the state of a prefix, which the program uses as long as it has the context, and a while after."""
        used = self._prefixes.pop(prefix, None) or ApiPrefix(prefix)
        self._prefixes[prefix] = used
        if len(self._prefixes) > _MAX_PREFIXES:
            del self._prefixes[next(iter(self._prefixes))]
        used.used_at = self.loop.time()
        if context is not None:
            used.contexts.add(context)
        return used

    def _in_use(self) -> list[ApiPrefix]:
        """Return the prefixes to probe."""
        recent = self.loop.time() - _USED_FOR
        return [
            each for each in self._prefixes.values() if not each.refused and (each.contexts or each.used_at >= recent)
        ]

    def suspect(self, since: float | None = None) -> None:
        """Handle a sign of trouble that began at `since`, or now: check the server, unless a check is in progress."""
        connection = self._connection
        if not (self._enabled and connection.connected and self._client.servers.others_known and self._in_use()):
            return
        if self._health.suspect(connection.loop.time(), since):
            connection.tasks.track(connection.loop.create_task(self._check(), name="jetspark server check"))

    def _on_minority(self) -> None:
        self._health.lost_cluster()
        self.suspect()

    def start_timer(self, oldest: float) -> None:
        """Start the timer for the oldest call. It does not keep the connection alive."""
        if self._enabled:
            self.timer = self.loop.call_at(oldest + SUSPECT_AFTER, weakly(self._on_timer))

    def _on_timer(self) -> None:
        """Handle the calls that take long."""
        now = self.loop.time()
        self.timer = None
        for call in list(self.calls):
            if call.began + SUSPECT_AFTER > now:
                self.start_timer(call.began)
                return
            del self.calls[call]
            self.suspect(call.began)

    def note(self, error: Error | None) -> None:
        """Check the server if this error of a reader is a sign of trouble."""
        if error is not None and is_sign_of_trouble(error):
            self.suspect()

    async def _check(self) -> None:
        connection, health, now = self._connection, self._health, self._connection.loop.time
        try:
            while self._client.status is ConnectionStatus.CONNECTED:
                result = worst_result(await asyncio.gather(*map(self._probe, self._in_use())))
                step = health.probed(now(), result, others_known=self._client.servers.others_known)
                if isinstance(step, EndCheck):
                    return
                if not isinstance(step, LeaveServer):
                    await asyncio.sleep(step.delay)
                elif connection.connected and connection.address is not None:
                    connection.emit(ServerLeft(connection.address, step.reason))
                    await self._leave(step.reason)
        except ConnectionClosedError:
            return
        finally:
            health.stop(now())

    async def _leave(self, reason: str) -> None:
        """Open a session with another server. One server may be known by several addresses."""
        client = self._client
        left = client.info.server_id
        for _ in range(len(client.servers.servers)):
            await self._connection.leave_session(reason)
            if client.info.server_id != left or client.closed:
                return

    async def _probe(self, prefix: ApiPrefix) -> ProbeResult:
        connection, pings = self._connection, self._client.pings
        pongs: list[Error | None] = []
        received = pings.received
        self._client.ping(pongs.append)  # its PONG shows that the server has read the probe
        try:
            reply = await connection.api_request(_PROBE.subject(prefix.text), b"", timeout=PROBE_TIMEOUT)
            _PROBE.read(reply.payload)
        except DisconnectedError:
            return ProbeResult.UNKNOWN
        except Error as error:
            paused = bool(self._client.full_subscriptions.paused) or connection.write_buffer_full
            read = bool(pongs) or (pings.received == received and not paused)
            result = result_of_error(error, read_by_server=read, answered_before=prefix.answered)
            prefix.refused = result is ProbeResult.REFUSED
            return result
        prefix.answered = True
        return ProbeResult.CUT_OFF if self._client.servers.in_minority else ProbeResult.ANSWERED
