"""What calls on a consumer's handle left: the next call begins with it, or a fetch that waits takes it.

A cancelled call leaves what it has and what is still under way to it (R24); a fetch that the server let wait for too
long leaves what comes after all (R18).
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
    """The messages that were left, and the pullers that may still receive some. False where there is neither."""

    def __init__(self) -> None:
        self.messages: deque[Msg] = deque()
        self._leaving: set[asyncio.Future[None]] = set()
        self._heir: Puller | None = None
        self._waiting: dict[Callable[[], None], None] = {}

    def __bool__(self) -> bool:
        return bool(self.messages or self._leaving)

    def leave(self, puller: Puller) -> None:
        """The call of a puller was cancelled: keep what it has, and what it may still receive."""
        if puller is self._heir:
            self._heir = None
        self.expect(puller.leave(self.keep))

    def give_back(self, batch: Batch[Msg]) -> None:
        """What `take` gave was not handed out."""
        self.messages.extendleft(reversed(batch))
        self._offer()

    async def settle(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is the call's)
        """Wait until nothing more can come to former calls, but not longer than so many seconds."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=timeout)

    def take(self, options: PullOptions) -> tuple[Batch[Msg], PullOptions | None]:
        """What a fetch may have of it, and the options of its pull for the rest; None where it needs none."""
        return _cut(self.messages, options)

    @contextmanager
    def offered_to(self, look: Callable[[], None]) -> Iterator[None]:
        """Call that whenever there is something, for a fetch that waits."""
        self._waiting[look] = None
        try:
            yield
        finally:
            del self._waiting[look]

    def pass_to(self, puller: Puller) -> None:
        """Give all of it to a consume that is about to start, also what is still to come."""
        puller.adopt(self.messages)
        self.messages.clear()
        if self._leaving:
            self._heir = puller

    def keep(self, messages: deque[Msg]) -> None:
        """Take over what a puller has."""
        self.messages.extend(messages)
        messages.clear()
        self._offer()

    def _offer(self) -> None:
        """Give it to who waits: the own pull of a fetch may bring nothing for long."""
        if self._heir is not None and not self._heir.ended:
            self._heir.adopt(self.messages)
            self.messages.clear()
        for look in list(self._waiting):
            if not self.messages:
                return
            look()

    def expect(self, leaving: asyncio.Future[None] | None) -> None:
        """Something may still come, until that is done."""
        if leaving is not None:
            self._leaving.add(leaving)
            leaving.add_done_callback(self._left)

    def _left(self, leaving: asyncio.Future[None]) -> None:
        self._leaving.discard(leaving)
        if not self._leaving:
            self._heir = None


class Share:
    """What one fetch has, of what others leave and of its own pull: never more than it wants.

    Parameters
    ----------
    left
        What others left.
    options
        What the fetch wants.
    batch
        What it had when it began to wait.

    Attributes
    ----------
    full
        It has all that it wants, or the next message does not fit.
    """

    def __init__(self, left: Leftovers, options: PullOptions, batch: Batch[Msg]) -> None:
        self.batch = batch
        self.full = False
        self._left = left
        self._options = options
        self._began = len(batch)

    @property
    def _mixed(self) -> bool:
        """It took something while it waited, so the end of its own pull is not its end."""
        return self.full or len(self.batch) > self._began

    def look(self, own: deque[Msg]) -> bool:
        """Take what is left now; `own` came by the pull. Returns whether it is full then."""
        if not self.full and (self._left.messages or self._mixed):
            size = 0 if self._options.max_bytes is None else sum(map(message_size, [*self.batch, *own]))
            wanted = self._options.after(len(self.batch) + len(own), size)
            if wanted is not None:
                more, wanted = self._left.take(wanted)
                self.batch.extend(more)
            self.full = wanted is None or wanted.endless != self._options.endless  # it waited only while it had nothing
        return self.full

    def end(self, puller: Puller) -> Batch[Msg]:
        """Return what it hands out. What it has of more, or may still receive, is left to others."""
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
    """Take from them what a fetch may have; and the options of a pull for the rest, None where it needs none."""
    batch = Batch[Msg]()
    size = 0
    while messages and len(batch) < options.max_messages:
        if options.max_bytes is not None:
            size += message_size(messages[0])
            if size > options.max_bytes:
                return batch, None  # as the server ends a pull
        batch.append(messages.popleft())
    return batch, options.after(len(batch), size)
