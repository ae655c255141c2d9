"""Messages left by calls on a consumer's handle: the next call takes them first, or a waiting fetch takes them.

A cancelled call leaves the messages it has and those that still come (R24). If a fetch times out without an answer,
messages that arrive later are left, too (R18).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jetspark.aio.jetstream._drivers.pull import PullDriver, message_size
from jetspark.aio.message import Msg
from jetspark.engine.pull import MessageBatch, PullOptions

__all__ = ["CarryOver", "FetchBuffer"]


class CarryOver:
    """The messages that were left, and the pullers that may still receive some. False if there are none of either."""

    def __init__(self) -> None:
        self.messages: deque[Msg] = deque()
        self._draining: set[asyncio.Future[None]] = set()
        self._successor: PullDriver | None = None
        self._listeners: dict[Callable[[], None], None] = {}

    def __bool__(self) -> bool:
        return bool(self.messages or self._draining)

    def detach(self, driver: PullDriver) -> None:
        """Keep the messages of a cancelled call, and those that its driver may still receive."""
        if driver is self._successor:
            self._successor = None
        self.track(driver.detach(self.add))

    def put_back(self, batch: MessageBatch[Msg]) -> None:
        """Return messages that were got by `take` and not returned to the user."""
        self.messages.extendleft(reversed(batch))
        self._notify_listeners()

    async def wait_quiet(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is the call's)
        """Wait until earlier calls can receive nothing more, at most `timeout` seconds."""
        if self._draining:
            await asyncio.wait(self._draining, timeout=timeout)

    def take(self, options: PullOptions) -> tuple[MessageBatch[Msg], PullOptions | None]:
        """Take messages for a fetch; return them and the options of its pull for the rest, None if it needs no pull."""
        return _take_within_limits(self.messages, options)

    @contextmanager
    def listening(self, on_messages: Callable[[], None]) -> Iterator[None]:
        """Call `look` whenever messages are left, for a fetch that waits."""
        self._listeners[on_messages] = None
        try:
            yield
        finally:
            del self._listeners[on_messages]

    def prefill_driver(self, driver: PullDriver) -> None:
        """Give all messages, including those that still come, to a consume that is about to start."""
        driver.prefill(self.messages)
        self.messages.clear()
        if self._draining:
            self._successor = driver

    def add(self, messages: deque[Msg]) -> None:
        """Take over the messages of a driver."""
        self.messages.extend(messages)
        messages.clear()
        self._notify_listeners()

    def _notify_listeners(self) -> None:
        """Offer the messages to a consume or fetch that waits: its own pull may bring nothing for long."""
        if self._successor is not None and not self._successor.ended:
            self._successor.prefill(self.messages)
            self.messages.clear()
        for look in list(self._listeners):
            if not self.messages:
                return
            look()

    def track(self, leaving: asyncio.Future[None] | None) -> None:
        """Note that messages may still come until the future is done."""
        if leaving is not None:
            self._draining.add(leaving)
            leaving.add_done_callback(self._on_stopped)

    def _on_stopped(self, leaving: asyncio.Future[None]) -> None:
        self._draining.discard(leaving)
        if not self._draining:
            self._successor = None


class FetchBuffer:
    """The messages of one fetch, from other calls and from its own pull; never more than it wants.

    Parameters
    ----------
    carry_over
        Messages of other calls.
    options
        The limits of the fetch.
    batch
        The messages it had when it began to wait.

    Attributes
    ----------
    full
        Whether it has all that it wants, or the next message does not fit.
    """

    def __init__(self, carry_over: CarryOver, options: PullOptions, batch: MessageBatch[Msg]) -> None:
        self.batch = batch
        self.full = False
        self._carry_over = carry_over
        self._options = options
        self._initial_count = len(batch)

    @property
    def _took_carried_over(self) -> bool:
        """It took carried-over messages while it waited, so its own pull does not decide when it ends."""
        return self.full or len(self.batch) > self._initial_count

    def take_carried_over(self, own: deque[Msg]) -> bool:
        """Take messages that are left now; `own` came by the pull. Returns whether the fetch is full then."""
        if not self.full and (self._carry_over.messages or self._took_carried_over):
            size = 0 if self._options.max_bytes is None else sum(map(message_size, [*self.batch, *own]))
            wanted = self._options.remaining(len(self.batch) + len(own), size)
            if wanted is not None:
                more, wanted = self._carry_over.take(wanted)
                self.batch.extend(more)
            self.full = (
                wanted is None or wanted.no_timeout != self._options.no_timeout
            )  # endless until the first message
        return self.full

    def finish(self, driver: PullDriver) -> MessageBatch[Msg]:
        """Return the messages of the fetch. Further messages, also those that still come, are left to other calls."""
        if not self._took_carried_over:
            self.batch.extend(driver.ready)
            return self.batch
        messages = deque([*self.batch, *driver.ready])
        driver.ready.clear()
        if not driver.ended:
            self._carry_over.detach(driver)
        batch, _ = _take_within_limits(messages, self._options)
        self._carry_over.add(messages)
        return batch


def _take_within_limits(messages: deque[Msg], options: PullOptions) -> tuple[MessageBatch[Msg], PullOptions | None]:
    """Take the messages that a fetch may have; return also the options of a pull for the rest, None if not needed."""
    batch = MessageBatch[Msg]()
    size = 0
    while messages and len(batch) < options.max_messages:
        if options.max_bytes is not None:
            size += message_size(messages[0])
            if size > options.max_bytes:
                return batch, None  # as the server ends a pull
        batch.append(messages.popleft())
    return batch, options.remaining(len(batch), size)
