"""The core of a running consume: hands out the messages of its source and runs the callback."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, Self

from jetspark.aio.callbacks import callback_task_ended
from jetspark.aio.core import ConnectionCore
from jetspark.aio.jetstream._drivers.error_reports import ErrorHandler, ErrorReports
from jetspark.aio.jetstream._drivers.handlers import Callback, Handlers, check_concurrency
from jetspark.aio.jetstream._drivers.progress_reports import ProgressReports
from jetspark.aio.message import Msg
from jetspark.aio.subscription_core import report_ended_task
from jetspark.engine.pull import HANDLE, InProgressTracker
from jetspark.jetstream.errors import DrainTimeoutError, Error
from jetspark.jetstream.message import message_size
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.subscriptions import drop_all

__all__ = [
    "Callback",
    "ConsumeCore",
    "ConsumeReader",
    "ErrorHandler",
    "MessageSource",
    "drain_timeout_error",
    "start_consume",
]


class MessageSource(Protocol):
    """A source of messages for a consume: a `PullDriver` or an `OrderedPullDriver`."""

    ready: deque[Msg]
    taken_size: int
    ended: bool
    error: Error | None

    @property
    def messages_until_pull(self) -> int:
        """How many messages may be taken before `on_consumed` must be called."""

    @property
    def counts_bytes(self) -> bool:
        """Whether the reader must update `taken_size`."""

    @property
    def taken_count(self) -> int:
        """Messages taken from `ready` so far."""

    def start(self) -> None:
        """Begin to receive."""

    async def wait_started(self) -> None:
        """Wait until the server has the consumer, for a limited time."""

    def on_consumed(self) -> None:
        """Note that messages were taken from `ready`, or that a reader waits."""

    def stop(self, error: Error | None = None) -> None:
        """End now."""

    def drain(self) -> None:
        """Request no more messages, and end when those that were sent have come."""


MakeSource = Callable[[Callable[[], None], Callable[[Error], None]], MessageSource]
"""Creates the source, with its callbacks: messages came or the end, and a warning."""


class ConsumeCore:
    """A running consume.

    Attributes
    ----------
    connection
        The core of the connection.
    source
        The source of the messages.
    errors
        Reports the warnings and the exceptions of the callback.
    progress
        Which reader is at which message, to report messages as in progress; None if they are not reported.
    until_report
        Messages that may be taken before the source must be notified.
    """

    source: MessageSource

    def __init__(
        self,
        connection: ConnectionCore,
        where: str,
        on_error: ErrorHandler | None,
        progress: InProgressTracker | None,
    ) -> None:
        self.connection = connection
        self.progress = progress
        self.until_report = 1
        self._where = where
        self.errors = ErrorReports(connection, where, on_error)
        self._waiters: list[asyncio.Future[None]] = []
        self._handlers: Handlers | None = None
        self._wake_reader: Callable[[], None] | None = None
        self._reader_done: asyncio.Future[None] | None = None
        self._drain_timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<ConsumeContext of {self._where}{', closed' if self.closed else ''}>"

    def start(self, make_source: MakeSource, callback: Callback | None, concurrency: int) -> None:
        """Begin to receive."""
        self.connection.check_loop()
        myself: weakref.ref[ConsumeCore] = weakref.ref(self)  # weak, so that a handle without references stops
        self.source = make_source(partial(_wake, myself), partial(_report_warning, self.connection, myself))
        self._ready = self.source.ready
        self._counts_bytes = self.source.counts_bytes
        self.source.start()
        loop = asyncio.get_running_loop()
        if self.progress is not None:
            self._reports = ProgressReports(self.connection, self._where, self.progress, self.source)
        weakref.finalize(self, _stop_source, loop, self.source, self._where).atexit = False
        self.connection.draining.drainables.add(self)
        if callback is not None:
            self._handlers = Handlers(callback, self.errors)
            for number in self._handler_numbers(concurrency):
                task = self._handlers.start(
                    ConsumeReader(self, number),
                    partial(self._on_handler_end, number),
                    f"jetspark consume of {self._where}",
                )
                self.connection.tasks.track(task)
                task.add_done_callback(partial(_on_task_done, myself))

    def _handler_numbers(self, count: int) -> Sequence[int]:
        """Return the numbers of the handlers' readers."""
        return range(count) if self.progress is None else self.progress.add_handlers(count)

    def _on_handler_end(self, number: int) -> None:
        if self.progress is not None:
            self.progress.clear_current(number)

    def attach_reader(self, wake_reader: Callable[[], None], *, handlers: int) -> Sequence[int]:
        """Let the blocking front take the messages in threads; `wake_reader` is called when there are some.

        Returns the numbers of the readers of so many handlers. With handlers, `on_reader_done` is called when their
        threads have handled the last message.
        """
        self._wake_reader = wake_reader
        if handlers:
            self._reader_done = asyncio.get_running_loop().create_future()
        wake_reader()
        return self._handler_numbers(handlers)

    def on_reader_done(self) -> None:
        """Note that the threads of the callback have handled the last message, or do not wait for its own end."""
        if self._reader_done is not None and not self._reader_done.done():
            self._reader_done.set_result(None)

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it has ended and its messages were taken."""
        return self.source.ended and not self.source.ready

    @property
    def pending(self) -> tuple[int, int]:
        """Messages in the buffer, and their bytes of headers and payload."""
        ready = list(self.source.ready)  # copied in one step, as another thread may take messages
        return len(ready), sum(len(message.raw_header) + len(message.payload) for message in ready)

    # -- messages ------------------------------------------------------------------------------------------------

    def on_consumed(self, message: Msg, reader: int) -> None:
        """Note that a reader has taken a message, as soon as `until_report` is 0."""
        source = self.source
        if self._counts_bytes:
            source.taken_size += message_size(message)
        source.on_consumed()
        self.until_report = source.messages_until_pull
        if source.ended:
            self.wake()
        if self.progress is not None:
            self.progress.set_current(reader, message)
            self.until_report = 1  # so that each message is reported

    async def take_next(self, reader: int) -> Msg:
        """Wait for a message and take it. Raises StopAsyncIteration, or the error that ended the consume."""
        source = self.source
        self.connection.check_loop()
        if self.progress is not None:
            self.progress.clear_current(reader)
        source.on_consumed()
        while not source.ready:
            if source.ended:
                if source.error is not None:
                    raise source.error
                raise StopAsyncIteration
            await self.wait_changed()
        return source.ready.popleft()

    async def wait_changed(self) -> None:
        """Wait until messages come, the end, or another call of `wake`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Wake all readers: messages came, or the end."""
        if self.source.ended:
            self.until_report = 1
            self._set_drain_timer(None)
            self.errors.note_end(self.source.error, has_callback=bool(self._handlers or self._reader_done))
        else:
            self.until_report = min(self.until_report, self.source.messages_until_pull)
        if self._wake_reader is not None:
            self._wake_reader()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- the end -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End now; see `ConsumeContext.stop`."""
        self.connection.check_loop()
        self.source.stop()
        self.source.ready.clear()
        if self.progress is not None:
            self.progress.stopped()
        self.wake()
        if self._handlers is not None:
            await self._handlers.wait()

    def drain(self, timeout: float | None) -> None:
        """Pull no more, and end after the messages that were sent; see `ConsumeContext.drain`."""
        self.connection.check_loop()
        self.source.drain()
        if not self.source.ended:
            seconds = self.connection.options.drain_timeout if timeout is None else timeout
            loop = asyncio.get_running_loop()
            self._set_drain_timer(loop.call_later(seconds, _on_drain_timeout, self.source, repr(self), seconds))

    async def wait_closed(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Wait for the end; see `ConsumeContext.wait_closed`."""
        self.connection.check_loop()
        try:
            async with asyncio.timeout(timeout):
                await self.wait_drained(confirm=True)
        except TimeoutError:
            raise drain_timeout_error(repr(self), timeout or 0, len(self.source.ready)) from None
        if self.source.error is not None:
            raise self.source.error

    def stop_receiving(self) -> None:
        """Drain, as a part of the connection's drain."""
        self.source.drain()

    async def wait_drained(self, *, confirm: bool) -> None:  # noqa: ARG002 (a drained source ends by itself)
        """Wait until all received messages were taken and handled."""
        if self._reader_done is not None:
            await asyncio.wait([self._reader_done])
            return
        if self._handlers is not None:
            await self._handlers.wait()
            return
        while not self.closed:
            await self.wait_changed()

    def discard(self, error: Error) -> int:
        """End with this error and drop the messages that wait; return their number."""
        if self.source.ready and self.source.error is None:
            self.source.error = error  # also if it has ended already
            self.errors.replace_end(error)
        self.source.stop(error)
        dropped = drop_all(self.source.ready)
        self.wake()
        return dropped

    def _set_drain_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        self._drain_timer = timer

    def on_callback_task_done(self, task: asyncio.Task[None]) -> None:
        """End the consume if a task of its callback was cancelled: nothing would take its messages."""
        if self.closed or self.connection.closed:
            return
        error = callback_task_ended(repr(self), task)
        self.source.stop(error)
        self.source.ready.clear()
        self.wake()
        if self._handlers is not None and not self._handlers.running:
            report_ended_task(self.connection, task, self.errors.report_end)


class ConsumeReader:
    """One reader of a consume, which is at one message: an async iterator.

    Parameters
    ----------
    number
        Its number for the progress reports; all readers of the handle itself have one number.
    """

    def __init__(self, core: ConsumeCore, number: int = HANDLE) -> None:
        self._core = core
        self._number = number
        self._ready = core.source.ready
        self._popleft = self._ready.popleft

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Msg:
        core = self._core
        message = self._popleft() if self._ready else await core.take_next(self._number)
        core.until_report -= 1
        if core.until_report <= 0:
            core.on_consumed(message, self._number)
        return message

    def __del__(self) -> None:
        if self._number != HANDLE and self._core.progress is not None:
            self._core.progress.reader_collected(self._number)


def start_consume(
    connection: ConnectionCore,
    where: str,
    make_source: MakeSource,
    callback: Callback | None,
    on_error: ErrorHandler | None,
    progress: InProgressTracker | None = None,
    concurrency: int = 1,
) -> ConsumeCore:
    """Start a consume; called by `consume`."""
    check_concurrency(concurrency, callback)
    core = ConsumeCore(connection, where, on_error, progress)
    core.start(make_source, callback, concurrency)
    return core


def drain_timeout_error(who: str, seconds: float, left: int) -> DrainTimeoutError:
    """Return the error of a consume that was not drained in time."""
    return DrainTimeoutError(f"{who} was not drained within {seconds:g} s; {left} messages wait")


def _wake(core: weakref.ref[ConsumeCore]) -> None:
    if (found := core()) is not None:
        found.wake()


def _on_task_done(core: weakref.ref[ConsumeCore], task: asyncio.Task[None]) -> None:
    if (found := core()) is not None:
        found.on_callback_task_done(task)


def _report_warning(connection: ConnectionCore, core: weakref.ref[ConsumeCore], error: Error) -> None:
    found = core()
    if found is not None:
        found.errors.report(error)
    else:
        connection.emit(ErrorOccurred(error))


def _on_drain_timeout(source: MessageSource, who: str, seconds: float) -> None:
    """End a drain: the server has not confirmed in time that it sends no more."""
    source.stop(drain_timeout_error(who, seconds, len(source.ready)))


def _stop_source(loop: asyncio.AbstractEventLoop, source: MessageSource, where: str) -> None:
    """Stop the source of a handle without references; may run in another thread."""
    if not source.ended and not loop.is_closed():
        loop.call_soon_threadsafe(source.stop)
        name = f"unclosed consume of {where}"
        warnings.warn(f"{name}: stop it, or use it in a `with` block", ResourceWarning, stacklevel=2)
