"""The handle of a running consume in the blocking front: threads take the messages.

The event loop pulls, and appends messages to a deque. Threads take them without asking the loop. Two numbers say when
the source must get a report: `_taken_count`, which only the reader's thread writes, and `_report_at`, which only the
loop writes.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack, cast

from jetspark.aio.jetstream import consume_context as aio
from jetspark.aio.jetstream import consumer, ordered_consumer
from jetspark.aio.jetstream._drivers.consume import drain_timeout_error
from jetspark.aio.jetstream._drivers.pull import message_size
from jetspark.engine.pull import HANDLE, ConsumeFields, InProgressTracker
from jetspark.jetstream.errors import ConnectionClosedError, Error
from jetspark.sync._interfaces import core_of
from jetspark.sync.callback_thread import CALLBACK_THREAD_PREFIX
from jetspark.sync.core import ConnectionCore
from jetspark.sync.handoff_queue import HandoffQueue
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg

__all__ = ["Callback", "ConsumeContext", "ConsumeMixin", "ErrorHandler", "OrderedConsumeMixin"]

Callback = Callable[[Msg], None]
"""Called with each message, in order and one at a time, in a thread of its own."""

ErrorHandler = Callable[[Exception], None]
"""Called with each warning and each exception of a callback."""


class ConsumeMixin(LoopProxy):
    """The call that starts a consume."""

    _inner: consumer.Consumer

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
        handler = None if on_error is None else self._connection.in_callback_thread(on_error)
        inner = self._run(lambda: self._inner.consume(on_error=handler, **options))
        return ConsumeContext(self._connection, ConsumeReader(self._connection, inner, callback))


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
        handler = None if on_error is None else self._connection.in_callback_thread(on_error)
        inner = self._run(lambda: self._inner.consume(on_error=handler, until_caught_up=until_caught_up, **options))
        return ConsumeContext(self._connection, ConsumeReader(self._connection, inner, callback))


class ConsumeReader:
    """The reading side of a consume on the event loop."""

    def __init__(self, connection: ConnectionCore, inner: aio.ConsumeContext, callback: Callback | None) -> None:
        self.inner = inner
        self.core = core_of(inner)
        self._connection = connection
        self._source = source = self.core.source
        self._popleft = cast("Callable[[], Msg]", source.ready.popleft)
        self._queue: HandoffQueue[Msg] = HandoffQueue(
            cast("Any", source.ready), lambda: source.ended, partial(_request_wake, weakref.ref(self))
        )
        self._waiting = False
        self._report_scheduled = False
        self._taken_count = 0
        self._report_at = 1
        self._counts_bytes = source.counts_bytes
        self._thread: threading.Thread | None = None
        wake = partial(_wake, weakref.ref(self))  # weak, so that a handle without references stops
        connection.run(partial(self.core.attach_reader, wake, has_callback=callback is not None))
        connection.register_reader(self)
        if callback is not None:
            self._thread = threading.Thread(
                target=self._run, args=(callback,), name=f"{CALLBACK_THREAD_PREFIX} of {inner!r}", daemon=True
            )
            self._thread.start()

    # -- taking messages -----------------------------------------------------------------------------------------

    def take_next(self, number: int) -> Msg:
        """Take the next message for a reader; see `InProgressTracker` about its number."""
        progress = self.core.progress
        message: Msg | None
        try:
            message = self._popleft()
        except IndexError:
            message = None
        if message is None:  # not in the handler, as IndexError would be the context of other errors
            if progress is not None:
                progress.clear_current(number)
            message = self._queue.take()
        if message is None:
            if self._source.error is not None:
                raise self._source.error
            raise StopIteration
        self._taken_count += 1
        if self._taken_count >= self._report_at:
            if self._counts_bytes:
                self._source.taken_size += message_size(message)
            self._report_consumed()
        if progress is not None:
            progress.set_current(number, message)
        return message

    def request_wake(self) -> None:
        """Note that a thread is about to wait."""
        self._waiting = True
        self._report_consumed()

    def _report_consumed(self) -> None:
        """Let the loop report the taken messages to the source."""
        if not self._report_scheduled:
            self._report_scheduled = True
            self._connection.call_soon(self._report_on_loop)

    def _report_on_loop(self) -> None:
        self._report_scheduled = False
        if self._source.ended:  # somebody may wait for the end
            self.core.wake()
        else:
            self._source.on_consumed()
        if not self._source.ended:  # at the end, `wake` has requested a report of each
            self._report_at = self._source.taken_count + self._source.messages_until_pull

    def wake(self) -> None:
        """On the loop: messages came, or the end."""
        source = self._source
        self._report_at = 0 if source.ended else min(self._report_at, source.taken_count + source.messages_until_pull)
        if self._waiting:
            self.wake_threads()

    def wake_threads(self) -> None:
        """Wake the threads that wait for a message."""
        self._waiting = False
        self._queue.wake()

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def in_callback(self) -> bool:
        """Whether this is the thread of the callback."""
        return self._thread is threading.current_thread()

    def on_drain_in_callback(self) -> None:
        """On the loop: note that the callback drains the connection, which cannot wait for it."""
        self.core.on_reader_done()

    def join(self, timeout: float | None) -> None:
        """Wait for the end of the callback's thread, unless called in that thread."""
        if self._thread is not None and not self.in_callback:
            self._thread.join(timeout)

    # -- callback ------------------------------------------------------------------------------------------------

    def _run(self, callback: Callback) -> None:
        try:
            self._call_for_each(callback)
        finally:
            if self.core.progress is not None:
                self.core.progress.clear_current(HANDLE)
            self._connection.call_soon(self.core.on_reader_done)

    def _call_for_each(self, callback: Callback) -> None:
        while True:
            try:
                message = self.take_next(HANDLE)
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
        self._connection.call_soon(partial(self.core.report_error, error))


