"""Keeps a connection alive: one task waits for the loss of the session and opens the next one (REC-01).

Every part that can fail is watched. The read path ends its session when it fails, and the ping timer is a timer. The
task here treats a failure of its own as a server that could not be used, waits as planned and continues. A second task
reports the events; it exists only while there are some.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from jetspark.aio.link import Link, open_link
from jetspark.wire.client import Client
from jetspark.wire.errors import ConnectionClosedError, DisconnectedError, Error, NoServersError
from jetspark.wire.events import Connected, Event, EventQueue, Reconnected
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions
from jetspark.wire.servers import Server
from jetspark.wire.session import connect_failure

__all__ = ["Supervisor"]

_log: Final = logging.getLogger("jetspark")


class Supervisor:
    """The sessions of one connection.

    Attributes
    ----------
    client
        The state machine that the sessions share.
    link
        The present session, or the last one.
    """

    def __init__(
        self,
        options: ConnectOptions,
        loop: asyncio.AbstractEventLoop,
        on_event: Callable[[Event], Awaitable[None] | None] | None,
        message_type: type[Message],
    ) -> None:
        self.client = Client(options, self.tell, message_type=message_type)
        self.link: Link | None = None
        self._loop = loop
        self._options = options
        self._on_event = on_event
        self._events = EventQueue()
        self._teller: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._changed: asyncio.Future[None] | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the first session and start the task that watches it."""
        try:
            await (self._reopen() if self._options.retry_connect else self._open_first())
        except BaseException:
            self._on_event = None  # the caller gets an exception and needs no event
            self.client.close()
            raise
        self._task = self._loop.create_task(self._run(), name="jetspark connection")
        self._task.add_done_callback(self._ended)
        self._tick_later()

    def release(self) -> None:
        """Release the timer, the socket (once its data is sent) and the task. Does not wait."""
        if self._timer is not None:
            self._timer.cancel()
        self._change()
        if self.link is not None and not self.link.lost.done():
            self.link.close()  # the task waits for this and ends
        elif self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def abandon(self) -> None:
        """Close the socket at once; unsent data is lost."""
        if self.link is not None:
            self.link.fail(ConnectionClosedError("closed"))

    async def finish(self, others: Iterable[asyncio.Task[None]], patience: float, *, for_server: float) -> None:
        """Wait until the socket and the tasks are gone, except for the task it is called from.

        Parameters
        ----------
        others
            Tasks besides the supervisor's own.
        `patience`
            Seconds until the tasks are cancelled.
        for_server
            Seconds until the socket is closed even if the server has not read all of it.
        """
        if self.link is not None:
            try:
                async with asyncio.timeout(for_server):
                    await asyncio.shield(self.link.closed)
            except TimeoutError:
                self.abandon()
                await asyncio.shield(self.link.closed)
        current = asyncio.current_task()
        tasks = [task for task in (self._task, self._teller, *others) if task is not None and task is not current]
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=patience)
            for task in stuck:
                task.cancel()
        self._task = None  # a cancelled task holds its frame, and the frame holds the supervisor

    async def change(self) -> None:
        """Wait until a session is opened or the connection is closed."""
        if self._changed is None or self._changed.done():
            self._changed = self._loop.create_future()
        await asyncio.shield(self._changed)

    def _change(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _open_first(self) -> None:
        """Try each server once."""
        failures: list[Error] = []
        for _ in list(self.client.servers.servers):
            tried = self.client.servers.next()
            if tried is None:
                break
            try:
                await self._open(tried[0])
            except (OSError, Error) as error:
                failure = connect_failure(tried[0].address, error)
                self.client.refused(tried[0], failure)
                failures.append(failure)
            else:
                return
        if len(failures) == 1:
            raise failures[0]
        raise NoServersError("none of the servers can be used: " + "; ".join(map(str, failures))) from failures[-1]

    async def _open(self, server: Server) -> None:
        link, info = await open_link(self.client, server.address)
        self.link = link
        self.client.opened(server, info)
        link.flush()
        self._change()

    async def _run(self) -> None:
        while True:
            assert self.link is not None
            error = await asyncio.shield(self.link.lost)
            if self.client.closed:
                return
            self.client.lost(error)
            if not self._options.reconnect:
                self._give_up(error)
                return
            await self._reopen()

    async def _reopen(self) -> None:
        """Try the servers in turn until one accepts the client."""
        servers = self.client.servers
        servers.begin()
        latest: Error | None = None
        while (tried := servers.next()) is not None:
            server, delay = tried
            await asyncio.sleep(delay)
            try:
                await self._open(server)
            except Exception as error:  # noqa: BLE001 - the connection must survive any error
                latest = connect_failure(server.address, error)
                self.client.refused(server, latest)
            else:
                return
        failure = NoServersError(f"no server is left to try; the last one failed with: {latest}")
        if self._task is None:  # the first connect: its caller gets the error
            raise failure from latest
        self._give_up(failure)

    def _give_up(self, error: Error) -> None:
        self.client.close(error)
        self._change()
        if self._timer is not None:
            self._timer.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Handle the end of the task; unless the connection is closed, start a new task and a new session."""
        if self.client.closed:
            return
        fault = None if task.cancelled() else task.exception()
        _log.error("the task that keeps the connection alive ended: %r; it is started again", fault)
        if self.link is not None:
            self.link.fail(DisconnectedError("the task that keeps the connection alive ended"))
        if not self._loop.is_closed():
            self._task = self._loop.create_task(self._run(), name="jetspark connection")
            self._task.add_done_callback(self._ended)

    # -- pings ---------------------------------------------------------------------------------------------------

    def _tick_later(self) -> None:
        self._timer = self._loop.call_later(self._options.ping_interval, self._tick)

    def _tick(self) -> None:
        if self.client.closed:
            return
        self._tick_later()
        if self.client.outbound.online and self.link is not None:
            self.link.tick()

    # -- events --------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Queue an event for the handler."""
        _log.log(logging.INFO if isinstance(event, Connected | Reconnected) else logging.WARNING, "%s", event)
        if self._on_event is None:
            return
        self._events.put(event)
        if self._teller is None or self._teller.done():
            self._teller = self._loop.create_task(self._tell_all(self._on_event), name="jetspark events")

    async def _tell_all(self, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        while self._events:
            event = self._events.take()
            try:
                result = handler(event)
                if inspect.isawaitable(result):
                    await result
            except Exception:  # noqa: BLE001 - it is the user's code; the next event is still reported
                _log.exception("the handler of the connection's events raised at %s", event)
