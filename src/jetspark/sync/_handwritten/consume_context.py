"""The handle of a running consume in the blocking front: the reader's thread takes the messages.

The event loop pulls, and appends messages to a deque. The reader's thread takes them without asking the loop. Two
numbers say when the engine must get a report: `_taken_count`, which only the reader's thread writes, and `_report_at`,
which only the loop writes. Before it sleeps, the reader sets a flag and checks the deque again; the loop appends and
then checks the flag. So one of the two always notices the other.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from jetspark.aio.jetstream import consume_context as aio
from jetspark.aio.jetstream import consuming, ordered_consumer
from jetspark.aio.jetstream._drivers.pull import message_size
from jetspark.engine.pull import HANDLE, ConsumeFields, InProgressTracker
from jetspark.jetstream.errors import Error
from jetspark.sync.callback_thread import CALLBACK_THREAD_PREFIX, in_callback_thread
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg

if TYPE_CHECKING:
    from jetspark.sync.connection import Connection

__all__ = ["Callback", "ConsumeContext", "ConsumeMixin", "ErrorHandler", "OrderedConsumeMixin"]

Callback = Callable[[Msg], None]
"""Called with each message, in order and one at a time, in a thread of its own."""

ErrorHandler = Callable[[Exception], None]
"""Called with each warning and each exception of a callback."""


class ConsumeMixin(LoopProxy):
    """The call that starts a consume."""

    _inner: consuming.Consuming

    def consume(
        self,
        callback: Callback | None = None,
        *,
        on_error: ErrorHandler | None = None,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeContext:
        """Pull continuously, so that messages are available before they are requested.

            with consumer.consume() as messages:
                for message in messages:
                    ...
                    message.ack()

        Parameters and errors are those of the asyncio front's `Consumer.consume`; the callback runs in a thread of its
        own.
        """
        handler = None if on_error is None else in_callback_thread(self._connection, on_error)
        return _start_context(self._connection, lambda: self._inner.consume(on_error=handler, **options), callback)


class OrderedConsumeMixin(LoopProxy):
    """The call that starts a consume of an ordered consumer."""

    _inner: ordered_consumer.OrderedConsumer

    def consume(
        self,
        callback: Callback | None = None,
        *,
        on_error: ErrorHandler | None = None,
        until_caught_up: bool = False,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeContext:
        """Read continuously, through lost connections, deleted consumers and leader changes.

            with ordered.consume(until_caught_up=True) as messages:
                for message in messages:
                    ...

        Parameters and errors are those of the asyncio front's `OrderedConsumer.consume`; the callback runs in a thread
        of its own.
        """
        handler = None if on_error is None else in_callback_thread(self._connection, on_error)
        return _start_context(
            self._connection,
            lambda: self._inner.consume(on_error=handler, until_caught_up=until_caught_up, **options),
            callback,
        )


class ConsumeContext(LoopProxy):
    """A running consume, created by `Consumer.consume`. An iterator, and a context manager that stops at its end.

    The iteration ends when the consume was stopped or drained, and raises the error that ended it.
    """

    _inner: aio.ConsumeContext

    def __init__(self, connection: Connection, inner: Any) -> None:
        super().__init__(connection, inner)
        self._source = self._inner._source
        self._popleft = cast("Callable[[], Msg]", self._source.ready.popleft)
        self._changed = threading.Condition()
        self._waiting = False
        self._report_scheduled = False  # a call of `_reported` is queued on the loop
        self._taken_count = 0
        self._report_at = 1
        self._counts_bytes = self._source.counts_bytes
        self._thread: threading.Thread | None = None
        self._progress = self._inner._attach_reader(partial(_wake, weakref.ref(self)))
        connection._register_drainable(self)

    def _start(self, callback: Callback) -> None:
        """Start the thread that passes the messages to a callback; called by `consume`."""
        self._thread = threading.Thread(
            target=self._run_thread, args=(callback,), name=f"{CALLBACK_THREAD_PREFIX} of {self._inner!r}", daemon=True
        )
        if self._progress is not None:
            self._progress.has_callback = True
        self._thread.start()

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it has ended and its messages were taken."""
        return self._inner.closed

    @property
    def error(self) -> Error | None:
        """Error that ended it; None while it runs, and after a stop or drain."""
        return self._inner.error

    @property
    def pending(self) -> tuple[int, int]:
        """Messages in the buffer, and their bytes of headers and payload."""
        return self._inner.pending

    # -- messages ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Msg]:
        return self if self._progress is None else _ProgressIterator(self, self._progress)

    def __next__(self, _reader: int = HANDLE) -> Msg:
        message: Msg | None
        try:
            message = self._popleft()
        except IndexError:
            message = None
        if message is None:  # not in the handler, as IndexError would be the context of other errors
            message = self._wait(_reader)
        self._taken_count += 1
        if self._taken_count >= self._report_at:
            self._on_consumed(message)
        if self._progress is not None:
            self._progress.set_current(_reader, message)
        return message

    def _on_consumed(self, message: Msg) -> None:
        if self._counts_bytes:
            self._source.taken_size += message_size(message)
        if self._source.ended:
            self._notify()
        else:
            self._report_consumed()

    def _report_consumed(self) -> None:
        """Let the loop report the taken messages to the engine."""
        if not self._report_scheduled:
            self._report_scheduled = True
            self._connection._call_soon(self._report_on_loop)

    def _report_on_loop(self) -> None:
        self._report_scheduled = False
        self._source.on_consumed()
        if not self._source.ended:  # at the end, `_wake` has requested a report of each
            self._report_at = self._source.taken_count + self._source.messages_until_pull

    def _wait(self, reader: int) -> Msg:
        """Wait for a message."""
        if self._progress is not None:
            self._progress.clear_current(reader)
        with self._changed:
            while True:
                self._waiting = True
                over = self._source.ended
                try:
                    return self._popleft()
                except IndexError:
                    pass
                if over:
                    if self._source.error is not None:
                        raise self._source.error
                    raise StopIteration
                self._report_consumed()
                self._changed.wait()

    def _wake(self) -> None:
        """Handle that messages came, or the end. Runs in the loop's thread."""
        driver = self._source
        self._report_at = 0 if driver.ended else min(self._report_at, driver.taken_count + driver.messages_until_pull)
        if self._waiting:
            self._notify()

    def _notify(self) -> None:
        with self._changed:
            self._waiting = False
            self._changed.notify_all()

    # -- the end -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End now. Messages in the buffer are dropped, and delivered again after the consumer's `ack_wait` (CNS-05)."""
        if not self._connection.closed:  # a close has ended it
            self._call(self._inner.stop())
        self._notify()
        self._join(None)

    def drain(self, timeout: float | None = None) -> None:
        """Pull no more. Messages that were delivered already are still returned; then it ends (CNS-05, R44).

        Parameters
        ----------
        timeout
            Seconds for the server to confirm that it sends no more; None takes the connection's `drain_timeout`. After
            that, the iteration ends with `DrainTimeoutError` after the messages that came.
        """
        self._call(self._inner.drain(timeout))

    def wait_closed(self, timeout: float | None = None) -> None:
        """Wait until it has ended and its messages were taken and handled; raise the error that ended it.

        Parameters
        ----------
        timeout
            Seconds until `DrainTimeoutError` is raised; the consume continues. None means no limit.
        """
        if not self._wait_drained(None if timeout is None else time.monotonic() + timeout):
            raise aio.drain_timeout_error(repr(self._inner), timeout or 0, self.pending[0])
        if self._source.error is not None:
            raise self._source.error

    def _stop_receiving(self) -> None:
        """Drain, as a part of the connection's drain."""
        self._call(self._inner.drain())

    def _wait_drained(self, deadline: float | None) -> bool:
        """Wait until all received messages were taken and handled; return whether that was in time."""
        if self._thread is not None:
            self._join(_time_left(deadline))
            return not self._thread.is_alive()
        with self._changed:
            while not (over := self._check_closed()) and self._changed.wait(_time_left(deadline)):
                pass
        return over

    def _check_closed(self) -> bool:
        self._waiting = True
        return self.closed

    def _join(self, timeout: float | None) -> None:
        """Wait for the end of the callback's thread, unless called in that thread."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    # -- callback ------------------------------------------------------------------------------------------------

    def _run_thread(self, callback: Callback) -> None:
        try:
            self._call_for_each(callback)
        finally:
            if self._progress is not None:
                self._progress.clear_current(HANDLE)

    def _call_for_each(self, callback: Callback) -> None:
        while True:
            try:
                message = self.__next__()
            except StopIteration:
                return
            except Error as error:
                self._report_error(error)
                return
            try:
                callback(message)
            except Exception as error:  # noqa: BLE001 - it may raise anything; continue with the next message
                self._report_error(error)

    def _report_error(self, error: Exception) -> None:
        self._connection._call_soon(partial(self._inner._report_error, error))


class _ProgressIterator:
    """An iterator of a consume with progress reports; each iterator is one reader, which is at one message."""

    def __init__(self, context: ConsumeContext, progress: InProgressTracker) -> None:
        self._context = context
        self._progress = progress
        self._reader = progress.new_reader()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Msg:
        return self._context.__next__(self._reader)

    def __del__(self) -> None:
        self._progress.reader_collected(self._reader)


def _wake(context: weakref.ref[ConsumeContext]) -> None:
    if (found := context()) is not None:
        found._wake()


def _start_context(
    connection: Connection, start: Callable[[], aio.ConsumeContext], callback: Callback | None
) -> ConsumeContext:
    context = ConsumeContext(connection, connection._run(start))
    if callback is not None:
        context._start(callback)
    return context


def _time_left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0)
