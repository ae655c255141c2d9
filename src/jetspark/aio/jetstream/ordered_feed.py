"""Feeds an ordered push subscription: creates its next consumer when the order is lost (ADR-17)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jetspark.aio.jetstream.feed import FeedOptions, PushFeed
from jetspark.flow.push import ResetBackoff, is_passing
from jetspark.flow.push.resetting import TRY_TIMEOUT
from jetspark.flow.subscribing import renew
from jetspark.jetstream.errors import Error
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.messages import Message

if TYPE_CHECKING:
    from jetspark.aio.jetstream.api import JetStreamAPI

__all__ = ["OrderedFeed"]


class OrderedFeed(PushFeed):
    """A feed that resumes after the last good message: after a gap, silence, a lost session or a local drop."""

    def __init__(self, js: JetStreamAPI, options: FeedOptions) -> None:
        super().__init__(js, options)
        self._reset: asyncio.Task[None] | None = None
        self._renewed_at: int | None = None  # last sequence when the present consumer was created
        self._idle = ResetBackoff()

    @property
    def resetting(self) -> bool:
        """Whether it is between two consumers."""
        return self._reset is not None

    def session_restored(self) -> None:
        """Create the next consumer: messages sent while offline are lost, and after a restart the consumer is, too."""
        self._online.set()
        self._renewed_at = None
        if not self.route.slow:
            self._begin_reset()

    def _alarm(self, seconds: float) -> None:  # noqa: ARG002 (no report: the reset repairs it)
        self._begin_reset()

    def _relaxed(self) -> None:
        if self._engine.broken:
            self._begin_reset()

    def _stop_watching(self) -> None:
        super()._stop_watching()
        reset, self._reset = self._reset, None
        if reset is not None and reset is not asyncio.current_task():
            reset.cancel()

    def _squeeze(self, messages: list[Message]) -> None:
        """Give the user the messages that there is room for. The rest is read again when there is more room (R43)."""
        route, kept = self.route, None
        if route.overflow != "drop":
            super()._squeeze(messages)
            return
        for message in messages:
            route.received += 1
            if route.full:
                route.dropped += 1
                self._engine.cut(kept)
                route.slow = route.watched = True
                self._silence.pause()
                self._loop.call_soon(self.taken)  # another thread may have taken all before `watched` was set
                return
            kept = message
            route.pending.append(message)
            route.received_bytes += len(message.raw_header) + len(message.payload)

    def _begin_reset(self) -> None:
        """Create the next consumer, unless that is in progress."""
        if self._reset is None and not self.route.ended:
            self._engine.cut_off()
            self._flow.forget()
            self.mark = None
            self._silence.pause()
            self._reset = self._loop.create_task(self._renew(), name=f"jetspark reset of {self._name}")
            self._connection._adopt(self._reset)

    async def _renew(self) -> None:
        try:
            last_sequence = await self._next_consumer()
        except Exception as error:  # noqa: BLE001 - after any error nothing more would come
            problem = error if isinstance(error, Error) else _unforeseen(error)
            self._connection._tell(ErrorOccurred(problem))
            self.close(problem)
            return
        self._reset = None
        self._renewed_at = last_sequence
        self._engine.renewed(self._name)
        self._begin()

    async def _next_consumer(self) -> int:
        """Create the next consumer, with retries; return the sequence after which it starts."""
        ordered = self.binding.ordered
        assert ordered is not None, "only ordered subscriptions are renewed"
        reached = self._engine.last_sequence
        if reached:
            ordered.last_sequence = reached
        if reached != self._renewed_at:
            self._idle.succeeded()
        elif (wait := self._idle.failed()) is not None:  # the last one brought nothing (R14)
            await asyncio.sleep(wait)
        backoff = ResetBackoff(self._options.max_reset_attempts)
        while True:
            await self._online.wait()
            try:
                self.binding = await self.run(renew(self.binding, self._client.new_inbox), TRY_TIMEOUT)
            except Error as error:
                delay = backoff.failed() if is_passing(error) else None
                if delay is None:
                    raise
                await asyncio.sleep(delay)
            else:
                return reached


def _unforeseen(error: Exception) -> Error:
    """Return an unexpected exception as an error of the library."""
    problem = Error(f"the next consumer of an ordered subscription could not be made: {error!r}")
    problem.__cause__ = error
    return problem
