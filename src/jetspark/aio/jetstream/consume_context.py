"""The handle of a running consume: an iterator, or a callback in a task of its own."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from jetspark.aio.jetstream._drivers.pull import message_size
from jetspark.aio.message import Msg
from jetspark.engine.pull import HANDLE, InProgressTracker
from jetspark.jetstream.ack import IN_PROGRESS
from jetspark.jetstream.errors import DrainTimeoutError, Error
from jetspark.jetstream.message import JetStreamMessage
from jetspark.wire.events import ErrorOccurred

if TYPE_CHECKING:
    from jetspark.aio.connection import Connection

__all__ = ["Callback", "ConsumeContext", "ErrorHandler", "MessageSource", "drain_timeout_error"]

Callback = Callable[[Msg], Awaitable[None] | None]
"""Called with each message, in order and one at a time; a coroutine function or a plain function."""

ErrorHandler = Callable[[Exception], Awaitable[None] | None]
"""Called with each warning and each exception of a callback; a coroutine function or a plain function."""


class MessageSource(Protocol):
    """A source of messages for a consume: a `PullDriver`, or an `OrderedPullDriver`."""

    ready: deque[Msg]
    taken_size: int
    ended: bool
    error: Error | None

    @property
    def messages_until_pull(self) -> int:
        """How many messages may be taken before `report` must be called."""

    @property
    def counts_bytes(self) -> bool:
        """Whether the reader must update `taken_size`."""

    @property
    def taken_count(self) -> int:
        """Messages taken from `ready` so far."""

    def start(self) -> None:
        """Begin to receive."""

    def on_consumed(self) -> None:
        """Note that messages were taken from `ready`, or that a reader waits."""

    def stop(self, error: Error | None = None) -> None:
        """End now."""

    def drain(self) -> None:
        """Request no more messages, and end when those that were sent have come."""


class ConsumeContext:
    """A running consume, created by `Consumer.consume`. An async iterator, and a context manager that stops at its end.

    The iteration ends when the consume was stopped or drained, and raises the error that ended it. A cancelled wait
    loses nothing.
    """

    _source: MessageSource  # the blocking front takes messages from it, too

    def __init__(self, connection: Connection, where: str) -> None:
        self._connection = connection
        self._where = where
        self._until_report = 1  # messages that may be taken until `report` must be called
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._on_error: ErrorHandler | None = None
        self._handler_tasks: set[asyncio.Task[None]] = set()
        self._wake_reader: Callable[[], None] | None = None
        self._drain_timer: asyncio.TimerHandle | None = None  # for the end of a drain
        self._progress: InProgressTracker | None = None

    def _start(
        self,
        make_source: Callable[[Callable[[], None], Callable[[Error], None]], MessageSource],
        callback: Callback | None,
        on_error: ErrorHandler | None,
        progress: InProgressTracker | None = None,
    ) -> Self:
        """Begin; called by `consume`. `make` creates the source, with callbacks for news and for warnings."""
        self._connection._check_loop()
        self._on_error = on_error
        myself: weakref.ref[ConsumeContext] = weakref.ref(self)  # weak, so that a handle without references stops
        self._source = make_source(partial(_wake, myself), partial(_report_warning, self._connection, myself))
        self._ready = self._source.ready
        self._popleft = self._ready.popleft
        self._counts_bytes = self._source.counts_bytes
        self._source.start()
        loop = asyncio.get_running_loop()
        if progress is not None:
            self._progress = progress
            loop.call_later(progress.interval, _call_if_alive, weakref.WeakMethod(self._start_progress_task))
        weakref.finalize(self, _stop_source, loop, self._source).atexit = False
        self._connection._register_drainable(self)
        if callback is not None:
            self._task = loop.create_task(self._run(callback), name=f"jetspark consume of {self._where}")
            self._connection._track_task(self._task)
            if progress is not None:
                progress.has_callback = True
        return self

    def __repr__(self) -> str:
        return f"<ConsumeContext of {self._where}{', closed' if self.closed else ''}>"

    def _attach_reader(self, wake_reader: Callable[[], None]) -> InProgressTracker | None:
        """Let the blocking front take the messages; `watcher` is called when there are some.

        Returns the progress, to be informed which reader is at which message.
        """
        self._wake_reader = wake_reader
        wake_reader()
        return self._progress

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it has ended and its messages were taken."""
        return self._source.ended and not self._source.ready

    @property
    def error(self) -> Error | None:
        """Error that ended it; None while it runs, and after a stop or drain."""
        return self._source.error

    @property
    def pending(self) -> tuple[int, int]:
        """Messages in the buffer, and their bytes of headers and payload."""
        ready = list(self._source.ready)  # copied in one step, as another thread may take messages
        return len(ready), sum(len(message.raw_header) + len(message.payload) for message in ready)

    # -- messages ------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Msg]:
        return self if self._progress is None else _ProgressIterator(self, self._progress)

    async def __anext__(self, _reader: int = HANDLE) -> Msg:
        message = self._popleft() if self._ready else await self._next(_reader)
        self._until_report -= 1
        if self._until_report <= 0:
            self._on_consumed(message, _reader)
        return message

    def _on_consumed(self, message: Msg, reader: int) -> None:
        driver = self._source
        if self._counts_bytes:
            driver.taken_size += message_size(message)
        driver.on_consumed()
        self._until_report = driver.messages_until_pull
        if driver.ended:
            self._wake()
        if self._progress is not None:
            self._progress.set_current(reader, message)
            self._until_report = 1  # so that each message is reported

    async def _next(self, reader: int) -> Msg:
        """Wait for a message."""
        driver = self._source
        self._connection._check_loop()
        if self._progress is not None:
            self._progress.clear_current(reader)
        driver.on_consumed()
        while not driver.ready:
            if driver.ended:
                if driver.error is not None:
                    raise driver.error
                raise StopAsyncIteration
            await self._wait()
        return driver.ready.popleft()

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        """Wake all readers: messages came, or the end."""
        if self._source.ended:
            self._until_report = 1
            self._set_drain_timer(None)
        else:
            self._until_report = min(self._until_report, self._source.messages_until_pull)
        if self._wake_reader is not None:
            self._wake_reader()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- the end -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End now. Messages in the buffer are dropped, and delivered again after the consumer's `ack_wait` (CNS-05)."""
        self._connection._check_loop()
        self._source.stop()
        self._source.ready.clear()
        if self._progress is not None:
            self._progress.stopped()
        self._wake()
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Pull no more. Messages that were delivered already are still returned; then it ends (CNS-05, R44).

        Parameters
        ----------
        timeout
            Seconds for the server to confirm that it sends no more; None takes the connection's `drain_timeout`. After
            that, the iteration ends with `DrainTimeoutError` after the messages that came.
        """
        self._connection._check_loop()
        self._source.drain()
        if not self._source.ended:
            seconds = self._connection.options.drain_timeout if timeout is None else timeout
            self._set_drain_timer(
                asyncio.get_running_loop().call_later(seconds, _on_drain_timeout, self._source, repr(self), seconds)
            )

    async def wait_closed(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until it has ended and its messages were taken and handled; raise the error that ended it.

        Parameters
        ----------
        timeout
            Seconds until `DrainTimeoutError` is raised; the consume continues. None means no limit.
        """
        self._connection._check_loop()
        try:
            async with asyncio.timeout(timeout):
                await self._wait_drained(confirm=True)
        except TimeoutError:
            raise drain_timeout_error(repr(self), timeout or 0, len(self._source.ready)) from None
        if self._source.error is not None:
            raise self._source.error

    def _set_drain_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        self._drain_timer = timer

    def _stop_receiving(self) -> None:
        """Drain, as a part of the connection's drain."""
        self._source.drain()

    async def _wait_drained(self, *, confirm: bool) -> None:  # noqa: ARG002 (a drained source ends by itself)
        """Wait until all received messages were taken and handled."""
        if self._task is not None:
            if self._task is not asyncio.current_task():
                await asyncio.wait([self._task])
            return
        while not self.closed:
            await self._wait()

    # -- progress ------------------------------------------------------------------------------------------------

    def _start_progress_task(self) -> None:
        """Report the messages in progress now, and again after the interval."""
        progress = self._progress
        if progress is None or self._connection.closed or (self.closed and progress.idle):
            return
        task = asyncio.create_task(self._send_progress(progress), name=f"jetspark progress of {self._where}")
        self._connection._track_task(task)

    async def _send_progress(self, progress: InProgressTracker) -> None:
        """Report each message once, as fast as the transport accepts the reports.

        If the transport accepts no more, the rest is not queued: the messages in progress are determined again when
        there is room. So the queue does not grow, and no message is reported that was finished meanwhile.
        """
        connection, loop = self._connection, asyncio.get_running_loop()
        following = loop.time() + progress.interval
        reported: set[JetStreamMessage] = set()
        complete = False
        while not complete and connection.connected:  # without a session, reports would be buffered and sent too late
            if connection._write_buffer_full:
                await connection._wait_writable()
                continue  # the session may be lost
            complete = True
            for message in progress.messages_to_report(list(self._ready), reported):
                reported.add(message)
                if connection._send_reply(message.raw_reply, IN_PROGRESS) and not self._flush_completely():
                    complete = False
                    break
        loop.call_at(following, _call_if_alive, weakref.WeakMethod(self._start_progress_task))

    def _flush_completely(self) -> bool:
        """Send the queue; returns whether the transport took it."""
        self._connection._flush_now()
        return not self._connection._write_buffer_full

    # -- callback ------------------------------------------------------------------------------------------------

    async def _run(self, callback: Callback) -> None:
        try:
            await self._call_for_each(callback)
        finally:  # also when the task is cancelled
            if self._progress is not None:
                self._progress.clear_current(HANDLE)

    async def _call_for_each(self, callback: Callback) -> None:
        while True:
            try:
                message = await self.__anext__()
            except StopAsyncIteration:
                return
            except Error as error:
                self._report_error(error)
                return
            try:
                result = callback(message)
                if result is not None:
                    await result
            except Exception as error:  # noqa: BLE001 - it may raise anything; continue with the next message
                self._report_error(error)

    def _report_error(self, error: Exception) -> None:
        """Report a warning to the handler."""
        if self._on_error is None:
            self._connection._emit(ErrorOccurred(error))
            return
        try:
            result = self._on_error(error)
        except Exception as fault:  # noqa: BLE001 - the handler is the user's
            self._connection._emit(ErrorOccurred(fault))
            return
        if result is not None:
            task = asyncio.ensure_future(self._await_handler(result))
            self._handler_tasks.add(task)
            task.add_done_callback(self._handler_tasks.discard)

    async def _await_handler(self, result: Awaitable[None]) -> None:
        try:
            await result
        except Exception as fault:  # noqa: BLE001 - the handler is the user's
            self._connection._emit(ErrorOccurred(fault))


