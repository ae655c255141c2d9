"""What calls on a consumer's handle left: the next call begins with it, so nothing is lost.

A cancelled call leaves what it has and what is still under way to it (R24); a fetch that the server let wait for too
long leaves what comes after all (R18).
"""

from __future__ import annotations

import asyncio
from collections import deque

from jetspark.aio.jetstream.puller import Puller, message_size
from jetspark.aio.message import Msg
from jetspark.flow.pull import Batch, PullOptions

__all__ = ["Leftovers"]


class Leftovers:
    """The messages that were left, and the pullers that may still receive some. False where there is neither."""

    def __init__(self) -> None:
        self._messages: deque[Msg] = deque()
        self._leaving: set[asyncio.Future[None]] = set()
        self._heir: Puller | None = None

    def __bool__(self) -> bool:
        return bool(self._messages or self._leaving)

    def leave(self, puller: Puller) -> None:
        """The call of a puller was cancelled: keep what it has, and what it may still receive."""
        if puller is self._heir:
            self._heir = None
        self._expect(puller.leave(self.keep))

    def ended(self, puller: Puller) -> None:
        """The fetch of a puller has ended: something may still come to it."""
        self._expect(puller.late)

    def give_back(self, batch: Batch[Msg]) -> None:
        """What `take` gave was not handed out."""
        self._messages.extendleft(reversed(batch))

    async def settle(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is the call's)
        """Wait until nothing more can come to former calls, but not longer than so many seconds."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=timeout)

    def take(self, options: PullOptions) -> tuple[Batch[Msg], PullOptions | None]:
        """What a fetch may have of it, and the options of its pull for the rest; None where it needs none."""
        batch = Batch[Msg]()
        size = 0
        while self._messages and len(batch) < options.max_messages:
            if options.max_bytes is not None:
                size += message_size(self._messages[0])
                if size > options.max_bytes:
                    return batch, None  # as the server ends a pull
            batch.append(self._messages.popleft())
        return batch, options.after(len(batch), size)

    def pass_to(self, puller: Puller) -> None:
        """Give all of it to a consume that is about to start, also what is still to come."""
        puller.adopt(self._messages)
        self._messages.clear()
        if self._leaving:
            self._heir = puller

    def keep(self, messages: deque[Msg]) -> None:
        """Take over what a puller has."""
        if self._heir is not None and not self._heir.ended:
            self._heir.adopt(messages)
        else:
            self._messages.extend(messages)
        messages.clear()

    def _expect(self, leaving: asyncio.Future[None] | None) -> None:
        if leaving is not None:
            self._leaving.add(leaving)
            leaving.add_done_callback(self._left)

    def _left(self, leaving: asyncio.Future[None]) -> None:
        self._leaving.discard(leaving)
        if not self._leaving:
            self._heir = None
