"""Ordered consumers in the pull form (ADR-17, ADR-37): every message of a stream once and in order.

The logic is in `jetspark.engine.ordered`; here are the calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Unpack

from jetspark.aio.jetstream._drivers.consume import start_consume
from jetspark.aio.jetstream._drivers.consumer_deletion import delete_later
from jetspark.aio.jetstream._drivers.handlers import check_one_by_one
from jetspark.aio.jetstream._drivers.ordered_pull import OrderedPullDriver
from jetspark.aio.jetstream._drivers.pull import PullDriver
from jetspark.aio.jetstream._drivers.workflow import run_in_background
from jetspark.aio.jetstream.consume_context import Callback, ConsumeContext, ErrorHandler
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.message import Msg
from jetspark.engine.catch_up import LeaderCatchUp
from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.ordered_config import ordered_heartbeat
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.engine.ordered_stream import StreamMatch
from jetspark.engine.pull import ConsumeFields, MessageBatch, PullOptions, consume_options, fetch_options
from jetspark.engine.retry import CREATE_TIMEOUT
from jetspark.jetstream.api import ConsumerCreateRequest, ConsumerDeleteRequest, ConsumerInfoRequest, StreamInfoRequest
from jetspark.jetstream.errors import ConsumerBusyError, ConsumerResettingError, Error, NoMessageError
from jetspark.jetstream.info import ConsumerInfo, StreamInfo
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.events import ErrorOccurred, StreamRecreated

__all__ = ["OrderedConsumer"]

CATCH_UP_HEARTBEAT = 1.0
"""Most seconds between heartbeats for `until_caught_up`: a heartbeat starts the check whether messages are pending."""


_BEHIND_WAIT: Final = 1.0
"""Seconds until a fetch asks again for a stream that lacks messages which were read."""


@checks_arguments()
class OrderedConsumer:
    """Reads a stream once and in order. Created by `ordered_consumer` of a stream or a context.

    It has a consumer on the server only while it reads; the next one starts where the last one stopped. Messages need
    no acknowledgement. Only one call at a time: fetch, next and consume exclude each other (ORD-12).
    """

    def __init__(
        self, js: JetStreamCore, stream: str, cursor: OrderedCursor, max_reset_attempts: int | None = None
    ) -> None:
        self._js = js
        self._stream = stream
        self._cursor = cursor
        self._max_reset_attempts = max_reset_attempts
        self._busy = False
        self._info: ConsumerInfo | None = None

    def __repr__(self) -> str:
        return f"<OrderedConsumer of stream {self._stream!r} after sequence {self._cursor.last_sequence or 0}>"

    @property
    def stream_name(self) -> str:
        """Name of its stream."""
        return self._stream

    @property
    def last_sequence(self) -> int | None:
        """Stream sequence of the last message that arrived in order; None before the first."""
        return self._cursor.last_sequence

    @property
    def cached_info(self) -> ConsumerInfo | None:
        """Info of the present consumer from its creation; None if there is no consumer."""
        return self._info

    async def info(self, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Return configuration and state of the present consumer.

        Raises
        ------
        ConsumerResettingError
            There is no consumer now: it is between two consumers, or nothing is read (ORD-09).
        """
        if self._info is None:
            raise ConsumerResettingError(f"the ordered consumer of stream {self._stream!r} has no consumer now")
        return await self._js.request(ConsumerInfoRequest(self._stream, self._info.name), timeout)

    # -- one pull ------------------------------------------------------------------------------------------------

    async def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        timeout: float | None = 30.0,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> MessageBatch[Msg]:
        """Return the next messages, from a new consumer. A gap ends the fetch early; the next call continues there.

        Parameters
        ----------
        max_messages, max_bytes, timeout
            As for `Consumer.fetch`.

        Raises
        ------
        ConsumerBusyError
            Another call is in progress.
        StreamNotFoundError, APIError, RequestTimeoutError
            The consumer could not be created.
        Error
            As for `Consumer.fetch`.
        """
        with self._exclusive():
            return await self._fetch(fetch_options(max_messages, max_bytes=max_bytes, timeout=timeout))

    async def next(self, timeout: float | None = 30.0) -> Msg:  # noqa: ASYNC109 (the deadline is part of the call)
        """Return the next message. Errors are those of `fetch`, and NoMessageError if none came in time."""
        with self._exclusive():
            batch = await self._fetch(fetch_options(1, timeout=timeout))
        if not batch:
            raise NoMessageError(f"stream {self._stream!r}: no message within {timeout or 0:g} s")
        return batch[0]

    async def _fetch(self, options: PullOptions) -> MessageBatch[Msg]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = options.deadline(began)
        before: int | None = None
        ended = asyncio.Event()
        driver: PullDriver | None = None

        def check(messages: Sequence[Msg]) -> int:
            good = self._cursor.accept(messages)[0]
            if good < len(messages):  # no later message is in order either
                ended.set()
            return good

        def on_ready() -> None:
            if driver is not None and driver.ended:
                ended.set()

        try:
            info = await self._create(deadline)
            before = self._cursor.last_sequence  # policy `new` starts here, also for the next call
            driver = PullDriver(
                self._js,
                self._stream,
                info.name,
                options,
                acks=False,
                check=check,
                on_ready=on_ready,
                on_warning=self._warn,
            )
            driver.start(began)
            await ended.wait()
            driver.stop()
        except BaseException:
            if driver is not None:
                driver.stop()  # messages that still come must not move the cursor
                self._cursor.last_sequence = before  # no message was returned
            raise
        finally:
            self._delete(self._cursor.name)
        batch = MessageBatch(driver.ready)
        if not batch:
            if driver.error is not None:
                raise driver.error
            self._js.connection.check_open()
        batch.error = driver.error
        return batch

    async def _create(self, deadline: float | None) -> ConsumerInfo:
        """Create the next consumer of a fetch, and compare its stream with the one that is read."""
        loop = asyncio.get_running_loop()
        check = self._cursor.stream
        while True:
            config = self._cursor.next_config()
            left = CREATE_TIMEOUT if deadline is None else min(CREATE_TIMEOUT, deadline - loop.time())
            info = await self._js.request(ConsumerCreateRequest(self._stream, config), left)
            stream = await self._stream_info() if check.required else None
            match = StreamMatch.SAME if stream is None else self._cursor.compare(stream)
            if match is StreamMatch.SAME:
                self._cursor.created(info)
                if check.unknown:
                    run_in_background(self._js.connection, self._begin_stream())
                return info
            assert stream is not None
            if match is StreamMatch.BEHIND and (deadline is None or loop.time() + _BEHIND_WAIT < deadline):
                await asyncio.sleep(_BEHIND_WAIT)
            else:
                self._handle_recreated(stream)
            self._delete(info.name)

    async def _stream_info(self) -> StreamInfo | None:
        """Return the stream's info; None if the reader reads without it."""
        try:
            return await self._js.request(StreamInfoRequest(self._stream))
        except Error as error:
            check = self._cursor.stream
            if not check.failed(error):
                raise
            if (problem := check.unchecked(error)) is not None:
                self._warn(problem)
            return None

    async def _begin_stream(self) -> None:
        """Request the info of the stream that the first consumer reads."""
        if (stream := await self._stream_info()) is not None and self._cursor.stream.unknown:
            self._cursor.stream.begin(stream)

    def _handle_recreated(self, stream: StreamInfo) -> None:
        """Let the reader start again, or raise the error."""
        error = self._cursor.recreated_error(stream)
        self._js.connection.emit(StreamRecreated(error.stream, error, self._cursor.restarts))
        if not self._cursor.restarts:
            raise error
        self._cursor.restart(stream)

    # -- continuous ----------------------------------------------------------------------------------------------

    def consume(
        self,
        callback: Callback | None = None,
        *,
        on_error: ErrorHandler | None = None,
        until_caught_up: bool = False,
        concurrency: int = 1,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeContext:
        """Read continuously, through lost connections, deleted consumers and leader changes.

            async with ordered.consume(until_caught_up=True) as messages:
                async for message in messages:
                    ...

        When `context = await ordered.consume(...)` or `async with` returns, the server has the consumer: messages that
        are published from then on are read, also with the deliver policy `new`. If it cannot be created now, a
        warning goes to `on_error`, and the creation is repeated in the background.

        Parameters
        ----------
        callback, on_error
            As for `Consumer.consume`. When the connection is closed for good, the iteration and `wait_closed` raise
            ConnectionClosedError, too, also after one's own `close`.
        until_caught_up
            End when all messages of the stream were returned, instead of waiting for more.
        concurrency
            Must be 1, because the order is kept.
        options
            As for `Consumer.consume`, without priority groups. The default heartbeat is 5 s (ORD-11).

        Raises
        ------
        ConsumerBusyError
            Another call is in progress.
        ConfigError
            The value of an option is not valid.
        """
        check_one_by_one(concurrency)
        if options.get("idle_heartbeat") is None:
            timeout = options.get("timeout", 30.0)
            options["idle_heartbeat"] = (
                min(CATCH_UP_HEARTBEAT, timeout / 2) if until_caught_up else ordered_heartbeat(timeout)
            )
        wanted = consume_options(**options)
        engine = OrderedEngine(
            self._cursor,
            max_reset_attempts=self._max_reset_attempts,
            catch_up=LeaderCatchUp(self._cursor) if until_caught_up else None,
        )

        def make(on_ready: Callable[[], None], on_warning: Callable[[Error], None]) -> OrderedPullDriver:
            return OrderedPullDriver(
                self._js,
                self._stream,
                wanted,
                self._cursor,
                engine,
                on_ready,
                on_warning,
                on_info=self._set_info,
                on_end=self._release,
                until_caught_up=until_caught_up,
            )

        self._acquire()
        try:
            where = f"stream {self._stream}"
            return ConsumeContext(start_consume(self._js.connection, where, make, callback, on_error))
        except BaseException:
            self._release()
            raise

    # -- inner ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self._acquire()
        try:
            yield
        finally:
            self._release()

    def _acquire(self) -> None:
        self._js.connection.check_loop()
        if self._busy:
            raise ConsumerBusyError(
                f"the ordered consumer of stream {self._stream!r} is in use: one fetch, next or consume at a time"
            )
        self._busy = True

    def _release(self) -> None:
        self._busy = False
        self._info = None

    def _set_info(self, info: ConsumerInfo | None) -> None:
        self._info = info

    def _warn(self, error: Error) -> None:
        self._js.connection.emit(ErrorOccurred(error))

    def _delete(self, name: str) -> None:
        """Delete the consumer of a fetch without waiting; the server deletes an unused consumer anyway."""
        if not self._js.connection.closed:
            delete_later(self._js, ConsumerDeleteRequest(self._stream, name), report=False)
