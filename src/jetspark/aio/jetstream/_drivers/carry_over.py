"""Messages that belong to no call any more: the next call takes them first, or a call that waits takes them.

A cancelled call leaves the messages it has and those that still come (R24). If a fetch times out, messages that arrive
later are left, too (R18).

Each pull has a subscription of its own, because a message does not name its pull (WIR-07), and because the server drops
a pull when its inbox has no subscription any more (PUL-09). So calls on one handle cannot share an inbox.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import cast

from jetspark.aio.core import ConnectionCore
from jetspark.aio.message import Msg
from jetspark.engine.pull import PullOptions
from jetspark.jetstream.errors import Error
from jetspark.jetstream.message import message_size
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["CarryOver", "move_within_limits"]


class CarryOver:
    """The messages that calls on one handle left, and the subscriptions that may still receive some.

    False if there are none of either.

    Attributes
    ----------
    messages
        The messages, in order.
    """

    def __init__(self) -> None:
        self.messages: deque[Msg] = deque()
        self._draining: set[asyncio.Future[None]] = set()
        self._listeners: dict[Callable[[], None], None] = {}
        self._prefill: Callable[[deque[Msg]], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.messages or self._draining)

    # -- leaving messages ----------------------------------------------------------------------------------------

    def add(self, messages: Collection[Message]) -> None:
        """Add messages after the others."""
        self.messages.extend(cast("Collection[Msg]", messages))
        self._notify()

    def put_back(self, messages: Collection[Message]) -> None:
        """Add messages before the others, because a call has taken them and does not return them."""
        self.messages.extendleft(reversed([*cast("Collection[Msg]", messages)]))
        self._notify()

    def drain(
        self,
        connection: ConnectionCore,
        sub: SubscriptionState,
        on_late_messages: Callable[[deque[Message]], None] | None = None,
    ) -> None:
        """Unsubscribe the inbox of a pull, and keep its messages until the server has confirmed the end.

        Its statuses are ignored. `on_late_messages` sees the messages first.
        """
        client = connection.client
        drained = connection.loop.create_future()
        inbox = sub.subject.rstrip(b"*")

        def keep() -> None:
            sub.waiting = True
            if sub.pending:
                if on_late_messages is not None:
                    on_late_messages(sub.pending)
                late = [*sub.pending]
                sub.pending.clear()
                self.add(late)

        def confirmed(_: Error | None) -> None:
            client.subscriptions.remove(sub)
            keep()
            self._end_wait(drained)
            drained.set_result(None)

        sub.on_status = lambda message: message.raw_subject.startswith(inbox)
        sub.wake = keep
        sub.waiting = True
        self._draining.add(drained)
        client.stop_delivery(sub)
        client.ping(confirmed)
        connection.flush_soon()

    def wait_for(self, drained: asyncio.Future[None]) -> None:
        """Let calls that take messages wait: until this is done, more may come."""
        self._draining.add(drained)
        drained.add_done_callback(self._end_wait)

    def _end_wait(self, drained: asyncio.Future[None]) -> None:
        self._draining.discard(drained)
        if not self._draining:
            self._prefill = None

    def close(self) -> None:
        """Drop all messages, also those that still come."""
        self.messages = deque(maxlen=0)

    # -- taking messages -----------------------------------------------------------------------------------------

    def take(self, count: int) -> list[Message]:
        """Return up to `count` messages."""
        return [self.messages.popleft() for _ in range(min(count, len(self.messages)))]

    async def wait_quiet(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is the call's)
        """Wait until earlier calls can receive nothing more, at most `timeout` seconds."""
        if self._draining:
            await asyncio.wait(self._draining, timeout=timeout)

    @contextmanager
    def listening(self, on_messages: Callable[[], None]) -> Iterator[None]:
        """Call `on_messages` when there are messages: the pull of a call that waits may bring nothing for long."""
        self._listeners[on_messages] = None
        try:
            yield
        finally:
            del self._listeners[on_messages]

    def move_all(self, prefill: Callable[[deque[Msg]], None]) -> None:
        """Give all messages, including those that still come, to a consume that is about to start.

        `prefill` removes the messages that it takes.
        """
        prefill(self.messages)
        if self._draining:
            self._prefill = prefill

    def _notify(self) -> None:
        if self._prefill is not None:
            self._prefill(self.messages)
        for on_messages in list(self._listeners):
            if not self.messages:
                return
            on_messages()


def move_within_limits(source: deque[Msg], ready: deque[Msg] | list[Msg], options: PullOptions) -> PullOptions | None:
    """Move messages to those of a fetch, as far as it may have them.

    Returns the options of a pull for the rest, None if the fetch has all or the next message does not fit.
    """
    limit = options.max_bytes
    size = 0 if limit is None else sum(map(message_size, ready))
    while source and len(ready) < options.max_messages:
        if limit is not None:
            size += message_size(source[0])
            if size > limit:
                return None  # as the server ends a pull
        ready.append(source.popleft())
    return options.remaining(len(ready), size)
