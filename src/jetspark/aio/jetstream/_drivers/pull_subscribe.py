"""Performs the actions of a fetch of `jetspark.engine.pull_subscribe`: opens a pull, waits for its messages, ends it.

Each pull has an inbox of its own, which is removed with the pull. So the server drops messages that nobody waits for
(PUL-09), and a status belongs to one pull only. Messages that the server sent before it got the end of the pull are
kept for the next fetch, or taken by a fetch that waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from jetspark.aio.jetstream._drivers.carry_over import CarryOver
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.engine.pull_subscribe import (
    Action,
    DrainPull,
    Ended,
    Event,
    FetchWorkflow,
    LookedUp,
    LookUp,
    Messages,
    Pull,
    TimedOut,
    Wait,
)
from jetspark.jetstream.ack import ACK_PREFIX
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import DisconnectedError, Error, NoMessageError, SubscriptionClosedError
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import NO_LIMIT, SubscriptionState

__all__ = ["PullSubscribeDriver"]


class PullSubscribeDriver:
    """One call of `fetch`.

    Parameters
    ----------
    new_inbox
        Returns a new inbox for a pull.
    carry_over
        Receives messages that came after the end of a pull. While it waits, this fetch may take those of other fetches.
    acks
        Whether the messages can be acknowledged.
    """

    def __init__(
        self,
        js: JetStreamCore,
        new_inbox: Callable[[], str],
        carry_over: CarryOver,
        *,
        acks: bool,
    ) -> None:
        self._js = js
        self._connection = js.connection
        self._client = js.connection.client
        self._new_inbox = new_inbox
        self._carry_over = carry_over
        self._acks = acks
        self._loop = asyncio.get_running_loop()
        self._sub: SubscriptionState | None = None
        self._subject = ""
        self._frame = b""
        self._remaining = 0
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._look_up_task: asyncio.Task[None] | None = None

    async def run(self, workflow: FetchWorkflow) -> Error | None:
        """Run a fetch to its end. In every case no pull is left open and no message is lost."""
        event: Event | None = None
        self._client.reply_listeners.add(self)
        try:
            with self._carry_over.listening(self._wake):
                while True:
                    event = await self._perform(workflow.send(event))
        except StopIteration as end:
            problem: Error | None = end.value
            return problem
        except Error as error:
            self._connection.server_check.note(error)
            if isinstance(error, NoMessageError) and self._remaining > 0:  # the server has not even ended the pull
                self._connection.server_check.suspect()
            raise
        finally:
            if self._look_up_task is not None:
                self._look_up_task.cancel()
            self._end_pull()
            self._client.reply_listeners.discard(self)

    async def _perform(self, action: Action) -> Event | None:
        match action:
            case Pull(request):
                self._end_pull()
                self._open(request.subject(self._js.prefix), request.payload(), request.batch)
                return None
            case Wait(until):
                return await self._wait(until)
            case DrainPull(until):
                return await self._drain_pull(until)
            case LookUp(request):
                self._look_up_task = self._loop.create_task(self._look_up(request), name="jetspark look-up")
                return None

    def close(self) -> None:
        """End the fetch with the messages it has, because the subscription ends."""
        self._add_event(Ended(SubscriptionClosedError("the pull subscription has ended")))

    # -- called by the connection --------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Handle the end of the session, or that the user may not publish the pulls."""
        if subject is None or subject == self._subject:
            self._add_event(Ended(error))

    # -- pulls ---------------------------------------------------------------------------------------------------

    def _open(self, subject: str, payload: bytes, batch: int) -> None:
        inbox = self._new_inbox()
        sub = self._client.subscribe(inbox, pending_msgs_limit=NO_LIMIT, pending_bytes_limit=NO_LIMIT)
        if not self._acks:
            sub.connection = None
        sub.on_status = self._on_status
        sub.reply_prefix = ACK_PREFIX
        sub.wake = self._on_read
        sub.waiting = True
        self._sub, self._subject, self._remaining = sub, subject, batch
        outbound = self._client.outbound
        self._frame = outbound.encode(subject, payload, inbox.encode(), None)
        outbound.queue_publish(self._frame)
        self._connection.flush_now()

    def _end_pull(self) -> None:
        """Remove the inbox. If the pull may still be served, wait in the background until nothing more can come."""
        sub, self._sub = self._sub, None
        if sub is None:
            return
        self._client.outbound.withdraw((self._frame,))
        self._carry_over.add(self._take_received(sub))
        if self._remaining > 0 and self._client.outbound.online and not sub.ended:
            self._carry_over.drain(self._connection, sub)
        else:
            sub.wake = sub.on_status = None
            self._client.unsubscribe(sub)
            self._connection.flush_soon()

    async def _drain_pull(self, until: float | None) -> Messages:
        """Ask the server to send nothing more, and return the messages it had sent."""
        sub = self._sub
        assert sub is not None, "no pull is open"
        if self._remaining > 0 and self._client.outbound.online and self._client.stop_delivery(sub):
            confirmed = self._loop.create_future()
            self._client.ping(partial(_settle, confirmed))
            self._connection.flush_soon()
            left = None if until is None else max(until - self._loop.time(), 0)
            if (await asyncio.wait([confirmed], timeout=left))[0]:
                self._remaining = 0
        return Messages(self._take_received(sub))

    async def _look_up(self, request: ConsumerInfoRequest) -> None:
        failure: Error | None = None
        try:
            await self._js.request(request)
        except Error as error:
            failure = error
        self._add_event(LookedUp(failure))

    # -- receiving -----------------------------------------------------------------------------------------------

    async def _wait(self, until: float | None) -> Event:
        while not self._events:
            if self._carry_over.messages and self._remaining > 0:
                return Messages(self._carry_over.take(self._remaining))
            if until is not None and self._loop.time() >= until:
                return TimedOut()
            self._waiter = news = self._loop.create_future()
            timer = None if until is None else self._loop.call_at(until, _settle, news)
            try:
                await news
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        return self._events.popleft()

    def _on_read(self) -> None:
        sub = self._sub
        if sub is not None:
            self._collect(sub)
            if sub.ended:
                self._add_event(Ended(sub.error or DisconnectedError("the connection was closed")))
            sub.waiting = True

    def _on_status(self, message: Message) -> bool:
        status = message.status
        if status is None:
            return False
        assert self._sub is not None, "a status of a pull that is over"
        self._collect(self._sub)
        if status.code >= 200:  # not a heartbeat: the pull is over
            self._remaining = 0
        self._add_event(status)
        return True

    def _collect(self, sub: SubscriptionState) -> None:
        if sub.pending:
            messages = list(sub.pending)
            sub.pending.clear()
            self._remaining -= len(messages)
            self._add_event(Messages(messages))

    def _add_event(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    def _take_received(self, sub: SubscriptionState) -> list[Message]:
        self._collect(sub)
        messages = [message for event in self._events if isinstance(event, Messages) for message in event.messages]
        self._events.clear()
        return messages

    def _wake(self) -> None:
        if self._waiter is not None:
            _settle(self._waiter)


def _settle(future: asyncio.Future[None], _: Error | None = None) -> None:
    if not future.done():
        future.set_result(None)