class _ProgressIterator:
    """An iterator of a consume with progress reports; each iterator is one reader, which is at one message."""

    def __init__(self, context: ConsumeContext, progress: InProgressTracker) -> None:
        self._context = context
        self._progress = progress
        self._reader = progress.new_reader()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Msg:
        return await self._context.__anext__(self._reader)

    def __del__(self) -> None:
        self._progress.reader_collected(self._reader)


def _wake(context: weakref.ref[ConsumeContext]) -> None:
    if (found := context()) is not None:
        found._wake()


def _report_warning(connection: Connection, context: weakref.ref[ConsumeContext], error: Error) -> None:
    found = context()
    if found is not None:
        found._report_error(error)
    else:
        connection._emit(ErrorOccurred(error))


def drain_timeout_error(who: str, seconds: float, left: int) -> DrainTimeoutError:
    """Return the error of a consume that was not drained in time."""
    return DrainTimeoutError(f"{who} was not drained within {seconds:g} s; {left} messages wait")


def _on_drain_timeout(source: MessageSource, who: str, seconds: float) -> None:
    """End a drain: the server has not confirmed in time that it sends no more."""
    source.stop(drain_timeout_error(who, seconds, len(source.ready)))


def _call_if_alive(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    """Call the method, unless its object has no references any more."""
    if (call := method()) is not None:
        call()


def _stop_source(loop: asyncio.AbstractEventLoop, driver: MessageSource) -> None:
    """Stop the source of a handle without references; may run in another thread."""
    if not driver.ended and not loop.is_closed():
        loop.call_soon_threadsafe(driver.stop)
