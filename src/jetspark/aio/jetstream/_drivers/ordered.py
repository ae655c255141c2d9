"""Performs the actions of an `OrderedEngine` on the event loop, for a source of messages (ADR-17)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.ordered_actions import (
    CaughtUp,
    CreateConsumer,
    DeleteConsumer,
    GetConsumerInfo,
    GetLastSequence,
    GetStreamInfo,
    OrderedEnd,
    Report,
    StartReading,
    Warn,
)
from jetspark.engine.retry import CREATE_TIMEOUT
from jetspark.jetstream.api import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerDeleteRequest,
    ConsumerInfoRequest,
    MessageGetRequest,
    StreamInfoRequest,
)
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import Error, MessageNotFoundError, NotFoundError, PermissionsViolationError
from jetspark.jetstream.header_names import LAST_CONSUMER
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.messages import Message
from jetspark.wire.untrusted import parse_number

__all__ = ["OrderedRunner", "OrderedSource"]


class OrderedSource(Protocol):
    """A source of messages that reads from one consumer after the other."""

    def prepare(self, config: ConsumerConfig) -> ConsumerConfig:
        """Prepare the creation of the next consumer; return its complete configuration."""

    def start_reading(self, info: ConsumerInfo) -> None:
        """Read from this consumer."""

    def stop_reading(self) -> None:
        """Stop reading; later messages of the consumer are ignored (ORD-09)."""

    def handle_warning(self, error: Error) -> None:
        """Handle a warning."""

    def handle_end(self, error: Error | None) -> None:
        """Handle the end of the reading."""


class OrderedRunner:
    """Performs what the engine decides.

    Parameters
    ----------
    js, stream
        Context, and name of the stream.
    engine
        Decides when a consumer is created and deleted.
    source
        Reads from the consumers.
    on_caught_up
        Called when the reader has caught up, if the engine reports it, with the number of messages accepted until then.
    """

    def __init__(
        self,
        js: JetStreamCore,
        stream: str,
        engine: OrderedEngine,
        source: OrderedSource,
        on_caught_up: Callable[[int], None] | None = None,
    ) -> None:
        self._js = js
        self._stream = stream
        self._engine = engine
        self._source = source
        self._on_caught_up = on_caught_up
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def heartbeat(self, message: Message) -> None:
        """Handle a heartbeat of the current consumer."""
        last = parse_number(message.headers.get(LAST_CONSUMER))
        self._engine.heartbeat(last, self._loop.time())
        self.perform_actions()

    def perform_actions(self) -> None:
        """Perform the new actions."""
        while actions := self._engine.poll_actions():
            for action in actions:
                match action:
                    case CreateConsumer(config):
                        self._source.stop_reading()
                        self._start_task(self._create(config, config.name or ""))
                    case DeleteConsumer(name):
                        self._start_task(self._delete(name))
                    case StartReading(info):
                        self._source.start_reading(info)
                    case GetConsumerInfo(name):
                        self._start_task(self._get_info(name))
                    case GetStreamInfo(name):
                        self._start_task(self._get_stream_info(name))
                    case GetLastSequence(subjects):
                        self._start_task(self._get_last_sequence(subjects))
                    case CaughtUp(position):
                        if self._on_caught_up is not None:
                            self._on_caught_up(position)
                    case Warn(error):
                        self._source.handle_warning(error)
                    case Report(event):
                        self._js.connection.emit(event)
                    case OrderedEnd(error):
                        self._source.handle_end(error)
        self._set_timer(self._engine.retry_at)

    async def _create(self, config: ConsumerConfig, name: str) -> None:
        if not self._engine.is_creating(name):
            return
        try:
            request = ConsumerCreateRequest(self._stream, self._source.prepare(config), ConsumerAction.CREATE)
            info = await self._js.request(request, CREATE_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - after any error nothing more would come
            if self._engine.is_creating(name):
                self._source.stop_reading()
            self._engine.failed(self._loop.time(), name, _as_error(error))
        else:
            self._engine.created(info)
        self.perform_actions()

    async def _get_stream_info(self, name: str) -> None:
        try:
            stream = await self._js.request(StreamInfoRequest(self._stream))
        except Exception as error:  # noqa: BLE001 - after any error nothing more would come
            self._engine.stream_failed(self._loop.time(), name, _as_error(error))
        else:
            self._engine.stream_received(self._loop.time(), name, stream)
        self.perform_actions()

    async def _delete(self, name: str) -> None:
        try:
            await self._js.request(ConsumerDeleteRequest(self._stream, name), CREATE_TIMEOUT)
        except (NotFoundError, PermissionsViolationError):
            pass  # a user without the permission gets an error each time: one try for each consumer is enough
        except Error:
            self._engine.delete_failed(name)  # the server deletes an unused consumer by itself
            return
        self._engine.deleted(name)

    async def _get_info(self, name: str) -> None:
        with suppress(Error):  # the next heartbeat asks again
            self._engine.info_received(await self._js.request(ConsumerInfoRequest(self._stream, name)))
        self.perform_actions()

    async def _get_last_sequence(self, subjects: tuple[str, ...]) -> None:
        try:
            last = [await self._last_sequence_of(subject) for subject in subjects]
        except Error as error:
            self._engine.last_sequence_failed(error)
        else:
            self._engine.last_sequence_received(max(last))
        self.perform_actions()

    async def _last_sequence_of(self, subject: str) -> int:
        request = MessageGetRequest(self._stream, last_by_subject=subject, no_headers=True)
        try:
            return (await self._js.request(request)).sequence
        except MessageNotFoundError:
            return 0

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        self._js.connection.tasks.track(
            self._loop.create_task(work, name=f"jetspark ordered consumer of {self._stream}")
        )

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None and (when is None or self._timer.when() != when):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and when is not None:
            self._timer = self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._engine.tick(self._loop.time())
        self.perform_actions()


def _as_error(error: Exception) -> Error:
    """Return any exception as an error of the library."""
    if isinstance(error, Error):
        return error
    problem = Error(f"the next consumer of an ordered reader could not be created: {error!r}")
    problem.__cause__ = error
    return problem
