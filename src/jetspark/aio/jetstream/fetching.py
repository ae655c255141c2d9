"""Performs the actions of a fetch of `jetspark.flow.pull_subscribe`: opens a pull, waits for its messages, ends it.

Each pull has an inbox of its own, which is removed with the pull. So the server drops messages that nobody waits for
(PUL-09), and a status belongs to one pull only. Messages that the server sent before it got the end of the pull are
kept for the next fetch, or taken by a fetch that waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from jetspark.flow.pull_subscribe import Action, Ended, Event, Fetch, Gather, Messages, Pull, TimeUp, Wait
from jetspark.jetstream.errors import DisconnectedError, Error, SubscriptionClosedError
from jetspark.wire.messages import Message
from jetspark.wire.routes import NO_LIMIT, Route

if TYPE_CHECKING:
    from jetspark.aio.jetstream.api import JetStreamAPI

__all__ = ["Fetcher"]


class Fetcher:
    """One call of `fetch`.

    Parameters
    ----------
    new_inbox
        Returns a new inbox for a pull.
    spare
        Messages that came too late for other fetches; this fetch may take them while it waits.
    acks
        Whether the messages can be acknowledged.
    on_late
        Receives messages that came after the end of a pull.
    """

    def __init__(
        self,
        js: JetStreamAPI,
        new_inbox: Callable[[], str],
        on_late: Callable[[list[Message]], None],
        spare: deque[Message],
        *,
        acks: bool,
    ) -> None:
        self._js = js
        self._connection = js.connection
        self._client = js.connection._client
        self._new_inbox = new_inbox
        self._on_late = on_late
        self._spare = spare
        self._acks = acks
        self._loop = asyncio.get_running_loop()
        self._route: Route | None = None
        self._subject = ""
        self._frame = b""
        self._left = 0
        self._events: deque[Event] = deque()
        self._news: asyncio.Future[None] | None = None

    async def run(self, workflow: Fetch) -> Error | None:
        """Run a fetch to its end. In every case no pull is left open and no message is lost."""
        event: Event | None = None
        self._client.dependents.add(self)
        try:
            while True:
                event = await self._do(workflow.send(event))
        except StopIteration as end:
            problem: Error | None = end.value
            return problem
        finally:
            self._end_pull()
            self._client.dependents.discard(self)

    async def _do(self, action: Action) -> Event | None:
        match action:
            case Pull(request):
                self._end_pull()
                self._open(request.subject(self._js.prefix), request.payload(), request.batch)
                return None
            case Wait(until):
                return await self._wait(until)
            case Gather(until):
                return await self._gather(until)

    def look(self) -> None:
        """Wake the fetch, because there are spare messages."""
        if self._news is not None:
            _settle(self._news)

    def close(self) -> None:
        """End the fetch with the messages it has, because the subscription ends."""
        self._tell(Ended(SubscriptionClosedError("the pull subscription has ended")))

    # -- called by the connection --------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Handle the end of the session, or that the user may not publish the pulls."""
        if subject is None or subject == self._subject:
            self._tell(Ended(error))

    # -- pulls ---------------------------------------------------------------------------------------------------

    def _open(self, subject: str, payload: bytes, batch: int) -> None:
        inbox = self._new_inbox()
        route = self._client.subscribe(inbox, limit_msgs=NO_LIMIT, limit_bytes=NO_LIMIT)
        if not self._acks:
            route.owner = None
        route.on_status = self._on_status
        route.wake = self._on_read
        route.waiting = True
        self._route, self._subject, self._left = route, subject, batch
        outbound = self._client.outbound
        self._frame = outbound.encode(subject, payload, inbox.encode(), None)
        outbound.publish(self._frame)
        self._connection._send_now()

    def _end_pull(self) -> None:
        """Remove the inbox. If the pull may still be served, wait in the background until nothing more can come."""
        route, self._route = self._route, None
        if route is None:
            return
        self._client.outbound.withdraw((self._frame,))
        self._absorb(route)
        late = [message for event in self._events if isinstance(event, Messages) for message in event.messages]
        self._events.clear()
        if late:
            self._on_late(late)
        route.on_status = _is_status
        route.wake = None
        if self._left > 0 and self._client.outbound.online and self._client.retire(route):
            self._client.ping(partial(_finish, self._client.routes.remove, route, self._on_late))
        else:
            self._client.unsubscribe(route)
        self._connection._send_soon()

    async def _gather(self, until: float | None) -> Messages:
        """Ask the server to send nothing more, and return the messages it had sent."""
        route = self._route
        assert route is not None, "no pull is open"
        if self._left > 0 and self._client.outbound.online and self._client.retire(route):
            confirmed = self._loop.create_future()
            self._client.ping(partial(_settle, confirmed))
            self._connection._send_soon()
            left = None if until is None else max(until - self._loop.time(), 0)
            if (await asyncio.wait([confirmed], timeout=left))[0]:
                self._left = 0
        self._absorb(route)
        messages = [message for event in self._events if isinstance(event, Messages) for message in event.messages]
        self._events.clear()
        return Messages(messages)

    # -- receiving -----------------------------------------------------------------------------------------------

    async def _wait(self, until: float | None) -> Event:
        while not self._events:
            if self._spare and self._left > 0:
                return Messages([self._spare.popleft() for _ in range(min(self._left, len(self._spare)))])
            if until is not None and self._loop.time() >= until:
                return TimeUp()
            self._news = news = self._loop.create_future()
            timer = None if until is None else self._loop.call_at(until, _settle, news)
            try:
                await news
            finally:
                self._news = None
                if timer is not None:
                    timer.cancel()
        return self._events.popleft()

    def _on_read(self) -> None:
        route = self._route
        if route is not None:
            self._absorb(route)
            if route.ended:
                self._tell(Ended(route.error or DisconnectedError("the connection was closed")))
            route.waiting = True

    def _on_status(self, message: Message) -> bool:
        status = message.status
        if status is None:
            return False
        assert self._route is not None, "a status of a pull that is over"
        self._absorb(self._route)
        if status.code >= 200:  # not a heartbeat: the pull is over
            self._left = 0
        self._tell(status)
        return True

    def _absorb(self, route: Route) -> None:
        if route.pending:
            messages = list(route.pending)
            route.pending.clear()
            self._left -= len(messages)
            self._tell(Messages(messages))

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        if self._news is not None:
            _settle(self._news)


def _settle(future: asyncio.Future[None], _: Error | None = None) -> None:
    if not future.done():
        future.set_result(None)


def _is_status(message: Message) -> bool:
    """Whether it is a status; statuses of an ended pull are ignored."""
    return message.status is not None


def _finish(
    remove: Callable[[Route], bytes], route: Route, on_late: Callable[[list[Message]], None], _: Error | None
) -> None:
    """Clean up an ended pull: the server has confirmed that nothing more comes, or the session is lost."""
    remove(route)
    if route.pending:
        on_late(list(route.pending))