class ConsumeContext:
    """A running consume, created by `Consumer.consume`. An iterator, and a context manager that stops at its end.

    The iteration ends when the consume was stopped or drained, and raises the error that ended it.
    """

    def __init__(self, connection: ConnectionCore, reader: ConsumeReader) -> None:
        self._connection = connection
        self._reader = reader
        self._take_next = reader.take_next

    def __repr__(self) -> str:
        return repr(self._reader.inner)

    @property
    def closed(self) -> bool:
        """Whether it has ended and its messages were taken."""
        return self._reader.inner.closed

    @property
    def error(self) -> Error | None:
        """Error that ended it; None while it runs, and after a stop or drain."""
        return self._reader.inner.error

    @property
    def pending(self) -> tuple[int, int]:
        """Messages in the buffer, and their bytes of headers and payload."""
        return self._reader.inner.pending

    def __iter__(self) -> Iterator[Msg]:
        progress = self._reader.core.progress
        return self if progress is None else _ProgressIterator(self._reader, progress)

    def __next__(self) -> Msg:
        return self._take_next(HANDLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End now. Messages in the buffer are dropped, and delivered again after the consumer's `ack_wait` (CNS-05)."""
        if not self._connection.closed:  # a close has ended it
            self._connection.call(self._reader.inner.stop())
        self._reader.wake_threads()
        self._reader.join(None)

    def drain(self, timeout: float | None = None) -> None:
        """Pull no more. Messages that were delivered already are still returned; then it ends (CNS-05, R44).

        Parameters
        ----------
        timeout
            Seconds for the server to confirm that it sends no more; None takes the connection's `drain_timeout`. After
            that, the iteration ends with `DrainTimeoutError` after the messages that came.
        """
        self._connection.call(self._reader.inner.drain(timeout))

    def wait_closed(self, timeout: float | None = None) -> None:
        """Wait until it has ended and its messages were taken and handled; raise the error that ended it.

        Parameters
        ----------
        timeout
            Seconds until `DrainTimeoutError` is raised; the consume continues. None means no limit.
        """
        if self._reader.in_callback:  # it cannot wait for its own end
            raise drain_timeout_error(repr(self), timeout or 0, self.pending[0])
        try:
            self._connection.call(self._reader.inner.wait_closed(timeout))
        except ConnectionClosedError:
            self._reader.join(timeout)
            if self.error is not None:
                raise self.error from None


class _ProgressIterator:
    """An iterator of a consume with progress reports; each iterator is one reader, which is at one message."""

    def __init__(self, reader: ConsumeReader, progress: InProgressTracker) -> None:
        self._reader = reader
        self._progress = progress
        self._number = progress.new_reader()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Msg:
        return self._reader.take_next(self._number)

    def __del__(self) -> None:
        self._progress.reader_collected(self._number)


def _wake(reader: weakref.ref[ConsumeReader]) -> None:
    if (found := reader()) is not None:
        found.wake()


def _request_wake(reader: weakref.ref[ConsumeReader]) -> None:
    if (found := reader()) is not None:
        found.request_wake()
