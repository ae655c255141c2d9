"""Drives an ordered consume on the event loop: one consumer after the other, with a `PullDriver` each (ADR-17)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from jetspark.aio.jetstream._drivers.pull import PullDriver
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.message import Msg
from jetspark.engine.ordered import (
    CREATE_TIMEOUT,
    CreateConsumer,
    DeleteConsumer,
    GetConsumerInfo,
    GetLastSequence,
    OrderedCursor,
    OrderedEnd,
    OrderedEngine,
    StartPulling,
    Warn,
)
from jetspark.engine.pull import PullOptions
from jetspark.jetstream.api import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerDeleteRequest,
    ConsumerInfoRequest,
    MessageGetRequest,
)
from jetspark.jetstream.errors import Error, MessageNotFoundError, NotFoundError, PermissionsViolationError
from jetspark.jetstream.header_names import LAST_CONSUMER
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.messages import Message

__all__ = ["OrderedPullDriver"]


class OrderedPullDriver:
    """A source of messages like `PullDriver`, for a sequence of consumers.

    Parameters
    ----------
    js, stream
        Context, and name of the stream.
    options
        Options of the consume.
    cursor
        The start. It moves with the messages that arrive; at the end it moves back to the last message that was taken.
    engine
        Decides when a consumer is created.
    on_ready, on_warning
        As for `PullDriver`.
    on_info
        Called with the info of each new consumer; with None between two consumers.
    on_end
        Called at the end.
    """

    def __init__(
        self,
        js: JetStreamCore,
        stream: str,
        options: PullOptions,
        cursor: OrderedCursor,
        engine: OrderedEngine,
        on_ready: Callable[[], None],
        on_warning: Callable[[Error], None],
        *,
        on_info: Callable[[ConsumerInfo | None], None],
        on_end: Callable[[], None],
    ) -> None:
        self.ready: deque[Msg] = deque()
        self.taken_size = 0
        self.ended = False
        self.error: Error | None = None
        self._js = js
        self._stream = stream
        self._options = options
        self._cursor = cursor
        self._engine = engine
        self._on_ready = on_ready
        self._on_warning = on_warning
        self._on_info = on_info
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._driver: PullDriver | None = None
        self._earlier_received = 0  # messages of earlier consumers
        self._draining = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def messages_until_pull(self) -> int:
        """How many messages may be taken before `report` must be called."""
        return 1 if self._driver is None else self._driver.messages_until_pull

    @property
    def counts_bytes(self) -> bool:
        """Whether the reader must update `taken_size`."""
        return self._options.max_bytes is not None

    @property
    def taken_count(self) -> int:
        """Messages taken from `ready` so far."""
        return self._earlier_received + (0 if self._driver is None else self._driver.received) - len(self.ready)

    def start(self) -> None:
        """Create the first consumer and pull."""
        client = self._js.connection.client
        client.check_open()
        client.reply_listeners.add(self)
        client.session_listeners.add(self)
        self._engine.start(online=client.outbound.online)
        self._perform_actions()

    def on_consumed(self) -> None:
        """Note that messages were taken from `ready`, or that a reader waits."""
        if self._driver is not None:
            self._driver.taken_size = self.taken_size
            self._driver.on_consumed()

    def stop(self, error: Error | None = None) -> None:
        """End now. The cursor moves back to the last message that was taken."""
        with suppress(IndexError):  # another thread may take messages
            first = self.ready[0]
            if self._cursor.last_sequence is not None:
                self._cursor.last_sequence = first.metadata.stream_sequence - 1
        self._engine.stop(error)
        self._perform_actions()

    def drain(self) -> None:
        """Create no more consumers, pull no more, and end when the messages that were sent have come."""
        self._draining = True
        if self._driver is not None and not self._driver.ended:
            self._driver.drain()
        else:
            self._engine.stop()
            self._perform_actions()

    # -- called by the connection --------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:  # noqa: ARG002 (the reason does not matter here)
        """Handle the end of the session. Missing permissions are reported by the requests and pulls themselves."""
        if subject is not None:
            return
        self._stop_driver()
        if self._draining or self._js.connection.client.closed:
            self._engine.stop()
        else:
            self._engine.disconnected()
        self._perform_actions()

    def on_session_restored(self) -> None:
        """Handle that another session is open."""
        self._engine.reconnected()
        self._perform_actions()

    # -- called by the driver ------------------------------------------------------------------------------------

    def _on_driver_ready(self, driver: PullDriver) -> None:
        if driver is self._driver and driver.ended:
            if driver.error is not None:
                self._engine.pull_error(driver.error, final=True)
            else:
                self._engine.stop()  # drained
        self._perform_actions()
        if not self.ended:
            self._on_ready()

    def _on_driver_warning(self, driver: PullDriver, error: Error) -> None:
        if driver is self._driver:
            self._engine.pull_error(error, final=False)
            self._perform_actions()

    def _on_driver_heartbeat(self, driver: PullDriver, message: Message) -> None:
        if driver is self._driver:
            last = message.headers.get(LAST_CONSUMER)
            self._engine.heartbeat(int(last) if last is not None and last.isdigit() else None)
            self._perform_actions()

    # -- actions -------------------------------------------------------------------------------------------------

    def _perform_actions(self) -> None:
        for action in self._engine.poll_actions():
            match action:
                case CreateConsumer(config):
                    self._stop_driver()
                    self._on_info(None)
                    request = ConsumerCreateRequest(self._stream, config, ConsumerAction.CREATE)
                    self._start_task(self._create(request, self._cursor.name))
                case DeleteConsumer(name):
                    self._start_task(self._delete(name))
                case StartPulling(name):
                    self._start_pulling(name)
                case GetConsumerInfo(name):
                    self._start_task(self._get_info(name))
                case GetLastSequence(subjects):
                    self._start_task(self._get_last_sequence(subjects))
                case Warn(error):
                    self._on_warning(error)
                case OrderedEnd(error):
                    self._finish(error)
        self._set_timer(self._engine.retry_at)

    def _start_pulling(self, name: str) -> None:
        driver = PullDriver(
            self._js,
            self._stream,
            name,
            self._options,
            acks=False,
            ready=self.ready,
            check=lambda messages: self._engine.accept(messages) if driver is self._driver else 0,
            on_ready=lambda: self._on_driver_ready(driver),
            on_warning=lambda error: self._on_driver_warning(driver, error),
            on_heartbeat=lambda message: self._on_driver_heartbeat(driver, message),
        )
        self._earlier_received -= driver.received  # a new driver counts the messages in `ready`
        driver.taken_size = self.taken_size
        self._driver = driver
        driver.start()

    def _stop_driver(self) -> None:
        """Stop listening to the present consumer; later messages of it are ignored (ORD-09)."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.stop()
            self._earlier_received += driver.received

    async def _create(self, request: ConsumerCreateRequest, name: str) -> None:
        try:
            info = await self._js.request(request, CREATE_TIMEOUT)
        except Error as error:
            self._engine.failed(self._loop.time(), name, error)
        else:
            self._on_info(info)
            self._engine.created(info)
        self._perform_actions()

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
        self._perform_actions()

    async def _get_last_sequence(self, subjects: tuple[str, ...]) -> None:
        try:
            last = [await self._last_sequence_of(subject) for subject in subjects]
        except Error as error:
            self._engine.last_sequence_failed(error)
        else:
            self._engine.last_sequence_received(max(last))
        self._perform_actions()

    async def _last_sequence_of(self, subject: str) -> int:
        request = MessageGetRequest(self._stream, last_by_subj=subject, no_headers=True)
        try:
            return (await self._js.request(request)).sequence
        except MessageNotFoundError:
            return 0

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name=f"jetspark ordered consumer of {self._stream}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._js.connection.track_task(task)

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None and (when is None or self._timer.when() != when):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and when is not None:
            self._timer = self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._engine.tick(self._loop.time())
        self._perform_actions()

    def _finish(self, error: Error | None) -> None:
        self._stop_driver()
        self.error = error
        self.ended = True  # set after `error`, because other threads read that next
        self._set_timer(None)
        client = self._js.connection.client
        client.reply_listeners.discard(self)
        client.session_listeners.discard(self)
        self._on_end()
        self._on_ready()
