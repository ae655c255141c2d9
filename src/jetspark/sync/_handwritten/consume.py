"""The core of a running consume in the blocking front: threads take the messages.

The event loop pulls, and appends messages to a deque. Threads take them without asking the loop. Two numbers say when
the source must get a report: the count of messages taken, which is one step of a counter for all threads, and
`report_at`, which only the loop writes.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self, Unpack, cast

from jetspark.aio.jetstream import consumer, ordered_consumer
from jetspark.aio.jetstream._drivers import consume as aio
from jetspark.aio.jetstream._drivers.consume import drain_timeout_error
from jetspark.aio.jetstream._drivers.handlers import check_concurrency, check_one_by_one
from jetspark.engine.pull import HANDLE, ConsumeFields
from jetspark.jetstream.errors import ConnectionClosedError, Error
from jetspark.jetstream.message import UNSENDABLE, ack_all_error, message_size, settle, split_by_ack_policy
from jetspark.sync._handwritten.handlers import HandlerThreads
from jetspark.sync._interfaces import core_of
from jetspark.sync.core import ConnectionCore
from jetspark.sync.handoff_queue import HandoffQueue
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg
from jetspark.wire.callbacks import as_exception

__all__ = ["Callback", "ConsumeCore", "ConsumeMixin", "ConsumeReader", "ErrorHandler", "OrderedConsumeMixin"]

Callback = Callable[[Msg], None]
"""Called with each message, in a thread of its own."""

ErrorHandler = Callable[[Exception], None]
"""Called with each warning and each exception of a callback."""


class ConsumeCore:
    """The reading side of a consume on the event loop.

    Attributes
    ----------
    inner
        The consume on the event loop.
    source
        The source of the messages.
    progress
        Which reader is at which message; None if messages are not reported as in progress.
    count_taken
        Counts a taken message; returns the number of messages taken so far.
    report_at
        The number of messages at which `on_consumed` must be called.
    counts_bytes
        Whether `on_consumed` must be called for each message.
    """

    def __init__(
        self,
        connection: ConnectionCore,
        inner: aio.ConsumeCore,
        callback: Callback | None,
        on_error: ErrorHandler | None,
        concurrency: int = 1,
    ) -> None:
        self.inner = inner
        self.source = source = inner.source
        self.progress = inner.progress
        self._connection = connection
        self._on_error = on_error
        self._queue: HandoffQueue[Msg] = HandoffQueue(
            cast("Any", source.ready), lambda: source.ended, partial(_request_wake, weakref.ref(self))
        )
        self._waiting = False
        self._report_scheduled = False
        self.count_taken = itertools.count(1).__next__
        self.report_at = 1
        self.counts_bytes = source.counts_bytes
        self._size_lock = threading.Lock()
        self._handlers: HandlerThreads | None = None
        wake = partial(_wake, weakref.ref(self))  # weak, so that a handle without references stops
        count = 0 if callback is None else concurrency
        numbers = connection.run(partial(inner.attach_reader, wake, handlers=count))
        connection.register_reader(self)
        self._running = count
        if callback is not None:
            self._handlers = HandlerThreads(repr(inner), [partial(self._run, callback, number) for number in numbers])

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def closed(self) -> bool:
        """Whether it has ended and its messages were taken."""
        return self.inner.closed

    @property
    def pending(self) -> tuple[int, int]:
        """Messages in the buffer, and their bytes of headers and payload."""
        return self.inner.pending

    # -- taking messages -----------------------------------------------------------------------------------------

    def wait_next(self, number: int) -> Msg:
        """Wait for a message and take it. Raises StopIteration, or the error that ended the consume."""
        if self.progress is not None:
            self.progress.clear_current(number)
        message = self._queue.take()
        if message is not None:
            return message
        if self.source.error is not None:
            raise self.source.error
        raise StopIteration

    def on_consumed(self, message: Msg) -> None:
        """Let the loop report the taken messages to the source, as soon as so many were taken as `report_at`."""
        if self.counts_bytes:
            with self._size_lock:
                self.source.taken_size += message_size(message)
        self._report_consumed()

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
        if self.source.ended:  # somebody may wait for the end
            self.inner.wake()
        else:
            self.source.on_consumed()
        if not self.source.ended:  # at the end, `wake` has requested a report of each
            self.report_at = self.source.taken_count + self.source.messages_until_pull

    def wake(self) -> None:
        """On the loop: messages came, or the end."""
        source = self.source
        self.report_at = 0 if source.ended else min(self.report_at, source.taken_count + source.messages_until_pull)
        if self._waiting:
            self.wake_threads()

    def wake_threads(self) -> None:
        """Wake the threads that wait for a message."""
        self._waiting = False
        self._queue.wake()

    # -- the end -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End now; see `ConsumeContext.stop`."""
        if not self._connection.closed:  # a close has ended it
            self._connection.call(self.inner.stop())
        self.wake_threads()
        self.join(None)

    def drain(self, timeout: float | None) -> None:
        """Pull no more, and end after the messages that were sent; see `ConsumeContext.drain`."""
        self._connection.run(partial(self.inner.drain, timeout))

    def wait_closed(self, timeout: float | None) -> None:
        """Wait for the end; see `ConsumeContext.wait_closed`."""
        if self.in_callback:  # it cannot wait for its own end
            raise drain_timeout_error(repr(self), timeout or 0, self.pending[0])
        try:
            self._connection.call(self.inner.wait_closed(timeout))
        except ConnectionClosedError:
            self.join(timeout)
            if self.source.error is not None:
                raise self.source.error from None

    @property
    def in_callback(self) -> bool:
        """Whether this is a thread of the callback."""
        return self._handlers is not None and self._handlers.in_handler

    def on_drain_in_callback(self) -> None:
        """On the loop: note that the callback drains the connection, which cannot wait for it."""
        self.inner.on_reader_done()

    def join(self, timeout: float | None) -> None:
        """Wait for the end of the callback's threads, unless called in one of them."""
        if self._handlers is not None:
            self._handlers.join(timeout)

    # -- callback ------------------------------------------------------------------------------------------------

    def _run(self, callback: Callback, number: int) -> None:
        try:
            self._call_for_each(callback, number)
        finally:
            if self.progress is not None:
                self.progress.clear_current(number)
            if not self._connection.call_soon(self._on_thread_done) and (error := self.inner.errors.take_end_error()):
                self._report_after_close(error)

    def _on_thread_done(self) -> None:
        self._running -= 1
        if not self._running:
            self.inner.errors.report_end()
            self.inner.on_reader_done()

    def _report_after_close(self, error: Exception) -> None:
        """Report an error in this thread, because the event loop has ended with the connection."""
        if self._on_error is not None:
            self._on_error(error)

    def _call_for_each(self, callback: Callback, number: int) -> None:
        reader = ConsumeReader(self, number)
        while True:
            try:
                message = next(reader)
            except (StopIteration, Error):
                return
            try:
                callback(message)
            except BaseException as error:  # noqa: BLE001 - also of sys.exit(); continue with the next message
                report = partial(self.inner.errors.callback_failed, callback, error, message)
                if not self._connection.call_soon(report):
                    self._report_after_close(as_exception(error))


