"""The handle of a running consume on the blocking front: messages are taken by the thread that wants them.

The event loop pulls, and puts what came into a deque; this thread takes from it without asking the loop. Two numbers
say when the engine has to know of that: `_count`, which only the taking thread writes, and `_tell_at`, which only the
loop writes. Before it sleeps, the thread raises a flag and looks at the deque once more; the loop appends and then
looks at the flag. So one of the two always sees the other.
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
from jetspark.aio.jetstream import consuming, ordered
from jetspark.aio.jetstream.puller import message_size
from jetspark.flow.pull import HANDLE, ConsumeFields, Progress
from jetspark.jetstream.errors import Error
from jetspark.sync.blocking import Blocking
from jetspark.sync.callbacks import CALLBACK_THREADS, on_thread
from jetspark.sync.message import Msg

if TYPE_CHECKING:
    from jetspark.sync.connection import Connection

__all__ = ["Callback", "ConsumeContext", "ErrorHandler", "StartConsume", "StartOrderedConsume"]

Callback = Callable[[Msg], None]
"""Takes each message. They run one after the other, in order, on a thread of their own."""

ErrorHandler = Callable[[Exception], None]
"""Takes each warning, and what a callback raised."""


class StartConsume(Blocking):
    """The call that begins a consume."""

    _inner: consuming.Consuming

    def consume(
        self,
        callback: Callback | None = None,
        *,
        on_error: ErrorHandler | None = None,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeContext:
        """Pull again and again, so that messages are there before they are asked for.

            with consumer.consume() as messages:
                for message in messages:
                    ...
                    message.ack()

        Parameters and errors are those of the asyncio front's `Consumer.consume`; the callback runs on a thread of its
        own.
        """
        handler = None if on_error is None else on_thread(self._connection, on_error)
        return _started(self._connection, lambda: self._inner.consume(on_error=handler, **options), callback)


class StartOrderedConsume(Blocking):
    """The call that begins a consume of an ordered consumer."""

    _inner: ordered.OrderedConsumer

    def consume(
        self,
        callback: Callback | None = None,
        *,
        on_error: ErrorHandler | None = None,
        until_drained: bool = False,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeContext:
        """Read on and on, through lost connections, deleted consumers and changes of the leader.

            with ordered.consume(until_drained=True) as messages:
                for message in messages:
                    ...

        Parameters and errors are those of the asyncio front's `OrderedConsumer.consume`; the callback runs on a thread
        of its own.
        """
        handler = None if on_error is None else on_thread(self._connection, on_error)
        return _started(
            self._connection,
            lambda: self._inner.consume(on_error=handler, until_drained=until_drained, **options),
            callback,
        )


class ConsumeContext(Blocking):
    """Made by `Consumer.consume`. An iterator, and a context manager that stops at its end.

    The iteration ends when it was stopped or drained, and raises the error that ended it.
    """

    _inner: aio.ConsumeContext

    def __init__(self, connection: Connection, inner: Any) -> None:
        super().__init__(connection, inner)
        self._puller = self._inner._puller
        self._popleft = cast("Callable[[], Msg]", self._puller.ready.popleft)
        self._changed = threading.Condition()
        self._waiting = False
        self._posted = False  # the loop is about to look
        self._count = 0
        self._tell_at = 1
        self._sizes = self._puller.counts_bytes
        self._thread: threading.Thread | None = None
        self._progress = self._inner._watch(partial(_woken, weakref.ref(self)))
        connection._enlist(self)

    def _start(self, callback: Callback) -> None:
        """Hand the messages to a callback; `consume` calls it."""
        self._thread = threading.Thread(
            target=self._work, args=(callback,), name=f"{CALLBACK_THREADS} of {self._inner!r}", daemon=True
        )
        if self._progress is not None:
            self._progress.called_back = True
        self._thread.start()

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """It has ended, and its messages were taken."""
        return self._inner.closed

    @property
    def error(self) -> Error | None:
        """What ended it, None while it runs and where it was stopped or drained."""
        return self._inner.error

    @property
    def pending(self) -> tuple[int, int]:
        """Messages in the buffer, and their bytes of headers and payload."""
        return self._inner.pending

    # -- messages ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Msg]:
        return self if self._progress is None else _Iteration(self, self._progress)

    def __next__(self, _reader: int = HANDLE) -> Msg:
        message: Msg | None
        try:
            message = self._popleft()
        except IndexError:
            message = None
        if message is None:  # not within the handler, whose exception would show as the cause of others
            message = self._wait(_reader)
        self._count += 1
        if self._count >= self._tell_at:
            self._taken(message)
        if self._progress is not None:
            self._progress.began(_reader, message)
        return message

    def _taken(self, message: Msg) -> None:
        if self._sizes:
            self._puller.taken_size += message_size(message)
        if self._puller.ended:
            self._notify()
        else:
            self._report()

    def _report(self) -> None:
        """Let the loop tell the engine what was taken."""
        if not self._posted:
            self._posted = True
            self._connection._soon(self._reported)

    def _reported(self) -> None:
        self._posted = False
        self._puller.report()
        if not self._puller.ended:  # else `_wake` has asked for each
            self._tell_at = self._puller.handed + self._puller.until_pull

    def _wait(self, reader: int) -> Msg:
        """Wait for a message."""
        if self._progress is not None:
            self._progress.ended(reader)
        with self._changed:
            while True:
                self._waiting = True
                over = self._puller.ended
                try:
                    return self._popleft()
                except IndexError:
                    pass
                if over:
                    if self._puller.error is not None:
                        raise self._puller.error
                    raise StopIteration
                self._report()
                self._changed.wait()

    def _wake(self) -> None:
        """Messages came, or the end. On the loop's thread."""
        puller = self._puller
        self._tell_at = 0 if puller.ended else min(self._tell_at, puller.handed + puller.until_pull)
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
        """End now. What is in the buffer is dropped, and delivered again after the consumer's `ack_wait` (CNS-05)."""
        if not self._connection.closed:  # else it has ended
            self._call(self._inner.stop())
        self._notify()
        self._join(None)

    def drain(self, timeout: float | None = None) -> None:
        """Pull no more. What was delivered already is still handed out, and then it ends (CNS-05, R44).

        Parameters
        ----------
        timeout
            Seconds for the server to confirm that nothing more is under way; None is the connection's `drain_timeout`.
            When they have passed, it ends behind what came with `DrainTimeoutError`.
        """
        self._call(self._inner.drain(timeout))

    def wait_closed(self, timeout: float | None = None) -> None:
        """Wait until it has ended and its messages were taken and handled; raises the error that ended it.

        Parameters
        ----------
        timeout
            Seconds, after which `DrainTimeoutError` is raised, and it goes on; None for no limit.
        """
        if not self._emptied(None if timeout is None else time.monotonic() + timeout):
            raise aio.not_drained(repr(self._inner), timeout or 0, self.pending[0])
        if self._puller.error is not None:
            raise self._puller.error

    def _retire(self) -> None:
        """The connection drains."""
        self._call(self._inner.drain())

    def _emptied(self, deadline: float | None) -> bool:
        """Wait until all that came was taken and handled; whether it was in time."""
        if self._thread is not None:
            self._join(_left(deadline))
            return not self._thread.is_alive()
        with self._changed:
            while not (over := self._is_over()) and self._changed.wait(_left(deadline)):
                pass
        return over

    def _is_over(self) -> bool:
        self._waiting = True
        return self.closed

    def _join(self, timeout: float | None) -> None:
        """Wait for the callback's thread to end, unless this is it."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    # -- callback ------------------------------------------------------------------------------------------------

    def _work(self, callback: Callback) -> None:
        try:
            self._call_back(callback)
        finally:
            if self._progress is not None:
                self._progress.ended(HANDLE)

    def _call_back(self, callback: Callback) -> None:
        while True:
            try:
                message = self.__next__()
            except StopIteration:
                return
            except Error as error:
                self._tell(error)
                return
            try:
                callback(message)
            except Exception as error:  # noqa: BLE001 - it may raise anything; the next message is not its business
                self._tell(error)

    def _tell(self, error: Exception) -> None:
        self._connection._soon(partial(self._inner._report, error))


class _Iteration:
    """An iterator of a consume that reports progress, so that several loops are at one message each."""

    def __init__(self, context: ConsumeContext, progress: Progress) -> None:
        self._context = context
        self._progress = progress
        self._reader = progress.reader()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Msg:
        return self._context.__next__(self._reader)

    def __del__(self) -> None:
        self._progress.forgotten(self._reader)


def _woken(context: weakref.ref[ConsumeContext]) -> None:
    if (found := context()) is not None:
        found._wake()


def _started(
    connection: Connection, start: Callable[[], aio.ConsumeContext], callback: Callback | None
) -> ConsumeContext:
    context = ConsumeContext(connection, connection._run(start))
    if callback is not None:
        context._start(callback)
    return context


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0)
