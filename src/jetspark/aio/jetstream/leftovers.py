"""Messages left by calls on a consumer's handle: the next call takes them first, or a waiting fetch takes them.

A cancelled call leaves the messages it has and those that still come (R24). If a fetch times out without an answer,
messages that arrive later are left, too (R18).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jetspark.aio.jetstream.puller import Puller, message_size
from jetspark.aio.message import Msg
from jetspark.flow.pull import Batch, PullOptions

__all__ = ["Leftovers", "Share"]


class Leftovers:
    """The messages that were left, and the pullers that may still receive some. False if there are none of either."""

    def __init__(self) -> None:
        self.messages: deque[Msg] = deque()
        self._leaving: set[asyncio.Future[None]] = set()
        self._heir: Puller | None = None
        self._waiting: dict[Callable[[], None], None] = {}

    def __bool__(self) -> bool:
        return bool(self.messages or self._leaving)

    def leave(self, puller: Puller) -> None:
        """Keep the messages of a cancelled call, and those that its puller may still receive."""
        if puller is self._heir:
            self._heir = None
        self.expect(puller.leave(self.keep))

    def give_back(self, batch: Batch[Msg]) -> None:
        """Return messages that were got by `take` and not returned to the user."""
        self.messages.extendleft(reversed(batch))
        self._offer()

    async def settle(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is the call's)
        """Wait until earlier calls can receive nothing more, at most `timeout` seconds."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=timeout)

    def take(self, options: PullOptions) -> tuple[Batch[Msg], PullOptions | None]:
        """Take messages for a fetch; return them and the options of its pull for the rest, None if it needs no pull."""
        return _cut(self.messages, options)

    @contextmanager
    def offered_to(self, look: Callable[[], None]) -> Iterator[None]:
        """Call `look` whenever messages are left, for a fetch that waits."""
        self._waiting[look] = None
        try:
            yield
        finally:
            del self._waiting[look]

    def pass_to(self, puller: Puller) -> None:
        """Give all messages, including those that still come, to a consume that is about to start."""
        puller.adopt(self.messages)
        self.messages.clear()
        if self._leaving:
            self._heir = puller

    def keep(self, messages: deque[Msg]) -> None:
        """Take over the messages of a puller."""
        self.messages.extend(messages)
        messages.clear()
        self._offer()

    def _offer(self) -> None:
        """Offer the messages to a consume or fetch that waits: its own pull may bring nothing for long."""
        if self._heir is not None and not self._heir.ended:
            self._heir.adopt(self.messages)
            self.messages.clear()
        for look in list(self._waiting):
            if not self.messages:
                return
            look()

    def expect(self, leaving: asyncio.Future[None] | None) -> None:
        """Note that messages may still come until the future is done."""
        if leaving is not None:
            self._leaving.add(leaving)
            leaving.add_done_callback(self._left)

    def _left(self, leaving: asyncio.Future[None]) -> None:
        self._leaving.discard(leaving)
        if not self._leaving:
            self._heir = None


class Share:
    """The messages of one fetch, from other calls and from its own pull; never more than it wants.

    Parameters
    ----------
    left
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

    def __init__(self, left: Leftovers, options: PullOptions, batch: Batch[Msg]) -> None:
        self.batch = batch
        self.full = False
        self._left = left
        self._options = options
        self._began = len(batch)

    @property
    def _mixed(self) -> bool:
        """It took carried-over messages while it waited, so its own pull does not decide when it ends."""
        return self.full or len(self.batch) > self._began

    def look(self, own: deque[Msg]) -> bool:
        """Take messages that are left now; `own` came by the pull. Returns whether the fetch is full then."""
        if not self.full and (self._left.messages or self._mixed):
            size = 0 if self._options.max_bytes is None else sum(map(message_size, [*self.batch, *own]))
            wanted = self._options.after(len(self.batch) + len(own), size)
            if wanted is not None:
                more, wanted = self._left.take(wanted)
                self.batch.extend(more)
            self.full = wanted is None or wanted.endless != self._options.endless  # endless until the first message
        return self.full

    def end(self, puller: Puller) -> Batch[Msg]:
        """Return the messages of the fetch. Further messages, also those that still come, are left to other calls."""
        if not self._mixed:
            self.batch.extend(puller.ready)
            return self.batch
        messages = deque([*self.batch, *puller.ready])
        puller.ready.clear()
        if not puller.ended:
            self._left.leave(puller)
        batch, _ = _cut(messages, self._options)
        self._left.keep(messages)
        return batch


def _cut(messages: deque[Msg], options: PullOptions) -> tuple[Batch[Msg], PullOptions | None]:
    """Take the messages that a fetch may have; return also the options of a pull for the rest, None if not needed."""
    batch = Batch[Msg]()
    size = 0
    while messages and len(batch) < options.max_messages:
        if options.max_bytes is not None:
            size += message_size(messages[0])
            if size > options.max_bytes:
                return batch, None  # as the server ends a pull
        batch.append(messages.popleft())
    return batch, options.after(len(batch), size)
