"""Drives an ordered consume on the event loop: one consumer after the other, with a `PullDriver` each (ADR-17)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from jetspark.aio.jetstream._drivers.ordered import OrderedRunner
from jetspark.aio.jetstream._drivers.pull import PullDriver
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.message import Msg
from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.engine.pull import PullOptions
from jetspark.engine.retry import CREATE_TIMEOUT
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import ConnectionClosedError, Error
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.connection_status import ConnectionStatus
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
    until_caught_up
        Whether to end when the reader has caught up.
    on_caught_up
        Called when the reader has caught up, and does not end then; see `OrderedRunner`.
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
        until_caught_up: bool,
        on_caught_up: Callable[[int], None] | None = None,
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
        self._runner = OrderedRunner(js, stream, engine, self, self._end_caught_up if until_caught_up else on_caught_up)
        self._driver: PullDriver | None = None
        self._earlier_received = 0  # messages of earlier consumers
        self._until_caught_up = until_caught_up
        self._draining = False
        self._started = asyncio.Event()
        self._now = js.connection.loop.time

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
        self._runner.perform_actions()

    async def wait_started(self) -> None:
        """Wait for the result of the first creation of a consumer: the consumer, a warning, or the end.

        Without a session, it waits at most as long as a creation may take. If the wait is cancelled, the reading ends,
        because the caller gets no handle.
        """
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CREATE_TIMEOUT):
                    await self._started.wait()
        except BaseException:
            self.stop()
            self.ready.clear()
            raise

    def on_consumed(self) -> None:
        """Note that messages were taken from `ready`, or that a reader waits."""
        if self._driver is not None:
            self._driver.taken_size = self.taken_size
            self._driver.on_consumed()

    def stop(self, error: Error | None = None) -> None:
        """End now. The cursor moves back to the last message that was taken."""
        with suppress(IndexError):  # another thread may take messages
            self._cursor.rewind(self.ready[0])
        self._engine.stop(error)
        self._runner.perform_actions()

    def drain(self) -> None:
        """Create no more consumers, pull no more, and end when the messages that were sent have come."""
        self._draining = True
        if self._driver is not None and not self._driver.ended:
            self._driver.drain()
        else:
            self._engine.stop(self._closed_error)
            self._runner.perform_actions()

    # -- called by the connection --------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:  # noqa: ARG002 (the reason does not matter here)
        """Handle the end of the session. Missing permissions are reported by the requests and pulls themselves."""
        if subject is not None:
            return
        self._close_driver()
        if self._draining or self._closed_error is not None:
            self._engine.stop(self._closed_error)
        else:
            self._engine.suspend()
        self._runner.perform_actions()

    def on_session_restored(self) -> None:
        """Handle that another session is open."""
        self._engine.resume()
        self._runner.perform_actions()

    @property
    def _closed_error(self) -> Error | None:
        """Why the connection is closed: such an end is never quiet, as the reader may take it for the whole stream."""
        client = self._js.connection.client
        if self._until_caught_up and client.status is ConnectionStatus.DRAINING:
            return ConnectionClosedError(f"stream {self._stream!r}: the connection drains before the end was reached")
        return client.outbound.closed_error

    def _end_caught_up(self, position: int) -> None:  # noqa: ARG002 (all messages are returned)
        self._engine.stop()

    # -- called by the driver ------------------------------------------------------------------------------------

    def _on_driver_ready(self, driver: PullDriver) -> None:
        if driver is self._driver and driver.ended:
            if driver.error is not None:
                self._engine.pull_error(driver.error, final=True, now=self._now())
            else:  # drained, unless the connection is closed
                self._engine.stop(self._closed_error)
        self._runner.perform_actions()
        if not self.ended:
            self._on_ready()

    def _on_driver_warning(self, driver: PullDriver, error: Error) -> None:
        if driver is self._driver:
            self._engine.pull_error(error, final=False, now=self._now())
            self._runner.perform_actions()

    def _on_driver_heartbeat(self, driver: PullDriver, message: Message) -> None:
        if driver is self._driver:
            self._runner.heartbeat(message)

    # -- called by the runner --------------------------------------------------------------------------------------

    def prepare(self, config: ConsumerConfig) -> ConsumerConfig:
        """Return the configuration as it is: pulls need nothing more."""
        return config

    def start_reading(self, info: ConsumerInfo) -> None:
        """Pull from this consumer."""
        self._on_info(info)
        driver = PullDriver(
            self._js,
            self._stream,
            info.name,
            self._options,
            acks=False,
            ready=self.ready,
            check=lambda messages: self._engine.accept(messages, self._now()) if driver is self._driver else 0,
            on_ready=lambda: self._on_driver_ready(driver),
            on_warning=lambda error: self._on_driver_warning(driver, error),
            on_heartbeat=lambda message: self._on_driver_heartbeat(driver, message),
        )
        self._earlier_received -= driver.received  # a new driver counts the messages in `ready`
        driver.taken_size = self.taken_size
        self._driver = driver
        driver.start()
        self._started.set()

    def stop_reading(self) -> None:
        """Stop the pulls."""
        self._close_driver()
        self._on_info(None)

    def handle_warning(self, error: Error) -> None:
        """Report the warning to the user."""
        self._started.set()
        self._on_warning(error)

    def handle_end(self, error: Error | None) -> None:
        """End."""
        self._close_driver()
        self.error = error
        self._started.set()
        self.ended = True  # set after `error`, because other threads read that next
        client = self._js.connection.client
        client.reply_listeners.discard(self)
        client.session_listeners.discard(self)
        self._on_end()
        self._on_ready()

    def _close_driver(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.stop()
            self._earlier_received += driver.received
