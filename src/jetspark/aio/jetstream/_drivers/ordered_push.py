"""Feeds an ordered push subscription: creates its next consumer when the order is lost (ADR-17)."""

from __future__ import annotations

import asyncio

from jetspark.aio.jetstream._drivers.push import PushDriver, PushDriverOptions
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.engine.retry import CREATE_TIMEOUT, can_create_later, create_backoff
from jetspark.engine.subscribe import recreate_consumer
from jetspark.jetstream.errors import Error
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.messages import Message

__all__ = ["OrderedPushDriver"]


class OrderedPushDriver(PushDriver):
    """A feed that resumes after the last good message: after a gap, silence, a lost session or a local drop."""

    def __init__(self, js: JetStreamCore, options: PushDriverOptions) -> None:
        super().__init__(js, options)
        self._reset_task: asyncio.Task[None] | None = None
        self._recreated_at: int | None = None  # last sequence when the present consumer was created
        self._idle_backoff = create_backoff()

    @property
    def resetting(self) -> bool:
        """Whether it is between two consumers."""
        return self._reset_task is not None

    def on_session_restored(self) -> None:
        """Create the next consumer: messages sent while offline are lost, and after a restart the consumer is, too."""
        self._online.set()
        self._recreated_at = None
        if not self.sub.over_limit:
            self._begin_reset()

    def _alarm(self, seconds: float) -> None:  # noqa: ARG002 (no report: the reset repairs it)
        self._begin_reset()

    def _on_below_limit(self) -> None:
        if self._engine.needs_reset:
            self._begin_reset()

    def _stop_monitoring(self) -> None:
        super()._stop_monitoring()
        reset, self._reset_task = self._reset_task, None
        if reset is not None and reset is not asyncio.current_task():
            reset.cancel()

    def _deliver_until_full(self, messages: list[Message]) -> None:
        """Give the user the messages that there is room for. The rest is read again when there is more room (R43)."""
        sub, kept = self.sub, None
        if sub.overflow != "drop":
            super()._deliver_until_full(messages)
            return
        for message in messages:
            sub.received += 1
            if sub.full:
                sub.dropped += 1
                self._engine.delivered_up_to(kept)
                sub.over_limit = sub.notify_on_take = True
                self._heartbeat_timer.pause()
                # Another thread may have taken all before `notify_on_take` was set.
                self._loop.call_soon(self.on_consumed)
                return
            kept = message
            sub.pending.append(message)
            sub.received_bytes += len(message.raw_header) + len(message.payload)

    def _begin_reset(self) -> None:
        """Create the next consumer, unless that is in progress."""
        if self._reset_task is None and not self.sub.ended:
            self._engine.invalidate()
            self._flow_control.clear()
            self.flow_reply_at = None
            self._heartbeat_timer.pause()
            self._reset_task = self._loop.create_task(self._recreate_consumer(), name=f"jetspark reset of {self._name}")
            self._connection.track_task(self._reset_task)

    async def _recreate_consumer(self) -> None:
        try:
            last_sequence = await self._create_next_consumer()
        except Exception as error:  # noqa: BLE001 - after any error nothing more would come
            problem = error if isinstance(error, Error) else _unexpected_error(error)
            self._connection.emit(ErrorOccurred(problem))
            self.close(problem)
            return
        self._reset_task = None
        self._recreated_at = last_sequence
        self._engine.consumer_recreated(self._name)
        self._start_receiving()

    async def _create_next_consumer(self) -> int:
        """Create the next consumer, with retries; return the sequence after which it starts."""
        ordered = self.binding.ordered
        assert ordered is not None, "only ordered subscriptions are renewed"
        reached = self._engine.last_sequence
        if reached:
            ordered.last_sequence = reached
        if reached != self._recreated_at:
            self._idle_backoff.reset()
        elif (wait := self._idle_backoff.next_delay()) is not None:  # the last one brought nothing (R14)
            await asyncio.sleep(wait)
        backoff = create_backoff(self._options.max_reset_attempts)
        while True:
            await self._online.wait()
            try:
                self.binding = await self.run(recreate_consumer(self.binding, self._client.new_inbox), CREATE_TIMEOUT)
            except Error as error:
                delay = backoff.next_delay() if can_create_later(error) else None
                if delay is None:
                    raise
                await asyncio.sleep(delay)
            else:
                return reached


def _unexpected_error(error: Exception) -> Error:
    """Return an unexpected exception as an error of the library."""
    problem = Error(f"the next consumer of an ordered subscription could not be made: {error!r}")
    problem.__cause__ = error
    return problem
