"""Keeps a connection alive: one task waits for the loss of the session and opens the next one (REC-01).

Every part that can fail is watched. The read path ends its session when it fails, and the ping timer is a timer. The
task here treats a failure of its own as a server that could not be used, waits as planned and continues. A second task
reports the events; it exists only while there are some.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import warnings
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from jetspark.aio.callbacks import CALLBACK_ERRORS, check_own_cancellation, log_event, log_event_handler_failed
from jetspark.aio.connection_tasks import ConnectionTasks
from jetspark.aio.loop_end import call_unless_loop_ends, run_at_loop_end
from jetspark.aio.transport import SessionProtocol, open_transport
from jetspark.wire.connect_failure import to_connect_error
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.errors import ConnectError, ConnectionClosedError, DisconnectedError, Error, NoServersError
from jetspark.wire.events import ErrorOccurred, Event, EventQueue
from jetspark.wire.log_limit import LogLimit
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions
from jetspark.wire.server_pool import Server

__all__ = ["Supervisor"]

_log: Final = logging.getLogger("jetspark")
_ABANDON_TIMEOUT: Final = 2.0
"""Seconds to wait for the server at the close of a connection that nobody holds."""


class Supervisor:
    """The sessions of one connection.

    Attributes
    ----------
    client
        The state machine that the sessions share.
    session
        The present session, or the last one.
    tasks
        The tasks of the connection.
    """

    def __init__(
        self,
        options: ConnectOptions,
        loop: asyncio.AbstractEventLoop,
        on_event: Callable[[Event], Awaitable[None] | None] | None,
        message_type: type[Message],
    ) -> None:
        self.client = ConnectionState(options, self.emit, message_type=message_type)
        self.session: SessionProtocol | None = None
        self.tasks = ConnectionTasks()
        self._loop = loop
        self._options = options
        self._on_event = on_event
        self._events = EventQueue()
        self._log_limit = LogLimit()
        self._event_task: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._state_change_waiter: asyncio.Future[None] | None = None
        self._retry_now = asyncio.Event()
        self._opened_at = 0.0
        self._loop_end: AsyncGenerator[None] | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the first session and start the task that watches it."""
        try:
            await (self._reconnect() if self._options.retry_connect else self._connect_first())
        except BaseException:
            self._on_event = None  # the caller gets an exception and needs no event
            self.client.close()
            raise
        self._task = self._loop.create_task(self._run(), name="jetspark connection")
        self._task.add_done_callback(self._on_task_done)
        self._schedule_tick()
        self._loop_end = run_at_loop_end(weakref.WeakMethod(self._on_loop_end))
        await anext(self._loop_end)

    def shutdown(self) -> None:
        """Release the timer, the socket (once its data is sent) and the task. Does not wait."""
        if self._timer is not None:
            self._timer.cancel()
        self.notify_state_change()
        if self.session is not None and not self.session.lost.done():
            self.session.close()  # the task waits for this and ends
        elif self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def leave_session(self, reason: str) -> None:
        """End the session, or the wait before the next try, and open another session.

        Raises ConnectionClosedError if the connection is closed or draining.
        """
        error = self.client.request_reconnect(reason)
        if self.session is not None and not self.session.lost.done():
            self.session.flush()
            self.session.fail(error)
        else:
            self._retry_now.set()

    def abort(self) -> None:
        """Close the socket at once; unsent data is lost."""
        if self.session is not None:
            self.session.fail(ConnectionClosedError("closed"))

    def abandon(self, name: str) -> None:
        """Close after the last reference to the connection, in any thread. Does not wait."""
        if sys.is_finalizing() or self.client.closed:
            return
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._close_soon)
        warnings.warn(f"unclosed {name}: close it, or use it in a `with` block", ResourceWarning, stacklevel=2)

    def _close_soon(self) -> None:
        """Send what is queued and close, without waiting."""
        if self.session is not None:
            self.session.force_flush()
        self.client.close()
        self.shutdown()
        self._loop.call_later(_ABANDON_TIMEOUT, self.abort)

    async def _on_loop_end(self) -> None:
        """Close at the end of `asyncio.run`."""
        self._loop_end = None
        if self.client.closed:
            return
        self._close_soon()
        tasks = self.tasks.cancel()
        await self.wait_closed(tasks, _ABANDON_TIMEOUT, server_timeout=_ABANDON_TIMEOUT)
        name = f"<Connection to {self.client.server.address if self.client.server is not None else None}>"
        warnings.warn(f"unclosed {name} at the end of the event loop", ResourceWarning, stacklevel=2)

    async def wait_closed(
        self, other_tasks: Iterable[asyncio.Task[None]], task_timeout: float, *, server_timeout: float
    ) -> None:
        """Wait until the socket and the tasks are gone, except for the task it is called from.

        Parameters
        ----------
        other_tasks
            Tasks besides the supervisor's own.
        task_timeout
            Seconds until the tasks are cancelled.
        server_timeout
            Seconds until the socket is closed even if the server has not read all of it.
        """
        if self.session is not None:
            try:
                async with asyncio.timeout(server_timeout):
                    await asyncio.shield(self.session.closed)
            except TimeoutError:
                self.abort()
                await asyncio.shield(self.session.closed)
        current = asyncio.current_task()
        tasks = [
            task for task in (self._task, self._event_task, *other_tasks) if task is not None and task is not current
        ]
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=task_timeout)
            for task in stuck:
                task.cancel()
        self._task = None  # a cancelled task holds its frame, and the frame holds the supervisor
        loop_end, self._loop_end = self._loop_end, None
        if loop_end is not None:
            await loop_end.aclose()

    async def wait_state_change(self) -> None:
        """Wait until a session is opened or the connection is closed."""
        if self._state_change_waiter is None or self._state_change_waiter.done():
            self._state_change_waiter = self._loop.create_future()
        await asyncio.shield(self._state_change_waiter)

    def notify_state_change(self) -> None:
        """Wake those in `wait_state_change`."""
        if self._state_change_waiter is not None and not self._state_change_waiter.done():
            self._state_change_waiter.set_result(None)

    async def _connect_first(self) -> None:
        """Try each server once."""
        failures: list[Error] = []
        for _ in list(self.client.servers.servers):
            tried = self.client.servers.next()
            if tried is None:
                break
            try:
                await self._open_session(tried[0])
            except (OSError, Error) as error:
                failure = to_connect_error(tried[0].address, error, self._options.tls)
                self.client.on_session_refused(tried[0], failure)
                failures.append(failure)
            else:
                return
        if len(failures) == 1:
            raise failures[0]
        timed_out = any(isinstance(each, ConnectError) and each.timed_out for each in failures)
        text = "none of the servers can be used: " + "; ".join(map(str, failures))
        raise NoServersError(text, timed_out=timed_out) from failures[-1]

    async def _open_session(self, server: Server) -> None:
        session, accepted = await open_transport(self.client, server)
        self.session = session
        self._opened_at = self._loop.time()
        session.begin(accepted)
        session.flush()
        self.notify_state_change()

    async def _run(self) -> None:
        while True:
            assert self.session is not None
            error = await asyncio.shield(self.session.lost)
            if self.client.closed:
                return
            self.client.on_session_lost(error, self._loop.time() - self._opened_at)
            if not (self._options.reconnect or self.client.reconnect_requested):
                self._close_with_error(error)
                return
            await self._reconnect()

    async def _reconnect(self) -> None:
        """Try the servers in turn until one accepts the client."""
        servers = self.client.servers
        self._retry_now.clear()
        latest: Error | None = None
        while (tried := servers.next()) is not None:
            server, delay = tried
            await self._wait_before_retry(delay)
            try:
                await self._open_session(server)
            except Exception as error:  # noqa: BLE001 - the connection must survive any error
                latest = to_connect_error(server.address, error, self._options.tls)
                self.client.on_session_refused(server, latest)
            else:
                return
        failure = NoServersError(f"no server is left to try; the last one failed with: {latest}")
        if self._task is None:  # the first connect: its caller gets the error
            raise failure from latest
        self._close_with_error(failure)

    async def _wait_before_retry(self, delay: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._retry_now.wait()
        self._retry_now.clear()

    def _close_with_error(self, error: Error) -> None:
        self.client.close(error)
        self.notify_state_change()
        if self._timer is not None:
            self._timer.cancel()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Handle the end of the task; unless the connection is closed, start a new task and a new session."""
        if self.client.closed:
            return
        if task.cancelled():  # perhaps with all tasks, at the end of `asyncio.run`, and then there is nothing to report
            call_unless_loop_ends(self._loop, partial(self._restart, None))
        else:
            self._restart(task.exception())

    def _restart(self, fault: BaseException | None) -> None:
        if self.client.closed:
            return
        _log.error("the task that keeps the connection alive ended: %r; it is started again", fault)
        if self.session is not None:
            self.session.fail(DisconnectedError("the task that keeps the connection alive ended"))
        if not self._loop.is_closed():
            self._task = self._loop.create_task(self._run(), name="jetspark connection")
            self._task.add_done_callback(self._on_task_done)

    # -- pings ---------------------------------------------------------------------------------------------------

    def _schedule_tick(self) -> None:
        self._timer = self._loop.call_later(self._options.ping_interval, self._tick)

    def _tick(self) -> None:
        if self.client.closed:
            return
        self._schedule_tick()
        if self.client.outbound.online and self.session is not None:
            self.session.tick()

    # -- events --------------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Queue an event for the handler."""
        left_out: int | None = 0
        if isinstance(event, ErrorOccurred) and event.callback is None:
            left_out = self._log_limit.allow(type(event.error), self._loop.time())
        if left_out is not None:
            log_event(event, left_out)
        if self._on_event is None:
            return
        self._events.put(event)
        if self._event_task is None or self._event_task.done():
            self._event_task = self._loop.create_task(self._handle_events(self._on_event), name="jetspark events")

    async def _handle_events(self, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        while self._events:
            event = self._events.take()
            try:
                result = handler(event)
                if inspect.isawaitable(result):
                    await result
            except CALLBACK_ERRORS as error:  # the user's code; the next event is still reported
                check_own_cancellation(error)
                log_event_handler_failed(handler, event, error)