class ConsumeReader:
    """One reader of a consume, which is at one message: an iterator.

    Parameters
    ----------
    number
        Its number for the progress reports; all readers of the handle itself have one number.
    """

    def __init__(self, core: ConsumeCore, number: int = HANDLE) -> None:
        self._core = core
        self._number = number
        self._popleft = cast("Callable[[], Msg]", core.source.ready.popleft)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Msg:
        core = self._core
        message: Msg | None
        try:
            message = self._popleft()
        except IndexError:
            message = None
        if message is None:  # not in the handler, as IndexError would be the context of other errors
            message = core.wait_next(self._number)
        if core.count_taken() >= core.report_at or core.counts_bytes:
            core.on_consumed(message)
        if core.progress is not None:
            core.progress.set_current(self._number, message)
        return message

    def __del__(self) -> None:
        if self._number != HANDLE and self._core.progress is not None:
            self._core.progress.reader_collected(self._number)


class ConsumeMixin(LoopProxy):
    """Calls that receive or return messages of the blocking front."""

    _inner: consumer.Consumer

    def _consume(
        self,
        callback: Callback | None,
        *,
        on_error: ErrorHandler | None,
        concurrency: int,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeCore:
        check_concurrency(concurrency, callback)
        handler = None if on_error is None else self._connection.in_callback_thread(on_error)
        inner = self._run(lambda: self._inner.consume(on_error=handler, **options))
        return ConsumeCore(self._connection, core_of(inner), callback, on_error, concurrency)

    def _ack_all(self, messages: Iterable[Msg]) -> None:
        to_ack, covered = split_by_ack_policy(messages, self._inner.cached_info.config.ack_policy)
        errors: list[Error] = []
        for message in to_ack:
            try:
                message.ack()
            except UNSENDABLE as error:
                errors.append(error)
        if covered and to_ack[0].settled:
            for message in covered:
                settle(message)
        if errors:
            raise ack_all_error(errors, len(to_ack))


class OrderedConsumeMixin(LoopProxy):
    """The call that starts a consume of an ordered consumer."""

    _inner: ordered_consumer.OrderedConsumer

    def _consume(
        self,
        callback: Callback | None,
        *,
        on_error: ErrorHandler | None,
        until_caught_up: bool,
        concurrency: int,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeCore:
        check_one_by_one(concurrency)
        handler = None if on_error is None else self._connection.in_callback_thread(on_error)
        consume = self._inner.consume
        inner = core_of(self._run(lambda: consume(on_error=handler, until_caught_up=until_caught_up, **options)))
        self._connection.call(inner.source.wait_started())
        return ConsumeCore(self._connection, inner, callback, on_error)


def _wake(reader: weakref.ref[ConsumeCore]) -> None:
    if (found := reader()) is not None:
        found.wake()


def _request_wake(reader: weakref.ref[ConsumeCore]) -> None:
    if (found := reader()) is not None:
        found.request_wake()
